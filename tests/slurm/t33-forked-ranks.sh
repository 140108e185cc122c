#!/bin/bash
# A task that forks several ranks without GPUs: ranks are not taken for loaders, not even for a moment,
# whether they have workers of their own or load by themselves; their workers are found.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

python=/usr/bin/python3
script=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/ranks.py
command -v "$python" >/dev/null || tap_skip_all "$python is not installed"
test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=2s --adl-conf MinHoldTime=1s
allocate 2 --adloader=on
A=$job.0 B=$job.1

children() { cat /proc/"$1"/task/*/children 2>/dev/null; }
mask() { taskset -pc "$1" 2>/dev/null | sed 's/.*: //'; }
has_children() { (($(children "$1" | wc -w) >= $2)); }
main_process() { pgrep -f "$script" -P "$(step_daemon "$1")"; }
started() { [[ $(main_process "$1") ]]; }

# Masks of these processes, looked at for some seconds: one line if they never change.
watched() {
    local seconds=$1 end pid
    shift
    end=$((SECONDS + seconds))
    while ((SECONDS < end)); do
        for pid in "$@"; do
            mask "$pid"
        done
        sleep 0.1
    done | sort -u | xargs
}

start_step A --adloader=on -- "$python" "$script" 2 2
client=$step_client
tap_within 20 "a task that forks ranks starts" started "$A"
main=$(main_process "$A")
own=$(mask "$main")
tap_within 20 "it has two ranks" has_children "$main" 2
# shellcheck disable=SC2046 # words
{
    set -- $(children "$main")
    workers_found() { [[ $(member "$A" .loader_tasks) =~ ^[0-9]+$ ]] && (($(member "$A" .loader_tasks) >= 4)); }
    tap_is "$(watched 2 "$main" "$@")" "$own" "the ranks and their parent keep their mask ($own) from the start"
    tap_within 30 "the ranks' workers are found" workers_found
    tap_is "$(member "$A" .workers)" 4 "they are four"
    bound() { [[ $(for rank in "$@"; do for worker in $(children "$rank"); do mask "$worker"; done; done | sort -u | xargs) == 0,1 ]]; }
    tap_within 30 "which get both CPUs" bound "$@"
    tap_is "$(watched 1 "$main" "$@")" "$own" "the ranks still keep theirs"
}
scancel "$A"
wait "$client" 2>/dev/null
tap_within 15 "it ends" no_member "$A"

# Numbers of loaders that step $1 is said to have, over some seconds.
seen() {
    local i
    for ((i = 0; i < 25; i++)); do
        member "$1" .loader_tasks
        sleep 0.1
    done | sort -u | xargs
}

# no_loaders STEP DESCRIPTION ARGUMENTS...
no_loaders() {
    local step=$1 what=$2 client main
    shift 2
    start_step "${step#*.}" --adloader=on -- "$python" "$script" "$@"
    client=$step_client
    tap_within 20 "$what: it starts" started "$step"
    main=$(main_process "$step")
    tap_within 20 "$what: it has two ranks" has_children "$main" 2
    tap_within 30 "$what: it registers" has_member "$step"
    tap_is "$(seen "$step")" 0 "$what: none of them is ever taken for a loader"
    scancel "$step"
    wait "$client" 2>/dev/null
    tap_within 15 "$what: it ends" no_member "$step"
}
no_loaders "$B" "ranks that load by themselves" 2 0
no_loaders "$job.2" "ranks whose parent is one, too" 2 0 together
scancel "$job"
tap_within 15 "it ends" no_members
tap_true "no node was drained" no_node_drained
test_end
