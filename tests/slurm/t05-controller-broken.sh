#!/bin/bash
# Whatever is wrong with the controller, a step with --adloader runs as if adloader were not there:
# exit status 0, at once, no node drained, nothing left waiting on the node.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

# Seconds that `srun hostname` may take in all. It takes about 0.2 s; a wait for an answer of the
# controller would take as long as the controller is broken, that is, for ever.
limit=10

runs_as_ever() { # DESCRIPTION
    timed "$limit" srun -N1 -n1 --adloader=on hostname
    if [[ $timed_status == 0 && $timed_output == "$(hostname)" ]]; then
        tap_pass "$1: srun --adloader hostname works ($timed_ms ms)"
    else
        tap_fail "$1: srun --adloader hostname works" "exit status $timed_status after $timed_ms ms:" "$timed_output"
    fi
    node_is_free || wait_until 5 node_is_free || true
    tap_is "$(node_state n1)" idle "$1: the node is idle again"
    wait_until 5 no_step_daemon || true
    tap_is "$(cluster_step_daemons)" "" "$1: no step daemon hangs"
}

node_is_free() { [[ $(node_state n1) == idle ]]; }
no_step_daemon() { [[ -z $(cluster_step_daemons) ]]; }

test_begin --cpus 2
socket=$ADL_SOCKET

runs_as_ever "controller up"
daemon adloaderctld freeze
runs_as_ever "controller stopped (SIGSTOP)"
daemon adloaderctld thaw
daemon adloaderctld kill
tap_true "after kill -9 the socket file is left" test -S "$socket"
runs_as_ever "controller killed, socket stale"
rm -f "$socket"
runs_as_ever "no socket"
echo "not a socket" >"$socket"
runs_as_ever "a file in the socket's place"
rm -f "$socket"

# A listener that says something else to each agent that calls.
answered_by() { # DESCRIPTION COMMAND-LINE
    proc_spawn other socat "UNIX-LISTEN:$socket,fork,mode=666" "$2"
    wait_until 5 test -S "$socket"
    runs_as_ever "$1"
    proc_stop other
    rm -f "$socket"
}

if command -v socat >/dev/null; then
    head -c 300000 /dev/urandom >"$work/garbage"
    # a length that promises 4 GiB, and one that promises more than comes
    printf '\377\377\377\377\001\000\000\000' >"$work/huge"
    answered_by "garbage from the controller's socket" "OPEN:$work/garbage,rdonly"
    answered_by "a frame of impossible length" "OPEN:$work/huge,rdonly,ignoreeof"
    answered_by "endless zeros" "OPEN:/dev/zero"
    answered_by "an echo" "EXEC:cat"
    answered_by "silence" "EXEC:sleep 60"
    answered_by "a hang-up at once" "EXEC:true"
else
    tap_skip "a listener that speaks garbage" "no socat"
fi

daemon adloaderctld start
runs_as_ever "controller up again"
job=$(next_job_id)
srun -N1 -n1 --adloader=on sleep 2
came_and_went_once "$job.0" "a longer step"
tap_true "no node was drained" no_node_drained
test_end
