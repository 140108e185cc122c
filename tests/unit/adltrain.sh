#!/bin/sh
# adltrain as a program: what it refuses, a run from the data set to the summary, ranks, signals.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

adltrain=$ADL_BUILDDIR/adltrain
work=$(mktemp -d "${TMPDIR:-/tmp}/adl-train.XXXXXX") || exit 99
children=
trap 'end_children; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
# whatever this runs under: no rank, no advice
unset ADLOADER_SOCKET ADLOADER_WORKERS SLURM_PROCID SLURM_STEP_ID SLURM_JOB_ID SLURM_CPUS_PER_TASK
port=$((20000 + $$ % 10000))

end_children()
{
    for child in $children; do
        kill -s KILL "$child" 2> /dev/null
    done
}

# call ARGUMENTS...: $status, $out and $err
call()
{
    timeout 60 "$adltrain" "$@" > "$work/out" 2> "$work/err" < /dev/null
    status=$?
    out=$(cat "$work/out")
    err=$(cat "$work/err")
}


# first KEY FILE: the first value of that key in a JSON file
first()
{
    grep -o "\"$1\": *[^,}]*" "$2" | head -n 1 | sed 's/^[^:]*: *//; s/"//g'
}

# ---- the command line ---------------------------------------------------------------------

call --help
is $status 0 "--help succeeds"
like "$out" "emulated by a timed wait" "--help says that the GPU is emulated"
call run --help
is $status 0 "run --help succeeds"
call --version
like "$out" "^adltrain [0-9]+\.[0-9]+\.[0-9]+$" "--version tells the version"
call
is $status 2 "no command is refused"
call train
is $status 2 "an unknown command is refused"
like "$err" "make-data or run" "and the commands are named"

# refused MESSAGE ARGUMENTS...
refused()
{
    message=$1
    shift
    call "$@"
    is $status 2 "refused: $*"
    like "$err" "$message" "because: $message"
    is "$out" "" "and nothing is done"
}

ok="--data $work --gpu-rate 100 --steps 1"
tables=$ADL_SRCDIR/predictor
named="--data $work --tables $tables --steps 1 --model"
refused "one folder is wanted" make-data --images 3
refused "one folder is wanted" make-data "$work/a" "$work/b" --images 3
refused "--images N is missing" make-data "$work/a"
refused "from 1 to" make-data "$work/a" --images 0
refused "from 5 to 1000" make-data "$work/a" --images 1 --size-mean 2000
refused "unrecognized option" make-data "$work/a" --frobnicate
refused "jpeg or raw or tokens" make-data "$work/a" --images 3 --format png
refused "from 64 to" make-data "$work/a" --images 3 --format raw --side 8
refused "from 1 to" make-data "$work/a" --images 3 --pack 0
# shellcheck disable=SC2086 # the options are words
{
    refused "--data DIR is missing" run --gpu-rate 100 --steps 1
    refused "exactly one of" run --data "$work" --gpu-rate 100
    refused "exactly one of" run $ok --seconds 3
    refused "GPU's speed" run --data "$work" --steps 1
    refused "GPU's speed" run $ok --flops 1e9 --gpu-flops 1e12
    refused "belong together" run --data "$work" --steps 1 --flops 1e9
    refused "has no GPU" run $ok --no-train
    refused "belong together" run $ok --rank 0
    refused "less one" run $ok --rank 2 --ranks 2 --master h:1
    refused "needs --master" run $ok --rank 0 --ranks 2
    refused "HOST:PORT" run $ok --rank 0 --ranks 2 --master here
    refused "from 1 to 65536" run $ok --batch 0
    refused "from 1 to 65536" run $ok --batch -5
    refused "from 1 to 65536" run $ok --batch 1e3
    refused "from 1 to 65536" run $ok --batch 99999999999999999999999
    refused "from 1 to 4096" run $ok --loaders 5000
    refused "from 4 to" run $ok --gradient-bytes 99999999999G
    refused "a number from" run --data "$work" --steps 1 --gpu-rate fast
    refused "a number from" run --data "$work" --steps 1 --gpu-rate nan
    refused "a number from" run --data "$work" --steps 1 --gpu-rate 0
    refused "is not an option" run $ok more
    refused "requires an argument" run --data "$work" --batch
    refused "jpeg or raw or tokens or packed" run $ok --data-format tar
    refused "keep or warm or drop" run $ok --cache cold
    refused "a number from" run $ok --storage-bandwidth 0
    refused "a number from" run $ok --storage-latency -1
    refused "emulated or cuda" run $ok --gpu real
    refused "GPU's speed" run $ok --model resnet50
    refused "belongs to --model" run $ok --gpu-type v100
    refused "did you mean .*resnet50" run $named resnet55
    refused "did you mean .*v100" run $named resnet50 --gpu-type v10
    refused "does not compute in tf32" run $named resnet50 --gpu-type p100 --precision tf32
    refused "fp32, tf32 or amp" run $named resnet50 --precision int8
    refused "takes texts: --data-format tokens" run $named bert-base
    refused "for models that take them" run $named resnet50 --data-format tokens
    refused "resnet50 takes 3x224x224, which" run $named resnet50 --tokens 512
    refused "/nowhere" run --data "$work" --tables /nowhere --steps 1 --model resnet50
    refused "wants its work" run --data "$work" --steps 1 --gpu=cuda
    refused "as fast as it is" run $named resnet50 --gpu=cuda --gpu-type v100
}

# ---- the data set ---------------------------------------------------------------------------

data=$work/data
call run --data "$work" --gpu-rate 100 --steps 1
is $status 1 "a folder without pictures is an error"
like "$err" "make-data" "that says how to make some"
call make-data "$data" --images 40 --size-mean 20 --seed 3
is $status 0 "make-data succeeds"
like "$out" "40 images made" "and says what it made"
is "$(find "$data" -name '*.jpg' | wc -l | tr -d ' ')" 40 "as many files are there"
is "$(find "$data" -name '*.tmp')" "" "and nothing else"
call make-data "$data" --images 40 --size-mean 20 --seed 3
like "$out" " 0 images made.* 40 were there" "the same again makes nothing"
call make-data "$data" --images 40 --size-mean 20 --seed 4
is $status 1 "another seed in the same folder is refused"
sums=$(cd "$data" && find . -name '*.jpg' | sort | xargs cksum)
call make-data "$work/again" --images 40 --size-mean 20 --seed 3 --jobs 3
is "$(cd "$work/again" && find . -name '*.jpg' | sort | xargs cksum)" "$sums" \
    "the same seed elsewhere gives the same bytes"

# ---- a run ----------------------------------------------------------------------------------

json=$work/run.json
call run --data "$data" --batch 8 --gpu-rate 400 --steps 10 --crop 64 --loaders 2 --interval 0.05 \
    --json "$json"
is $status 0 "a run succeeds"
like "$out" "^adltrain rank=0 t_s=.* gpu=emulated gpu_busy=.* loaders=2 cores=[0-9]+ cpus=" \
    "lines of progress say that the GPU is emulated"
like "$out" "^adltrain summary rank=0 ended=steps .* samples=80 " "and a summary is printed"
is "$(first gpu "$json")" emulated "the JSON summary says so too"
is "$(first samples "$json")" 80 "it counts the samples"
is "$(first steps "$json")" 10 "and the steps"
is "$(first ended "$json")" steps "and says why it ended"
is "$(first step_s "$json")" 0.020000000 "a step takes batch / rate"
# 10 steps of 20 ms each: what is emulated is at least that, never less
is "$(awk "BEGIN { print ($(first seconds "$json") >= 0.2) }")" 1 "the GPU was not faster than it is"

call run --data "$data" --batch 8 --flops 1e9 --gpu-flops 1.2e12 --samples 20 --crop 64 --quiet \
    --json -
is $status 0 "a run by FLOPs succeeds"
printf '%s\n' "$out" | tail -n 1 > "$json"
is "$(first step_s "$json")" 0.020000000 "a step costs 3 x FLOPs x batch"
is "$(first samples "$json")" 24 "samples are rounded up to whole batches"
unlike "$out" "^adltrain rank=0 t_s" "--quiet prints no progress"

call run --data "$data" --batch 8 --no-train --seconds 0.3 --crop 64 --quiet --json "$json"
is $status 0 "the loader alone is measured"
is "$(first gpu "$json")" none "without a GPU"

call run --data "$data" --batch 4 --gpu-rate 4000 --steps 2 --loaders 7 --crop 64 --json "$json" \
    --quiet --fixed-loaders
like "$(cat "$json")" '"loader_cores": \[ \[ [0-9.]+, 7, ' "--fixed-loaders starts as many as it says"
ADLOADER_WORKERS=3 call run --data "$data" --batch 4 --gpu-rate 4000 --steps 2 --loaders 7 \
    --crop 64 --json "$json" --quiet
like "$(cat "$json")" '"loader_cores": \[ \[ [0-9.]+, 3, ' "ADLOADER_WORKERS is followed"

# a training that would take longer than the test: it must not begin
call run --data "$data" --batch 4 --gpu-rate 4000 --seconds 100000 --json /dev/null --quiet
is $status 1 "a summary onto a device is refused before the start"
[ -c /dev/null ]
result $? "and the device is left alone"
call run --data "$data" --batch 4 --gpu-rate 4000 --seconds 100000 --json "$work/none/%r.json" --quiet
is $status 1 "a folder that is not there, too"
call run --data "$data" --batch 4 --gpu-rate 4000 --seconds 100000 --json /nowhere/at/all --quiet
is $status 1 "a summary that cannot be written is an error"
like "$err" "/nowhere/at/all" "which is named"

# ---- named models -----------------------------------------------------------------------------

call run --data "$data" --tables "$tables" --model resnet50 --gpu-type a100 --batch 8 --steps 4 --quiet \
    --json "$json"
is $status 0 "a named model trains"
is "$(first model "$json") $(first type "$json") $(first precision "$json")" "resnet50 a100 tf32" \
    "the summary names model, GPU and precision"
is "$(first crop_pixels "$json")" 224 "pictures have the size that it takes"
is "$(first gpu "$json")" emulated "its GPU is still emulated"
is "$(awk "BEGIN { print ($(first measured_compute_s "$json") >= $(first compute_s "$json")) }")" 1 \
    "a step takes what the predictor says, never less"
call run --data "$data" --tables "$tables" --model efficientnet-b7 --gpu-type h200 --precision amp --steps 1 \
    --quiet --json "$json"
is "$(first batch "$json") $(first crop_pixels "$json")" "4 600" "batch and pictures are usual for the model"

# ---- a real GPU, or why there is none ----------------------------------------------------------

# shellcheck disable=SC2086 # the options are words
call run $named resnet50 --gpu=cuda
if [ $status -eq 1 ] && [ -e "$ADL_BUILDDIR/.libs/adltrain_cuda.so" ]; then
    like "$err" "^adltrain: error: --gpu=cuda: (no CUDA device: .+|the module cannot be loaded: .+); use --gpu=emulated$" \
        "without a device --gpu=cuda is refused with the driver's own words"
    is "$out" "" "and nothing is done"
elif [ $status -eq 1 ] && [ ! -e "$ADL_BUILDDIR/.libs/adltrain_cuda.so" ]; then
    like "$err" "--gpu=cuda: adltrain was built without CUDA, .*; use --gpu=emulated$" \
        "built without CUDA, --gpu=cuda is refused with that reason"
else
    call run --data "$data" --tables "$tables" --model resnet50 --batch 8 --steps 3 --gpu=cuda --quiet --json "$json"
    is $status 0 "a step runs on the GPU"
    is "$(first gpu "$json")" cuda "and the summary says so"
fi
unlike "$(ldd "$adltrain" "$ADL_BUILDDIR/.libs/adltrain" 2> /dev/null)" "lib(cuda|cudart|cublas|nccl)" \
    "adltrain itself needs no library of CUDA's"

check=$ADL_SRCDIR/workload/gpu-check
if ls /dev/nvidia[0-9]* > /dev/null 2>&1; then
    skip "gpu-check ends at once" "there is a GPU"
else
    err=$("$check" 2>&1)
    is $? 1 "gpu-check without a GPU fails"
    like "$err" "^gpu-check: no device: .*--emulated rehearses" "at once, with the reason and what to do"
fi
err=$("$check" --emulated --models resnet50 2>&1)
is $? 1 "gpu-check refuses what it does not understand"
like "$err" "three models" "with what is wanted"

# ---- other data --------------------------------------------------------------------------------

call make-data "$work/raw" --images 12 --format raw --side 64
is $status 0 "raw pictures are made"
is "$(find "$work/raw" -name '*.raw' -size 12304c | wc -l | tr -d ' ')" 12 "of the size of their pixels"
call make-data "$work/packed" --images 12 --size-mean 20 --pack 5
is "$(cd "$work/packed" && echo pack*)" \
    "pack-00000.bin pack-00000.idx pack-00001.bin pack-00001.idx pack-00002.bin pack-00002.idx" \
    "packed ones lie in few files"
call make-data "$work/packed" --images 12 --size-mean 20
is $status 1 "a folder is not continued in another form"
for form in raw packed; do
    call run --data "$work/$form" --data-format $form --batch 4 --gpu-rate 4000 --steps 6 --crop 32 --quiet \
        --json "$json" --cache warm
    is "$status $(first samples "$json") $(first skipped_files "$json")" "0 24 0" "$form data is trained on"
    is "$(first data_format "$json") $(first cache "$json")" "$form warm" "the summary says which it was"
done
is "$(awk "BEGIN { print ($(first decode_ms_mean "$json") > 0) }")" 1 "packed JPEGs are decoded"
call run --data "$work/raw" --gpu-rate 100 --steps 1
is $status 1 "raw data is not taken for JPEG"
call make-data "$work/text" --images 10 --format tokens --length 600 --pack 4
is $status 0 "texts are made"
call run --data "$work/text" --data-format packed --tables "$tables" --model bert-base --gpu-type h200 --batch 4 \
    --precision amp --steps 3 --quiet --json "$json"
is "$status $(first samples "$json") $(first tokens "$json") $(first skipped_files "$json")" "0 12 512 0" \
    "a language model trains on them"
call run --data "$work/text" --data-format packed --tables "$tables" --model gpt2 --batch 4 --steps 3 --quiet
is $status 1 "texts that are too short for it end a run"
like "$err" "600 tokens where 1024 are wanted" "with the reason"
call run --data "$work/text" --data-format packed --gpu-rate 100 --batch 4 --steps 1
is $status 1 "texts are not taken for pictures"
like "$err" "the samples are texts and the model takes pictures" "with the reason"
# 12 x 12304 bytes at 0.5 MB/s: 0.3 s, were it not for a burst of 20 ms
call run --data "$work/raw" --data-format raw --batch 4 --gpu-rate 4000 --steps 3 --crop 32 --quiet --json "$json" \
    --cache drop --storage-bandwidth 0.5 --storage-latency 2
is $status 0 "emulated slow storage is read"
is "$(awk "BEGIN { print ($(first seconds "$json") >= 0.2) }")" 1 "not faster than it is said to be"

# ---- bad files --------------------------------------------------------------------------------

bad=$work/again
for file in "$bad"/class-000/*.jpg; do
    head -c 300 "$file" > "$file.cut" && mv "$file.cut" "$file"
done
call run --data "$bad" --batch 10 --gpu-rate 4000 --steps 9 --crop 64 --quiet --json "$json"
is $status 0 "bad files do not end a run"
like "$err" "skipped .*/class-000/image" "they are named"
is "$(awk "BEGIN { print ($(first skipped_files "$json") >= 4) }")" 1 "and counted"
for file in "$bad"/*/*.jpg; do
    echo junk > "$file"
done
call run --data "$bad" --batch 10 --gpu-rate 4000 --steps 9 --crop 64 --quiet
is $status 1 "a data set without a good file ends it"
like "$err" "whole epoch" "with the reason"

# ---- ranks --------------------------------------------------------------------------------------

# ranks N ARGUMENTS...: statuses of N ranks in $statuses
ranks()
{
    count=$1
    shift
    pids=
    statuses=
    for rank in $(seq 0 $((count - 1))); do
        timeout 60 "$adltrain" run --data "$data" --batch 4 --crop 64 --quiet --loaders 1 \
            --rank "$rank" --ranks "$count" --master "127.0.0.1:$port" \
            --json "$work/rank-%r.json" "$@" > "$work/out.$rank" 2> "$work/err.$rank" &
        pids="$pids $!"
    done
    children=$pids
}
await()
{
    for pid in $pids; do
        wait "$pid"
        statuses="$statuses $?"
    done
    children=
}

ranks 3 --gpu-rate 400 --samples 60
await
is "$statuses" " 0 0 0" "three ranks train together"
is "$(first steps "$work/rank-0.json") $(first steps "$work/rank-2.json")" "5 5" \
    "each does its part of the samples"
like "$(cat "$work/rank-1.json")" '"all_ranks": \{ "samples": 60' "and knows the others' part"

ranks 3 --gpu-rate 40 --seconds 30
sleep 1
# timeout hands the signal on to the rank
kill -TERM "${pids##* }"
await
is "$statuses" " 3 3 143" "a rank that is asked to stop takes the others along"
is "$(first ended "$work/rank-2.json")" signal "with a summary"
is "$(first ended "$work/rank-0.json")" peer-stopped "of each"

ranks 2 --gpu-rate 40 --seconds 30 --peer-timeout 5
sleep 1
victim=$(pgrep -P "${pids##* }")
kill -KILL "$victim"
await
like "$statuses" " 3 137" "a rank that dies ends the others"
like "$(cat "$work/err.0")" "lost rank 1" "which name it"
is "$(first ended "$work/rank-0.json")" peer-lost "and write their summary"

# ---- signals ------------------------------------------------------------------------------------

# A lost signal fails the case after --seconds and does not hang it.
for pair in TERM:143 INT:130; do
    signal=${pair%:*}
    # or the loop below takes the last run's lines for those of one that is not listening yet
    rm -f "$work/out"
    "$adltrain" run --data "$data" --batch 64 --gpu-rate 1 --seconds 100 --crop 64 \
        --json "$json" > "$work/out" 2>&1 &
    children=$!
    for _ in $(seq 100); do
        grep -qs "t_s=" "$work/out" && break
        sleep 0.1
    done
    kill -s "$signal" "$children"
    wait "$children"
    status=$?
    children=
    is "$status" "${pair#*:}" "SIG$signal ends a run amid a step of a minute"
    is "$(first ended "$json")" signal "with a summary"
done

done_testing
