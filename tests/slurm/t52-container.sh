#!/bin/bash
# A step in a container (srun --container): its tasks live in a PID and mount namespace of their own, started
# by a runtime. Its loaders are found and moved all the same. The runtime is a script that does with
# unshare(1) what an OCI runtime does with processes; images and cgroups are not its business.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

if ! unshare --fork --pid --mount-proc true 2>/dev/null; then
    tap_skip_all "no PID namespace can be made here"
    exit
fi

write_runtime() {
    cat >"$work/runtime" <<'RUNTIME'
#!/bin/bash
# runtime COMMAND [BUNDLE]
case $1 in
    run)
        mapfile -t command < <(jq -r '.process.args[]' "$2/config.json")
        mapfile -t variables < <(jq -r '.process.env[]' "$2/config.json")
        exec env -i "${variables[@]}" unshare --fork --pid --mount-proc "${command[@]}"
        ;;
    query)
        echo '{"status": "stopped"}'
        exit 1
        ;;
esac
RUNTIME
    chmod 755 "$work/runtime"
    mkdir -p "$work/bundle/rootfs"
    echo '{"ociVersion": "1.0.0", "process": {"cwd": "/", "args": ["/bin/true"], "env": ["PATH=/usr/bin:/bin"],
        "user": {"uid": 0, "gid": 0}}, "root": {"path": "rootfs"}, "linux": {}}' >"$work/bundle/config.json"
    printf '%s\n' "RunTimeRun=\"$work/runtime run %b\"" "RunTimeKill=\"$work/runtime kill\"" \
        "RunTimeDelete=\"$work/runtime delete\"" "RunTimeQuery=\"$work/runtime query\"" >"$test_dir/oci.conf"
}

test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s
data_set
write_runtime
# slurmd reads oci.conf at its start
daemon slurmd-n1 restart
node_idle() { [[ $(node_state n1) == idle ]]; }
tap_within 30 "the node is back" node_idle

allocate 2 --adloader=on
step=$job.0
# shellcheck disable=SC2046
start_step contained --container="$work/bundle" --adloader=on -- $(train 60)
tap_within 20 "a step in a container registers" has_member "$step"

# "DEPTH MASK" of its loader threads; DEPTH: in how many PID namespaces they have a number.
contained_loaders() {
    local pid
    for pid in $(step_pids "$step"); do
        grep -H -E '^(NSpid|Name|Cpus_allowed_list):' /proc/"$pid"/task/*/status 2>/dev/null
    done | awk '$1 ~ /Name:$/ { name = $2 } $1 ~ /NSpid:$/ { depth = NF - 1 } $1 ~ /Cpus_allowed_list:$/ && name ~ /^adl-load/ { print depth, $2 }' | sort -u
}
seen() { [[ $(member "$step" .loader_tasks) -ge 1 ]]; }
tap_within 20 "its loaders are found" seen
moved() { [[ $(contained_loaders | awk '{ print $2 }') == 0-1 ]]; }
tap_within 20 "and moved onto both CPUs, of which one is borrowed" moved
tap_like "$(contained_loaders)" '^[2-9] 0-1$' "in a PID namespace of their own"
scancel "$job"
tap_within 20 "the job ends" no_members
tap_true "no node was drained" no_node_drained
test_end
