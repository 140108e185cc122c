#!/bin/bash
# Ranks of one training on two nodes: they meet, exchange gradients, agree on the end, and know it when one of
# them is lost; without adloader and with it.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

test_begin --nodes 2 --cpus 2
data_set
tables=$(cd "$testlib_here/../../predictor" && pwd)
adltrain=$(program adltrain)
named=(--data "$test_data" --tables "$tables" --model resnet18 --gpu-type h100 --batch 4 --crop 64 --quiet)

# ranks LIMIT OPTIONS OF SRUN... -- OPTIONS OF ADLTRAIN...: the summaries are r-RANK.json
ranks() {
    local limit=$1
    local -a options=()
    shift
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    rm -f r-*.json
    timed "$limit" srun "${options[@]}" "$adltrain" run "${named[@]}" --json "r-%r.json" "$@"
}

value() { jq -r "$1" "$2"; }

ranks 60 -N2 -n4 -c1 -- --steps 12
tap_is "$timed_status" 0 "four ranks on two nodes train together"
tap_is "$(value .all_ranks.samples r-0.json)" 192 "all of them did all steps"
tap_is "$(jq -s 'map(.steps) | unique | join(" ")' r-*.json)" '"12"' "and each the same"
tap_is "$(jq -s 'map(.rank) | join(" ")' r-*.json)" '"0 1 2 3"' "every rank wrote its summary"
between=$(value .gpu_model.predicted.exchange_whole_s r-0.json)
tap_true "a step's exchange is measured" test "$(value '.gpu_model.measured_exchange_s > 0' r-0.json)" = true

ranks 60 -N2 -n2 -c1 --adloader=on -- --steps 12
tap_is "$timed_status" 0 "with adloader, two ranks on two nodes"
tap_is "$(value .all_ranks.samples r-1.json)" 96 "do the same"

ranks 60 -N1 -n2 -c1 -- --steps 2
tap_is "$timed_status" 0 "two ranks on one node"
inside=$(value .gpu_model.predicted.exchange_whole_s r-0.json)
tap_true "are predicted to exchange faster than over the network ($inside, $between s)" \
    awk "BEGIN { exit !($inside < $between) }"

# With the emulated GPU's network a tenth as fast, the same step waits longer for its gradients.
ranks 60 -N2 -n2 -c1 -- --steps 4 --network 0.1
slow=$(value .gpu_model.measured_exchange_s r-0.json)
tap_true "a slow network makes the exchange as long as it says ($slow s)" \
    awk "BEGIN { exit !($slow >= 0.9 * $(value .gpu_model.predicted.exchange_s r-0.json)) }"

# One is killed: the one on the other node ends too, and says who is lost.
srun --job-name=lost -N2 -n2 -c1 "$adltrain" run "${named[@]}" --seconds 300 --peer-timeout 60 --json "r-%r.json" >lost.log 2>&1 &
lost=$!
job=''
find_lost() {
    job=$(squeue -h -n lost -o %i | head -n 1)
    [[ $job ]] && (($(step_pids "$job.0" | wc -l) == 2)) && has_loaders "$job.0" 2
}
tap_within 30 "two ranks run" find_lost
for pid in $(step_pids "$job.0"); do
    if grep -zqx SLURM_PROCID=1 "/proc/$pid/environ"; then kill -KILL "$pid"; fi
done
wait "$lost"
tap_like "$(cat lost.log)" "rank 0: lost rank 1" "a killed rank is missed on the other node"
tap_true "no node was drained" no_node_drained
test_end
