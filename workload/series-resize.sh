#!/bin/bash
# What a change of cores costs a job: how long after its loader threads got other CPUs its rate is the new
# one, and how many samples it lost meanwhile. As root, on two cores of this host (or of the test machine).
#
#   series-resize.sh --build FOLDER [--changes N] [--out FOLDER]
#
# Step A of an allocation trains as fast as its loaders allow; step B comes and goes, so that A has one core,
# two, one ... The moments of change and the rates (ten a second) are from A's own summary.
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=../tests/slurm/cluster.sh
. "$here/../tests/slurm/cluster.sh"

give_up() {
    printf 'series-resize: %s\n' "$*" >&2
    exit 1
}

build='' changes=8 out=''
while (($#)); do
    (($# >= 2)) || give_up "$1 needs a value"
    case $1 in
        --build) build=$(cd "$2" && pwd) || exit 1 ;;
        --changes) [[ $2 =~ ^[1-9][0-9]?$ ]] && changes=$2 || give_up "--changes wants a number from 1 to 99" ;;
        --out) mkdir -p "$2" && out=$(cd "$2" && pwd) || exit 1 ;;
        *) give_up "unknown option $1" ;;
    esac
    shift 2
done
[[ $build ]] || give_up "say with --build where adloader is built or installed"
folder=${out:-$(mktemp -d)}
cluster=/tmp/adl-resize-$$
phase=5 # seconds between changes

finish() {
    trap '' INT TERM HUP
    cluster_use "$cluster"
    cluster_stop
    [[ ! -e $cluster/.adloader-cluster ]] || rm -rf -- "$cluster"
    [[ $out ]] || rm -rf "$folder"
}

# Every change of A's CPUs with at least two seconds of the same cores before and after:
# cores before, cores after, seconds until 90 % of the way to the new rate, samples lost, rates.
# jq gives lines "cores T N" and "rate T R".
measure() {
    jq -r '(.loader_cores[] | "cores\t\(.[0])\t\(.[2])"), (.timeline[] | "rate\t\(.[0])\t\(.[1])")' "$1" | awk -F'\t' '
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
                reached = -1; lost = 0
                for (i = 2; i <= nr; i++) {
                    if (t[i] <= at[k] || t[i] > at[k] + 1) continue
                    lost += (after - r[i]) * (t[i] - t[i - 1])
                    # a window counts if its neighbour agrees: single ones jump by whole batches
                    pair = (r[i] + r[i + 1]) / 2
                    if (reached < 0 && (after > before ? pair >= goal : pair <= goal)) reached = t[i] - at[k]
                }
                printf "%d\t%d\t%.2f\t%.1f\t%.1f\t%.1f\n", c[k - 1], c[k], reached, lost, before, after
            }
        }'
}

table() {
    echo "| change | n | rate before | rate after | until the new rate, s: median | largest | samples gained or lost in the first second against the new rate, mean |"
    echo "|---|---|---|---|---|---|---|"
    sort -t$'\t' -k1,1n -k3,3n | awk -F'\t' '
        { key = $1 " to " $2; if (!(key in n)) order[++keys] = key; i = ++n[key]; v[key, i] = $3; lost[key] += $4; b[key] += $5; a[key] += $6 }
        END {
            for (k = 1; k <= keys; k++) {
                key = order[k]
                printf "| %s cores | %d | %.0f | %.0f | %.2f | %.2f | %+.1f |\n", key, n[key], b[key] / n[key], a[key] / n[key],
                    v[key, int((n[key] + 1) / 2)], v[key, n[key]], -lost[key] / n[key]
            }
        }'
}

trap 'finish; exit 130' INT TERM HUP
trap finish EXIT
for adltrain in "$build/bin/adltrain" "$build/adltrain"; do [[ ! -x $adltrain ]] || break; done
[[ -x $adltrain ]] || give_up "no adltrain below $build: build it first"
"$adltrain" make-data "$folder/data" --images 200 --size-mean 30 >"$folder/data.log" || exit 1
"$here/../tests/slurm/cluster" start "$cluster" --cpus 2 --build "$build" --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s || exit 1
cluster_use "$cluster"
# shellcheck disable=SC1091
. "$cluster/env"
train="$adltrain run --data $folder/data --batch 8 --gpu-rate 20000 --gradient-bytes 4K --quiet"
cat >"$folder/job.sh" <<JOB
#!/bin/bash
srun --exact -n1 -c1 $train --interval 0.1 --json $folder/a.json --seconds $(((changes + 2) * phase)) &
sleep $((phase + 2))
for ((i = 0; i < $changes / 2; i++)); do
    srun --exact -n1 -c1 $train --seconds $phase
    sleep $phase
done
wait
: >$folder/done
JOB
sbatch -N1 -n2 -c1 --adloader=on -o "$folder/job.out" "$folder/job.sh" >/dev/null || exit 1
wait_until $(((changes + 8) * phase * 2)) test -e "$folder/done" || give_up "the job does not end; see $folder"
measure "$folder/a.json" | table
