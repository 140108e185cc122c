#!/bin/bash
# Steps without --adloader are not touched: no thread more in their step daemon, no connection, the
# masks that Slurm gave; also while others on the node take part.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

# Threads of the step daemon and mask of the task, once the step has settled.
observe() { # NAME [SRUN OPTIONS]
    local id pid
    start_step "$@" -- sleep 60
    id=$job.$number
    number=$((number + 1))
    wait_until 15 step_has_task "$id" || return 1
    sleep 1 # the agent, if there is one, has started by then
    pid=$(step_daemon "$id")
    threads=$(thread_count "$pid")
    sockets=$(find "/proc/$pid/fd" -lname 'socket:*' | wc -l)
    mask=$(step_threads "$id" | awk '{ print $3 }')
    tap_note "$1: step daemon $pid has $threads threads, $sockets sockets; its task may use CPU $mask"
}

step_has_task() { [[ $(step_threads "$1" | awk '$2 == "sleep"') ]]; }

test_begin --cpus 2
data_set
with_line=$(<"$test_dir/plugstack.conf")

: >"$test_dir/plugstack.conf"
allocate 2
number=0
tap_true "a step without the plugin's line starts" observe no-plugin
base_threads=$threads base_sockets=$sockets base_mask=$mask
scancel "$job.0"
wait_until 15 no_daemon "$job.0"
echo "$with_line" >"$test_dir/plugstack.conf"

tap_true "a step with the line but without the option starts" observe no-option
tap_is "$threads" "$base_threads" "its daemon has as many threads"
tap_is "$sockets" "$base_sockets" "and as many sockets"
tap_is "$mask" "$base_mask" "and its task the same mask"
tap_is "$(members)" "" "the controller knows nobody"
tap_is "$(agents)" 0 "and no connection"

tap_true "a step with --adloader=off starts" observe off --adloader=off
tap_is "$threads" "$base_threads" "its daemon has as many threads"
tap_is "$(members)" "" "the controller knows nobody"
scancel "$job.2"
wait_until 15 no_daemon "$job.2"

# The counts would be worthless if a step that takes part looked the same.
tap_true "a step with --adloader starts beside it" observe on --adloader=on
tap_is "$((threads > base_threads))" 1 "its daemon has more threads ($threads)"
tap_is "$((sockets > base_sockets))" 1 "and more sockets ($sockets)"
tap_within 10 "it is known" has_member "$job.3"
tap_is "$(members)" "$job.3" "and it alone"
tap_is "$(step_threads "$job.1" | awk '{ print $3 }')" "$base_mask" "the other one's task has its mask still"
test_end
