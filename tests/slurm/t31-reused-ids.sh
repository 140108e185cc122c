#!/bin/bash
# Numbers of loaders that have ended are given to another user's processes while the loaders are bound
# anew all the time: those processes keep their masks, each of them. ROUNDS: how many (60).
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

rounds=${ROUNDS:-60} workers=${WORKERS:-300} # more than are kept open, so that both ways are seen
test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s --adl-conf ScanInterval=500ms
test_compile crowd
test_compile reuse-id
allocate 2 --adloader=on
A=$job.0
start_step A --adloader=on -- "$work/crowd" processes "$workers" 4000 1000 # more than a core wants

all_found() { [[ $(member "$A" .loader_tasks) =~ ^[0-9]+$ ]] && (($(member "$A" .loader_tasks) >= workers - 5)); }
tap_within 60 "the step's $workers workers are found" all_found
assigned() { [[ $(member "$A" .placement) == assigned ]]; }
tap_within 30 "and get both CPUs" assigned
trainer=$(pgrep -x crowd -P "$(step_daemon "$A")")

# The loaders change between one CPU and two, as fast as the controller reads its configuration.
cp "$ADL_CONF" "$work/wide.conf"
{
    cat "$ADL_CONF"
    echo "NodeName=$ADL_CLUSTER_NODES ReservedCores=0"
} >"$work/narrow.conf"
keep_moving() {
    local turn=narrow
    while :; do
        cp "$work/$turn.conf" "$work/next.conf" && mv "$work/next.conf" "$ADL_CONF"
        daemon adloaderctld reload
        [[ $turn == narrow ]] && turn=wide || turn=narrow
        sleep 0.1
    done
}
keep_moving >/dev/null 2>&1 &
mover=$!
before=$(member "$A" .moves)
timed $((120 + rounds)) "$work/reuse-id" "$trainer" 65534 "$rounds" 60
kill "$mover"
wait "$mover" 2>/dev/null
if ((timed_status == 77)); then
    tap_skip "a number is taken by another user's process" "the kernel does not let numbers be chosen"
else
    tap_is "$timed_output" "$rounds took a number, $rounds kept their masks" "another user's processes take the numbers of $rounds workers"
    tap_is "$timed_status" 0 "every one of them keeps its mask"
fi
moves=$(($(member "$A" .moves) - before))
tap_true "meanwhile the loaders were bound anew many times" test "$moves" -ge 10
tap_note "$moves moves of $workers workers in $timed_ms ms"
tap_true "the job is as it was" step_runs "$A"
scancel "$job"
tap_within 20 "it ends" no_members
tap_true "no node was drained" no_node_drained
test_end
