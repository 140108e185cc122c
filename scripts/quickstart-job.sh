#!/bin/bash
# The batch job of ./quickstart: two steps of one core each in an allocation of two. Step A runs
# alone, step B arrives, A ends, B goes on alone. What happens when is written to $OUT/events.tsv;
# each line that a step prints gets the time in front.
#
# Environment: OUT (a folder), PHASE (seconds of each of the three phases), TRAIN (the command without
# its duration), MANAGED ("--adloader" or nothing).
set -u

event() { printf '%s\t%s\n' "${EPOCHREALTIME/[.,]/}" "$1" >>"$OUT/events.tsv"; }

stamp() {
    local line
    while IFS= read -r line; do
        printf '%s\t%s\n' "${EPOCHREALTIME/[.,]/}" "$line"
    done
}

step() {
    event "$1 starts"
    # shellcheck disable=SC2086 # MANAGED and TRAIN are words
    QUICKSTART_STEP=$1 srun --exact -n1 -c1 --job-name="$1" $MANAGED $TRAIN --seconds "$2" 2>&1 | stamp >"$OUT/$1.log"
    local status=${PIPESTATUS[0]}
    event "$1 ends"
    return "$status"
}

step A $((2 * PHASE)) &
a=$!
sleep "$PHASE"
step B $((2 * PHASE)) &
b=$!
status=0
wait "$a" || status=1
wait "$b" || status=1
exit "$status"
