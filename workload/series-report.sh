#!/bin/bash
# Write the report of a series (report.md, timeline.svg) from what `series run` left in a folder, or the
# reports of several as one document. Called by `series`.
set -uo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

complain() {
    printf 'series: %s\n' "$*" >&2
    return 1
}

# Policies that were run, in the order in which they are told.
policies_of() {
    local policy
    for policy in static even nash gpu-busy; do
        [[ -z $(compgen -G "$1/runs/$policy-*/run.tsv") ]] || printf '%s ' "$policy"
    done
}

# A job's figures out of its own summary: samples seconds rate busy (T/G) ms-a-sample moves mean-cores
figures='
    def cpus: if . == "" then [] else split(",") | map(split("-") | map(tonumber) | if length == 2 then [range(.[0]; .[1] + 1)] else . end) | add end;
    . as $s | (.all_ranks // .) as $all | [.loader_cores[] | [.[0], (.[3] | cpus)]] as $had |
    [$all.samples, $all.seconds, $all.samples_per_s, $all.samples_per_s / (.gpu_model.rate_samples_per_s * .ranks), .loader.cpu_ms_mean,
     ([range(1; $had | length) | ($had[.][1] - $had[. - 1][1]) | length] | add // 0),
     (if $s.seconds > 0 then ([range(0; $had | length) as $i | ((if $i + 1 < ($had | length) then $had[$i + 1][0] else $s.seconds end) - $had[$i][0]) * ($had[$i][1] | length)] | add // 0) / $s.seconds else 0 end)] | @tsv'

# collect RUN: run.tsv from the summaries and times that its jobs left; a run with a failed job is left out
collect() {
    local run=$1 policy repeat name model at begin stop status zero row
    [[ -s $run/zero ]] || return 0
    zero=$(<"$run/zero")
    policy=$(basename "$run")
    repeat=${policy##*-} policy=${policy%-*}
    rm -f "$run/run.tsv" "$run/run.new"
    while IFS=$'\t' read -r name model at; do
        if ! IFS=$'\t' read -r begin stop status 2>/dev/null <"$run/$name.end" || [[ $status != 0 ]] || ! row=$(jq -r "$figures" "$run/$name.json"); then
            complain "$policy, repeat $repeat, is left out: $name failed: $(tail -n 1 "$run/$name.log" 2>/dev/null)"
            return 0
        fi
        printf '%s\t%s\t%s\t%s\t%s\t%.3f\t%.3f\t%s\n' "$policy" "$repeat" "$name" "$model" "$at" \
            "$(subtract "$begin" "$zero")" "$(subtract "$stop" "$zero")" "$row" >>"$run/run.new"
    done <"$run/../../jobs.tsv"
    mv "$run/run.new" "$run/run.tsv"
}

subtract() { awk "BEGIN { printf \"%.3f\", $1 - $2 }"; }

# metrics FOLDER SECTION [TITLE]
metrics() { awk -v order="$(policies_of "$1")" -v section="$2" -v title="${3:-}" -f "$here/series-metrics.awk" "$1"/runs/*/run.tsv; }

# The stretches of time in which a job had the same cores, cut at each line of progress: from to cores busy
stretches='
    def cores_at($t): ([.loader_cores[] | select(.[0] <= $t)] | last // [0, 0, 0, ""])[2];
    . as $s | [.timeline[]] | to_entries[] | .value as $p |
    (if .key == 0 then 0 else $s.timeline[.key - 1][0] end) as $from |
    [$from, $p[0], ($s | cores_at(($from + $p[0]) / 2)), $p[2]] | @tsv'

plot_rows() {
    local folder=$1 policy file name model end seconds
    for policy in $(policies_of "$folder"); do
        [[ -e $folder/runs/$policy-1/run.tsv ]] || continue
        while IFS=$'\t' read -r _ _ name model _ _ end _ seconds _; do
            file=$folder/runs/$policy-1/$name.json
            jq -r "$stretches" "$file" | awk -F'\t' -v OFS='\t' -v policy="$policy" -v name="$name" -v model="$model" \
                -v begin="$(awk "BEGIN { print $end - $seconds }")" '{ print policy, name, model, begin + $1, begin + $2, $3, $4 }'
        done <"$folder/runs/$policy-1/run.tsv"
    done
}

machine_table() {
    echo "| | |"
    echo "|---|---|"
    awk -F'\t' '{ printf "| %s | %s |\n", $1, $2 }' "$1/machine.tsv"
    echo
    echo "A job of each model, before and after the series, without Slurm and adloader, the other cores kept busy by the same"
    echo "loader; its GPU's rate follows from the demand in the description and the loader's rate measured here:"
    echo
    echo "| model | GPU, samples/s | loader without a GPU, one core | trains with cores: samples/s before, after |"
    echo "|---|---|---|---|"
    awk -F'\t' '
        FNR == NR { if (!(($1, $3) in rate)) { n[$1]++; at[$1, n[$1]] = $3 } rate[$1, $3] = rate[$1, $3] sprintf(rate[$1, $3] == "" ? "%.1f" : ", %.1f", $4); next }
        { line = ""; for (i = 1; i <= n[$1]; i++) line = line sprintf("%s%d: %s", i > 1 ? "; " : "", at[$1, i], rate[$1, at[$1, i]])
          printf "| %s | %.2f | %.2f | %s |\n", $1, $3, $2, line }' "$1/curves.tsv" "$1/models.tsv"
}

simulated_rows() {
    jq -r '.policies[] | [(if .policy == "slots" then "static" else .policy end), .samples_per_s, .mean_rate_over_even, 100 * .mean_gpu_busy_share, .makespan_s, .mean_completion_s] | @tsv' "$1/simulated.json"
}

simulated_time() { sed -n "s/^nodes .* $1=\([0-9.]*\).*/\1/p" "$2/trace.txt"; }

# Of each model: its jobs' mean rate in the static runs over its curve's with the own cores.
speed_since() {
    awk -F'\t' '
        /^nodes / { match($0, /cores=[0-9]+/); cores = substr($0, RSTART + 6, RLENGTH - 6); match($0, /gpus=[0-9]+/); own = int(cores / substr($0, RSTART + 5, RLENGTH - 5)) }
        /^curve / { split($0, word, " "); sub(/.*points=/, ""); last = split($0, point, ","); curve[word[2]] = point[(own < last - 1 ? own : last - 1) + 1] }
        $1 == "static" { if (!n[$4]++) name[++models] = $4; sum[$4] += $10 }
        END { for (i = 1; i <= models; i++) printf "%s%s %.1f %%", (i > 1 ? ", " : ""), name[i], 100 * sum[name[i]] / n[name[i]] / curve[name[i]] }' "$1/trace.txt" "$1"/runs/static-*/run.tsv
}

comparison() {
    if [[ ! -s $1/simulated.json ]]; then
        echo "The simulator was not run."
        return
    fi
    echo "The simulator knows the curves above (mean of before and after), from the static runs that a job holds its cores for"
    echo "$(simulated_time start_s "$1") s before it trains and $(simulated_time end_s "$1") s after, and that a new job's cores stay for $(simulated_time learn_s "$1") s. In the static runs"
    echo "jobs had, of these curves' rate with the own cores: $(speed_since "$1"). By so much the machine's speed in the series was"
    echo "another than before and after it, and by so much no simulation can know better."
    echo
    echo "| policy | makespan s: measured | simulated | | completion s: measured | simulated | | samples/s: measured | simulated | | GPU-busy %: measured | simulated | |"
    echo "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    { simulated_rows "$1" | sed 's/^/S\t/' && metrics "$1" tsv | sed 's/^/M\t/'; } |
        awk -F'\t' '
            function cells(measured, simulated, decimals) {
                return sprintf(" %." decimals "f | %." decimals "f | %+.1f %% |", measured, simulated, 100 * (simulated / measured - 1))
            }
            $1 == "S" { for (i = 3; i <= 7; i++) sim[$2, i] = $i; next }
            { print "| " $2 " |" cells($6, sim[$2, 6], 1) cells($7, sim[$2, 7], 1) cells($3, sim[$2, 3], 2) cells($5, sim[$2, 5], 1) }'
}

# report FOLDER PLOT
report() {
    local folder=$1 plot=$2
    echo "## $(basename "$folder")"
    echo
    echo '```'
    cat "$folder/description.txt"
    echo '```'
    echo
    echo "Run by:"
    echo
    sed 's/^/    /; s/--out [^ ]*/--out FOLDER/; s/--build [^ ]*/--build FOLDER/; s/ --data [^ ]*//' "$folder/command.txt"
    echo
    [[ ! -s $folder/note.txt ]] || { cat "$folder/note.txt" && echo; }
    machine_table "$folder"
    echo
    echo "### Measured, mean ± standard deviation over the repeats"
    echo
    metrics "$folder" summary
    echo
    echo "### Job by job"
    echo
    metrics "$folder" jobs
    echo
    metrics "$folder" own
    echo
    echo "### Simulated against measured"
    echo
    comparison "$folder"
    echo
    echo "### Was the machine steady?"
    echo
    metrics "$folder" speed
    echo
    echo "![timeline of the first repeat]($plot)"
}

usable() { [[ -s $1/models.tsv && -n $(policies_of "$1") ]] || complain "$1 holds no finished run of a series"; }

write_report() {
    local run
    for run in "$1"/runs/*/; do
        collect "${run%/}"
    done
    usable "$1" && metrics "$1" summary >/dev/null || return
    plot_rows "$1" >"$1/plot.tsv"
    awk -v order="$(policies_of "$1")" -f "$here/series-plot.awk" "$1/plot.tsv" >"$1/timeline.svg" || complain "no timeline could be drawn"
    report "$1" timeline.svg >"$1/report.md"
    sed -n '/^### Measured/,/^### Simulated/p' "$1/report.md" | grep '^|'
    printf 'series: %s and timeline.svg are written\n' "$1/report.md" >&2
}

introduction() {
    cat <<'TEXT'
# Evaluation

This page is written by `workload/series evaluation FOLDER...`; every figure in it was measured by the
commands that it names.

## Method

A series of training jobs arrives and completes on one Slurm node. Each job is an sbatch job with one srun
step of `adltrain`, asks for its GPU's own cores, and ends when it has trained a given number of samples. The
same series runs with the cores as Slurm gave them (static: adloader is not asked for), with the controller
dividing the running jobs' cores evenly at each start and end (even), by the Nash product (nash), and by the
sum of the GPU-busy shares (gpu-busy, adloader's default). The policies take turns in another order at each
repeat, and the controller starts each run with nothing learned; a policy that a table lacks was not run there. All
figures come from the jobs' own summaries and from the clock of their batch scripts, none from the controller. Times
include Slurm's.

- samples/s: all samples of the series over its makespan.
- T/T-even, T/T-own: a job's rate over its mean rate under even and static, mean over the jobs.
- GPU-busy: a job's rate T over the rate G at which its GPU trains when data is never late, mean over the jobs.
- completion: from a job's arrival to its end, waiting in Slurm's queue included.
- moves: CPUs that jobs' loader threads got while they ran, as the jobs saw it themselves.

What is emulated: the GPU is a timed wait. It keeps the device's own time, so that a step begins when the one before has
ended and its batch is there, as launches that are queued ahead do on a real one; nothing here says how a real GPU, its
driver or its main thread behave. Where a report names a virtual machine, its cores are slow (a share of a host core each)
and its memory is uniform: NUMA nodes exist there, their cost does not. Reading, decoding and augmenting JPEG files is
real, and so are Slurm, the kernel's masks and the network between ranks. Data lies in the page cache.

A virtual machine's cores are steadied by giving QEMU far more weight than everything else on its host, on which other
things were compiled and tested for a part of the time; what they still share are caches and memory. The kernel's NUMA balancing is
off there: with it, loaders that changed their node worked up to a quarter slower, for pages that were unmapped and copied
to memory that is no nearer. Each report says how steady the machine was. A difference between two policies of
less than the spread of the repeats means nothing.

What was not tried: real GPUs, several nodes, PyTorch's loaders in a series, jobs that are bound by storage, and
other series than those below.
TEXT
    [[ ! -e $here/../docs/evaluation-resize.md ]] || printf '\nWhat a change of cores costs a single job: [Resizing](evaluation-resize.md).\n'
}

# overview FOLDER...
overview() {
    local folder
    cat <<'TEXT'

## What was won, and where nothing can be

gpu-busy, adloader's default, against the cores as Slurm gave them and against an even split:

| series | static: samples/s | GPU-busy | makespan | completion | even: samples/s | GPU-busy | makespan | completion | mean T/T-own | worst job's T/T-own |
|---|---|---|---|---|---|---|---|---|---|---|
TEXT
    for folder in "$@"; do
        metrics "$folder" overview "[$(basename "$folder")](#$(basename "$folder"))"
    done
    cat <<'TEXT'

- Won is what loaders of some jobs leave idle while those of others want more than they have. Both kinds have to run
  on the same node at the same time; a core of a job that has ended belongs to nobody and is not lent.
- The jobs that get cores win; those that lend them win nothing and should lose nothing.
- Where every job wants more than its even share (hungry) nothing can be won by any division that harms nobody. What
  is lost there against static is of the size of the repeats' spread, yet more often a loss than a gain: adloader's own
  work. On a real core the agent of a step and the controller need less than 0.1 % of it each (tests/bench/agent-cost);
  but where cores are emulated, and all busy, a loader that is interrupted for it has its code and its memory to be
  found anew by the emulator, which shows in the CPU time a sample.
- On two real cores with a core a job (two-cores) nothing can be won either: a job that has loaders keeps at least one
  core, though they sleep; only one without any lends all it has. Moves between real cores that pay are shown by
  quickstart and by the cost of resizing, not by a series.
- The makespan falls by less than the rates rise, or not at all: the last jobs of a series run with few neighbours,
  a job whose GPU is the limit takes as long as before, and starting and ending a job takes as long as it takes.
- A new job keeps its own cores until its demand has been seen, for about five seconds; of jobs as short as these that
  is a third of their life, of real ones nothing.
TEXT
}

write_evaluation() {
    local folder name
    local -a folders=()
    for folder in "$@"; do
        usable "$folder" || return
        folders+=("$(cd "$folder" && pwd)")
    done
    mkdir -p "$here/../docs"
    {
        introduction
        overview "${folders[@]}"
        for folder in "${folders[@]}"; do
            name=evaluation-$(basename "$folder").svg
            cp "$folder/timeline.svg" "$here/../docs/$name" || return
            echo
            report "$folder" "$name"
        done
    } >"$here/../docs/evaluation.md.new" && mv "$here/../docs/evaluation.md.new" "$here/../docs/evaluation.md"
}

case $1 in
    report)
        shift
        for folder in "$@"; do
            write_report "$folder" || exit 1
        done
        ;;
    evaluation)
        shift
        write_evaluation "$@"
        ;;
    *) complain "what is '$1'?" ;;
esac
