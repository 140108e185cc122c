#!/bin/bash
# The Python module over libadloader: without anything around it, and against the agent's socket, that
# a small program plays. TAP.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$here/tap.sh"
module=${ADL_SRCDIR:?}/client
library=${ADL_BUILDDIR:?}/.libs/libadloader.so
python=/usr/bin/python3

if ! "$python" -c 'import ctypes' 2>/dev/null; then
    echo "1..0 # SKIP no python3"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run() { timeout 20 env -u ADLOADER_SOCKET -u ADLOADER_WORKERS PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$module" "$@"; }

# says NAME WANTED COMMAND...: what the command prints
says() {
    local name=$1 wanted=$2
    shift 2
    is "$("$@" 2>&1)" "$wanted" "$name"
}

says "without adloader the fallback counts" "3 False None -1" \
    run "$python" -c 'import adloader as a; c = a.client(); print(a.workers(3), a.connected(), c.next_change(), c.fileno())'
says "ADLOADER_WORKERS is heard without a library" "6" run ADLOADER_WORKERS=6 "$python" -c 'import adloader; print(adloader.workers(3))'
says "nonsense in it is not" "3" run ADLOADER_WORKERS=lots "$python" -c 'import adloader; print(adloader.workers(3))'
says "watching yields all batches" "[1, 2, 3]" run "$python" -c 'import adloader; print(list(adloader.watch([1, 2, 3])))'
says "a socket where nobody listens is no error" "5 False" \
    run ADLOADER_LIBRARY="$library" ADLOADER_SOCKET="$work/none.sock" "$python" -c 'import adloader as a; print(a.workers(5), a.connected())'
says "a library that is none is no error" "5" \
    run ADLOADER_LIBRARY=/dev/null ADLOADER_SOCKET="$work/none.sock" "$python" -c 'import adloader as a; print(a.workers(5))'

# Somebody listens: that the module connects, announces and reports shows in what arrives there.
cat >"$work/agent.py" <<'END'
import socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen(4)
server.settimeout(15)
connection, _ = server.accept()
connection.settimeout(0.2)
data, end = b"", time.monotonic() + 3
while time.monotonic() < end:
    try:
        more = connection.recv(4096)
        if not more:
            break
        data += more
    except TimeoutError:
        pass
types = []
while len(data) >= 8:
    length = int.from_bytes(data[:4], "big") + 4
    types.append(data[5])
    data = data[length:]
print(len(data), sorted(set(types)))
END
cat >"$work/train.py" <<'END'
import adloader, os, time
end = time.monotonic() + 5
while not adloader.connected() and time.monotonic() < end:
    time.sleep(0.02)
adloader.loader_thread()
for batch in adloader.watch([[1, 2]] * 20):
    time.sleep(0.02)
if os.fork() == 0:  # a forked worker does not speak on its parent's connection
    print(adloader.client()._handle is not None, flush=True)
    os._exit(0)
os.wait()
adloader.client().close()
END
(cd "$work" && timeout 20 "$python" agent.py "$work/a.sock" >agent.out 2>&1) &
agent=$!
for _ in {1..100}; do [[ -S $work/a.sock ]] && break || sleep 0.05; done
run ADLOADER_LIBRARY="$library" ADLOADER_SOCKET="$work/a.sock" "$python" "$work/train.py" >"$work/train.out" 2>&1
status=$?
wait "$agent"
is "$status $(cat "$work/train.out")" "0 True" "a program that reports runs, and so does what it forks"
says "its loader thread and its progress arrive, whole frames" "0 [32, 33]" cat "$work/agent.out"
done_testing
