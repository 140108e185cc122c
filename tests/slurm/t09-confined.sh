#!/bin/bash
# With cpusets (ConstrainCores=yes) a step takes part, never leaves its cpuset, and its cgroups are
# gone at the end.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

reason=$(cluster_can_confine) || tap_skip_all "$reason"
test_begin --cpus 2 --confine --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s
data_set
allocate 2 --adloader=on
A=$job.0
# shellcheck disable=SC2046
start_step A --adloader=on -- $(train 300)
tap_within 15 "a confined step registers" has_member "$A"
tap_within 15 "it has loader threads" has_loaders "$A"
pid=$(step_pids "$A" | head -n 1)
group=$(sed -n 's/^[0-9]*:cpuset:\(.*\)/\1/p' "/proc/$pid/cgroup")
tap_like "$group" "/slurm_$ADL_CLUSTER_NODES/uid_0/job_$job/step_0" "it is in a cpuset of its own"
cpuset=$(<"/sys/fs/cgroup/cpuset$group/cpuset.cpus")
own=$(main_masks "$A")
sleep 5
tap_note "cpuset $cpuset, main thread on $own, loaders on $(loader_masks "$A"); controller: $(member "$A" '"\(.state), \(.placement), loader CPUs \(.loader_cpus), failed binds \(.failed_binds)"')"
tap_is "$(main_masks "$A")" "$own" "its main thread keeps its mask"
allowed=$(loader_masks "$A")
tap_true "its loader threads run within the cpuset ($allowed within $cpuset)" test "$allowed" = "$cpuset" -o "$cpuset" = 0-1
tap_is "$(<"/sys/fs/cgroup/cpuset$group/cpuset.cpus")" "$cpuset" "the cpuset stays as it is"
scancel "$A"
tap_within 15 "the step is released" no_member "$A"
scancel "$job"
tap_within 20 "the job ends" no_members
no_cgroups() { [[ -z $(find "/sys/fs/cgroup/cpuset/slurm_$ADL_CLUSTER_NODES" -name 'job_*' 2>/dev/null) ]]; }
tap_within 10 "its cgroups are gone" no_cgroups
tap_true "no node was drained" no_node_drained
test_end
