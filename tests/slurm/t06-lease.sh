#!/bin/bash
# A running step survives its controller: when that is killed or stopped, the loader threads are back
# on the step's own cores within the lease, the training goes on, and when the controller is back
# everything is as before.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

lease=2
test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf LeaseTime=${lease}s --adl-conf ReportInterval=500ms
data_set

samples_read() { cat "/proc/$(step_pids "$A" | head -n 1)/io" | awk '$1 == "rchar:" { print $2 }'; }
goes_on() { # DESCRIPTION
    local before
    before=$(samples_read)
    sleep 1
    tap_is "$(($(samples_read) > before))" 1 "$1: the step goes on reading"
}

# Milliseconds until a condition holds, seen by polling, in $waited_ms.
how_long() {
    local begin
    begin=$(date +%s%N)
    wait_until "$@" || return
    waited_ms=$((($(date +%s%N) - begin) / 1000000))
}

# Within the lease, counted from the last frame that came. A second is granted to the node, and to this
# script what its looks take, which on a busy host is much.
back_on_own() { # DESCRIPTION
    local begin look limit
    begin=$(date +%s%N)
    loaders_on_own "$A"
    look=$((($(date +%s%N) - begin) / 1000000))
    limit=$((lease * 1000 + 1000 + 4 * look))
    if how_long 20 loaders_on_own "$A" && ((waited_ms <= limit)); then
        tap_pass "$1: the loader threads are on own cores within the lease ($waited_ms ms of $lease s; a look takes $look ms)"
    else
        tap_fail "$1: the loader threads are on own cores within the lease" "${waited_ms-never} ms, allowed are $limit" "$(step_threads "$A")"
    fi
}

allocate 2 --adloader=on
A=$job.0
# shellcheck disable=SC2046
start_step A --adloader=on -- $(train 300)
tap_within 20 "the step's loader threads get both CPUs" loaders_on "$A" 0-1

daemon adloaderctld kill
back_on_own "controller killed"
goes_on "controller killed"
daemon adloaderctld start
tap_within 20 "controller restarted: both CPUs again" loaders_on "$A" 0-1
tap_is "$(members | tr '\n' ' ')" "$A $job.batch " "and it knows the same members"

daemon adloaderctld freeze
back_on_own "controller stopped"
goes_on "controller stopped"
daemon adloaderctld thaw
tap_within 20 "controller continued: both CPUs again" loaders_on "$A" 0-1

# A restart that is quicker than the lease moves nothing at all.
daemon adloaderctld kill
daemon adloaderctld start
moved=0
for _ in {1..20}; do
    loaders_on "$A" 0-1 || moved=$((moved + 1))
    sleep 0.1
done
tap_is "$moved" 0 "killed and restarted within the lease: no thread moves"
tap_within 5 "and the step is known" has_member "$A"

daemon adloaderctld reload
sleep 1
tap_is "$(loader_masks "$A")" 0-1 "a reload moves nothing"
tap_true "nor loses the member" has_member "$A"

daemon adloaderctld stop
tap_within $((lease + 2)) "after an orderly stop the loaders are on own cores" loaders_on_own "$A"
scancel "$A"
tap_within 15 "the step ends without a controller" no_daemon "$A"
tap_true "no node was drained" no_node_drained
test_end
