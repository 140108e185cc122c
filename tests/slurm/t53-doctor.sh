#!/bin/bash
# adloader doctor on a real cluster: all is well on a healthy one, with nothing but real Slurm to ask;
# and what is broken then on purpose is found.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

declare -a more=()
if [[ -z $(cluster_can_confine) ]]; then
    more=(--confine)
fi
test_begin --cpus 2 --tcp --adl-conf SacctField=none "${more[@]}"

doctor() { # ARGUMENTS: $out, $status
    status=0
    out=$(timeout 60 "$(program adloader)" doctor --config "$ADL_CONF" "$@" 2>&1) || status=$?
}

topology_there() { [[ -e $test_dir/adloader/topology.xml ]]; }
wait_until 20 topology_there || true
doctor --role login,node,controller
tap_is "$status" 0 "a healthy cluster: exit status 0"
tap_is "$(grep -vc '^ok: ' <<<"$out")" 1 "every finding is ok"
[[ $status == 0 ]] || tap_note "$out"
for about in "adloader.conf" "slurm" "task plugin" "plugstack.conf" "plugin" "loading" "munge" "controller" "run directory" \
    "topology" "kernel"; do
    tap_like "$out" "^ok: $about: " "which tells of $about"
done
tap_is "$(grep -c '^ok: controller: 127.0.0.1:.*answers' <<<"$out")" 1 "the controller is asked over TCP, as the agents do"

if id nobody >/dev/null 2>&1; then
    status=0
    out=$(setpriv --reuid=nobody --regid=nogroup --clear-groups timeout 60 "$(program adloader)" doctor --config "$ADL_CONF" --role login 2>&1) || status=$?
    tap_is "$status" 0 "a plain user on a login host gets the same answer"
fi

# another release's plugin: what Slurm says is told
cp "$test_dir/spank_adloader.so" "$work/good.so"
printf '%s\n' 'const char plugin_name[] = "adloader"; const char plugin_type[] = "spank";' \
    'const unsigned plugin_version = 0x110b05; const unsigned spank_plugin_version = 1;' \
    'int slurm_spank_init(void *s, int c, char **v) { (void)s, (void)c, (void)v; return 0; }' >"$work/old.c"
if ${CC:-cc} -shared -fPIC -o "$work/old.so" "$work/old.c" 2>/dev/null; then
    install -m 755 "$work/old.so" "$test_dir/spank_adloader.so"
    doctor --role login
    tap_is "$status" 2 "a plugin for another release: a problem"
    tap_like "$out" '^problem: plugin: .* is for Slurm 17.11, and this is' "which release it is for"
    tap_like "$out" '^problem: loading: srun does not know --adloader' "and srun does not take it"
    install -m 755 "$work/good.so" "$test_dir/spank_adloader.so"
else
    tap_skip "a plugin for another release" "no compiler"
fi
sed -i 's/ log=debug/ log=debug colour=red/' "$test_dir/plugstack.conf"
doctor --role login
tap_like "$out" '^problem: plugin.s words: .*colour=red' "a word that the plugin does not know"
sed -i 's/ colour=red//' "$test_dir/plugstack.conf"

daemon adloaderctld kill
doctor --role controller
tap_like "$out" '^problem: controller: no controller at 127.0.0.1:' "a dead controller"
tap_is "$status" 2 "is a problem"
daemon adloaderctld start
doctor --role login,node,controller
tap_is "$status" 0 "all is well again"
test_end
