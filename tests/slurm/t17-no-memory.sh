#!/bin/bash
# The plugin is refused memory, in slurmstepd and in srun: from the first allocation of each of its functions on
# that Slurm calls, and in each of these alone; and it is refused its thread. The step runs and ends as ever.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"
# shellcheck source-path=SCRIPTDIR source=rows.sh
. "$testlib_here/rows.sh"

preload=$(test_preload no-memory) || tap_skip_all "no compiler"
command -v nm >/dev/null || tap_skip_all "no nm"
export ADL_NO_MEMORY=$test_dir/adloader/no-memory
LD_PRELOAD=$preload test_begin --cpus 2
unset ADL_NO_MEMORY
what=$test_dir/adloader/no-memory

# The plugin's functions by address, its own names for them.
nm -C "$test_dir/spank_adloader.so" | awk '$2 ~ /^[tT]$/ { print $1, $3 }' | sort >"$work/functions"
function_at() { # OFFSET of a return address, hexadecimal
    awk -v at="$(printf '%016x' "$((16#$1 - 1))")" '($1 "") > (at "") { exit } { name = $2 } END { print name }' "$work/functions"
}

# step: exit status 7, whatever is refused
step() { timed 30 srun -N1 -n1 --adloader=on sh -c 'sleep 0.3; exit 7'; }
idle() { [[ $(node_state n1) == idle && -z $(cluster_step_daemons) ]]; }

# First nothing is refused: what does it ask for, and where?
echo "0 0" >"$what"
step
tap_is "$timed_status" 7 "nothing refused: the step ends as ever"
wait_until 15 idle
sort -k1,1n -k2,2n "$what.log" | awk '{ print $4, $5 }' | sort -u | while read -r offset where; do
    echo "$offset $where $(function_at "$offset")"
done >"$work/names"
# count function
awk 'NR == FNR { name[$1 " " $2] = $3; next } { print $2, name[$4 " " $5], $5 }' "$work/names" <(sort -k2,2n "$what.log") >"$work/asked"
asked=$(wc -l <"$work/asked")
tap_true "the plugin's allocations are counted ($asked)" test "$asked" -gt 3
mapfile -t functions < <(awk '!seen[$2]++ { print $2 }' "$work/asked")
tap_note "asked for by: $(awk '{ n[$2]++ } END { for (f in n) printf "%s (%d) ", f, n[f] }' "$work/asked")"

# refuse WORDS DESCRIPTION
refuse() {
    local before none=0
    rm -f "$what.log"
    before=$(wc -l <"$test_dir/log/slurmd-n1.log")
    echo "$1" >"$what"
    step
    wait_until 15 idle || none=1
    local refused said
    refused=$(grep -c ' refused ' "$what.log" 2>/dev/null)
    said=$(tail -n "+$((before + 1))" "$test_dir/log/slurmd-n1.log" | sed -n 's/^.*[^_]adloader: \(.*\(memory\|agent cannot\|Cannot allocate\).*\)$/\1/p' | head -n 1)
    tap_is "$timed_status $none" "7 0" "$2: the step ends as ever, the node is idle again ($refused refused, $timed_ms ms)" "$timed_output"
    tap_true "$2: something was refused" test "$refused" -gt 0
    row faults "$2" "exit status $timed_status, as without, after $timed_ms ms" "$(sed "s,$test_dir,DIR,g" <<<"${said:--}")" "refused $refused times; the next step is whole again" "at once"
}

for function in "${functions[@]}"; do
    where="the plugin's $function"
    awk -v f="$function" '$2 == f && $3 == "main" { found = 1 } END { exit found }' "$work/asked" && where="the agent's thread"
    from=$(awk -v f="$function" '$2 == f { print $1; exit }' "$work/asked")
    to=$(awk -v f="$function" '$2 == f { n = $1 } END { print n }' "$work/asked")
    refuse "$from 1000000000" "slurmstepd: no memory from $where on"
    ((${ADL_LONG:-0} == 0)) || refuse "$from $to" "slurmstepd: no memory in $where alone"
done
refuse thread "slurmstepd: no thread for the plugin"
rm -f "$what" "$what.log"

# The same in srun.
export ADL_NO_MEMORY=$work/srun-no-memory
echo "1 1000000000" >"$ADL_NO_MEMORY"
timed 30 env LD_PRELOAD="$preload" srun -N1 -n1 --adloader=on sh -c 'exit 7'
refused=$(grep -c ' refused ' "$ADL_NO_MEMORY.log" 2>/dev/null)
tap_is "$timed_status" 7 "srun: no memory for the plugin: the step ends as ever ($refused refused)" "$timed_output"
row faults "srun: no memory for the plugin" "exit status $timed_status" "$(grep -i memory <<<"$timed_output" | head -n 1 | grep . || echo -)" "refused $refused times" "at once"
unset ADL_NO_MEMORY

job=$(next_job_id)
srun -N1 -n1 --adloader=on sleep 1.5
came_and_went_once "$job.0" "the next step is whole again"
tap_within 10 "nobody is left" no_members
tap_true "no node was drained" no_node_drained
test_end
