#!/bin/bash
# Whatever --export keeps from a step: that it is to take part, and its hints, arrive. And who says
# something else further inside is heard. All jobs run at the same time.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

test_begin --nodes 2 --cpus 12 --adl-conf LearnTime=1s
printf '%s\n' '#!/bin/sh' 'echo "$SLURM_JOB_ID"' "while [ ! -e $work/enough ]; do /bin/sleep 0.2; done" >"$work/wait"
printf '%s\n' '#!/bin/sh' '/bin/sleep 1.5' >"$work/nap"
chmod 755 "$work/wait" "$work/nap"

declare -A number=()
clients=()

step() { # NAME COMMAND...: a job of srun alone, which waits
    local name=$1
    shift
    "$@" "$work/wait" >"$work/$name.out" 2>&1 &
    clients+=($!)
}

batch() { # NAME SCRIPT COMMAND...: a batch job
    local name=$1 script=$2
    shift 2
    number[$name]=$("$@" --parsable -N1 -n1 -o /dev/null --wrap "$script") || true
}

wait_in="srun -n1 $work/wait"
step on_none env ADLOADER=on srun -n1 --export=NONE
step on_path env ADLOADER=on srun -n1 --export=PATH
step option_none srun -n1 --adloader --export=NONE
step on_option_off env ADLOADER=on srun -n1 --export=NONE --adloader=off
step hints_none env ADLOADER_OPTIONS=batch=7 srun -n1 --adloader --export=NONE
step hints_option env ADLOADER_OPTIONS=batch=7 srun -n1 --adloader=batch=8 --export=NONE
step hints_on env ADLOADER=on ADLOADER_OPTIONS=model=resnet50 srun -n1 --export=NONE
batch sbatch_on_none "$wait_in" env ADLOADER=on sbatch --export=NONE
batch sbatch_option_none "$wait_in" sbatch --adloader=on --export=NONE
batch sbatch_none "$wait_in" sbatch --export=NONE
batch off_in_on "ADLOADER=off srun -n1 $work/nap; ADLOADER=off srun -n1 --export=NONE $work/nap; $wait_in" env ADLOADER=on sbatch
batch on_in_off "ADLOADER=on $wait_in" env ADLOADER=off sbatch --export=NONE

all_have_numbers() {
    local name
    for name in on_none on_path option_none on_option_off hints_none hints_option hints_on; do
        number[$name]=$(grep -xE '[0-9]+' "$work/$name.out")
        [[ ${number[$name]} ]] || return 1
    done
}
tap_within 30 "all steps of srun alone run" all_have_numbers
last_step_runs() { step_runs "${number[off_in_on]}.2" && step_runs "${number[on_in_off]}.0" && step_runs "${number[sbatch_none]}.0"; }
tap_within 30 "and those of the batch jobs" last_step_runs

takes_part() { # NAME STEP DESCRIPTION
    tap_within 15 "$3" has_member "${number[$1]}.$2"
}

takes_no_part() { tap_is "$(registrations "${number[$1]}.$2")" 0 "$3"; }

hints_are() { # NAME HINTS DESCRIPTION
    wait_until 15 has_member "${number[$1]}.0" || true
    tap_is "$(member "${number[$1]}.0" .hints)" "$2" "$3"
}

takes_part on_none 0 "ADLOADER=on srun --export=NONE"
takes_part on_path 0 "ADLOADER=on srun --export=PATH"
takes_part option_none 0 "srun --adloader --export=NONE"
takes_part sbatch_on_none batch "ADLOADER=on sbatch --export=NONE: the batch step"
takes_part sbatch_on_none 0 "and srun in it"
takes_part sbatch_option_none batch "sbatch --adloader --export=NONE: the batch step"
takes_part sbatch_option_none 0 "and srun in it"
takes_part off_in_on 2 "a plain srun within ADLOADER=on sbatch"
takes_part on_in_off 0 "ADLOADER=on srun within ADLOADER=off sbatch"
hints_are hints_none batch=7 "ADLOADER_OPTIONS srun --adloader --export=NONE"
hints_are hints_option batch=8 "hints of the option win over those of the environment"
hints_are hints_on model=resnet50 "ADLOADER=on ADLOADER_OPTIONS srun --export=NONE"
# by now all that were started with these would have registered, too
takes_no_part on_option_off 0 "the option off wins over the environment"
takes_no_part sbatch_none batch "without any of it, the batch step takes no part"
takes_no_part sbatch_none 0 "nor does srun in it"
takes_no_part off_in_on 0 "ADLOADER=off srun within ADLOADER=on sbatch"
takes_no_part off_in_on 1 "also with --export=NONE"
takes_no_part on_in_off batch "ADLOADER=off sbatch"
: >"$work/enough"
wait "${clients[@]}"
tap_within 20 "all end" no_members

# What carries it is no business of the program's: nothing but documented variables is new there.
ADLOADER=on srun -n1 --export=NONE /usr/bin/env >"$work/with" 2>/dev/null
srun -n1 --export=NONE /usr/bin/env >"$work/without" 2>/dev/null
new=$(comm -23 <(cut -d= -f1 "$work/with" | sort) <(cut -d= -f1 "$work/without" | sort) | tr '\n' ' ')
tap_is "$new" "ADLOADER_SOCKET ADLOADER_WORKERS ADLOADER_WORKERS_AUTO SLURM_ADLOADER " "the program sees these variables more"
tap_true "no node was drained" no_node_drained
test_end
