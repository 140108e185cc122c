# shellcheck shell=bash
# The kinds of steps (t11, t12): each is run by a function, once without and once with adloader at the same
# time; afterwards what registered and left, the exit status, the nodes and the registry are looked at.
#
# A function starts the job with the words "${as[@]}", which give it its name and may hold --adloader=on,
# and returns the exit status that a user sees; its standard input is empty.

# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"
# shellcheck source-path=SCRIPTDIR source=rows.sh
. "$testlib_here/rows.sh"

# The jobs that were submitted with name $1, oldest first.
jobs_named() { squeue -h -a -t all -r -n "$1" -o %A 2>/dev/null | sort -n; }

# "0 FAILED 3:0": as sbatch, srun or salloc ended, and what Slurm notes of the (first) job.
kind_run() { # FUNCTION
    local status=0 first watchdog
    { sleep 150 && scancel --name="$name"; } >/dev/null 2>&1 &
    watchdog=$!
    "$1" </dev/null >"$work/$name.out" 2>&1 || status=$?
    wait_until 30 kind_over
    kill "$watchdog" 2>/dev/null
    first=$(jobs_named "$name" | head -n 1)
    echo "$status, $(scontrol show job "$first" -o 2>/dev/null |
        sed -n 's/.*JobState=\([A-Z_]*\) .* ExitCode=\([0-9:]*\) .*/\1 \2/p' | paste -sd ,)" >"$work/$name.status"
}

kind_over() {
    local job
    for job in $(jobs_named "$name"); do
        kind_job_over "$job" || return 1
    done
}

kind_job_over() {
    case $(job_state "$1") in
        '' | COMPLETED | CANCELLED | FAILED | TIMEOUT | NODE_FAIL) return 0 ;;
        *) return 1 ;;
    esac
}

# What the controller's log tells of the jobs named $1: "0.batch:1/1 0.0:1/1 1.0:1/1", that is, of the first
# job the batch step, registered once and released once, and so on.
kind_steps() {
    local job id n=0 ids
    for job in $(jobs_named "$1"); do
        ids=$(controller_log | sed -n "s/.* \($job\.[a-z0-9]*\) on [^ ]* registered:.*/\1/p" | sort -u)
        for id in $ids; do
            printf '%s.%s:%s/%s\n' "$n" "${id#*.}" "$(registrations "$id")" "$(releases "$id")"
        done
        n=$((n + 1))
    done | sort | tr '\n' ' ' | sed 's/ $//'
}

kind_steps_are() { [[ $(kind_steps "$1") == "$2" ]]; }

nodes_now() { sinfo -h -o %T | sort -u | tr '\n' ' ' | sed 's/ $//'; }
nodes_idle() { [[ $(nodes_now) == idle ]]; }

# kind DESCRIPTION STEPS FUNCTION: STEPS as of kind_steps. Some run at a time, since they mostly wait; kinds_end
# waits for the last ones. What is looked at afterwards is looked at when all of these have ended.
kind_whats=() kind_wanteds=() kind_clients=()
kinds_at_once=${ADL_KINDS_AT_ONCE:-8} # 0: nothing at the same time, not even without and with

kind() {
    local n=${#kind_whats[@]} name as
    kind_whats+=("$1")
    kind_wanteds+=("$2")
    name=k$n-plain as=(--job-name="k$n-plain")
    kind_run "$3" &
    kind_clients+=($!)
    ((kinds_at_once)) || wait "${kind_clients[@]}"
    # shellcheck disable=SC2034 # the functions of the tests read it
    name=k$n-on as=(--job-name="k$n-on" --adloader=on)
    kind_run "$3" &
    kind_clients+=($!)
    ((${#kind_clients[@]} < 2 * kinds_at_once)) || kinds_end
}

kinds_end() {
    local n first=$((${#kind_whats[@]} - ${#kind_clients[@]} / 2)) nodes left
    ((${#kind_clients[@]})) || return 0
    wait "${kind_clients[@]}"
    kind_clients=()
    for ((n = first; n < ${#kind_whats[@]}; n++)); do
        wait_until 10 kind_steps_are "k$n-on" "${kind_wanteds[n]}"
    done
    wait_until 20 nodes_idle
    wait_until 10 no_members
    nodes=$(nodes_now)
    left=$(members | wc -l)
    for ((n = first; n < ${#kind_whats[@]}; n++)); do
        kind_tell "${kind_whats[n]}" "${kind_wanteds[n]}" "k$n" "$nodes" "$left"
    done
}

kind_tell() { # DESCRIPTION STEPS NAME NODES LEFT
    local steps plain with came went
    steps=$(kind_steps "$3-on")
    plain=$(<"$work/$3-plain.status") with=$(<"$work/$3-on.status")
    read -r came went < <(tr ' ' '\n' <<<"$steps" | awk -F'[:/]' '{ c += $2; w += $3 } END { print c + 0, w + 0 }')
    tap_is "$steps" "$2" "$1: what registered, and how often it came and went"
    tap_is "$with" "$plain" "$1: ends as without adloader ($plain)" "$(tail -n 3 "$work/$3-on.out")"
    tap_is "$4, $5 members" "idle, 0 members" "$1: nodes and registry afterwards"
    tap_is "$(kind_steps "$3-plain")" "" "$1: the run without has nothing to do with adloader"
    row kinds "$1" "$(sed 's/:[^ ]*//g' <<<"$steps")" "$came" "$went" "$plain" "$([[ $with == "$plain" ]] && echo same || echo "**$with**")" \
        "$4" "$([[ $5 == 0 ]] && echo yes || echo "**$5 left**")"
}
