#!/bin/sh
# adltrain --gpu=cuda with a CUDA of the test's own (fake_cuda.c): what a step does and in which order, ranks that
# sum by NCCL, devices, and that every call that fails ends the run with its name and the device.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

adltrain=$ADL_BUILDDIR/adltrain
fake=$ADL_BUILDDIR/.libs/fake_cuda.so
tables=$ADL_SRCDIR/predictor
if [ ! -e "$fake" ] || [ ! -e "$ADL_BUILDDIR/.libs/adltrain_cuda.so" ]; then
    skip "adltrain --gpu=cuda" "built without CUDA"
    done_testing
    exit
fi
if grep -q "fsanitize=address" "$ADL_BUILDDIR/Makefile"; then
    skip "adltrain --gpu=cuda" "a sanitizer has to be the first library that is loaded"
    done_testing
    exit
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/adl-cuda.XXXXXX") || exit 99
children=
trap 'end_children; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
unset ADLOADER_SOCKET ADLOADER_WORKERS SLURM_PROCID SLURM_STEP_ID SLURM_JOB_ID SLURM_LOCALID SLURM_CPUS_PER_TASK
unset FAKE_CUDA_DEVICES FAKE_CUDA_FAIL FAKE_CUDA_WRONG FAKE_CUDA_REPORT
port=$((20000 + $$ % 10000))
json=$work/run.json
counts=$work/counts

end_children()
{
    for child in $children; do
        kill -s KILL "$child" 2> /dev/null
    done
}

# cuda NAME=VALUE... -- ARGUMENTS...: a run with the fake CUDA
cuda()
{
    settings=
    while [ "$1" != -- ]; do
        settings="$settings $1"
        shift
    done
    shift
    # timeout is outside of what is preloaded
    # shellcheck disable=SC2086 # settings are words
    timeout 120 env LD_PRELOAD="$fake" $settings "$adltrain" run --data "$work/data" --data-format raw --gpu=cuda \
        --crop 32 "$@"
}

call()
{
    cuda "$@" --quiet > "$work/out" 2> "$work/err" < /dev/null
    status=$?
    out=$(cat "$work/out")
    err=$(cat "$work/err")
}

first()
{
    grep -o "\"$1\": *[^,}]*" "$2" | head -n 1 | sed 's/^[^:]*: *//; s/"//g'
}

count_of()
{
    sed -n "s/^$1=//p" "$counts"
}

"$adltrain" make-data "$work/data" --images 24 --format raw --side 64 > "$work/out" || exit 99

# ---- one GPU ------------------------------------------------------------------------------------

call FAKE_CUDA_REPORT="$counts" -- --flops 1e9 --batch 4 --steps 5 --gradient-bytes 60M --json "$json"
is "$status" 0 "a run on a GPU succeeds"
like "$out" " samples=20 .* gpu=cuda " "its summary says which kind of GPU it is"
is "$(first device "$json")" "Fake A100-0" "and which device"
is "$(first step_s "$json")" null "its steps are as fast as they are"
is "$(awk "BEGIN { f = $(count_of flops) / (5 * 3 * 1e9 * 4); print (f > 0.98 && f < 1.02) }")" 1 \
    "the products are those of the FLOPs"
# two batches may have been sent ahead
is "$(awk "BEGIN { n = $(count_of copied_bytes) / (4 * 3 * 32 * 32 * 4); print (n >= 5 && n <= 7) }")" 1 \
    "each batch is copied once"
is "$(count_of summed_floats)" $((5 * 15 * 1024 * 1024)) "all gradients are summed in each step"
is "$(count_of updates)" 15 "in three buckets"
# a third of a step forward, then a third of the rest
is "$(awk "BEGIN { f = $(count_of flops_at_first_sum) / (3 * 1e9 * 4); print (f > 0.54 && f < 0.57) }")" 1 \
    "the first of which goes when the backward pass has made it, and no later"
is "$(count_of disorder)" 0 "each behind its products, and the weights behind them"
is "$(count_of allocations)" "$(count_of frees)" "all memory is given back"

call FAKE_CUDA_REPORT="$counts" -- --model resnet18 --tables "$tables" --precision amp --batch 2 --steps 2 --json "$json"
is "$status" 0 "a named model runs"
is "$(first type "$json") $(first precision "$json")" "a100 amp" "its GPU is found in the tables by the driver's name"
like "$(cat "$json")" '"predicted": \{ "step_s": 0\.[0-9]*[1-9]' "so there is a prediction to hold it against"
is "$(awk "BEGIN { n = $(count_of moved_bytes) / (2 * 2 * 2.48e6 * 27 * 2 / 2); print (n > 0.98 && n < 1.02) }")" 1 \
    "its activations are moved as the tables say"
is "$(count_of disorder)" 0 "in order"

call FAKE_CUDA_WRONG=1 -- --flops 1e8 --batch 4 --steps 5
is "$status" 1 "wrong sums end a run"
like "$err" "GPU 0 \(Fake A100-0\) of rank 0: after the exchange: gradient 0 is 2 instead of 1" "with what is wrong"

# ---- devices ------------------------------------------------------------------------------------

call FAKE_CUDA_DEVICES=0 -- --flops 1e8 --steps 1
is "$status" 1 "no device is refused"
like "$err" "^adltrain: error: --gpu=cuda: no CUDA device: no CUDA-capable device is detected; use --gpu=emulated$" \
    "in the driver's words"
call FAKE_CUDA_DEVICES=2 -- --flops 1e8 --steps 1 --rank 2 --ranks 3 --master "127.0.0.1:$port"
is "$status" 1 "fewer devices than ranks are refused"
like "$err" "a GPU for each rank is wanted: rank 2 is number 2 on its node, where 2 GPUs are visible" "with the numbers"
call FAKE_CUDA_DEVICES=4 SLURM_LOCALID=3 SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_JOB_ID=1 SLURM_STEP_NUM_TASKS=1 -- \
    --flops 1e8 --steps 1 --batch 4 --json "$json"
is "$(first device "$json")" "Fake A100-3" "under Slurm the rank's number on its node chooses"

# ---- ranks ----------------------------------------------------------------------------------------

# ranks N DEVICES ARGUMENTS...
ranks()
{
    number=$1
    devices=$2
    shift 2
    pids=
    statuses=
    for rank in $(seq 0 $((number - 1))); do
        cuda FAKE_CUDA_DEVICES="$devices" FAKE_CUDA_REPORT="$counts" -- --flops 1e8 --batch 2 --loaders 1 \
            --rank "$rank" --ranks "$number" --master "127.0.0.1:$port" --json "$work/rank-%r.json" "$@" \
            > "$work/out.$rank" 2> "$work/err.$rank" < /dev/null &
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

if grep -q "define HAVE_NCCL 1" "$ADL_BUILDDIR/config.h"; then
    ranks 3 4 --steps 6
    await
    is "$statuses" " 0 0 0" "three ranks sum their gradients by NCCL"
    is "$(first device "$work/rank-0.json") $(first device "$work/rank-2.json")" "Fake A100-0 Fake A100-2" \
        "each with a GPU of its own"
    like "$(cat "$work/rank-1.json")" '"all_ranks": \{ "samples": 36' "and know each other's part"
    is "$(cat "$work/err.0")" "" "in order"

    ranks 2 2 --seconds 60
    for _ in $(seq 300); do
        grep -qs "t_s=" "$work/out.0" && grep -qs "t_s=" "$work/out.1" && break
        sleep 0.1
    done
    # by the command line with this test's port: what timeout started, not timeout itself
    kill -s TERM "$(pgrep -f "rank 1 --ranks 2 --master 127.0.0.1:$port" | tail -n 1)"
    await
    like "$statuses" " 3 143" "a rank that is asked to stop takes the other along"
else
    skip "ranks" "built without NCCL"
fi

# ---- every call ------------------------------------------------------------------------------------

for failing in cudaSetDevice cudaGetDeviceProperties cudaMalloc cudaMallocHost cudaMemcpy cudaMemset \
    cudaStreamCreateWithFlags cudaEventCreateWithFlags cublasCreate cublasSetStream cublasSetMathMode \
    cudaMemcpyAsync cudaEventRecord cudaStreamWaitEvent cudaEventSynchronize cudaEventQuery cublasSgemv \
    cublasGemmEx cublasSaxpy ncclGetUniqueId ncclCommInitRank ncclAllReduce; do
    case $failing in
        nccl*) grep -q "define HAVE_NCCL 1" "$ADL_BUILDDIR/config.h" || continue ;;
    esac
    call FAKE_CUDA_FAIL=$failing:1 FAKE_CUDA_REPORT="$counts" -- --flops 1e9 --batch 4 --steps 5
    is "$status" 1 "$failing fails, and so does the run"
    # these two are told as what was waited for
    case $failing in
        cudaEventSynchronize) failing="copying a batch|the passes of a step" ;;
        cudaEventQuery) failing="the gradient exchange" ;;
    esac
    like "$err" "GPU 0 \(.*\) of rank 0: .*($failing).*: a fake failure" "with its name, the device and the reason"
    is "$(count_of allocations)" "$(count_of frees)" "and gives its memory back"
done

done_testing
