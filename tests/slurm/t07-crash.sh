#!/bin/bash
# A step that crashes gives its cores back at once: the step daemon killed, the task killed, and the
# step of a lender as well as of a borrower.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"
# shellcheck source-path=SCRIPTDIR source=rows.sh
. "$testlib_here/rows.sh"
since() { echo $((($(date +%s%N) - began) / 1000000)) ms; }

test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s
data_set
allocate 2 --adloader=on
A=$job.0 B=$job.1

# shellcheck disable=SC2046
start_step A --adloader=on -- $(train 300)
tap_within 20 "A has both CPUs" loaders_on "$A" 0-1
# shellcheck disable=SC2046
start_step B --adloader=on -- $(train 300)
tap_within 15 "B registers" has_member "$B"
tap_within 15 "A gives B its CPU" loaders_on_own "$A"

a_pid=$(step_pids "$A" | head -n 1)
began=$(date +%s%N)
kill -KILL "$(step_daemon "$A")"
tap_within 5 "kill -9 of A's step daemon: A is no member any more" no_member "$A"
tap_like "$(controller_log)" " $A on n1: connection lost" "the controller says why"
tap_within 10 "B gets both CPUs" loaders_on "$B" 0-1
row faults "slurmstepd of a step killed" "Slurm ends that step; another step of the node gets its CPU: loaders on CPUs $(loader_masks "$B")" \
    "$(controller_log | sed -n "s/^.*\($A on n1: connection lost\)/\1/p")" "the connection's end is the step's end" "$(since)"
tap_note "threads of B:" "$(step_threads "$B")"
kill -KILL "$a_pid" 2>/dev/null

b_pid=$(step_pids "$B" | head -n 1)
began=$(date +%s%N)
kill -KILL "$b_pid"
tap_within 10 "kill -9 of B's task: B is released" no_member "$B"
row faults "a step's task killed" "Slurm ends that step" "$(controller_log | sed -n "s/^.*\($B on n1 released\)/\1/p")" "the step is released" "$(since)"
tap_is "$(registrations "$B") $(releases "$B")" "1 1" "once"
scancel "$job"
tap_within 20 "the job ends" no_members
tap_true "no node was drained" no_node_drained
tap_is "$(srun -N1 -n1 hostname)" "$(hostname)" "the node takes new steps"
test_end
