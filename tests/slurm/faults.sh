# shellcheck shell=bash disable=SC2034 # the tests use the names of the logs
# Faults (t14 to t17): a training step runs on two CPUs, one of which is borrowed; something is broken; the step
# and a new one beside it must not feel more of it than that the borrowed CPU goes; it is mended, and the
# borrowed CPU comes back. Each fault is a row of the table.

# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"
# shellcheck source-path=SCRIPTDIR source=rows.sh
. "$testlib_here/rows.sh"

faults_lease=2 # seconds

# A cluster and the step A in an allocation whose batch step lends its CPU; words as of test_begin. A function
# that $faults_prepare names is called between the two.
faults_begin() {
    test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s \
        --adl-conf LeaseTime=${faults_lease}s --adl-conf ReportInterval=500ms "$@"
    data_set
    ${faults_prepare:-:}
    allocate 2 --adloader=on
    A=$job.0
    # shellcheck disable=SC2046
    start_step A --adloader=on -- sh -c 'out=$1; shift; exec "$@" >"$out"' sh "$work/progress" \
        $(train 600 | sed 's/--quiet/--interval 0.5/')
    a_client=$step_client
    tap_within 30 "the step has its own CPU and a borrowed one" healthy
    slurmd_log=$test_dir/log/slurmd-n1.log
    ctld_log=$test_dir/log/adloaderctld.out
}

healthy() { has_member "$A" && loaders_on "$A" 0-1; }

lines() { wc -l <"$1"; }

# Mean samples/s that the step told after line $1 of its progress.
rate_after() {
    tail -n "+$(($1 + 1))" "$work/progress" |
        sed -n 's/.* samples_per_s=\([0-9.]*\).*/\1/p' | awk '{ s += $1 } END { if (NR) printf "%.0f", s / NR; else print "-" }'
}

# The step lives and goes on reading, whoever may look at its output.
bytes_read() { awk '$1 == "rchar:" { print $2 }' "/proc/$a_pid/io" 2>/dev/null; }
reads_on() { (($(bytes_read) > a_bytes)); }

# Take away from process $1 all file descriptors but those that it has open now; give them back.
no_descriptors() {
    local free=0
    while [[ -e /proc/$1/fd/$free ]]; do
        free=$((free + 1))
    done
    descriptors=$(prlimit --pid "$1" --nofile --noheadings --output SOFT,HARD | awk '{ print $1 ":" $2 }')
    prlimit --pid "$1" --nofile="$free:${descriptors#*:}"
}
descriptors_again() { prlimit --pid "$1" --nofile="$descriptors"; }

# fault WHAT BREAK MEND HOW-IT-HEALS LOG PATTERN [no-launch]
#   BREAK and MEND are functions; in LOG a line that matches PATTERN tells admins; "-": nobody needs to be told.
#   no-launch: Slurm itself starts nothing meanwhile.
fault() {
    local what=$1 break=$2 mend=$3 heals=$4 log=$5 pattern=$6 launch=${7-launch}
    local mark before during where new told=- said='' ended=runs began healed
    wait_until 30 healthy || tap_fail "$what: all is well before" "$(members)" "$(step_threads "$A")"
    a_pid=$(step_pids "$A" | head -n 1)
    mark=$(lines "$work/progress")
    sleep 1.5
    before=$(rate_after "$mark")
    [[ $log == - ]] || said=$(lines "$log")
    "$break"
    mark=$(lines "$work/progress") a_bytes=$(bytes_read)
    if [[ $launch == launch ]]; then
        timed 30 srun --jobid="$job" --overlap -n1 --adloader=on sh -c 'exit 7'
        new="a new step: exit status $timed_status after $timed_ms ms"
        tap_is "$timed_status" 7 "$what: a new step runs and ends as ever ($timed_ms ms)" "$timed_output"
    else
        new="Slurm itself starts no step"
    fi
    sleep $((faults_lease + 1))
    tap_within 10 "$what: the step reads on" reads_on
    during=$(rate_after "$mark")
    where=$(loader_masks "$A")
    kill -0 "$a_client" 2>/dev/null || ended="**ended**"
    tap_is "$ended" runs "$what: the step runs on"
    began=$(date +%s%N)
    "$mend"
    tap_within 60 "$what: mended, it has the borrowed CPU again" healthy
    healed=$((($(date +%s%N) - began) / 1000000))
    if [[ $log != - && $pattern != - ]]; then
        told=$(tail -n "+$((said + 1))" "$log" | grep -m 1 -E "$pattern" | sed "s,$test_dir,DIR,g; s/^.*\(adloader\|adloaderctld\): //")
        tap_true "$what: the log tells" test -n "$told"
    fi
    row faults "$what" "step $ended, loaders on CPUs $where, $before then $during samples/s; $new" \
        "${told:-**nothing**}" "$heals" "$healed ms"
}

faults_end() {
    kill -0 "$a_client" 2>/dev/null && scancel "$A"
    tap_within 20 "the step ends" no_daemon "$A"
    scancel "$job"
    tap_within 20 "nobody is left" no_members
    tap_true "no node was drained" no_node_drained
    test_end
}
