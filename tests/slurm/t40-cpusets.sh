#!/bin/bash
# Cores across jobs where Slurm confines them (ConstrainCores=yes): cpusets and masks, read from
# outside at each moment; what happens when the lender ends, and when anybody dies.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

reason=$(cluster_can_confine) || tap_skip_all "$reason"
test_begin --cpus 2 --confine --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s \
    --adl-conf LeaseTime=20s
data_set

node=${ADL_CLUSTER_NODES%% *}
records=$test_dir/adloader/node/$node
if cluster_cgroup_v2; then
    top=/sys/fs/cgroup/system.slice/${node}_slurmstepd.scope
    # Slurm confines the tasks, one level below the step
    level() { [[ $1 == */step_* ]] && echo "$top/$1/user" || echo "$top/$1"; }
    threads_file() { find "$(level "$1")" -path '*/task_*/cgroup.threads'; }
else
    top=/sys/fs/cgroup/cpuset/slurm_$node/uid_0
    level() { echo "$top/$1"; }
    # Slurm keeps the tasks in the step's group, or from 23.02 on one level below it
    threads_file() {
        local file
        for file in "$(level "$1")"/{task_*/,}tasks; do
            [[ ! $(head -c 1 "$file" 2>/dev/null) ]] || break
        done
        echo "$file"
    }
fi

cpuset() { cat "$(level "$1")/cpuset.cpus" 2>/dev/null; }
cpuset_is() { [[ $(cpuset "$1") == "$2" ]]; }
# Masks as taskset reads them, of the threads of a step that are named so.
masks_by_taskset() {
    step_threads "$1" | awk -v name="$2" '$2 ~ name { print $1 }' | while read -r tid; do
        taskset -cp "$tid" 2>/dev/null | sed 's/.*: //'
    done | sort -u | tr '\n' ' ' | sed 's/ $//'
}
killed=() # jobs of which a step daemon was killed: Slurm itself leaves their groups behind
job_groups() { find "$top/.." -maxdepth 2 -name 'job_*' 2>/dev/null | sed 's/.*job_//' | sort; }
only_killed_left() { ! job_groups | grep -qvx "$(printf '%s\n' none "${killed[@]}")"; }
# A job of one CPU whose one step does the rest of the arguments; its number is in $started.
start_job() {
    local name=$1
    shift
    started=$(sbatch --parsable -n1 -c1 --job-name="$name" -o "$work/$name.out" --wrap "srun -n1 -c1 --overlap ${option-} $*") &&
        wait_until 15 step_runs "$started.0"
}
lender() { option=--adloader=on start_job lender sleep 900 && B=$started; }
has_cores() { [[ $(cpuset "job_$A/step_0") == "$1" ]] && loaders_on "$A.0" "$1"; }

# One job with loaders, one that lends.
# shellcheck disable=SC2046
option=--adloader=on start_job borrower $(train 600)
A=$started
tap_within 15 "it has loader threads" has_loaders "$A.0"
own=$(cpuset "job_$A/step_0")
tap_like "$own" '^[01]$' "job $A has one CPU, and its cpuset says so ($own)"
other=$((1 - own))
tap_is "$(cpuset "job_$A") $(masks_by_taskset "$A.0" .)" "$own $own" "its job level and all of its threads, too"
lender
tap_within 10 "job $B has the other one" cpuset_is "job_$B/step_0" "$other"

# ---- lent and taken back ----
tap_within 15 "the loaders of $A get both CPUs" has_cores 0-1
tap_is "$(cpuset "job_$A")" 0-1 "its job level is widened"
tap_is "$(masks_by_taskset "$A.0" '^adl-load')" 0,1 "taskset reads the same masks"
tap_is "$(masks_by_taskset "$A.0" '^adltrain')" "$own" "its main thread keeps its mask"
tap_is "$(cpuset "job_$A/step_batch") $(cpuset "job_$B") $(cpuset "job_$B/step_0")" "$own $other $other" \
    "its batch step and the other job are untouched"
tap_true "what was added is on record" test -s "$records/$A.0.cpuset"
tap_is "$(stat -c '%a %U' "$records")" "700 root" "in a directory of root's alone"
tap_note "$(cat "$records/$A.0.cpuset")"

# ---- Slurm starts another step of the borrower's job ----
starts=0
for _ in 1 2 3 4 5; do
    [[ $(srun --jobid="$A" --overlap -n1 cat /proc/self/status 2>>"$work/start.err" |
        sed -n 's/^Cpus_allowed_list:\s*//p') == "$own" ]] && starts=$((starts + 1))
done
tap_is "$starts" 5 "steps of the borrower's job start, on its own CPU" "$(cat "$work/start.err")"
tap_within 5 "and the loaders get both CPUs again" has_cores 0-1
tap_is "$(masks_by_taskset "$A.0" '^adltrain')" "$own" "the main thread still has its mask"

# ---- the lender ends, and its CPU goes to a job that has not consented ----

# Samples of the watch after second $1: how many, and how many with a thread allowed or running.
samples_after() {
    awk -v from="$1" '$1 >= from { n++; allowed += $3 > 0; running += $4 > 0 } END { print n + 0, allowed + 0, running + 0 }' "$work/watch"
}

# lender_ends WHAT COMMAND...: the third job starts when the command has ended the lender.
lender_ends() {
    local what=$1 client began ended reported
    shift
    "$testlib_here/watch-cpu" "$other" "$(threads_file "job_$A/step_0")" 60 >"$work/watch" &
    client=$!
    rm -f "$work/third"
    third=$(sbatch --parsable -n1 -c1 -o "$work/third.out" \
        --wrap "date +%s.%N >$work/third.new; taskset -cp \$\$ | sed 's/.*: //' >>$work/third.new; mv $work/third.new $work/third; sleep 1.5")
    sleep 1
    tap_is "$(job_state "$third")" PENDING "$what: a third job waits for the lender's CPU"
    tap_within 10 "$what: while the borrower may run there" awk '$3 > 0 { found = 1 } END { exit !found }' "$work/watch"
    began=$(date +%s.%N)
    "$@"
    tap_within 20 "$what: the third job starts" test -s "$work/third"
    wait_until 20 job_gone "$third"
    ended=$(date +%s.%N)
    kill "$client" 2>/dev/null
    wait "$client" 2>/dev/null
    reported=$(sed -n 1p "$work/third")
    tap_is "$(sed -n 2p "$work/third")" "$other" "$what: on the lender's CPU"
    local samples allowed running last
    read -r samples allowed running < <(samples_after "$reported")
    last=$(awk '$3 > 0 { last = $1 } END { printf "%.4f", last }' "$work/watch")
    tap_true "$what: it was looked at often enough ($samples times)" test "$samples" -ge 75
    tap_is "$allowed $running" "0 0" "$what: in none of these a thread of the borrower may run there, or does"
    tap_note "$(awk -v b="$began" -v r="$reported" -v l="$last" -v e="$ended" -v n="$samples" 'BEGIN {
        printf "last seen with the CPU %.0f ms after the end was asked for; third job %.0f ms after; then %d looks in %.1f s", (l - b) * 1000, (r - b) * 1000, n, e - r }')"
    tap_is "$(cpuset "job_$A") $(cpuset "job_$A/step_0") $(masks_by_taskset "$A.0" .)" "$own $own $own" \
        "$what: cpusets and masks of the borrower are as Slurm made them"
    tap_true "$what: nothing is on record" test ! -e "$records/$A.0.cpuset"
}

lender_ends "lender cancelled" scancel "$B"

lender
tap_within 15 "a new lender" has_cores 0-1
kill_controller_and_lender() {
    daemon adloaderctld kill
    scancel "$B"
}
lender_ends "controller killed before" kill_controller_and_lender
daemon adloaderctld start
tap_within 10 "the controller has the borrower again" has_member "$A.0"

lender
tap_within 15 "a new lender" has_cores 0-1
kill_stepd_of_lender() {
    killed+=("$B")
    local daemon
    daemon=$(step_daemon "$B.0")
    began=$(date +%s.%N)
    kill -KILL "$daemon"
    wait_until 2 loaders_on "$A.0" "$own" || tap_note "not left within 2 s"
    scancel "$B"
}
lender_ends "lender's step daemon killed" kill_stepd_of_lender

# ---- suspended ----
lender
tap_within 15 "a new lender" has_cores 0-1
scontrol suspend "$B"
tap_within 5 "a suspended lender lends nothing" has_cores "$own"
tap_within 5 "nor is it a member" no_member "$B.0"
scontrol resume "$B"
tap_within 10 "resumed, it lends again" has_cores 0-1
scontrol suspend "$A"
tap_within 5 "a suspended borrower has nothing borrowed" has_cores "$own"
scontrol resume "$A"
tap_within 10 "resumed, it borrows again" has_cores 0-1

# ---- the borrower's step daemon is killed: its tasks are still there, nobody restores them ----
pid=$(step_pids "$A.0" | head -n 1)
killed+=("$A")
kill -KILL "$(step_daemon "$A.0")"
set_back() { cpuset_is "job_$A/step_0" "$own" || [[ ! -d $(level "job_$A/step_0") ]]; }
tap_within 5 "the borrower's step daemon killed: another agent sets its cpuset back" set_back
mask=$(taskset -cp "$pid" 2>/dev/null | sed 's/.*: //')
tap_true "its tasks that are left stay on its own CPU (${mask:-gone})" test -z "$mask" -o "$mask" = "$own"
tap_within 5 "and nothing is on record" test ! -e "$records/$A.0.cpuset"
kill -KILL "$pid" 2>/dev/null

# ---- all ends ----
scancel "$A" "$B" "$third" 2>/dev/null
tap_within 20 "all jobs end" no_members
tap_within 20 "their cgroups are gone, but for those whose step daemon was killed" only_killed_left
nodes_idle() { [[ $(sinfo -h -o %T | sort -u) == idle ]]; }
tap_within 20 "the node is idle" nodes_idle
tap_is "$(find "$records" -type f -size +0 | wc -l)" 0 "nothing is left on record"
tap_true "no node was drained" no_node_drained
test_end
