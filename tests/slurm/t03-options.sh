#!/bin/bash
# A value that makes no sense is refused at once, with the list of what is allowed, and nothing is
# queued; good ones pass.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"

refused() { # DESCRIPTION COMMAND...
    local description=$1 before
    shift
    before=$(next_job_id)
    timed 10 "$@"
    if ((timed_status == 0 || timed_status == 124)); then
        tap_fail "$description is refused" "exit status $timed_status" "$timed_output"
    elif [[ $(next_job_id) != "$before" || -n $(squeue -h -a) ]]; then
        tap_fail "$description is refused before anything is queued" "$(squeue -a)"
    else
        tap_like "$timed_output" 'allowed|longer than' "$description is refused, and told what is allowed"
    fi
}

test_begin --cpus 2
refused "srun --adloader=nonsense" srun --adloader=nonsense true
refused "sbatch --adloader=nonsense" sbatch --adloader=nonsense --wrap true
refused "salloc --adloader=nonsense" salloc --adloader=nonsense true
refused "#SBATCH --adloader=nonsense" sbatch <(printf '%s\n' '#!/bin/sh' '#SBATCH --adloader=nonsense' true)
refused "workers=many" srun --adloader=workers=many true
refused "workers=8-2" srun --adloader=workers=8-2 true
refused "profile=../x" srun --adloader=profile=../x true
refused "batch=-1" srun --adloader=batch=-1 true
refused "an unknown key" srun --adloader=cores=64 true
refused "a long value" srun --adloader="model=$(printf 'm%.0s' {1..3000})" true
timed 10 srun --adloader=nonsense true
tap_like "$timed_output" 'on, off.*workers=.*model=' "the list of what is allowed is there"
tap_note "$timed_output"

accepted() {
    timed 20 srun -n1 "$@" true
    tap_is "$timed_status" 0 "srun $* runs"
}
accepted --adloader
accepted --adloader=on
accepted --adloader=off
accepted --adloader=workers=2-8,model=resnet50,batch=256,data=JPEG
accepted --adloader=profile=mine,report

# An environment variable may have been set long ago and for other commands: told, not refused.
timed 20 env ADLOADER=on ADLOADER_OPTIONS=nonsense srun -n1 true
tap_is "$timed_status" 0 "ADLOADER_OPTIONS of nonsense does not keep a job from running"
tap_like "$timed_output" 'ADLOADER_OPTIONS.*workers=' "but is told"

timed 20 srun --help
tap_like "$timed_output" '--adloader' "srun --help tells of --adloader"
tap_true "no node was drained" no_node_drained
test_end
