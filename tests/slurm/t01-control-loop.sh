#!/bin/bash
# The loop itself: a step registers, its loader threads get the cores that are free, give them back
# when another step of the allocation arrives, and get them again when that one ends.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

test_begin --cpus 2 --adl-conf MainCoresPerTask=0 --adl-conf LearnTime=1s --adl-conf MinHoldTime=1s
data_set

tap_true "an allocation of two CPUs" allocate 2 --adloader=on
A=$job.0 B=$job.1
tap_within 10 "its batch step registers" has_member "$job.batch"

# shellcheck disable=SC2046
start_step A --adloader=on -- $(train 300)
tap_within 15 "step A has loader threads" has_loaders "$A"
tap_within 10 "step A registers" has_member "$A"
own_a=$(main_masks "$A")
tap_like "$own_a" '^[01]$' "its main thread is on the one CPU that Slurm gave it ($own_a)"
tap_within 15 "its loader threads get both CPUs" loaders_on "$A" 0-1
tap_is "$(main_masks "$A")" "$own_a" "its main thread keeps its mask"
tap_is "$(member "$A" .loader_cpus)" "0-1" "the controller says the same"
tap_note "threads of A:" "$(step_threads "$A")"

# shellcheck disable=SC2046
start_step B --adloader=on -- $(train 300)
tap_within 15 "step B has loader threads" has_loaders "$B"
tap_within 10 "step B registers" has_member "$B"
own_b=$(main_masks "$B")
tap_is "$own_b" $((1 - own_a)) "Slurm put it on the other CPU"
tap_within 10 "A's loader threads leave B's CPU" loaders_on "$A" "$own_a"
tap_within 10 "B's are on it" loaders_on "$B" "$own_b"
tap_note "threads of A and B:" "$(step_threads "$A")" "$(step_threads "$B")"

# For a while, every look at both must find them apart.
mixed=0
for _ in {1..20}; do
    [[ $(loader_masks "$A") == "$own_a" && $(loader_masks "$B") == "$own_b" ]] || mixed=$((mixed + 1))
    sleep 0.1
done
tap_is "$mixed" 0 "both stay so while both want more"

scancel "$A"
tap_within 15 "A ends" no_member "$A"
tap_within 10 "B's loader threads get both CPUs" loaders_on "$B" 0-1
tap_is "$(main_masks "$B")" "$own_b" "B's main thread keeps its mask"
tap_note "threads of B:" "$(step_threads "$B")"

scancel "$B"
tap_within 15 "B ends" no_member "$B"
scancel "$job"
tap_within 15 "the job ends" no_members
for step in "$A" "$B" "$job.batch"; do
    came_and_went_once "$step" "$step"
done
tap_true "no node was drained" no_node_drained
test_end
