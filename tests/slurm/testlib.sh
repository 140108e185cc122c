# shellcheck shell=bash disable=SC2034 # the tests read what the functions here leave in variables
# What the tests on a private cluster share: begin and end, and looking at steps from outside, by
# /proc and Slurm's own commands only. What adloader says about itself is asked for separately.
#
# Environment: ADL_BUILDDIR (adloader built or installed there), ADL_TEST_DIR (the cluster's folder).

testlib_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=cluster.sh
. "$testlib_here/cluster.sh"
# shellcheck source-path=SCRIPTDIR source=tap.sh
. "$testlib_here/tap.sh"

: "${ADL_BUILDDIR:?say where adloader is built or installed}"
test_dir=${ADL_TEST_DIR:-/tmp/adl-test-$$}
work=$test_dir/work # files of the test itself

test_clean_up() {
    trap - EXIT
    cluster_use "$test_dir"
    cluster_stop
}

# Start a cluster with adloader; arguments as of `cluster start`.
test_begin() {
    trap 'test_clean_up; exit 143' TERM INT HUP
    trap test_clean_up EXIT
    "$testlib_here/cluster" start "$test_dir" --build "$ADL_BUILDDIR" "$@" || {
        tap_fail "the cluster starts"
        echo "1..$tap_count"
        exit 1
    }
    cluster_use "$test_dir"
    # shellcheck disable=SC1091
    . "$test_dir/env"
    mkdir -p "$work"
    cd "$work" || exit 1
}

test_end() {
    test_clean_up
    tap_done
    exit
}

daemon() { cluster_daemon "$@"; }

# A program of the build: the installed one, or libtool's.
program() {
    local path
    for path in "$ADL_BUILDDIR/bin/$1" "$ADL_BUILDDIR/sbin/$1" "$ADL_BUILDDIR/$1"; do
        [[ -x $path ]] && printf '%s\n' "$path" && return
    done
    echo "no program $1 below $ADL_BUILDDIR" >&2
    return 1
}

# Compile a C program that stands beside the tests: test_compile NAME; it is then $work/NAME.
test_compile() {
    "${CC:-cc}" -O2 -std=gnu11 -pthread -o "$work/$1" "$testlib_here/$1.c" >"$work/$1.log" 2>&1 || {
        tap_fail "$1.c compiles" "$(tail -n 5 "$work/$1.log")"
        test_end
    }
}

# Compile a library that stands beside the tests, to be preloaded, before there is a cluster: prints its path.
test_preload() {
    local path=$ADL_BUILDDIR/slurm-preload-$1.so
    "${CC:-cc}" -O2 -std=gnu11 -pthread -shared -fPIC -o "$path.$$" "$testlib_here/$1.c" -ldl >&2 &&
        mv "$path.$$" "$path" && echo "$path"
}

adloader() { timeout 10 "$(program adloader)" "$@"; }

# Run a command with a limit; its output is in $timed_output, exit status in $timed_status, and the
# milliseconds it took in $timed_ms.
timed() {
    local limit=$1 begin end
    shift
    begin=$(date +%s%N)
    timed_status=0 timed_output='' timed_ms=0
    timed_output=$(timeout --kill-after=5 "$limit" "$@" 2>&1) || timed_status=$?
    end=$(date +%s%N)
    timed_ms=$(((end - begin) / 1000000))
}

# ---- Slurm from outside ----

next_job_id() { scontrol show config | awk '$1 == "NEXT_JOB_ID" { print $3 }'; }

node_state() { sinfo -h -n "$1" -o %T; }

no_node_drained() { ! sinfo -h -o %T | grep -qiE 'drain|down|fail'; }

job_state() { squeue -h -a -j "$1" -t all -o %T 2>/dev/null; }

job_is() { [[ $(job_state "$1") == "$2" ]]; }

job_gone() {
    case $(job_state "$1") in
        '' | COMPLETED | CANCELLED | FAILED | TIMEOUT) return 0 ;;
        *) return 1 ;;
    esac
}

step_runs() { squeue -h -s -o %i 2>/dev/null | grep -qx "$1"; }

# Slurm's daemon of step J.S: pids (one a node).
step_daemon() {
    local pid
    for pid in $(cluster_step_daemons); do
        if [[ $(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) == "slurmstepd: [$1]"* ]]; then
            printf '%s\n' "$pid"
        fi
    done
}

no_daemon() { [[ -z $(step_daemon "$1") ]]; }

thread_count() { find "/proc/$1/task" -mindepth 1 -maxdepth 1 2>/dev/null | wc -l; }

# Pids of the tasks of step J.S and of their children.
step_pids() {
    local pid step=${1#*.}
    for pid in $(proc_with_environment "SLURM_CONF=$test_dir/slurm.conf"); do
        grep -zqx "SLURM_JOB_ID=${1%.*}" "/proc/$pid/environ" 2>/dev/null || continue
        if [[ $step == batch ]]; then
            ! grep -zq '^SLURM_STEP_ID=' "/proc/$pid/environ" 2>/dev/null || continue
        else
            grep -zqx "SLURM_STEP_ID=$step" "/proc/$pid/environ" 2>/dev/null || continue
        fi
        printf '%s\n' "$pid"
    done
}

# "TID NAME MASK" of every thread of step J.S.
step_threads() {
    local pid status
    for pid in $(step_pids "$1"); do
        for status in "/proc/$pid"/task/*/status; do
            awk '$1 == "Name:" { name = $2 } $1 == "Pid:" { pid = $2 } $1 == "Cpus_allowed_list:" { print pid, name, $2 }' \
                "$status" 2>/dev/null
        done
    done
}

# The same of the loader threads alone, which adltrain names so.
loader_threads() { step_threads "$1" | awk '$2 ~ /^adl-load/'; }

# Masks of adltrain's main threads.
main_masks() { step_threads "$1" | awk '$2 == "adltrain" { print $3 }' | sort -u | tr '\n' ' ' | sed 's/ $//'; }

# Different masks of the loader threads of J.S, sorted: one line if they agree.
loader_masks() { loader_threads "$1" | awk '{ print $3 }' | sort -u | tr '\n' ' ' | sed 's/ $//'; }

loaders_on() { [[ $(loader_masks "$1") == "$2" ]]; }

# All loader threads are where Slurm put the step, that is, where its main thread is.
loaders_on_own() {
    local main
    main=$(main_masks "$1")
    [[ $main ]] && loaders_on "$1" "$main"
}

has_loaders() { (($(loader_threads "$1" | wc -l) >= ${2:-1})); }

# ---- work for steps ----

# A small data set, made once for all tests of a build.
data_set() {
    test_data=$ADL_BUILDDIR/slurm-data
    flock "$ADL_BUILDDIR" "$(program adltrain)" make-data "$test_data" --images 200 >"$work/make-data.log" 2>&1 || {
        tap_fail "adltrain makes a data set" "$(tail -n 5 "$work/make-data.log")"
        test_end
    }
}

# Words of a training command that loads as fast as its cores allow, for $1 seconds.
train() {
    echo "$(program adltrain) run --data $test_data --batch 16 --gpu-rate 20000 --gradient-bytes 4K --quiet --seconds $1"
}

# An allocation of $1 tasks of one CPU without steps but the batch script; more arguments for sbatch.
# Its number is in $job.
allocate() {
    local tasks=$1
    shift
    job=$(sbatch --parsable -N1 -n"$tasks" -c1 -o "$work/batch-%j.out" "$@" --wrap 'sleep 900') || return
    wait_until 15 job_is "$job" RUNNING
}

# Start a step of one core in allocation $job and leave it running: start_step NAME [SRUN OPTIONS] -- COMMAND
start_step() {
    local name=$1
    local -a options=()
    shift
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    srun --jobid="$job" --exact -n1 -c1 --job-name="$name" "${options[@]}" "$@" >"$work/$name.out" 2>&1 &
    step_client=$!
}

# ---- what the controller says ----

agents() { adloader status --json 2>/dev/null | jq -r '.controller.agents'; }

members() { adloader status --json 2>/dev/null | jq -r '.members[].id' | sort; }

# member ID FILTER: what jq finds in the member's status
member() { adloader status --json 2>/dev/null | jq -r --arg id "$1" '.members[] | select(.id == $id) | '"$2"; }

has_member() { members | grep -qx "$1"; }

no_member() { ! has_member "$1"; }

no_members() { [[ $(adloader status --json 2>/dev/null | jq '.members | length') == 0 ]]; }

controller_log() { cat "$test_dir/log/adloaderctld.out"; }

# How often the controller says that a member came, and that it left.
registrations() { controller_log | grep -c " $1 on [^ ]* registered:"; }
releases() { controller_log | grep -cE " $1 on [^ ]*(: connection lost| released)"; }

left() { (($(releases "$1") > 0)); }

came_and_went_once() { # ID DESCRIPTION
    wait_until 10 left "$1" || true
    tap_is "$(registrations "$1") $(releases "$1")" "1 1" "$2: registered once, released once"
}
