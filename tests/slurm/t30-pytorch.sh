#!/bin/bash
# An unchanged PyTorch program (examples/train.py) under srun --adloader: its loader workers are found
# and bound, whatever way they are started; they leave when another step needs its core and come back
# when that one ends; the main thread and all else of the training process keep their masks.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

python=/usr/bin/python3
script=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../examples" && pwd)/train.py
if ! "$python" -c 'import torch, torchvision' 2>/dev/null; then
    echo "1..0 # SKIP PyTorch is not installed (Debian: python3-torch python3-torchvision)"
    exit 0
fi

test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=20s --adl-conf MinHoldTime=1s
data_set

runs_script() { tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | grep -q " $script "; }
parent_of() { awk '{ print $4 }' "/proc/$1/stat" 2>/dev/null; }

# The training process of step $1: it runs the script, and its parent does not.
trainer() {
    local pid
    for pid in $(step_pids "$1"); do
        if runs_script "$pid" && ! runs_script "$(parent_of "$pid")"; then
            printf '%s\n' "$pid"
            return
        fi
    done
}

# Is this process multiprocessing's own: the resource tracker or the fork server itself?
is_helper() {
    local words
    words=$(tr '\0' ' ' <"/proc/$1/cmdline" 2>/dev/null)
    [[ $words == *resource_tracker* ]] ||
        [[ $words == *multiprocessing.forkserver* && $(parent_of "$1") == $(trainer "$2") ]]
}

# Masks that taskset reads, "THREAD MASK" a line: of worker processes (all their threads), of threads
# of the training process.
worker_masks() {
    local pid main
    main=$(trainer "$1")
    [[ $main ]] || return
    for pid in $(step_pids "$1"); do
        [[ $pid != "$main" ]] && ! is_helper "$pid" "$1" || continue
        taskset -apc "$pid" 2>/dev/null | sed "s/^pid \([0-9]*\)'s current affinity list: /\1 /"
    done
}
trainer_masks() { taskset -apc "$(trainer "$1")" 2>/dev/null | sed "s/^pid \([0-9]*\)'s current affinity list: /\1 /"; }
values() { awk '{ print $2 }' | sort -u | tr '\n' ' ' | sed 's/ $//'; }

workers_on() { [[ $(worker_masks "$1" | values) == "$2" ]]; }
has_workers() { [[ $(worker_masks "$1") ]]; }
main_mask() { taskset -pc "$(trainer "$1")" 2>/dev/null | sed 's/.*: //'; }
pool_on() { (($(trainer_masks "$1" | grep -c " $2\$") >= $3)); }
loaders_seen() { [[ $(member "$1" .loader_tasks) =~ ^[1-9] ]]; }
rates() { awk '/pictures\/s/ { print $1, $(NF - 1) }' "$work/$1.out"; }
mean_rate() { rates "$1" | awk -v from="$2" -v to="$3" '$1 >= from && $1 < to { s += $2; n++ } END { if (n) printf "%.0f\n", s / n; else print "-" }'; }
now_s() { awk '/pictures\/s/ { t = $1 } END { print int(t) }' "$work/$1.out"; }

tap_true "an allocation of two CPUs" allocate 2 --adloader=on
step=0
train_py() { echo "$python $script $test_data --crop 64 $*"; }

# ---- moves: A alone, with B, alone again ----
A=$job.0 B=$job.1
# shellcheck disable=SC2046
start_step A --adloader=on -- $(train_py --workers 2 --persistent --seconds 120 --interval 0.5)
client_a=$step_client
tap_within 20 "forked workers start" has_workers "$A"
own=$(main_mask "$A")
tap_within 2 "they are seen within two seconds" loaders_seen "$A"
# The batch step lends nothing before LearnTime is over, however soon the workers are there.
tap_within 35 "they get both CPUs" workers_on "$A" 0,1
tap_is "$(main_mask "$A")" "$own" "the main thread keeps its mask ($own)"
sleep 5
mark1=$(now_s A)
# shellcheck disable=SC2046
start_step B --adloader=on -- $(train 300)
tap_within 15 "another step starts" has_loaders "$B"
tap_within 10 "the workers leave its CPU" workers_on "$A" "$own"
mark2=$(now_s A)
sleep 6
mark3=$(now_s A)
scancel "$B"
tap_within 15 "the other step ends" no_member "$B"
tap_within 10 "the workers have both CPUs again" workers_on "$A" 0,1
mark4=$(now_s A)
sleep 6
tap_is "$(trainer_masks "$A" | values)" "$own" "no thread of the training process was ever moved"
tap_note "masks:" "$(trainer_masks "$A" | sed 's/^/trainer /')" "$(worker_masks "$A" | sed 's/^/worker  /')"
tap_note "pictures/s before, during and after the other step: $(mean_rate A 4 "$mark1"), $(mean_rate A "$((mark2 + 1))" "$mark3"), $(mean_rate A "$((mark4 + 1))" 999)"
scancel "$A"
wait "$client_a" 2>/dev/null
tap_within 15 "the step ends" no_member "$A"
step=2

# ---- the ways to have workers ----
# way NAME OPTIONS...: a step whose workers are processes
way() {
    local name=$1 id=$job.$step client
    shift
    step=$((step + 1))
    # shellcheck disable=SC2046
    start_step "$name" --adloader=on -- $(train_py --seconds 60 "$@")
    client=$step_client
    tap_within 50 "$name: workers are found" loaders_seen "$id"
    tap_within 15 "$name: they get both CPUs" workers_on "$id" 0,1
    tap_is "$(trainer_masks "$id" | values)" "$own" "$name: all of the training process keeps its mask"
    scancel "$id"
    wait "$client" 2>/dev/null
    tap_within 15 "$name: it ends" no_member "$id"
}

way spawn --workers 2 --start-method spawn --persistent
way forkserver --workers 2 --start-method forkserver --persistent

# Workers that last for one epoch are found anew each time. An epoch of this set takes some seconds
# on any machine: workers that live for a few tenths of a second could only be seen bound by luck.
long_data=$work/long-data
mkdir -p "$long_data"
for class in "$test_data"/*/; do
    for copy in 1 2 3 4 5 6 7 8 9 10; do
        ln -s "${class%/}" "$long_data/$(basename "$class")-$copy"
    done
done
id=$job.$step
step=$((step + 1))
start_step epochs --adloader=on -- "$python" "$script" "$long_data" --workers 2 --crop 384 --seconds 150
tap_within 30 "workers of one epoch each: found" loaders_seen "$id"
tap_within 30 "they get both CPUs" workers_on "$id" 0,1
first=$(worker_masks "$id" | awk 'NR == 1 { print $1 }')
others_on() { [[ $first ]] && workers_on "$id" 0,1 && ! worker_masks "$id" | grep -q "^$first "; }
tap_within 90 "so do those of a later epoch" others_on
scancel "$id"
tap_within 15 "it ends" no_member "$id"

# Threads of the training process that load: no process and no name tells them apart.
id=$job.$step
# shellcheck disable=SC2046
start_step threads --adloader=on -- $(train_py --threads 3 --seconds 60)
tap_within 20 "a pool of threads: found" loaders_seen "$id"
tap_is "$(member "$id" .loader_tasks)" 3 "they are three"
tap_within 15 "the three get both CPUs" pool_on "$id" 0,1 3
tap_is "$(main_mask "$id")" "$own" "the main thread keeps its mask"
tap_note "threads:" "$(trainer_masks "$id")"
scancel "$id"
tap_within 15 "it ends" no_member "$id"

scancel "$job"
tap_true "no node was drained" no_node_drained
test_end
