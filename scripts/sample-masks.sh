# shellcheck shell=bash
# Watch loader threads from outside, by /proc alone: nothing of adloader is asked. bash builtins only,
# since every fork would cost the jobs that are watched.

# The step's letter, which the job script put into its environment.
sample_label() {
    local -a environment
    local entry
    { mapfile -d '' environment <"/proc/$1/environ"; } 2>/dev/null || return 1
    for entry in "${environment[@]}"; do
        if [[ $entry == QUICKSTART_STEP=* ]]; then
            label=${entry#*=}
            return 0
        fi
    done
    return 1
}

# The mask of one thread, as the kernel lists it.
sample_mask() {
    local key value
    mask=
    while read -r key value; do
        if [[ $key == Cpus_allowed_list: ]]; then
            mask=$value
            return
        fi
    done 2>/dev/null <"$1/status"
}

# One look at all threads named adl-loader: fills seen[LETTER] with their masks (each different one
# once), threads[LETTER] with how many there are and tid[LETTER] with one of them.
sample_once() {
    local comm name pid task label mask
    seen=() threads=() tid=()
    for comm in /proc/[0-9]*/comm; do
        { read -r name <"$comm"; } 2>/dev/null || continue
        [[ $name == adltrain ]] || continue
        pid=${comm#/proc/}
        pid=${pid%/comm}
        sample_label "$pid" || continue
        for task in "/proc/$pid"/task/[0-9]*; do
            { read -r name <"$task/comm"; } 2>/dev/null || continue
            [[ $name == adl-load* ]] || continue
            sample_mask "$task" 2>/dev/null || continue
            [[ $mask ]] || continue
            threads[$label]=$((${threads[$label]:-0} + 1))
            tid[$label]=${task##*/}
            [[ " ${seen[$label]:-} " == *" $mask "* ]] || seen[$label]="${seen[$label]:+${seen[$label]} }$mask"
        done
    done
}

# Lines "microseconds, step, masks, threads" into $1 every quarter of a second, until $2 exists or the
# script that started it is gone.
sample_loop() {
    local label now
    # shellcheck disable=SC2034 # sample_once fills them all
    local -A seen threads tid
    while [[ ! -e $2 && -e /proc/$$ ]]; do
        now=${EPOCHREALTIME/[.,]/}
        sample_once
        for label in "${!seen[@]}"; do
            printf '%s\t%s\t%s\t%s\n' "$now" "$label" "${seen[$label]}" "${threads[$label]}"
        done >>"$1"
        sleep 0.25
    done
}
