#!/bin/bash
# What somebody tries who wants more than he may: another user of the node, a process outside of the
# step, a user on the controller's host. docs/security.md names each case by its words here.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

python=/usr/bin/python3
if ! "$python" -c 'import socket' 2>/dev/null; then
    tap_skip_all "no python3"
    exit
fi
owner=65534 stranger=2
intruder=$testlib_here/intruder.py
as() { setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"; }
if ! as $stranger true 2>/dev/null; then
    tap_skip_all "no other user can be played here"
    exit
fi

test_begin --cpus 2 --tcp --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf LeaseTime=3s
data_set
chmod 755 "$work"
install -m 755 "$intruder" "$work/intruder.py"
port=$(sed -n 's/^ControllerPort=//p' "$test_dir/adloader.conf")
unix=unix:$test_dir/adloader/ctld.sock tcp=127.0.0.1:$port munge=$test_dir/munge/socket
run_dir=$test_dir/adloader
intrude() { as "$1" timeout 60 "$python" "$work/intruder.py" "${@:2}" 2>&1; }

# ---- a user's step, and what lies on the node of it ----

allocate 2 --adloader=on
step=$job.0
# shellcheck disable=SC2046
start_step root --adloader=on -- $(train 200)
tap_within 20 "root's step registers" has_member "$step"
mine=$(next_job_id)
as $owner srun -N1 -n1 -c1 --overcommit --oversubscribe --chdir=/ --adloader /bin/sleep 200 >"$work/mine.out" 2>&1 &
user_waits() { [[ -n $(squeue -h -j "$mine" -o %i 2>/dev/null) ]]; }
wait_until 10 user_waits || true
tap_within 20 "root's loaders are on both CPUs" loaders_on "$step" 0-1

sock=$run_dir/step-$step-n1.sock
mode_of() { stat -c '%a %u %F' "$1" 2>&1; }
tap_is "$(mode_of "$run_dir")" "755 0 directory" "mode of the run directory"
tap_is "$(mode_of "$run_dir/node")" "700 0 directory" "mode of the agents' directory"
tap_is "$(mode_of "$run_dir/ctld.sock")" "666 0 socket" "mode of the controller's socket"
tap_is "$(mode_of "$sock")" "600 0 socket" "mode of the client socket: its user's alone"
tap_is "$(as $stranger ls "$run_dir/node" 2>&1 | grep -c 'Permission denied')" 1 "the agents' directory is closed to users"
tap_is "$(as $stranger touch "$run_dir/x" 2>&1 | grep -c 'Permission denied')" 1 "users cannot write to the run directory"
tap_is "$(intrude $stranger client "$sock")" "no permission" "a stranger at a client socket"
tap_is "$(intrude 0 client "$sock")" "hung up" "a process outside of the step at its client socket"

# ---- strangers at the controller ----

before=$(member "$step" '.loader_cpus + .placement')
tap_like "$(intrude $stranger register "$unix" "$step" n1)" "^refused: .*(root|SlurmUser)" "a user poses as the agent of another's step"
tap_like "$(intrude $stranger register "$tcp" "$step" n1)" "^refused: a munge credential is needed" "over TCP without a credential"
tap_like "$(intrude $stranger register "$tcp" "$step" n1 "$munge")" "^refused: .*(root|SlurmUser)" "over TCP with a credential of his own"
tap_is "$(intrude $stranger garbage "$unix")" refused "garbage on the socket"
tap_is "$(intrude $stranger garbage "$tcp")" refused "garbage on the port"
tap_like "$(intrude 0 replay "$tcp" 4000000.7 n1 "$munge")" "^welcome \| refused: credential: .*[Rr]eplay" "a munge credential used twice"
tap_within 10 "what registered with it first is gone" no_member 4000000.7
tap_is "$(member "$step" '.loader_cpus + .placement')" "$before" "the step has what it had"

intrude $stranger flood "$unix" 700 4 >"$work/flood.unix" &
one=$!
intrude $stranger flood "$tcp" 700 4 >"$work/flood.tcp" &
two=$!
sleep 2
timed 10 "$(program adloader)" status
told=$timed_status
# shellcheck disable=SC2046
start_step late --adloader=on --overlap -- $(train 100)
tap_within 30 "a flood of connections: a new step registers all the same" has_member "$job.1"
tap_is "$(releases "$step")" 0 "and the step that was there keeps its lease"
wait $one $two
tap_is "$(cat "$work/flood.unix" "$work/flood.tcp" | tr '\n' ' ')" "done done " "the floods ran their time"
tap_note "adloader status during the flood ended with $told"
scancel "$job.1"
tap_within 15 "all is as before" loaders_on "$step" 0-1

# ---- names in the run directory that are not what they should be ----

echo precious >"$work/precious"
next=$job.2
ln -s "$work/precious" "$run_dir/step-$next-n1.sock"
# shellcheck disable=SC2046
start_step link --adloader=on --overlap -- $(train 100)
tap_within 15 "a symbolic link in a client socket's place: the step runs" has_member "$next"
tap_is "$(cat "$work/precious") $(stat -c '%a %u' "$work/precious")" "precious 644 0" "and what it points to is untouched"
scancel "$next"
rm -f "$run_dir/step-$next-n1.sock"
wait_until 15 no_member "$next" || true

# ---- somebody else where the controller should be ----

daemon adloaderctld stop
on_own() { loaders_on_own "$step"; }
tap_within 20 "without a controller the step is on its own CPU" on_own
said=$(intrude $stranger impostor "$port" "$munge" 7)
tap_is "$said" "met some, read 0, obeyed 0" "a user in the controller's place can neither read credentials nor command agents"
tap_true "the step is still on its own CPU" on_own
tap_is "$(grep -c "\[${step}\] .*what listens at 127.0.0.1:$port is not root's controller" "$test_dir/log/slurmd-n1.log")" 1 "which slurmd's log tells, once"
daemon adloaderctld start
tap_within 30 "the real one is believed again" has_member "$step"
tap_within 20 "and gives both CPUs" loaders_on "$step" 0-1

# ---- the user's own step ----

scancel "$job"
tap_within 20 "root's job ends" no_member "$step"
user_registered() { has_member "$mine.0"; }
tap_within 20 "the user's step runs" user_registered
sock=$run_dir/step-$mine.0-n1.sock
tap_is "$(mode_of "$sock")" "600 $owner socket" "the client socket belongs to the step's user"
tap_is "$(intrude $owner client "$sock")" "hung up" "his processes outside of the step are turned away"
tap_is "$(intrude $stranger client "$sock")" "no permission" "and others do not reach it"
scancel "$mine"
tap_within 20 "all ends" no_members
tap_true "no node was drained" no_node_drained
test_end
