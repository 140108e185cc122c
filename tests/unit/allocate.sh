#!/bin/sh
# adloader allocate and simulate: answers that can be checked by hand, refusals, and that every example
# of the manual works.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

adloader=$ADL_BUILDDIR/adloader
work=$(mktemp -d "${TMPDIR:-/tmp}/adl-allocate.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# call ARGUMENTS... < input: $status, $out and $err
call()
{
    timeout 60 "$adloader" "$@" > "$work/out" 2> "$work/err"
    status=$?
    out=$(cat "$work/out")
    err=$(cat "$work/err")
}

# ask DOCUMENT [OPTIONS...]
ask()
{
    document=$1
    shift
    printf '%s' "$document" > "$work/in"
    call allocate "$@" - < "$work/in"
}

# value KEY [N]: the Nth value (default first) of a key in a document with one key a line
value()
{
    printf '%s\n' "$out" | sed -n "s/^ *\"$1\": \(.*[^,]\),*\$/\1/p" | sed -n "${2:-1}p"
}

# ---- what-if --------------------------------------------------------------------------------

node='{"name": "n", "synthetic": "pack:2 core:4 pu:1"}'
modest='{"id": "1.0", "node": "n", "own_cpus": "0-3", "curve_samples_per_s": [0, 100]}'
hungry='{"id": "2.0", "node": "n", "own_cpus": "4-7", "curve_samples_per_s": [0, 100, 200, 300, 400, 500, 600]}'

ask "{\"nodes\": [$node], \"members\": [$modest, $hungry]}" --json
is $status 0 "a modest and a hungry job"
is "$(value loader_cores 1)" 1 "the modest one needs one core"
is "$(value cpus 1)" '"1"' "and keeps the first behind its main core"
is "$(value loader_cores 2)" 5 "the hungry one gets the rest"
is "$(value cpus 2)" '"2-3,5-7"' "by number, its own and the lent ones"
is "$(value main_cpus 2)" '"4"' "but not its main core"
is "$(value lent 1)/$(value borrowed 2)/$(value moves)" 2/2/2 "two cores were lent, borrowed and moved"
is "$(value rate_own_samples_per_s 2)/$(value rate_samples_per_s 2)" 300/500 "300 samples/s become 500"
is "$(value floor_kept 1)/$(value floor_kept 2)" true/true "nobody is slower than alone"
is "$(value gpu_local_share 1)" null "unknown locality stays unknown"
is "$(value value)" "$(value upper_bound)" "and it is the optimum"

ask "{\"nodes\": [$node], \"members\": [$modest, $hungry]}"
like "$out" "2\.0 +n +3 +5 +0 +2 +500\.0 +300\.0" "people get a table"
like "$out" "guarantee own: value 1\.83333 .*, the optimum\. Moves: 2 cores" "and what it is worth"

ask "{\"policy\": \"static\", \"nodes\": [$node], \"members\": [$modest, $hungry]}" --json
is "$(value loader_cores 1)/$(value loader_cores 2)/$(value moves)" 3/3/0 "static moves nothing"
ask "{\"policy\": \"even\", \"main_cores_per_task\": 0, \"nodes\": [$node], \"members\": [$modest, $hungry]}" --json
is "$(value loader_cores 1)/$(value loader_cores 2)" 4/4 "without main cores an even split is 4 and 4"
ask "{\"nodes\": [{\"name\": \"n\", \"reserved_cpus\": \"5\", \"pool_cpus\": \"9\"}],
      \"members\": [$modest, $hungry]}" --json
is "$(value cpus 2)" '"2-3,6-7,9"' "reserved CPUs are left out and the pool's come in"

# a job on two nodes moves together: the second node has no room
ask "{\"nodes\": [$node, {\"name\": \"m\"}], \"members\": [$modest,
      {\"id\": \"2.0@n\", \"job\": \"2\", \"node\": \"n\", \"own_cpus\": \"4-7\", \"gpu_rate\": 900, \"core_rate\": 100},
      {\"id\": \"2.0@m\", \"job\": \"2\", \"node\": \"m\", \"own_cpus\": \"0-3\", \"gpu_rate\": 900, \"core_rate\": 100}]}" --json
is "$(value loader_cores 2)/$(value loader_cores 3)" 3/3 "a core for one member of two is worth nothing"

ask "{\"nodes\": [$node], \"members\": [$modest, {\"id\": \"3\", \"node\": \"n\", \"own_cpus\": \"4-7\",
      \"model\": \"resnet50\", \"batch\": 64, \"gpu\": \"V100\", \"core_rate\": 50}]}" \
    --json --tables "$ADL_SRCDIR/predictor"
is $status 0 "a model by name"
is "$(value loader_cores 2)" 5 "its loaders are slow, so it gets what there is"

# refuse WHAT-IT-SAYS DOCUMENT
refuse()
{
    ask "$2"
    is $status 1 "refused: $1"
    like "$err" "$1" "and it says why"
}

both="\"members\": [$modest, $hungry]"
refuse "polcy is not a known key. Did you mean policy" "{\"polcy\": \"nash\", \"nodes\": [$node], $both}"
refuse "members\[0\].curve is not a known key" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0\", \"curve\": [1]}]}"
refuse "line 2: policy stands twice" "{\"policy\": \"nash\",
 \"policy\": \"nash\", \"nodes\": [$node], $both}"
refuse "line 1: own_cpus stands twice" "{\"nodes\": [$node], \"members\": [$modest, {\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"4\", \"own_cpus\": \"0-3\", \"gpu_rate\": 1, \"core_rate\": 1}]}"
refuse "line 1: name stands twice" "{\"nodes\": [{\"name\": \"n\", \"\\u006eame\": \"m\"}], $both}"
refuse "line 1: nodes stands twice" "{\"nodes\" :[{\"name\": \"a\"}], \"nodes\"
: [$node], $both}"
ask "{\"nodes\": [$node], \"members\": [$modest, {\"id\": \"\\\"id\\\": \\\\\", \"job\": \"{\\\"job\\\":\", \"node\": \"n\",
    \"own_cpus\": \"4-7\", \"curve_samples_per_s\": [0, 1]}]}" --json
is $status 0 "a text that looks like keys is none"
refuse "io_bytes_per_s is 0, but has to be from 1 to" "{\"io_bytes_per_s\": 0, \"nodes\": [$node], $both}"
refuse "policy \"fair\"" "{\"policy\": \"fair\", \"nodes\": [$node], $both}"
refuse "guarantee \"all\"" "{\"guarantee\": \"all\", \"nodes\": [$node], $both}"
refuse "there are two nodes n" "{\"nodes\": [$node, $node], $both}"
refuse "there are two members 1.0" "{\"nodes\": [$node], \"members\": [$modest, $modest]}"
refuse "there is no node n" "{\"nodes\": [{\"name\": \"m\"}], $both}"
refuse "nodes is missing" "{$both}"
refuse "own_cpus \"0-\" is not a list" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0-\", \"curve_samples_per_s\": [1]}]}"
refuse "owns no CPU" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"\", \"curve_samples_per_s\": [1]}]}"
refuse "has no CPU 8" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"7-8\", \"curve_samples_per_s\": [1]}]}"
refuse "CPU 3 of node n is owned by another" "{\"nodes\": [$node], \"members\": [$modest, {\"id\": \"2\", \"node\": \"n\", \"own_cpus\": \"3-5\", \"curve_samples_per_s\": [1]}]}"
refuse "held by another member" "{\"nodes\": [$node], \"members\": [$modest, {\"id\": \"2\", \"node\": \"n\", \"own_cpus\": \"4-7\", \"held_cpus\": \"2,5\", \"curve_samples_per_s\": [1]}]}"
refuse "its curve is unknown" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0\"}]}"
refuse "0 everywhere" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0\", \"curve_samples_per_s\": [0, 0]}]}"
refuse "has to be 0 or more" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0\", \"curve_samples_per_s\": [0, -3]}]}"
refuse "more than its gpu_rate" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0\", \"gpu_rate\": 5, \"curve_samples_per_s\": [0, 9]}]}"
refuse "core_rate has no meaning" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0\", \"core_rate\": 5, \"curve_samples_per_s\": [0, 9]}]}"
refuse "workers_min 5 is more than workers_max 4" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0\", \"workers_min\": 5, \"workers_max\": 4, \"curve_samples_per_s\": [0, 9]}]}"
refuse "weight is -1" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0\", \"weight\": -1, \"curve_samples_per_s\": [0, 9]}]}"
refuse "tasks is 1.5, but has to be whole" "{\"nodes\": [$node], \"members\": [{\"id\": \"1\", \"node\": \"n\", \"own_cpus\": \"0\", \"tasks\": 1.5, \"curve_samples_per_s\": [0, 9]}]}"
refuse "both a topology and a synthetic" "{\"nodes\": [{\"name\": \"n\", \"topology\": \"x\", \"synthetic\": \"core:2\"}], $both}"
refuse "/nonexistent.xml" "{\"nodes\": [{\"name\": \"n\", \"topology\": \"/nonexistent.xml\"}], $both}"
refuse "hwloc cannot read it" "{\"nodes\": [{\"name\": \"n\", \"synthetic\": \"core:x\"}], $both}"
refuse "the document ends too early" "{\"nodes\": ["
refuse "not an object" "[]"
call allocate
is $status 2 "a file is needed"
call allocate /nonexistent
is $status 1 "and it has to be there"

# GPUs and places, on a recorded machine
shared=${ADLOADER_SHARED:-$ADL_SRCDIR/../shared}
machine=$shared/topologies/mpibind-g4dnmetal.xml
if [ -r "$machine" ]; then
    ask "{\"nodes\": [{\"name\": \"n\", \"topology\": \"$machine\"}], \"members\": [
         {\"id\": \"a\", \"node\": \"n\", \"own_cpus\": \"0-3,48-51\", \"gpus\": [\"0000:F5:00.0\"], \"curve_samples_per_s\": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]},
         {\"id\": \"b\", \"node\": \"n\", \"own_cpus\": \"24-27,72-75\", \"curve_samples_per_s\": [0, 1]}]}" --json
    is "$(value cpus 1)" '"1-3,27,48-51,72,75"' "what is borrowed is near the GPU"
    is "$(value gpu_local_share 1)" 0.3 "3 of 10 are"
    refuse "node n has no GPU 0000:01:00.0" "{\"nodes\": [{\"name\": \"n\", \"topology\": \"$machine\"}], \"members\": [
         {\"id\": \"a\", \"node\": \"n\", \"own_cpus\": \"0\", \"gpus\": [\"0000:01:00.0\"], \"curve_samples_per_s\": [0, 1]}]}"
else
    skip "GPUs and places" "no recorded machine in $shared"
fi

# ---- the manual's example -------------------------------------------------------------------

sed -n '/^.Bd/,/^.Ed/p' "$ADL_SRCDIR/man/adloader-allocate.5" | sed -n '2,/^.Ed/p' | grep -v '^\.' > "$work/in"
call allocate --json - < "$work/in"
is $status 0 "the manual's first example works"
is "$(value loader_cores 1)/$(value loader_cores 2)" 5/7 "and the ResNet-18 gets what the other spares"
sed -n '/^.Bd/,/^.Ed/p' "$ADL_SRCDIR/man/adloader-trace.5" | grep -v '^\.' > "$work/trace"
call simulate "$work/trace"
is $status 0 "and the trace's"

# ---- simulation -----------------------------------------------------------------------------

call simulate --generate jobs=60,load=1.2,modest=0.5,job_gpus=2,job_nodes=2,seed=3
is $status 0 "a trace is generated"
printf '%s\n' "$out" > "$work/trace"
is "$(grep -c '^job ' "$work/trace")" 60 "with 60 jobs"
call simulate --json "$work/trace"
is $status 0 "and simulated"
first=$out
is "$(value policy 1)/$(value mean_rate_over_own 1)/$(value moves 1)" '"slots"/1/0' \
    "with fixed slots everybody has the rate of the own cores"
for i in 3 4 5 6; do
    is "$(value below_own_share $i)" 0 "$(value policy $i): nobody is ever slower than with own cores"
done
is "$(value mean_rate_over_even 2)" 1 "an even split is as good as itself"
bound=$(printf '%s\n' "$out" | sed -n '/"bound"/,$s/^ *"makespan_s": \(.*\),$/\1/p')
least=$(printf '%s\n' "$out" | sed -n '/"bound"/q;s/^ *"makespan_s": \(.*\),$/\1/p' | sort -g | head -n 1)
result "$(awk -v b="$bound" -v m="$least" 'BEGIN { print b <= m ? 0 : 1 }')" "no makespan is below the bound"
call simulate --json "$work/trace"
is "$out" "$first" "the same again is the same"
call simulate --json --error 20 --seed 5 --policies nash "$work/trace"
is $status 0 "with wrong predictions"
is "$(value prediction_error)" 0.2 "by 20 %"
call simulate --policies slots,gpu-busy --plot "$work/plot.svg" "$work/trace"
is $status 0 "a plot"
like "$(head -n 1 "$work/plot.svg")" "^<svg " "is SVG"

# By hand: 3 s to start, 2 s with the own two cores, then 3 cores: 40 + 60 samples; 2 s to end.
phases="points=0,10,20,30\ncurve modest points=0,5\njob h at=0 work=100 curve=hungry\njob m at=0 work=1000 curve=modest\n"
printf 'nodes count=1 cores=4 gpus=2 main_cores_per_gpu=0 start_s=3 end_s=2 learn_s=2\ncurve hungry %b' "$phases" > "$work/trace"
call simulate --json --policies slots,gpu-busy "$work/trace"
is "$(value makespan_s 1)/$(value makespan_s 2)" 205/205 "start and end of a job take time"
is "$(value mean_completion_s 1)/$(value mean_completion_s 2)" 107.5/107 "and what it lends is known later"
is "$(value mean_gpu_busy_share 1)" 0.8333333333 "in which it does not train, so that its GPU-busy share is that of the rest"
# refuse_trace WHAT-IT-SAYS TEXT
refuse_trace()
{
    printf '%b' "$2" > "$work/bad"
    call simulate "$work/bad"
    is $status 1 "refused: $1"
    like "$err" "$1" "and it says why"
}

head="nodes count=1 cores=8 gpus=2\ncurve c gpu_rate=100 core_rate=50\n"
refuse_trace "line 1: a line begins with nodes" "machine x\n"
refuse_trace "line 1: nodes needs count" "nodes count=1\n"
refuse_trace "line 1: 2 cores are less" "nodes count=1 cores=2 gpus=4\n"
refuse_trace "line 1: start_s=-1 has to be a number from 0" "nodes count=1 cores=2 gpus=2 start_s=-1\\n"
refuse_trace "line 1: count=0 has to be a number from 1" "nodes count=0 cores=2 gpus=4\n"
refuse_trace "line 1: colour=red is not known|line 1: colour is not known" "nodes colour=red\n"
refuse_trace "line 3: there is no curve d" "${head}job a at=0 work=1 curve=d\n"
refuse_trace "line 3: no machine above has" "${head}job a at=0 work=1 curve=c gpus=3\n"
refuse_trace "line 4: a stands here a second time" "${head}job a at=0 work=1 curve=c\njob a at=0 work=1 curve=c\n"
refuse_trace "line 3: work=-1 has to be" "${head}job a at=0 work=-1 curve=c\n"
refuse_trace "line 3: points have to be" "${head}curve d points=1,x\n"
refuse_trace "the trace ends without a job" "$head"
call simulate
is $status 2 "a trace is needed"
call simulate --policies fair "$work/trace"
is $status 2 "a policy has to exist"
call simulate --generate jobs=0
is $status 2 "and a trace to have jobs"

done_testing
