#!/bin/bash
# Many short steps that come and go in two lanes, and end in different ways, while the controller is
# once killed and once stopped: at the end the books are square and the cores are free.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

RANDOM=7 # the same churn each time
steps=14 # a lane

test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s --adl-conf LeaseTime=2s
data_set
allocate 2 --adloader=on

# One lane: each step ends by itself, by scancel, or by kill -9 of its task.
lane() { # NAME
    local i how
    for ((i = 0; i < steps; i++)); do
        how=$((RANDOM % 3))
        # shellcheck disable=SC2046
        start_step "$1$i" --adloader=on -- $(train $((how == 0 ? 1 + RANDOM % 3 : 60)))
        if ((how != 0)); then
            sleep "$((RANDOM % 3)).$((RANDOM % 10))"
            end_step "$1$i" "$how"
        fi
        wait "$step_client"
    done >/dev/null 2>&1
}

end_step() { # NAME HOW
    local id
    wait_until 10 step_named "$1" || return
    id=$(squeue -h -s -j "$job" -o '%i %j' | awk -v name="$1" '$2 == name { print $1 }')
    if (($2 == 1)); then
        scancel "$id"
    else
        wait_until 10 task_of "$id"
        kill -KILL "$(step_pids "$id" | head -n 1)" || scancel "$id"
    fi
}

step_named() { squeue -h -s -j "$job" -o %j | grep -qx "$1"; }
task_of() { [[ $(step_pids "$1") ]]; }

# While it goes on: whatever a loader thread may use, it is never nothing and never outside the job.
watch_masks() {
    local mask
    while [[ ! -e $work/stop ]]; do
        for mask in $(for pid in $(proc_with_environment "SLURM_CONF=$test_dir/slurm.conf"); do
            awk '$1 == "Name:" { name = $2 } $1 == "Cpus_allowed_list:" && name ~ /^adl-load/ { print $2 }' "/proc/$pid"/task/*/status 2>/dev/null
        done); do
            echo "$mask"
        done
        sleep 0.3
    done >"$work/masks"
}

watch_masks &
watcher=$!
lane A &
a=$!
lane B &
b=$!
sleep 8
daemon adloaderctld kill
sleep 1
daemon adloaderctld start
sleep 8
daemon adloaderctld freeze
sleep 4
daemon adloaderctld thaw
wait "$a" "$b"
touch "$work/stop"
wait "$watcher"

ran=$(grep -c 'launch_tasks\|task_p_slurmd_launch_request\|launch task' "$test_dir/log/slurmd-n1.log")
tap_is "$((ran >= 2 * steps))" 1 "$((2 * steps)) steps ran ($ran launches)"
tap_note "masks seen: $(sort "$work/masks" | uniq -c | awk '{ printf "%s (%d times) ", $2, $1 }')"
tap_is "$(grep -cvxE '0|1|0-1' "$work/masks")" 0 "no loader thread was ever outside the allocation"
only_batch() { [[ $(members) == "$job.batch" ]]; }
tap_within 15 "only the batch step is left" only_batch

# After its kill the controller knew some steps a second time; nobody may be counted oftener than that.
unbalanced=$(controller_log | awk '
    match($0, /[0-9]+\.[0-9]+ on [^ ]+ registered:/) { split(substr($0, RSTART), f, " "); come[f[1]]++ }
    match($0, /[0-9]+\.[0-9]+ on [^ ]+( released|: connection lost)/) { split(substr($0, RSTART), f, " "); gone[f[1]]++ }
    END { for (id in come) if (gone[id] < come[id] - 1 || gone[id] > come[id]) printf "%s(%d/%d) ", id, come[id], gone[id] }')
tap_is "$unbalanced" "" "every registration has its release, but for those that the kill cut short"

# shellcheck disable=SC2046
start_step last --adloader=on -- $(train 300)
last=$job.$((2 * steps))
tap_within 20 "a step after all that gets both CPUs" loaders_on "$last" 0-1
scancel "$last"
tap_within 15 "and leaves" only_batch
tap_is "$(cluster_step_daemons | wc -l)" 1 "no step daemon but the batch script's is left"
tap_true "no node was drained" no_node_drained
test_end
