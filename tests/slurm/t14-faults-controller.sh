#!/bin/bash
# What becomes of a step when its controller is killed, stopped, slow, of another version, or out of file
# descriptors; and when munged or slurmctld fail.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=faults.sh
. "$(dirname "${BASH_SOURCE[0]}")/faults.sh"

faults_begin
again="the agent registers again"

killed() { daemon adloaderctld kill; }
started() { daemon adloaderctld start; }
fault "controller killed, later started" killed started "$again" "$slurmd_log" 'no controller at'

stopped() { daemon adloaderctld freeze; }
continued() { daemon adloaderctld thaw; }
fault "controller stopped (SIGSTOP), later continued" stopped continued "$again" "$slurmd_log" 'loaders back on own placement'

# A fifth of a second in each second and a half.
slow() {
    (while :; do
        proc_signal adloaderctld STOP
        sleep 1.3
        proc_signal adloaderctld CONT
        sleep 0.2
    done) &
    slower=$!
}
fast() {
    kill "$slower"
    wait "$slower" 2>/dev/null
    daemon adloaderctld thaw
}
fault "controller slow (stopped for 1.3 s of each 1.5 s)" slow fast "nothing to heal within the lease" - -

other_version() {
    daemon adloaderctld kill
    rm -f "$ADL_SOCKET"
    proc_spawn between "$testlib_here/other-version" "$ADL_SOCKET" "$ADL_SOCKET.later" 2
    wait_until 10 test -S "$ADL_SOCKET"
    sed "s,^ControllerSocket=.*,&.later," "$ADL_CONF" >"$work/later.conf"
    SLURM_CONF=$test_dir/slurm.conf proc_spawn adloaderctld "$(cluster_built adloaderctld sbin/adloaderctld)" \
        --foreground --config "$work/later.conf"
}
this_version() {
    proc_stop between
    proc_stop adloaderctld
    daemon adloaderctld start
}
fault "controller restarted in a later protocol version" other_version this_version "$again, when it speaks its version" \
    "$slurmd_log" '[Vv]ersion|protocol'

ctld_full() { no_descriptors "$(proc_pid adloaderctld)"; }
ctld_not_full() { descriptors_again "$(proc_pid adloaderctld)"; }
fault "controller out of file descriptors" ctld_full ctld_not_full "it accepts again; who is registered stays so" \
    "$ctld_log" 'cannot accept connections'

no_munge() { daemon munged freeze; }
munge_again() { daemon munged thaw; }
fault "munged stopped" no_munge munge_again "nothing to heal: the Unix socket does without" - - no-launch

ctld_killed() { daemon slurmctld kill; }
ctld_again() { daemon slurmctld start && wait_until 20 scontrol ping >/dev/null; }
fault "slurmctld killed, later started" ctld_killed ctld_again "nothing to heal" - - no-launch

faults_end
