#!/bin/bash
# What becomes of a step when something fails on its node or on the way to the controller: slurmd, the step
# daemon stopped or out of file descriptors, the network cut, munge stopped.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=faults.sh
. "$(dirname "${BASH_SOURCE[0]}")/faults.sh"

# Agents reach the controller by TCP, through a relay that can be stopped: then nothing arrives, as with
# a cable that is cut. Its port is the one after the controller's own.
command -v socat >/dev/null || tap_skip_all "no socat"
plugstack() { sed "s/controller=127.0.0.1:[0-9]*/controller=127.0.0.1:$1/" "$test_dir/plugstack.conf"; }

faults_relay() {
    local port
    mapfile -t CLUSTER_PORTS < <(cluster_free_ports 1)
    relay_port=${CLUSTER_PORTS[0]}
    port=$(sed -n 's/^ControllerPort=//p' "$ADL_CONF")
    proc_spawn relay socat "TCP-LISTEN:$relay_port,bind=127.0.0.1,fork,reuseaddr" "TCP:127.0.0.1:$port"
    plugstack "$relay_port" >"$work/plugstack.new" && cp "$work/plugstack.new" "$test_dir/plugstack.conf"
}

faults_prepare=faults_relay
faults_begin --tcp
again="the agent registers again"

# The relay and the processes that it has for each connection.
relay_signal() {
    local pid
    pid=$(proc_pid relay) && kill -s "$1" $(pgrep -P "$pid") "$pid" 2>/dev/null
}
cut() { relay_signal STOP; }
mended() { relay_signal CONT; }
fault "network between node and controller cut" cut mended "$again" "$slurmd_log" 'loaders back on own placement'

no_munge() { daemon munged freeze; }
munge_again() { daemon munged thaw; }
fault "munged stopped, agents on TCP" no_munge munge_again "nothing to heal: who is registered stays so" - - no-launch

slurmd_killed() { daemon slurmd-n1 kill; }
slurmd_again() { daemon slurmd-n1 start && wait_until 30 node_answers; }
node_answers() { sinfo -h -n n1 -o %T | grep -qx 'mixed\|allocated\|idle'; }
fault "slurmd killed, later started" slurmd_killed slurmd_again "nothing to heal" - - no-launch

stepd_stopped() { kill -STOP "$(step_daemon "$A")"; }
stepd_continued() { kill -CONT "$(step_daemon "$A")"; }
fault "the step's slurmstepd stopped, later continued" stepd_stopped stepd_continued "$again" "$ctld_log" "$A on n1( has not confirmed|: connection lost)"

stepd_full() { no_descriptors "$(step_daemon "$A")"; }
stepd_not_full() { descriptors_again "$(step_daemon "$A")"; }
fault "the step's slurmstepd out of file descriptors" stepd_full stepd_not_full \
    "at the next scan that can open files" "$slurmd_log" 'Too many open files'

faults_end
