#!/bin/bash
# The private cluster itself: starts, is started over the leftovers of one that was abandoned, and
# stops without a trace; accounting and cpusets work where asked for.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$here/testlib.sh"
cluster=$here/cluster
trap test_clean_up EXIT
trap 'test_clean_up; exit 143' TERM INT HUP

mask_of_step() { srun --exact -n1 -c1 grep Cpus_allowed_list /proc/self/status | awk '{ print $2 }'; }

tap_true "two nodes start" "$cluster" start "$test_dir" --nodes 2 --cpus 2
cluster_use "$test_dir"
# shellcheck disable=SC1091
. "$test_dir/env"
tap_is "$(srun -N2 hostname | wc -l)" 2 "a step runs on both nodes"
tap_like "$(mask_of_step)" '^[0-9]+$' "a step of one core is bound to one CPU"

# Abandon it in a bad state: a step without its daemon, a dead slurmd, a stopped slurmctld.
job=$(sbatch --parsable -o /dev/null --wrap 'srun --exact -n1 sleep 300')
tap_within 15 "a batch job's step starts" step_runs "$job.0"
kill -KILL "$(step_daemon "$job.0")"
cluster_daemon slurmd-n1 kill
cluster_daemon slurmctld freeze
tap_like "$(cluster_status)" 'slurmctld +frozen' "status tells a stopped daemon"
tap_like "$(cluster_status)" 'slurmd-n1 +dead' "status tells a dead daemon"
orphan=$(step_pids "$job.0" | head -n 1)
tap_like "$orphan" '^[0-9]+$' "the killed step's task lives on"

tap_true "the next start takes over" "$cluster" start "$test_dir" --nodes 1
tap_is "$(proc_start_time "$orphan")" "" "the orphaned task is gone"
tap_is "$(srun hostname)" "$(hostname -s)" "and the cluster works"
"$cluster" stop "$test_dir"
tap_is "$(cluster_strays)" "" "after stop no process is left"

if reason=$(cluster_can_confine); then
    tap_true "a confined cluster with accounting starts" "$cluster" start "$test_dir" --confine --dbd
    # shellcheck disable=SC1091
    . "$test_dir/env"
    mask=$(mask_of_step)
    tap_is "$(srun --exact -n1 -c1 bash -c "taskset -pc 0-1023 \$\$ >/dev/null 2>&1; grep Cpus_allowed_list /proc/self/status" | awk '{ print $2 }')" "$mask" \
        "a step cannot leave its cpuset"
    recorded() { sacct -X -n -P -o jobid,state | grep -qx '2|COMPLETED'; }
    tap_within 15 "a finished job is in the accounting" recorded
    "$cluster" stop "$test_dir"
    # shellcheck disable=SC1091
    . "$test_dir/env"
    tap_is "$(find /sys/fs/cgroup -maxdepth 2 -name "slurm_$ADL_CLUSTER_NODES" | wc -l)" 0 "after stop no cgroup is left"
else
    tap_skip "a confined cluster" "$reason"
    tap_true "a cluster with accounting starts" "$cluster" start "$test_dir" --dbd
    "$cluster" stop "$test_dir"
fi
test_end
