#!/bin/bash
# The same loop over TCP, where munge credentials say who calls; and what happens when munge stops.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

test_begin --cpus 2 --tcp --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf LeaseTime=3s
data_set
allocate 2 --adloader=on
A=$job.0
# shellcheck disable=SC2046
start_step A --adloader=on -- $(train 300)
tap_within 15 "a step registers over TCP" has_member "$A"
tap_within 15 "and gets both CPUs" loaders_on "$A" 0-1

daemon munged freeze
sleep 4
tap_is "$(loader_masks "$A")" 0-1 "munge stopped: a registered step keeps its cores"
daemon munged thaw

# Without munge Slurm itself starts nothing, so the step is started before it stops answering, and
# meets the controller only afterwards.
daemon adloaderctld stop
# shellcheck disable=SC2046
start_step B --adloader=on -- $(train 300)
B=$job.1
tap_within 15 "a step starts without a controller" has_loaders "$B"
daemon munged freeze
daemon adloaderctld start
sleep 4
tap_is "$(loaders_on_own "$B" && echo own)" own "munge and controller stopped: the loaders are on own cores"
tap_is "$(loaders_on_own "$A" && echo own)" own "also those of the first step"
daemon munged thaw
tap_within 20 "munge is back: the first step registers again" has_member "$A"
tap_within 20 "and the second" has_member "$B"
scancel "$A"
tap_within 15 "the first ends, the second gets both CPUs" loaders_on "$B" 0-1

# Somebody without a credential is sent away, and the controller lives on.
port=$(sed -n 's/^ControllerPort=//p' "$test_dir/adloader.conf")
timeout 5 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; head -c 5000 /dev/urandom >&3; cat <&3 >/dev/null" 2>/dev/null
tap_true "garbage on the port does not disturb it" has_member "$B"
scancel "$job"
tap_within 20 "the job ends" no_members
tap_true "no node was drained" no_node_drained
test_end
