#!/bin/bash
# Two controllers over TCP: when the primary is killed, stopped or comes back, steps keep the cores
# that they have, and no CPU is ever in the hands of two steps.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

test_begin --cpus 2 --tcp --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf LeaseTime=5s \
    --adl-conf ReportInterval=500ms --adl-conf TakeoverTime=1s
data_set

# ---- the second controller, and both in everybody's lists ----

first_port=$(sed -n 's/^ControllerPort=//p' "$ADL_CONF")
second_port=$(cluster_free_ports 1)
second_conf=$test_dir/adloader2.conf
second_socket=$test_dir/adloader/ctld2.sock
list=127.0.0.1:$first_port,127.0.0.1:$second_port
echo "Controllers=$list" >>"$ADL_CONF"
sed -e "s|^ControllerPort=.*|ControllerPort=$second_port|" -e "s|^ControllerSocket=.*|ControllerSocket=$second_socket|" \
    -e "s|^PidFile=.*|PidFile=$test_dir/run/adloaderctld2.ownpid|" -e "s|^StateDir=.*|StateDir=$test_dir/adloader/state2|" \
    "$ADL_CONF" >"$second_conf"
sed -i "s|controller=[^ ]*|controller=$list|" "$test_dir/plugstack.conf"
first=unix:$ADL_SOCKET second=unix:$second_socket
export ADLOADER_CONTROLLER=$first,$second

timed 10 "$(program adloaderctld)" --config "$second_conf" --check-config
tap_like "$timed_output" "warning: Controllers lists 127.0.0.1" "--check-config warns of addresses that every host has"
tap_is "$(grep -v warning: <<<"$timed_output")" "This is 127.0.0.1:$second_port, number 2 of 2 controllers.
The configuration is good." "and says which one it is"

start_second() {
    SLURM_CONF=$test_dir/slurm.conf proc_spawn adloaderctld2 "$(program adloaderctld)" --foreground --config "$second_conf"
}
stop_second() { proc_stop adloaderctld2; }
trap 'stop_second; test_clean_up; exit 143' TERM INT HUP
trap 'stop_second; test_clean_up' EXIT

daemon adloaderctld restart
start_second
says() { adloader status --json --controller "$1" 2>/dev/null | jq -r ".controller.$2"; }
says_is() { [[ $(says "$1" "$2") == "$3" ]]; }
serves() { says_is "$1" serving true; }
has() { adloader status --json --controller "$1" 2>/dev/null | jq -r '.members[].id' | sort | tr '\n' ' '; }
has_all() { [[ $(has "$1") == "$2" ]]; }
tap_within 10 "the second stands by" says_is "$second" serving false
tap_is "$(says "$first" role) $(says "$second" role)" "primary backup" "each says its role"
tap_is "$(says "$second" serving_instead)" "127.0.0.1:$first_port" "and the second who serves"

# ---- one step with its own core and one that it borrows ----

allocate 2 --adloader=on
A=$job.0
# shellcheck disable=SC2046
start_step A --adloader=on -- $(train 300)
tap_within 20 "a step registers with the primary and gets both CPUs" loaders_on "$A" 0-1
"$testlib_here/watch-loaders" "$SLURM_CONF" "$job" 120 >"$work/looks" 2>&1 &
watcher=$!

looks() { awk -v from="$1" '$1 >= from' "$work/looks"; } # since a moment
enough_looks() { (($(looks "$1" | wc -l) >= 20)); }
# Each look since a moment has shown this: keeps FROM "STEP:CPUS ..." DESCRIPTION
keeps() {
    wait_until 20 enough_looks "$1" || true
    tap_is "$(looks "$1" | cut -d' ' -f3- | sort | uniq -c | sort -rn | head -n 4 | awk '{ $1 = ""; print }' | sed 's/^ //')" "$2" \
        "$3 ($(looks "$1" | wc -l) looks)"
}

from=$(date +%s.%N)
daemon adloaderctld kill
tap_within 10 "primary killed: the backup serves" serves "$second"
tap_within 10 "and knows the same members" has_all "$second" "$A $job.batch "
sleep 2 # it has settled and decided
keeps "$from" "0:0,1" "the step keeps both CPUs all the time"
tap_is "$(adloader status --json | jq -r .controller.address)" "127.0.0.1:$second_port" "the tool finds the one that serves"

# ---- while the backup serves, cores move as ever ----

# shellcheck disable=SC2046
start_step B --adloader=on -- $(train 300)
B=$job.1
apart() { loaders_on "$A" 0 && loaders_on "$B" 1 || { loaders_on "$A" 1 && loaders_on "$B" 0; }; }
tap_within 20 "a second step has its core back" apart
both="$(looks 0 | tail -n 1 | cut -d' ' -f3-)"

from=$(date +%s.%N)
daemon adloaderctld start
tap_within 10 "primary started: it has the members again" has_all "$first" "$A $B $job.batch "
tap_within 10 "the backup stands by" says_is "$second" serving false
tap_is "$(says "$second" agents)" 0 "and has no members any more"
sleep 2
keeps "$from" "$both" "both steps keep their CPUs all the time"

# ---- stopped, not dead: its connections stay, and it goes on where it was ----

from=$(date +%s.%N)
daemon adloaderctld freeze
tap_within 10 "primary stopped: the backup serves" serves "$second"
tap_within 10 "and has the members before their leases end" has_all "$second" "$A $B $job.batch "
sleep 1
keeps "$from" "$both" "both steps keep their CPUs all the time"
scancel "$A"
tap_within 20 "one ends, the other gets its core" loaders_on "$B" 0-1

from=$(date +%s.%N)
daemon adloaderctld thaw # it believes that both steps are there and each has one CPU
tap_within 10 "primary continued: it has what is there" has_all "$first" "$B $job.batch "
tap_within 10 "the backup stands by again" says_is "$second" serving false
sleep 2
keeps "$from" "1:0,1" "the step keeps both CPUs all the time"
tap_is "$(looks 0 | awk -v b="$B" '$2 != "-" && !/ 0:0,1 1:/' | head -n 3)" "" \
    "no CPU was ever in two steps' hands, but when the second step started on the core that the first had"

# ---- the end ----

kill "$watcher" 2>/dev/null
scancel "$job"
tap_within 20 "the job ends" no_members
tap_within 15 "and leaves no step daemon" no_daemon "$B"
tap_true "no node was drained" no_node_drained
stop_second
test_end
