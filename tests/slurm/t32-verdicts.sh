#!/bin/bash
# Two verdicts that only real steps can have: of a program that puts its own masks back again and again
# (unmanaged: it is left alone), and of workers that go on when their rank is gone (orphaned: they still
# belong to the step; where Slurm follows parents only, as here, they outlive it).
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s
test_compile crowd
allocate 2 --adloader=on
A=$job.0 B=$job.1
verdict_is() { [[ $(member "$1" .verdict) == "$2" ]]; }
two_workers() { [[ $(member "$1" .loader_tasks) == 2 ]]; }
masks() { step_threads "$1" | awk '$2 == "crowd" { print $3 }' | sort | uniq -c | xargs; }

start_step A --adloader=report -- "$work/crowd" restless 2 20000 5
client=$step_client
tap_within 40 "two workers that put their masks back are seen" two_workers "$A"
tap_within 60 "the verdict is unmanaged" verdict_is "$A" unmanaged
tap_like "$(member "$A" .evidence)" "2 of 2 loader tasks keep their own masks" "which says why"
drift=$(member "$A" .drift)
tap_true "after a few tries ($drift)" test "$drift" -ge 4 -a "$drift" -le 10
sleep 3
tap_is "$(member "$A" .drift)" "$drift" "it is not tried again"
tap_like "$(masks "$A")" '^3 [01]$' "they and the main thread are where they want to be"
scancel "$A"
wait "$client" 2>/dev/null
# Of a step that is cancelled srun may not hear the last words; slurmd's log has them in any case.
tap_like "$(cat "$work/A.out" "$test_dir"/log/slurmd-*.log)" "unmanaged: .*leave affinity to adloader" "its last words are what could be done"
tap_within 15 "it ends" no_member "$A"

start_step B --adloader=on -- bash -c "$work/crowd orphans 2 9; sleep 300"
client=$step_client
tap_within 40 "two workers of a rank that is about to end are seen" two_workers "$B"
tap_within 60 "the rank ends, the verdict is orphaned" verdict_is "$B" orphaned
tap_like "$(member "$B" .evidence)" "2 loader workers have lost their rank" "which says so"
tap_is "$(member "$B" .loader_tasks)" 2 "they still belong to the step"
scancel "$B"
wait "$client" 2>/dev/null
tap_within 15 "it ends" no_member "$B"
scancel "$job"
tap_true "no node was drained" no_node_drained
test_end
