#!/bin/sh
# adloader predict, profile and calibrate from the outside: what they print, what they refuse, and
# that what one writes the others read. Also the benchmarks, as far as their tables are there.
: "${ADL_SRCDIR:=$(cd "$(dirname "$0")/../.." && pwd)}" "${ADL_BUILDDIR:=$PWD}"
. "$ADL_SRCDIR/tests/unit/tap.sh"

adloader=$ADL_BUILDDIR/adloader
fake=$ADL_BUILDDIR/fake_ctld
data=$ADL_SRCDIR/tests/unit/data/cli
work=$(mktemp -d "${TMPDIR:-/tmp}/adl-predict.XXXXXX") || exit 99
fake_pid=
trap '[ -z "$fake_pid" ] || kill "$fake_pid"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
unset ADLOADER_CONTROLLER
mkdir "$work/state"
printf 'StateDir=%s\n' "$work/state" > "$work/conf"

# call ARGUMENTS...: $status, $out and $err
call()
{
    out=$("$adloader" "$@" --config "$work/conf" 2> "$work/err")
    status=$?
    err=$(cat "$work/err")
}
predict()
{
    call predict --tables "$ADL_SRCDIR/predictor" "$@"
}
# field NAME: of the JSON document in $out, outermost, a number or text
field()
{
    printf '%s\n' "$out" | sed -n "s/^  \"$1\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p"
}

# numbers given: the curve by hand
predict --gpu-rate 755 --core-rate 262 --beta 0.1 --cores 12
is $status 0 "numbers alone are enough"
like "$out" "^ *1 +262" "one core delivers its rate"
like "$out" "loader" "what limits it is named"
like "$out" "^demand 3.6 cores" "the demand: 755 * 0.9 / (262 - 75.5)"
predict --gpu-rate 755 --core-rate 262 --beta 0.1 --cores 12 --json
is $status 0 "the same as JSON"
is "$(field unit)" "samples/s" "JSON has the unit"
like "$(field demand_cores)" "^3\.64" "JSON has the demand"
is "$(printf '%s\n' "$out" | jq -r 'type')" object "JSON is one object"
is "$(printf '%s\n' "$out" | jq -r '[.curve[0] | keys[] | select(test("rate|low|high"))] | join(" ")')" \
    "high_samples_per_s low_samples_per_s rate_samples_per_s" "rates have their unit in the key"
is "$(printf '%s\n' "$out" | grep -c '"cores"')" 13 "JSON has 0 to 12 cores"

# names
predict --model ResNet_50 --gpu V100 --gpus 4 --batch 256 --cores 16 --plot "$work/p.svg"
is $status 0 "names in any spelling"
like "$out" "resnet50, 4 x v100, batch 256" "it says what it predicts"
like "$out" "torchvision|tv" "and where the numbers are from"
like "$(cat "$work/p.svg")" "^<svg .*</svg>|</svg>" "the plot is an SVG picture"
like "$(cat "$work/p.svg")" "<polyline" "with the curve in it"
predict --model resent50
is $status 2 "an unknown model is refused"
like "$err" "did you mean resnet50" "with the nearest names"
predict --gpu v10
is $status 2 "an unknown GPU too"
like "$err" "did you mean v100" "with its nearest"
predict --model resnet50 --gpu v100 --precision tf32
is $status 2 "a precision that the GPU has not"
predict --flops 8e9 --params 25e6 --gpu a100 --batch 64
is $status 0 "a model of one's own"
predict
is $status 2 "nothing said of the training"
like "$err" "--model NAME.*--profile.*--gpu-rate.*--job" "what is needed"
is "$out" "" "and no curve from nothing"
predict --gpus 4 --batch 8
is $status 2 "numbers that describe no training"

# refusals
for bad in "--cores 0" "--cores 1.5" "--cores 99999" "--beta 1" "--cache-hit 2" "--gpus -1" "--flops nan" \
    "--precision fp8" "--data wav" "--gpus 8 --gpus-total 4" "--job x"; do
    # shellcheck disable=SC2086
    predict $bad
    is $status 2 "refused: $bad"
done
predict --tables "$work"
is $status 1 "tables that are not there"
predict --gpu-rate 755 --plot /nowhere/p.svg
is $status 1 "a picture that cannot be written"
predict --calibration "$work/none"
is $status 1 "a calibration that is not there"
printf 'jpeg_rate=-5\n' > "$work/bad"
predict --calibration "$work/bad"
is $status 1 "a calibration that makes no sense"
like "$err" "line 1: jpeg_rate" "by its line"

# calibrate, and predict from it
call calibrate --seconds 1 --only jpeg,memory --threads 1 --json
is $status 0 "calibrate"
rate=$(printf "%.4f" "$(field jpeg_images_per_s_per_core)")
like "$rate" "^[1-9][0-9]*\.|^[1-9][0-9]*$" "it measured a core's rate of pictures"
is "$(field storage_bytes_per_s)" null "what was not measured is unknown"
predict --model resnet18 --gpu v100 --json
is "$(printf "%.4f" "$(field core_rate_samples_per_s)")" "$rate" "predict starts from this host's calibration"
dd if=/dev/zero of="$work/state/file" bs=1024 count=512 2> /dev/null
call calibrate --seconds 1 --only storage --folder "$work/state" --json
is $status 0 "calibrate storage alone"
is "$(printf "%.4f" "$(field jpeg_images_per_s_per_core)")" "$rate" "keeps what was measured before"
like "$(field storage_bytes_per_s)" "^[1-9]" "and adds storage"
before=$(cat "$work/state/calibration/"* 2>/dev/null)
call calibrate --only storage --seconds 1 --json
is $status 1 "the only part asked for could not be measured"
like "$err" "storage: not measured, --folder" "with the reason, also with --json"
like "$err" "nothing of what was asked for could be measured" "and what that means"
is "$(cat "$work/state/calibration/"* 2>/dev/null)" "$before" "and nothing is written"
call calibrate --only storage,memory --seconds 1
is $status 0 "one of two could be"
like "$err" "storage: not measured" "and the other is named"
call calibrate --only gpu --seconds 1
[ $status -eq 0 ] || printf '%s\n' "$err" | tr '\n' ' ' | grep -q "GPU: not measured.*nothing of what"
result $? "with a GPU a success, without one a failure with the reason"
call calibrate --only disk
is $status 2 "an unknown part"
call calibrate --only memory --seconds 0.5 --output /nowhere/x
is $status 1 "where nothing can be written"
printf 'StateDir=%s\n' "$work/no/state" > "$work/nostate.conf"
started=$(date +%s)
timeout 60 "$adloader" calibrate --seconds 50 --config "$work/nostate.conf" > "$work/out" 2> "$work/err" < /dev/null
is $? 1 "without a StateDir"
like "$(cat "$work/err")" "StateDir $work/no/state is not there.*--output" "it says so, and what to do"
timeout 60 "$adloader" calibrate --seconds 50 --output "$work/no/where/file" > "$work/out" 2> "$work/err" < /dev/null
is $? 1 "--output into a folder that is not there"
like "$(cat "$work/err")" "$work/no/where/file cannot be written: .*--output" "with the reason"
[ $(($(date +%s) - started)) -lt 45 ]
result $? "nothing is measured first"

# profiles
call profile list
is $status 0 "no profiles are no failure"
mkdir "$work/state/profiles"
printf 'name=our-net\ngpu=v100\nnode_type=n\ncore_rate=100\ncore_rate_sd=0.1\ngpu_rate=300\ngpu_rate_sd=0.1\n' \
    > "$work/state/profiles/our-net@v100@n.profile"
printf 'rubbish\n' > "$work/state/profiles/x@y@z.profile"
call profile list
is $status 0 "profiles are listed"
like "$out" "our-net +v100 +n +100" "with their numbers"
like "$err" "set aside as .*corrupt" "a corrupt one is set aside and told of"
call profile show our-net --json
like "$out" '"core_rate_samples_per_s": 100' "one is shown"
predict --profile our-net --gpus 2 --cores 16 --json
is $status 0 "predict from it"
like "$(field gpu_rate_samples_per_s)" "^600" "for two GPUs"
is "$(field source)" profile "and says so"
predict --profile other
is $status 1 "a profile that is not there"
call profile forget our-net
is $status 0 "it is forgotten"
call profile forget our-net
is $status 1 "only once"
call profile show
is $status 2 "show what?"
call profile melt
is $status 2 "not a word of it"

# a running job, as a controller answers
: > "$work/fake.log"
"$fake" "unix:$work/socket" answer "$data/explain.json" > "$work/fake.log" 2>&1 &
fake_pid=$!
for _ in $(seq 100); do
    grep -q '^ready' "$work/fake.log" && break
    sleep 0.05
done
if grep -q '^ready' "$work/fake.log"; then
    call predict --job 4711 --controller "unix:$work/socket"
    is $status 0 "a running job"
    like "$out" "^step " "its step is named"
    like "$out" "demand" "its curve is shown"
    call predict --job 4711 --controller "unix:$work/socket" --json
    like "$out" '"knee_cores"' "as JSON too"
    is "$(printf '%s\n' "$out" | jq -r '"\(type) \(.members | length) \(.members[0].id)"')" "object 1 12.0" "which is one object, with its members"
else
    skip "a running job" "the played controller speaks otherwise"
fi

# benchmarks
bench=$ADL_BUILDDIR/tests/bench
shared=${ADLOADER_SHARED:-$ADL_SRCDIR/../shared}/data
if [ -r "$shared/pollux_placements_t4.csv" ]; then
    "$bench/split-table" "$shared/pollux_placements_t4.csv" "$work/a.csv" "$work/b.csv" random 1
    is $? 0 "a table is split"
    is "$(cat "$work/a.csv" "$work/b.csv" | grep -vc '^app,')" "$(grep -vc '^app,' "$shared/pollux_placements_t4.csv")" \
        "every row is in one part"
    out=$("$bench/predict-accuracy" "$work/a.csv" "$work/b.csv" --json)
    is $? 0 "step times are fitted and predicted"
    is "$(printf '%s\n' "$out" | grep -c '"app"')" 6 "of six applications"
    out=$("$bench/loader-curve" "$shared/imread_dataloader_workers.csv")
    like "$out" "^all " "loaders' curves are predicted from two points"
    out=$("$bench/cold-start" "$ADL_SRCDIR/predictor" "$shared")
    like "$out" "^all: mean error" "and rates from the tables alone"
else
    skip "benchmarks" "no tables in $shared (ADLOADER_SHARED names the folder above data)"
fi
"$bench/online-demand" > "$work/online" 2>&1
is $? 0 "the learner runs through its scenarios"
is "$(awk 'NR > 2 { n += $NF } END { print n + 0 }' "$work/online")" 0 "no demand left the machine"

done_testing
