#!/bin/bash
# However a step comes about and goes, it registers and is released exactly once: srun, sbatch and the
# srun in it, salloc, array job, requeued job, overlapping steps, scancel, several nodes, a plain user.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

test_begin --nodes 2 --cpus 2 --adl-conf LearnTime=1s

job=$(next_job_id)
srun -N1 -n1 --adloader sleep 1
came_and_went_once "$job.0" "srun"

job=$(sbatch --parsable --adloader=on -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 1; srun -n1 sleep 1')
wait_until 30 job_gone "$job"
came_and_went_once "$job.batch" "sbatch --adloader: the batch step"
came_and_went_once "$job.0" "the first srun in it"
came_and_went_once "$job.1" "the second srun in it"

job=$(sbatch --parsable -N1 -n1 -o /dev/null --wrap 'srun -n1 --adloader sleep 1; srun -n1 sleep 1')
wait_until 30 job_gone "$job"
came_and_went_once "$job.0" "srun --adloader in a plain sbatch"
tap_is "$(registrations "$job.batch") $(registrations "$job.1")" "0 0" "its batch step and its plain srun do not take part"

job=$(ADLOADER=on sbatch --parsable -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 1')
wait_until 30 job_gone "$job"
came_and_went_once "$job.0" "ADLOADER=on in the environment"

job=$(next_job_id)
salloc -N1 -n1 --adloader srun sleep 1 >/dev/null 2>&1
came_and_went_once "$job.0" "srun in salloc --adloader"

first=$(next_job_id)
sbatch --adloader=on -a 1-3 -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 1' >/dev/null
wait_until 30 job_gone "$first"
for job in "$first" $((first + 1)) $((first + 2)); do
    came_and_went_once "$job.0" "array task $((job - first + 1))"
done

job=$(sbatch --parsable --requeue --adloader=on -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 3')
wait_until 15 has_member "$job.0"
scontrol requeue "$job"
again() { (($(registrations "$job.0") == 2)); }
tap_within 60 "a requeued job's step registers again" again
wait_until 30 job_gone "$job"
both_left() { (($(releases "$job.0") == 2)); }
tap_within 10 "and is released again" both_left
tap_is "$(registrations "$job.0") $(releases "$job.0")" "2 2" "once for each of its two runs"

job=$(sbatch --parsable --adloader=on -N1 -n1 -o /dev/null --wrap 'srun -n1 --overlap sleep 3 & srun -n1 --overlap sleep 3 & wait')
tap_within 15 "two overlapping steps: the first is known" has_member "$job.0"
tap_within 15 "two overlapping steps: the second is known" has_member "$job.1"
wait_until 30 job_gone "$job"
came_and_went_once "$job.0" "first overlapping step"
came_and_went_once "$job.1" "second overlapping step"

job=$(sbatch --parsable --adloader=on -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 300')
wait_until 15 has_member "$job.0"
scancel "$job"
came_and_went_once "$job.0" "scancel"

job=$(next_job_id)
srun -N2 -n4 --adloader sleep 2 &
on_both_nodes() { [[ $(members | grep -cx "$job.0") == 2 ]]; }
tap_within 15 "a step on two nodes has a member on each" on_both_nodes
wait $!
both_left() { (($(releases "$job.0") == 2)); }
tap_within 10 "both leave" both_left
tap_is "$(registrations "$job.0") $(releases "$job.0")" "2 2" "once each"

if id nobody >/dev/null 2>&1; then
    chmod 755 "$work"
    job=$(next_job_id)
    setpriv --reuid=nobody --regid=nogroup --clear-groups srun -N1 -n1 --chdir=/ --adloader sleep 1
    came_and_went_once "$job.0" "a plain user's step"
    tap_like "$(controller_log | grep " $job.0 on .* registered")" "user $(id -u nobody)" "with its user"
else
    tap_skip "a plain user's step" "no user nobody"
fi

job=$(next_job_id)
srun -N1 -n1 --adloader true
wait_until 3 left "$job.0" || true
tap_is "$(registrations "$job.0")" "$(releases "$job.0")" "a step that ends at once: if it registered at all, it was released"

job=$(next_job_id)
timed 20 srun -N1 -n1 --adloader /no/such/program
tap_is "$((timed_status != 0))" 1 "a program that does not exist fails as ever"
wait_until 3 left "$job.0" || true
tap_is "$(registrations "$job.0")" "$(releases "$job.0")" "and whatever registered was released"

tap_within 10 "nobody is left" no_members
tap_true "no node was drained" no_node_drained
test_end
