#!/bin/bash
# What becomes of a step when the disk is full below all that adloader writes, and when the wall clock jumps, on
# the controller's side or in the step daemon.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# A small file system needs a mount, which is to end with the test.
if [[ ! ${ADL_OWN_MOUNTS-} ]]; then
    unshare --mount --propagation private true 2>/dev/null || tap_skip_all "no mount namespaces here"
    export ADL_OWN_MOUNTS=yes
    exec unshare --mount --propagation private bash "${BASH_SOURCE[0]}"
fi
# shellcheck source-path=SCRIPTDIR source=faults.sh
. "$(dirname "${BASH_SOURCE[0]}")/faults.sh"

preload=$(test_preload clock-jump) || tap_skip_all "no compiler"

# Socket, state and (below it) the controller's log lie on 256 KiB. All daemons are started anew, since
# those of test_begin do not see the mount in the folder's place.
small_disk() {
    daemon adloaderctld stop
    mount -t tmpfs -o size=256k,mode=755 small "$test_dir/adloader" || tap_skip_all "no tmpfs can be mounted"
    daemon adloaderctld start
    daemon slurmd-n1 restart
    wait_until 30 node_is_idle
}
node_is_idle() { [[ $(node_state n1) == idle ]]; }

clock=$test_dir/work/clock
faults_prepare=small_disk
ADL_CLOCK_JUMP=$clock LD_PRELOAD=$preload faults_begin

full() { head -c 1M /dev/zero >"$test_dir/adloader/filler" 2>/dev/null; }
not_full() { rm -f "$test_dir/adloader/filler"; }
tap_true "the disk can be filled" eval 'full; ! echo more 2>/dev/null >"$test_dir/adloader/more"'
rm -f "$test_dir/adloader/more"
not_full
fault "disk full: run directory and StateDir" full not_full "with the next write" - -

# It has forgotten the node's topology, asks for it, and cannot keep it.
full_restarted() {
    daemon adloaderctld stop
    find "$test_dir/adloader/state" -type f -delete
    full
    ADL_CLOCK_JUMP=$clock LD_PRELOAD=$preload daemon adloaderctld start
}
fault "disk full, and the controller restarted" full_restarted not_full "with the next write" "$ctld_log" 'No space left'

# A day ahead, and a day back, each while the step runs.
jump() { # PROGRAM SECONDS
    echo "$2" >"$work/clock.$1.new" && mv "$work/clock.$1.new" "$work/clock.$1"
}
back() { rm -f "$work"/clock.*; }
jumps() { grep -q clock-jump "/proc/$1/maps"; }
echo 86400 >"$clock.date"
tap_true "a clock can jump" test $(($(ADL_CLOCK_JUMP=$clock LD_PRELOAD=$preload date +%s) - $(date +%s))) -gt 86000
tap_true "the controller's, too" jumps "$(proc_pid adloaderctld)"
tap_true "and the step daemon's" jumps "$(step_daemon "$A")"
ctld_ahead() { jump adloaderctld 86400; }
fault "the controller's clock a day ahead" ctld_ahead back "nothing to heal" - -
ctld_behind() { jump adloaderctld -86400; }
fault "the controller's clock a day behind" ctld_behind back "nothing to heal" - -
stepd_jumps() {
    jump slurmstepd 86400
    scancel --signal=CONT "$A" # which does nothing, and is logged
}
fault "the step daemon's clock a day ahead" stepd_jumps back "nothing to heal" - - no-launch
tap_like "$(cat "$slurmd_log")" "^\[$(date -d '+1 day' +%Y-%m-%d)T[^]]*\] \[$A\]" "its own log shows the jump"

faults_end
