#!/bin/bash
# Many short steps that come and go in lanes, and end in different ways, while the controller is once
# killed and once stopped: at the end the books are square, the cores are free and nothing has leaked.
#
# With ADL_CHURN_SECONDS=600 ten minutes of it: 200 steps a minute, one in ten killed, under cpusets where
# there are any.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"
# shellcheck source-path=SCRIPTDIR source=rows.sh
. "$testlib_here/rows.sh"

RANDOM=7 # the same churn each time
steps=14 # a lane
seconds=${ADL_CHURN_SECONDS:-0} confine=''
((seconds == 0)) || ! cluster_can_confine >/dev/null || confine=--confine

# shellcheck disable=SC2086
test_begin $confine --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s --adl-conf LeaseTime=2s
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

# ---- the long form ----

# Four lanes, in each a step every 1.2 s: 200 a minute. Of ten one is killed: its task, or all of it by Slurm.
paced_lane() { # NUMBER
    local i name due client end=$((SECONDS + seconds))
    due=${EPOCHREALTIME/./}
    for ((i = 0; SECONDS < end; i++)); do
        name=L$1-$i
        if ((i % 10 == 9)); then
            srun --jobid="$job" --overlap -n1 --job-name="$name" --adloader=on sleep 60 &
            client=$!
            end_step "$name" $((i % 20 == 9 ? 1 : 2)) || scancel "$job" --name="$name"
            wait "$client"
            echo killed >>"$work/lane-$1"
        elif ((i % 10 == 4)); then
            # shellcheck disable=SC2046
            srun --jobid="$job" --overlap -n1 --job-name="$name" --adloader=on $(train 0.3)
        else
            srun --jobid="$job" --overlap -n1 --job-name="$name" --adloader=on sleep 0.1
        fi
        echo step >>"$work/lane-$1"
        due=$((due + 1200000))
        i_am_early "$due"
    done >/dev/null 2>&1
}
i_am_early() {
    local left=$(($1 - ${EPOCHREALTIME/./}))
    ((left <= 0)) || sleep "$((left / 1000000)).$(printf '%06d' $((left % 1000000)))"
}

# What a process holds: "kB of memory, threads, descriptors".
holds() {
    local pid
    pid=$(proc_pid "$1") || return
    echo "$(awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status") kB, $(thread_count "$pid") threads, $(find "/proc/$pid/fd" -mindepth 1 | wc -l) descriptors"
}
threads_and_files() { holds "$1" | sed 's/^[^,]*, //'; }
files_below() { find "$test_dir/adloader" "$test_dir/spool" -type "$1" ! -path '*/state/*' ! -name 'cred*' | wc -l; }
cpusets() { find /sys/fs/cgroup/cpuset/slurm_"$node"* "/sys/fs/cgroup/system.slice/${node}_slurmstepd.scope" -type d -name 'step_*' 2>/dev/null | wc -l; }
ticks=(adloaderctld "slurmd-${ADL_CLUSTER_NODES%% *}")
node=${ADL_CLUSTER_NODES%% *}
take_stock() { # NAME
    local name
    for name in "${ticks[@]}"; do
        echo "$name: memory, threads, file descriptors|$(holds "$name")"
    done >"$work/stock-$1"
    {
        echo "step daemons (the batch script's is one)|$(cluster_step_daemons | wc -l)"
        echo "sockets below the run directory|$(files_below s)"
        echo "cpusets of steps (the batch script's is one)|$(if [[ $confine ]]; then cpusets; else echo "no cpusets here"; fi)"
        echo "members in the registry|$(members | wc -l)"
        echo "state of the node|$(node_state "$node")"
    } >>"$work/stock-$1"
}

long_churn() {
    local n pids=() killed total
    for n in 1 2 3 4; do
        paced_lane "$n" &
        pids+=($!)
    done
    sleep 10
    daemon adloaderctld kill
    sleep 1
    daemon adloaderctld start
    sleep 10
    daemon adloaderctld freeze
    sleep 4
    daemon adloaderctld thaw
    sleep $((seconds > 60 ? 35 : 5))
    take_stock first
    wait "${pids[@]}"
    wait_until 30 only_batch
    sleep 2
    take_stock last
    total=$(cat "$work"/lane-* | grep -c step) killed=$(cat "$work"/lane-* | grep -c killed)
    row churn "steps, of them killed" "-" "$total, $killed in $seconds s"
    while IFS='|' read -r what first; do
        row churn "$what" "$first" "$(sed -n "s/^$(sed 's/[^a-zA-Z]/./g' <<<"$what")|//p" "$work/stock-last")"
    done <"$work/stock-first"
    steps_total=$total
}
only_batch() { [[ $(members) == "$job.batch" ]]; }

short_churn() {
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
    steps_total=$((2 * steps))
    tap_note "masks seen: $(sort "$work/masks" | uniq -c | awk '{ printf "%s (%d times) ", $2, $1 }')"
    tap_is "$(grep -cvxE '0|1|0-1' "$work/masks")" 0 "no loader thread was ever outside the allocation"
}

wait_until 10 only_batch
before=$(threads_and_files adloaderctld)
if ((seconds)); then
    long_churn
else
    short_churn
fi

ran=$(grep -c 'launch_tasks\|task_p_slurmd_launch_request\|launch task' "$test_dir/log/slurmd-$node.log")
tap_is "$((ran >= steps_total))" 1 "$steps_total steps ran ($ran launches)"
tap_within 15 "only the batch step is left" only_batch

# After its kill the controller knew some steps a second time; nobody may be counted oftener than that.
unbalanced=$(controller_log | awk '
    match($0, /[0-9]+\.[0-9]+ on [^ ]+ registered:/) { split(substr($0, RSTART), f, " "); come[f[1]]++ }
    match($0, /[0-9]+\.[0-9]+ on [^ ]+( released|: connection lost)/) { split(substr($0, RSTART), f, " "); gone[f[1]]++ }
    END { for (id in come) if (gone[id] < come[id] - 1 || gone[id] > come[id]) printf "%s(%d/%d) ", id, come[id], gone[id] }')
tap_is "$unbalanced" "" "every registration has its release, but for those that the kill cut short"

# shellcheck disable=SC2046
start_step last --adloader=on -- $(train 300)
test_last() { [[ $(last_id) ]]; }
last_id() { squeue -h -s -j "$job" -o '%i %j' | awk '$2 == "last" { print $1 }'; }
tap_within 20 "one more step starts" test_last
last=$(last_id)
tap_within 20 "a step after all that gets both CPUs" loaders_on "$last" 0-1
scancel "$last"
tap_within 15 "and leaves" only_batch
tap_is "$(cluster_step_daemons | wc -l)" 1 "no step daemon but the batch script's is left"
# The helper that writes records stays for a minute, and with it what the controller has for it.
same_as_before() {
    local now
    now=$(threads_and_files adloaderctld)
    [[ $now == "$before" ]] || ((seconds == 0 && ${now//[!0-9]/} <= ${before//[!0-9]/} + 2))
}
tap_within 70 "the controller has the threads and file descriptors that it had ($before)" same_as_before
tap_note "now: $(holds adloaderctld)"
[[ ! $confine ]] || tap_is "$(cpusets)" 1 "no cpuset but the batch script's is left"
tap_true "no node was drained" no_node_drained
test_end
