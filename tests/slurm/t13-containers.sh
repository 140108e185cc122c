#!/bin/bash
# Steps with a /tmp and /dev/shm of their own (job_container/tmpfs), with the extern step that comes with it,
# and where Slurm has contain_spank (24.05 and later) with the plugin's callbacks run inside these mounts.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# Mounts and processes of their own, so that both end with the test, however that ends. The cluster lies
# outside of /tmp, where the steps in it would not see it.
#
# Linux 6.18 numbers namespaces in batches, one for each CPU, and lets a mount namespace be bound to a file,
# as Slurm does, only in one of a lower number (EINVAL otherwise): one that was made on the CPU with the lowest
# numbers now can hold those that are made later on any CPU.
each_cpu() { taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{ for (i = $1; i <= $NF; i++) print i }'; }
holds_all() { # A mount namespace made on any CPU can be bound to a file here.
    local cpu
    for cpu in $(each_cpu); do
        : >/srv/namespace && taskset -c "$cpu" unshare --mount=/srv/namespace true 2>/dev/null &&
            umount /srv/namespace || return
    done
}
holds_none=77

if [[ ! ${ADL_KEPT_DIR-} ]]; then
    apart=(unshare --mount --pid --fork --kill-child --mount-proc --propagation private)
    "${apart[@]}" true 2>/dev/null || tap_skip_all "no namespaces here"
    export ADL_KEPT_DIR=$ADL_TEST_DIR
    all=$(taskset -cp $$ | sed 's/.*: //')
    for cpu in $(each_cpu); do
        ADL_TEST_DIR=/srv/adl taskset -c "$cpu" "${apart[@]}" taskset -c "$all" bash "${BASH_SOURCE[0]}"
        status=$?
        ((status == holds_none)) || exit "$status"
    done
    tap_skip_all "no mount namespace here can hold all others"
fi
mount -t tmpfs -o mode=755 containers /srv || tap_skip_all "no tmpfs can be mounted"
holds_all || exit "$holds_none"
# shellcheck source-path=SCRIPTDIR source=kinds.sh
. "$(dirname "${BASH_SOURCE[0]}")/kinds.sh"

version=$(cluster_slurm_version)
((version >= 2302)) || tap_skip_all "job_container/tmpfs of Slurm 22.05 now and then loses a job's mounts, with adloader and without"
kinds_at_once=0

plugin='JobContainerType=job_container/tmpfs'
((version < 2511)) || plugin='NamespaceType=namespace/tmpfs'

mark=/tmp/adl-private-$$-$RANDOM$RANDOM # $$ is always 1 here
private() { srun "${as[@]}" -n1 sh -c "sleep 1; touch $mark; exit 3"; }
batch_private() { sbatch "${as[@]}" --wait --chdir=/ -n1 -o /dev/null --wrap 'srun sleep 1.5; exit 4'; }

# What is assigned reaches the loaders there.
loaders_move() { # SUFFIX
    local own A B
    data_set
    tap_true "an allocation of two CPUs$1" allocate 2 --chdir=/ --adloader=on
    A=$job.0 B=$job.1
    # shellcheck disable=SC2046
    start_step A --adloader=on -- $(train 300)
    tap_within 30 "a step's loader threads get both CPUs$1" loaders_on "$A" 0-1
    own=$(main_masks "$A")
    tap_like "$own" '^[01]$' "its main thread stays on the one that Slurm gave it ($own)"
    # shellcheck disable=SC2046
    start_step B --adloader=on -- $(train 300)
    tap_within 30 "they leave the other to a second step's$1" loaders_on "$B" $((1 - own))
    tap_is "$(loader_masks "$A")" "$own" "and are on their own"
    scancel "$job"
    tap_within 20 "all end$1" no_members
    for step in "$A" "$B" "$job.batch"; do
        came_and_went_once "$step" "$step"
    done
}

contained() { # SUFFIX STEPS-OF-SRUN STEPS-OF-SBATCH CLUSTER-WORDS...
    local suffix=$1 alone=$2 batch=$3
    shift 3
    test_begin --nodes 1 --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s \
        --adl-conf MinHoldTime=1s --conf PrologFlags=contain --conf "$plugin" "$@" \
        --file job_container.conf $'AutoBasePath=true\nBasePath=/srv/jobs'
    cd / || exit
    kind "srun in a private /tmp$suffix" "$alone" private
    kind "sbatch and srun in a private /tmp$suffix" "$batch" batch_private
    kinds_end
    tap_true "nothing of it is seen outside" test ! -e "$mark"
    [[ ! $suffix ]] || loaders_move "$suffix"
    test_clean_up
    mkdir -p "$ADL_KEPT_DIR" && : >"$ADL_KEPT_DIR/.adloader-cluster" && cp -r "$test_dir/log" "$ADL_KEPT_DIR"
}

contained "" "0.0:1/1" "0.0:1/1 0.batch:1/1"
# There the callbacks run in helper processes, which have the agent started in slurmstepd itself.
if ((version >= 2405)); then
    contained ", contain_spank" "0.0:1/1" "0.0:1/1 0.batch:1/1" --conf "SlurmdParameters=config_overrides,contain_spank"
else
    tap_skip "contain_spank" "Slurm has it from 24.05 on"
fi
tap_done
