#!/bin/bash
# What a change of cores costs a job: how long after its loaders got other CPUs its rate is the new one, and
# how many samples it lost meanwhile; for adltrain, whose loader threads are parked and woken, and for a
# PyTorch program, whose worker processes are only moved. As root, on two cores of this host (or of the test
# machine); prints Markdown.
#
#   series-resize.sh --build FOLDER [--changes N] [--out FOLDER] [--report FILE]
#
# Step A of an allocation trains as fast as its loaders allow; step B comes and goes, so that A has one core,
# two, one ... Of adltrain, the moments of change and the rates (ten a second) are from A's own summary; of
# PyTorch (examples/train.py), the moments from a watcher of the workers' masks (workload/resize-watch.py), the
# rates from the times of the steps. Without PyTorch (Debian: python3-torch, python3-torchvision) the report says so.
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../tests/slurm/cluster.sh
. "$here/../tests/slurm/cluster.sh"

give_up() {
    printf 'series-resize: %s\n' "$*" >&2
    exit 1
}

build='' changes=8 out='' report=''
while (($#)); do
    (($# >= 2)) || give_up "$1 needs a value"
    case $1 in
        --build) build=$(cd "$2" && pwd) || exit 1 ;;
        --changes) [[ $2 =~ ^[1-9][0-9]?$ ]] && changes=$2 || give_up "--changes wants a number from 1 to 99" ;;
        --out) mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 1 ;;
        --report) report=$2 ;;
        *) give_up "unknown option $1" ;;
    esac
    shift 2
done
[[ $build ]] || give_up "say with --build where adloader is built or installed"
folder=${out:-$(mktemp -d)}
cluster=/tmp/adl-resize-$$
phase=5     # seconds between changes
interval=0.1 # seconds that a rate is taken over
python=/usr/bin/python3
watcher=''

finish() {
    trap '' INT TERM HUP
    [[ ! $watcher ]] || kill "$watcher" 2>/dev/null
    cluster_use "$cluster"
    cluster_stop
    [[ ! -e $cluster/.adloader-cluster ]] || rm -rf -- "$cluster"
    [[ $out ]] || rm -rf "$folder"
}

# A's own story as lines "cores T N" (from T on it has N) and "rate T R" (over the interval that ends at T).
story_of_adltrain() {
    jq -r '(.loader_cores[] | "cores\t\(.[0])\t\(.[2])"), (.timeline[] | "rate\t\(.[0])\t\(.[1])")' "$folder/a.json"
}

story_of_pytorch() {
    awk -v step="$interval" '
        FILENAME == ARGV[1] { at[++nc] = $1; cores[nc] = $2; next }
        !begin { begin = edge = $1 }
        {
            for (; $1 > edge + step; edge += step) { rate[++nr] = sum / step; t[nr] = edge + step; sum = 0 }
            sum += $2
        }
        END {
            for (i = 1; i <= nc; i++) printf "cores\t%.3f\t%d\n", at[i] - begin, cores[i]
            for (i = 1; i <= nr; i++) printf "rate\t%.3f\t%.2f\n", t[i] - begin, rate[i]
        }' "$folder/masks" "$folder/steps"
}

# measure PROGRAM: of every change of A's CPUs with at least 2.5 seconds of the same cores before and after:
# program, cores before, cores after, seconds until 90 % of the way to the new rate (-1: not within a second; -2: the
# rates differ by less than a fifth or the wrong way, so that nothing is to be seen), samples short of the new rate in
# the first second, rates.
measure() {
    awk -F'\t' -v program="$1" '
        function average(from, to,    i, sum, k) {
            for (i = 1; i <= nr; i++) if (t[i] > from && t[i] <= to) { sum += r[i]; k++ }
            return k ? sum / k : 0
        }
        $1 == "cores" { if (!nc || $3 != c[nc]) { nc++; at[nc] = $2; c[nc] = $3 } }
        $1 == "rate" { nr++; t[nr] = $2; r[nr] = $3 }
        END {
            at[nc + 1] = t[nr]
            for (k = 2; k <= nc; k++) {
                if (at[k] - at[k - 1] < 2.5 || at[k + 1] - at[k] < 2.5) continue
                before = average(at[k] - 2, at[k] - 0.1)
                after = average(at[k] + 1, at[k + 1] - 0.3)
                goal = before + 0.9 * (after - before)
                up = c[k] > c[k - 1]
                reached = (up ? after > 1.2 * before : before > 1.2 * after) ? -1 : -2; lost = 0
                for (i = 2; i < nr; i++) {
                    if (t[i] <= at[k] || t[i] > at[k] + 1) continue
                    lost += (after - r[i]) * (t[i] - t[i - 1])
                    # a window counts if its neighbour agrees: single ones jump by whole batches
                    pair = (r[i] + r[i + 1]) / 2
                    if (reached == -1 && (after > before ? pair >= goal : pair <= goal)) reached = t[i] - at[k]
                }
                printf "%s\t%d\t%d\t%.2f\t%.1f\t%.1f\t%.1f\n", program, c[k - 1], c[k], reached, lost, before, after
            }
        }'
}

table() {
    echo "| program | change | n | of them seen in the rate | rate before, samples/s | rate after | until the new rate, s: median | largest | first second against the new rate, samples |"
    echo "|---|---|---|---|---|---|---|---|---|"
    sort -t$'\t' -k1,1 -k2,2n -k4,4n | awk -F'\t' '
        {
            key = $1 "\t" $2 " to " $3 " cores"
            if (!(key in all)) order[++keys] = key
            all[key]++
            if ($4 == -2) next
            i = ++n[key]; v[key, i] = $4; lost[key] += $5; b[key] += $6; a[key] += $7
            if ($4 < 0) late[key]++
        }
        # those that took longer than what was looked at come first in the order: they are the largest
        function ranked(key, i) { return i + late[key] > n[key] ? "over 1" : sprintf("%.2f", v[key, i + late[key]]) }
        END {
            for (k = 1; k <= keys; k++) {
                key = order[k]; split(key, part, "\t")
                printf "| %s | %s | %d | %d ", part[1], part[2], all[key], n[key]
                if (!n[key]) { print "| - | - | - | - | - |"; continue }
                printf "| %.0f | %.0f | %s | %s | %+.1f |\n", b[key] / n[key], a[key] / n[key],
                    ranked(key, int((n[key] + 1) / 2)), ranked(key, n[key]), -lost[key] / n[key]
            }
        }'
}

# ---- one program ----

# run_steps TRAINING-OF-A...: A trains all the time; once it does, B comes and goes
run_steps() {
    rm -f "$folder/done"
    cat >"$folder/job.sh" <<JOB
#!/bin/bash
srun --exact -n1 -c1 env RESIZE_STEP=A $* &
until [[ -s $folder/steps || ! -e $folder/wait ]]; do sleep 0.2; done
sleep $((phase + 2))
for ((i = 0; i < $changes / 2; i++)); do
    srun --exact -n1 -c1 $train --seconds $phase
    sleep $phase
done
scancel --signal=TERM \$SLURM_JOB_ID.0
wait
: >$folder/done
JOB
    sbatch -N1 -n2 -c1 --adloader=on -o "$folder/job.out" "$folder/job.sh" >/dev/null || return
    wait_until $(((changes + 8) * phase * 2)) test -e "$folder/done" || give_up "the job does not end; see $folder"
}

run_adltrain() {
    rm -f "$folder/wait"
    run_steps "$train --interval $interval --json $folder/a.json --seconds 3600" || return
    story_of_adltrain | measure "adltrain, threads" >>"$folder/changes.tsv"
}

run_pytorch() {
    : >"$folder/wait"
    rm -f "$folder/steps"
    "$python" "$here/resize-watch.py" RESIZE_STEP=A "$folder/masks" &
    watcher=$!
    run_steps "$python $here/../examples/train.py $folder/data --workers 2 --persistent --batch 4 --crop 96 --steps $folder/steps --seconds 3600"
    kill "$watcher"
    watcher=''
    story_of_pytorch | measure "PyTorch, processes" >>"$folder/changes.tsv"
}

trap 'finish; exit 130' INT TERM HUP
trap finish EXIT
for adltrain in "$build/bin/adltrain" "$build/adltrain"; do [[ ! -x $adltrain ]] || break; done
[[ -x $adltrain ]] || give_up "no adltrain below $build: build it first"
load_before=$(cut -d' ' -f1 /proc/loadavg)
"$adltrain" make-data "$folder/data" --images 200 --size-mean 30 >"$folder/data.log" || exit 1
"$here/../tests/slurm/cluster" start "$cluster" --cpus 2 --build "$build" --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s || exit 1
cluster_use "$cluster"
# shellcheck disable=SC1091
. "$cluster/env"
train="$adltrain run --data $folder/data --batch 8 --gpu-rate 20000 --gradient-bytes 4K --quiet"
: >"$folder/changes.tsv"
run_adltrain
lacking=''
if "$python" -c 'import torch, torchvision' 2>/dev/null; then
    run_pytorch
else
    lacking="PyTorch is not installed here: its worker processes were not measured."
fi

{
    cat <<TEXT
## What a change of cores costs

A step trains as fast as its loaders allow; another step comes and goes, so that the first one has one core, two,
one ... How long after the kernel has its loaders' new CPUs is its rate at 90 % of the way to the new one, and how
many samples more or fewer than at the new rate did it train on in the first second? adltrain parks and wakes loader
threads; of the unchanged PyTorch program (examples/train.py, two workers) the processes are only moved. Batches that
were loaded ahead soften a loss and delay a gain. Rates are taken over $interval s, so no time is known better. A change
counts as seen if the rate changes by a fifth or more, in the direction of the cores; the others tell nothing.

Two cores of $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), load average $load_before before. Made by
\`workload/series-resize.sh --build BUILD --changes $changes --report docs/evaluation-resize.md\`.

TEXT
    table <"$folder/changes.tsv"
    awk "BEGIN { exit !($load_before > 0.5) }" && printf '\n%s\n' "**The machine was not idle: others took part of its cores, and these figures are those of that, too.**"
    [[ ! $lacking ]] || printf '\n%s\n' "$lacking"
} | tee "${report:-/dev/null}"
