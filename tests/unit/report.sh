#!/bin/sh
# adloader report with a sacct of the test's own: records of all kinds, foreign and hostile texts, and
# everything that a program can do wrong.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

adloader=$ADL_BUILDDIR/adloader
work=$(mktemp -d "${TMPDIR:-/tmp}/adl-report.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# The fake one prints rows, each a line of the file "rows" with its cells parted by tabs, a | in a cell
# standing for a line end; it notes its arguments.
cat > "$work/sacct" <<'END'
#!/bin/sh
here=$(dirname "$0")
: > "$here/arguments"
for argument; do
    printf '%s\n' "$argument" >> "$here/arguments"
    case $argument in --delimiter=*) delimiter=${argument#*=} ;; esac
done
awk -F '\t' -v d="$delimiter" '{
    line = ""
    for (i = 1; i <= 9; i++) { gsub(/[|]/, "\n", $i); line = line $i d }
    print line }' "$here/rows"
END
chmod 755 "$work/sacct"

# row JOB RAW STATE ADMIN-COMMENT COMMENT
row()
{
    printf '%s\t%s\t%s\talice\ttrain\t2\t3725\t%s\t%s\n' "$1" "$2" "$3" "$4" "$5"
}

call()
{
    timeout 100 "$adloader" report --sacct "$work/sacct" "$@" > "$work/out" 2> "$work/err" < /dev/null
    status=$?
    out=$(cat "$work/out")
    err=$(cat "$work/err")
}

one='ADL1:{"s":[{"i":0,"n":2,"t":120.5,"c":341,"k":[1,2.84,4],"m":3,"d":1,"v":"cpu-starved","g":0.43,"w":[0.57,240],"q":12345}]}'
two='ADL1:{"r":1,"s":[{"i":0,"t":10,"c":5,"v":"unknown"},{"i":"batch","t":30,"c":15,"k":[2,2,2],"v":"gpu-bound"}],"o":{"j":40,"n":40,"t":2,"c":3,"v":"io-bound"}}'

# ---- the jobs that are asked for ----

for jobs in "1,,2" ",1" "1," "," "1,x" "1, 2"; do
    call "$jobs"
    is $status 2 "report '$jobs': wrong usage"
done
call 1,,2
like "$err" "a job is missing beside a comma" "report 1,,2 says why"

# ---- for people ---------------------------------------------------------------------------

row 12 12 COMPLETED "$one" "" > "$work/rows"
call 12
is $status 0 "a job with a record"
like "$out" '^Job 12, train, of alice: COMPLETED after 1 h 2 min' "the job is named"
like "$out" '^0  *2  *2 min  *341  *1 / 2\.8 / 4  *3  *57 %  *43 %  *12345  *1  *cpu-starved' "its step"
like "$out" '^cpu-starved: .*more loader cores would help' "its verdict is explained"
is "$err" "" "without a complaint"
is "$(grep -vc -e '^--delimiter=:adl[0-9a-f]*:$' -e '^--format=' -e '^-[XDnp]$' "$work/arguments")" 1 \
    "sacct gets its options and the jobs, nothing else"
like "$(cat "$work/arguments")" '^--jobs=12$' "the jobs as they were given"

row 7 7 FAILED "" "$two" > "$work/rows"
call 7
is $status 0 "a record in Comment"
like "$out" 'FAILED after .*, restarted 1 time$' "how often it was restarted"
like "$out" '^batch .*gpu-bound' "a batch step"
like "$out" '^40 others .*io-bound' "folded steps"
like "$out" '^all .* 23\.0 .*io-bound' "and the sum of all"

{
    row 20_1 21 COMPLETED "$one" ""
    row 20_2 20 COMPLETED "$one" ""
    row 30+0 30 COMPLETED "$one" ""
    row 30+1 31 COMPLETED "" ""
} > "$work/rows"
call 20,30
is $status 0 "an array and a het job"
is "$(printf '%s\n' "$out" | grep -c '^Job ')" 4 "all tasks and components"
like "$out" '^Job 20_1 \(21\), ' "with their own numbers"
call 20_1,30+1
is $status 0 "one task and one component"
call 31
is $status 0 "a component by its own number"
call 3
is $status 1 "a number that only begins like them"
like "$err" 'sacct knows no job 3' "is missing"

# ---- no record ------------------------------------------------------------------------------

row 5 5 COMPLETED "" "" > "$work/rows"
call 5
is $status 1 "a job without a record: failure"
like "$out" 'No record: no step of it was started with --adloader' "and a reason"
row 5 5 RUNNING "" "" > "$work/rows"
call 5
like "$out" 'No record: it has not ended.*adloader explain' "a running job"
row 5 5 PENDING "" "" > "$work/rows"
call 5
like "$out" 'No record: it has not started' "a pending job"
row 5 5 COMPLETED "JS1:H4sIAAAA" "" > "$work/rows"
call 5
is $status 1 "somebody else's AdminComment"
like "$out" 'AdminComment holds something else' "is said"
row 5 5 COMPLETED 'ADL1:{"s":[{' "" > "$work/rows"
call 5
is $status 1 "a damaged record"
like "$out" 'starts like a record, but is none' "is said"
row 5 5 COMPLETED 'ADL1:{"s":[{' "$one" > "$work/rows"
call 5
is $status 0 "a good record beside a damaged one is found"
row 5 5 COMPLETED 'ADL1:{"s":[]}' "" > "$work/rows"
call 5
like "$out" 'An empty record' "an empty record"
: > "$work/rows"
call 99
is $status 1 "a job that sacct does not know: failure"
like "$err" 'sacct knows no job 99' "and says so"
row 12 12 COMPLETED "$one" "" > "$work/rows"
call 12,99
is $status 1 "one known, one not"
like "$out" '^Job 12' "the known one is shown"

# ---- JSON -----------------------------------------------------------------------------------

row 7 7 FAILED "" "$two" > "$work/rows"
call 7 --json
is $status 0 "--json"
if command -v jq > /dev/null; then
    is "$(jq -r '.jobs[0] | [.job, .job_id, .state, .user, .name, .nodes, .elapsed_s, .field] | @csv' "$work/out")" \
        '"7",7,"FAILED","alice","train",2,3725,"Comment"' "the job"
    is "$(jq -r '.jobs[0].record | [.restarts, (.steps | length), .other_steps.steps, .total.steps, .total.loader_core_s] | @csv' "$work/out")" \
        '1,2,40,42,23' "the record"
    is "$(jq -r '.jobs[0].record.steps[1] | [.step, .time_s, .loader_cores_mean, .verdict, .stall_share] | @csv' "$work/out")" \
        '"batch",30,2,"gpu-bound",' "a step, null for what is not known"
    row 5 5 COMPLETED "" "" > "$work/rows"
    call 5 --json
    is "$(jq -r '.jobs[0] | [.field, .record, (.trouble | length > 10)] | @csv' "$work/out")" ',,true' \
        "without a record: null and the trouble"
else
    skip "JSON" "no jq to read it with"
fi

# ---- hostile --------------------------------------------------------------------------------

esc=$(printf '\033')
printf '5\t5\tCOMPLETED%s[31m\tmal%s]0;x\tna|me\t2\t-3\tnote|ADL1:{}|5:adl:\t\n' "$esc" "$esc" > "$work/rows"
call 5
unlike "$out" "$esc" "no control characters reach the terminal"
is "$(printf '%s\n' "$out" | grep -c '^Job')" 1 "line ends in values make no rows"
for job in "" "," "1;id" '$(id)' "-j" 1_ 1+ _1 1_2_3 12345678901 "1 2" ../1 "1,,x"; do
    : > "$work/arguments"
    call -- "$job"
    is $status 2 "'$job' is refused"
    is "$(cat "$work/arguments")" "" "and sacct not run"
done
call "$(seq -s , 101)"
is $status 2 "101 jobs are too many"
call "$(seq -s , 100)"
is $status 1 "100 are not"
call
is $status 2 "no job: wrong usage"

# ---- sacct goes wrong -----------------------------------------------------------------------

as_sacct()
{
    printf '#!/bin/sh\n%s\n' "$1" > "$work/sacct"
    call 12
    is "$status $out" "1 " "$2: failure, and nothing on standard output"
    like "$err" "$3" "$2: said"
}

as_sacct 'echo "sacct: error: Problem talking to the database" >&2; exit 1' "an error" \
    "sacct failed: sacct: error: Problem talking to the database"
as_sacct 'exit 3' "an error without words" "sacct failed: without a word"
as_sacct 'kill -9 $$' "killed" "sacct failed"
as_sacct 'echo garbage' "garbage" "ends within a row"
as_sacct 'yes' "endless output" "prints more than can be read"
as_sacct 'for a; do case $a in --delim*) d=${a#*=} ;; esac; done
yes "1${d}1$d$d$d$d$d$d$d$d" | head -n 20000' "too many rows" "more runs than can be shown"
as_sacct 'yes >&2 &
yes_pid=$!; sleep 0.3; kill $yes_pid; exit 1' "many words" "sacct failed: y"
rm "$work/sacct"
call 12
is $status 1 "no sacct: failure"
like "$err" "cannot run $work/sacct: No such file.*is Slurm's client installed" "and says what to do"
done_testing
