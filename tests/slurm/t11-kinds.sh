#!/bin/bash
# Every kind of step that ends by itself, without and with --adloader: it registers and is released as
# often as it should, ends as it would without, and leaves nothing behind. (Those that are ended: t12.)
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=kinds.sh
. "$(dirname "${BASH_SOURCE[0]}")/kinds.sh"

test_begin --nodes 2 --cpus 32 --conf 'LaunchParameters=use_interactive_step'

srun_alone() { srun "${as[@]}" -N1 -n1 sh -c 'sleep 1; exit 3'; }
kind "srun" "0.0:1/1" srun_alone

srun_nodes() { srun "${as[@]}" -N2 -n4 sh -c 'sleep 1; exit $((SLURM_PROCID == 3 ? 5 : 0))'; }
kind "srun, four tasks on two nodes" "0.0:2/2" srun_nodes

batch_alone() { sbatch "${as[@]}" --wait -n1 -o /dev/null --wrap 'sleep 1; exit 3'; }
kind "sbatch without srun" "0.batch:1/1" batch_alone

batch_srun() { sbatch "${as[@]}" --wait -n1 -o /dev/null --wrap 'srun sleep 1; srun sh -c "sleep 1; exit 4"'; }
kind "sbatch with two srun, one after the other" "0.0:1/1 0.1:1/1 0.batch:1/1" batch_srun

salloc_srun() { salloc "${as[@]}" -n1 srun sh -c 'sleep 1; exit 6'; }
kind "salloc and srun in it" "0.0:1/1" salloc_srun

# A shell on a terminal, which reads what is typed when it is there. What is typed comes from a pipe that has
# no end: script(1) may lose the exit status of whom it runs when its own input ends just before that one.
interactive() {
    local typist status=0
    mkfifo "$work/$name.keys"
    typed >"$work/$name.keys" &
    typist=$!
    SHELL=/bin/bash script -qec "salloc ${as[*]} -n1" /dev/null <>"$work/$name.keys" || status=$?
    wait "$typist"
    return "$status"
}
typed() {
    wait_until 60 shell_runs
    sleep 1 # for adloader to see it
    echo 'exit 7'
}
shell_runs() { step_runs "$(jobs_named "$name" | head -n 1).interactive"; }
kind "salloc's interactive step" "0.interactive:1/1" interactive

pty() { script -qec "srun ${as[*]} -n1 --pty sh -c 'sleep 1; exit 8'" /dev/null; }
kind "srun --pty" "0.0:1/1" pty

array() { sbatch "${as[@]}" --wait -a 0-2 -n1 -o /dev/null --wrap 'srun sh -c "sleep 1; exit $((SLURM_ARRAY_TASK_ID * 2))"'; }
kind "job array of three" "0.0:1/1 0.batch:1/1 1.0:1/1 1.batch:1/1 2.0:1/1 2.batch:1/1" array

het() { srun "${as[@]}" -N1 -n1 sh -c 'sleep 1; exit 0' : "${as[@]}" -N1 -n1 sh -c 'sleep 1; exit 9'; }
kind "het job of two components" "0.0:1/1 1.0:1/1" het

overlap() { sbatch "${as[@]}" --wait -n1 -o /dev/null --wrap 'srun --overlap sleep 1.5 & srun --overlap sh -c "sleep 1; exit 2"; wait $!'; }
kind "two steps on the same CPU (--overlap)" "0.0:1/1 0.1:1/1 0.batch:1/1" overlap

exact() { sbatch "${as[@]}" --wait -n2 -o /dev/null --wrap 'for i in 1 2; do srun -n1 --exact sleep 1 & done; wait'; }
kind "two steps on a CPU each (--exact)" "0.0:1/1 0.1:1/1 0.batch:1/1" exact

many() { sbatch "${as[@]}" --wait -n2 -o /dev/null --wrap 'for i in 1 2 3 4 5 6; do srun -n1 --overlap sleep 1.5 & done; wait'; }
kind "six steps at once" "0.0:1/1 0.1:1/1 0.2:1/1 0.3:1/1 0.4:1/1 0.5:1/1 0.batch:1/1" many

no_export() { srun "${as[@]}" --export=NONE -n1 /bin/sh -c 'sleep 1; exit 3'; }
kind "srun --export=NONE" "0.0:1/1" no_export

no_export_batch() {
    sbatch "${as[@]}" --export=NONE --wait -n1 -o /dev/null \
        --wrap "export SLURM_CONF=$SLURM_CONF; srun /bin/sleep 1.5 && exit 4"
}
kind "sbatch --export=NONE and srun in it" "0.0:1/1 0.batch:1/1" no_export_batch

bound() { srun "${as[@]}" --exclusive --cpu-bind=map_cpu:0 -n1 sh -c 'sleep 1; exit 3'; }
kind "srun --cpu-bind of the user's: stands down" "0.0:1/1" bound

kinds_end
test_end
