#!/bin/bash
# Steps of one job that Slurm confines to cpusets (ConstrainCores=yes): the loop works there as well,
# a loader thread never has a CPU that its cpuset has not, and nothing of it outlives controller or step.
# (t40 does the same across jobs.)
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

reason=$(cluster_can_confine) || tap_skip_all "$reason"
test_begin --cpus 2 --confine --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf LeaseTime=2s
data_set
allocate 2 --adloader=on
A=$job.0 B=$job.1
root=/sys/fs/cgroup/cpuset/slurm_$ADL_CLUSTER_NODES/uid_0/job_$job
cpuset() { cat "$root/step_${1#*.}/cpuset.cpus" 2>/dev/null; }
cpuset_is() { [[ $(cpuset "$1") == "$2" ]]; }

# shellcheck disable=SC2046
start_step A --adloader=on -- $(train 300)
tap_within 15 "a confined step registers" has_member "$A"
tap_within 15 "it has loader threads" has_loaders "$A"
own=$(main_masks "$A")
tap_like "$own" '^[01]$' "its main thread is on the one CPU that Slurm gave it ($own)"
tap_like "$(<"/proc/$(step_pids "$A" | head -n 1)/cgroup")" "cpuset:/slurm_$ADL_CLUSTER_NODES/uid_0/job_$job/step_0" "it is in a cpuset of its own"

tap_within 15 "its loader threads get both CPUs" loaders_on "$A" 0-1
tap_is "$(cpuset "$A")" 0-1 "for which its cpuset was widened"
tap_is "$(main_masks "$A")" "$own" "its main thread keeps its mask"

daemon adloaderctld kill
tap_within 5 "controller killed: its loader threads are on own cores" loaders_on "$A" "$own"
tap_within 5 "and its cpuset is as Slurm made it" cpuset_is "$A" "$own"
daemon adloaderctld start
tap_within 20 "controller back: both CPUs again" loaders_on "$A" 0-1

# shellcheck disable=SC2046
start_step B --adloader=on -- $(train 300)
tap_within 15 "another step registers" has_member "$B"
tap_within 15 "the first one's loader threads leave its CPU" loaders_on "$A" "$own"
tap_within 5 "and so does the cpuset" cpuset_is "$A" "$own"
tap_is "$(cpuset "$B")" $((1 - own)) "the other's is as Slurm made it"
scancel "$A"
tap_within 15 "the first is released" no_member "$A"
tap_within 15 "the other gets both CPUs" loaders_on "$B" 0-1

scancel "$job"
tap_within 20 "the job ends" no_members
no_cgroups() { [[ ! -e $root ]]; }
tap_within 10 "its cgroups are gone" no_cgroups
tap_true "no node was drained" no_node_drained
test_end
