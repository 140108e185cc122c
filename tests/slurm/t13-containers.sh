#!/bin/bash
# Steps with a /tmp and /dev/shm of their own (job_container/tmpfs), with the extern step that comes with it,
# and where Slurm has contain_spank (24.05 and later) with the plugin's callbacks run inside these mounts.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# Mounts and processes of their own, so that both end with the test, however that ends. The cluster lies
# outside of /tmp, where the steps in it would not see it.
if [[ ! ${ADL_KEPT_DIR-} ]]; then
    apart=(unshare --mount --pid --fork --kill-child --mount-proc --propagation private)
    "${apart[@]}" true 2>/dev/null || tap_skip_all "no namespaces here"
    export ADL_KEPT_DIR=$ADL_TEST_DIR
    ADL_TEST_DIR=/srv/adl exec "${apart[@]}" bash "${BASH_SOURCE[0]}"
fi
mount -t tmpfs -o mode=755 containers /srv || tap_skip_all "no tmpfs can be mounted"
# shellcheck source-path=SCRIPTDIR source=kinds.sh
. "$(dirname "${BASH_SOURCE[0]}")/kinds.sh"

version=$(cluster_slurm_version)
((version >= 2302)) || tap_skip_all "job_container/tmpfs of Slurm 22.05 now and then loses a job's mounts, with adloader and without"
kinds_at_once=0

plugin='JobContainerType=job_container/tmpfs'
((version < 2511)) || plugin='NamespaceType=namespace/tmpfs'

private() { srun "${as[@]}" -n1 sh -c "sleep 1; touch /tmp/adl-private-$$; exit 3"; }
batch_private() { sbatch "${as[@]}" --wait --chdir=/ -n1 -o /dev/null --wrap 'srun sleep 1.5; exit 4'; }

contained() { # SUFFIX STEPS-OF-SRUN STEPS-OF-SBATCH CLUSTER-WORDS...
    local suffix=$1 alone=$2 batch=$3
    shift 3
    test_begin --nodes 1 --cpus 16 --conf PrologFlags=contain --conf "$plugin" "$@" \
        --file job_container.conf $'AutoBasePath=true\nBasePath=/srv/jobs'
    cd / || exit
    kind "srun in a private /tmp$suffix" "$alone" private
    kind "sbatch and srun in a private /tmp$suffix" "$batch" batch_private
    kinds_end
    tap_true "nothing of it is seen outside" test ! -e "/tmp/adl-private-$$"
    test_clean_up
    mkdir -p "$ADL_KEPT_DIR" && : >"$ADL_KEPT_DIR/.adloader-cluster" && cp -r "$test_dir/log" "$ADL_KEPT_DIR"
}

contained "" "0.0:1/1" "0.0:1/1 0.batch:1/1"
# There the callbacks run in a helper process, in which no thread can stay: the plugin stands down.
if ((version >= 2405)); then
    contained ", contain_spank" "" "" --conf "SlurmdParameters=config_overrides,contain_spank"
else
    tap_skip "contain_spank" "Slurm has it from 24.05 on"
fi
tap_done
