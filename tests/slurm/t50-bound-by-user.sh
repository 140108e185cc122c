#!/bin/bash
# A user who binds the tasks with srun's --cpu-bind is left alone and told so: nothing of the step is
# moved, none of its CPUs is lent. What only looks like it (none, verbose, the site's default, --hint)
# is no such wish.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

test_begin --cpus 4 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --conf TaskPluginParam=Threads
data_set
allocate 4 --adloader=on

# A bound step loads as fast as it can beside an allocation of idle CPUs, and stays where it was put.
# shellcheck disable=SC2046
srun --jobid="$job" --overlap -n1 -c1 --cpu-bind=map_cpu:0 --adloader $(train 60) >"$work/bound.out" 2>&1 &
bound=$job.0
tap_within 15 "a bound step registers" has_member "$bound"
tap_within 15 "and loads" has_loaders "$bound"
tap_is "$(member "$bound" .state)" bystander "it is a bystander"
tap_is "$(member "$bound" .cpu_bind)" map_cpu "because of its binding"
tap_is "$(member "$bound" .own_loader_cores)" 0 "it has no loader cores to lend"
tap_is "$(grep -c 'adloader: you have bound the tasks (--cpu-bind=map_cpu): they stay' "$work/bound.out")" 1 "its user is told, once"
tap_like "$(adloader explain "$bound")" 'why .*--cpu-bind=map_cpu.*nobody else gets' "explain says why"
tap_like "$(adloader explain "$bound")" 'verdict .*unmanaged' "and does not call it managed"
batch_reports() { [[ $(member "$job.batch" .state) == managed ]]; }
tap_within 15 "the batch step around it lends what it has" batch_reports
tap_is "$(member "$job.batch" .loader_cpus | grep -cE '(^|,)0(,|-|$)')" 0 "which is not the bound step's CPU"

# A greedy neighbour that is not bound gets all others, and never that one.
# shellcheck disable=SC2046
srun --jobid="$job" --overlap -n1 -c1 --cpu-bind=verbose --adloader $(train 60) >"$work/free.out" 2>&1 &
free=$job.1
tap_within 15 "a step with --cpu-bind=verbose is managed" has_member "$free"
borrows() { (($(member "$free" .borrowed_cores) >= 1)); }
tap_within 25 "and borrows" borrows
tap_is "$(member "$free" .cpu_bind)" null "its binding is none of its user's"
on_0() { loader_masks "$free" | grep -qE '(^|[ ,])0([ ,-]|$)'; }
tap_is "$(on_0 && loader_masks "$free")" "" "its loaders do not come to the bound step's CPU"
tap_is "$(loader_masks "$bound")" 0 "whose loaders are where they were put"
tap_is "$(grep -c 'you have bound' "$work/free.out")" 0 "and nobody is told anything"
tap_is "$(member "$bound" .moves)" 0 "nothing was moved"
scancel "$job"
tap_within 20 "the job ends" no_members

# Other ways to say it, and not to say it. DESCRIPTION KIND [SRUN OPTIONS]; ENV in the environment.
bound_by() {
    local what=$1 kind=$2 before seen
    shift 2
    before=$(next_job_id)
    "$@" --adloader /bin/sleep 1.5 >"$work/ways.out" 2>&1 &
    local client=$!
    wait_until 15 has_member "$before.0" || true
    seen=$(member "$before.0" .cpu_bind)
    wait "$client"
    tap_is "$seen $(grep -c 'you have bound' "$work/ways.out")" "$kind $([[ $kind == null ]] && echo 0 || echo 1)" "$what"
}
bound_by "--cpu-bind=mask_cpu" mask_cpu srun -n1 --cpu-bind=mask_cpu:0x1
bound_by "--cpu-bind=cores" cores srun -n1 --cpu-bind=cores
bound_by "--cpu-bind=v,threads, also without the environment" threads srun -n1 --export=NONE --cpu-bind=v,threads
bound_by "SLURM_CPU_BIND in the environment" sockets env SLURM_CPU_BIND=sockets srun -n1
bound_by "--cpu-bind=none is no wish" null srun -n1 --cpu-bind=none
bound_by "--hint=nomultithread is no wish" null srun -n1 --hint=nomultithread
bound_by "--ntasks-per-core=1 is no wish" null srun -n1 --ntasks-per-core=1
bound_by "the site's default is no wish" null srun -n1

# srun within a step inherits what became of the outer one, and with it whose wish that was.
inner() { # SRUN OPTIONS OF THE OUTER ONE
    local before
    before=$(next_job_id)
    srun -n1 "$@" bash -c 'srun --overlap -n1 --adloader sleep 1.5' >"$work/inner.out" 2>&1 &
    local client=$!
    wait_until 15 has_member "$before.1" || true
    member "$before.1" .cpu_bind
    wait "$client"
}
tap_is "$(inner)" null "srun in a step that Slurm bound by itself is not bound by its user"
tap_is "$(inner --cpu-bind=map_cpu:0)" map_cpu "in a step that its user bound it is"
tap_true "no node was drained" no_node_drained
test_end
