#!/bin/bash
# Every kind of end that comes from outside, without and with --adloader: scancel, signals, requeue, suspend,
# time limit, a node that fails. As in t11 a step is released as often as it registered, ends as it
# would without, and leaves nothing behind.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=kinds.sh
. "$(dirname "${BASH_SOURCE[0]}")/kinds.sh"

test_begin --nodes 3 --cpus 32 --conf KillWait=30

# When the run has its step, and adloader knows that one if it is to: the job's number in $id.
started() {
    wait_until 30 step_is_there || return
    id=$(jobs_named "$name" | head -n 1)
    [[ ${as[*]} != *adloader* ]] || wait_until 20 has_member "$id.0"
}
step_is_there() {
    local id
    id=$(jobs_named "$name" | head -n 1)
    [[ $id ]] && step_runs "$id.0"
}

# disturbed DISTURBANCE SRUN-WORDS...: a step, a function that does something to it, and the step's end
disturbed() {
    local disturbance=$1 client id
    shift
    srun "${as[@]}" -n1 "$@" &
    client=$!
    if started; then
        "$disturbance"
    fi
    wait "$client"
}

cancel_job() { scancel "$id"; }
cancelled() { disturbed cancel_job -w n1 sleep 120; }
kind "scancel of the job" "0.0:1/1" cancelled

cancel_step() { scancel "$id.0"; }
step_cancelled() { disturbed cancel_step -w n1 sleep 120; }
kind "scancel of the step" "0.0:1/1" step_cancelled

# A signal goes to all processes of a step, one by one: the shell must not end because its sleep has got it first.
catch() { echo "trap 'exit $1' USR1; while :; do sleep 10 & wait; done"; }
usr1() { scancel --signal=USR1 "$id.0"; }
signalled() { disturbed usr1 -w n1 sh -c "$(catch 11)"; }
kind "scancel --signal=USR1, caught" "0.0:1/1" signalled

kill_step() { scancel --signal=KILL "$id.0"; }
killed() { disturbed kill_step -w n1 sleep 120; }
kind "scancel --signal=KILL" "0.0:1/1" killed

requeue_job() { scontrol requeue "$id"; }
requeued() {
    local id batch
    sbatch "${as[@]}" --wait --requeue -w n1 -n1 -o /dev/null \
        --wrap 'srun sh -c "test \$SLURM_RESTART_COUNT && exit 5; sleep 120"; exit $?' &
    batch=$!
    started && requeue_job
    wait "$batch"
}
kind "scontrol requeue, two runs" "0.0:2/2 0.batch:2/2" requeued

suspend_resume() {
    scontrol suspend "$id"
    wait_until 15 job_is "$id" SUSPENDED
    [[ ${as[*]} != *adloader* ]] || wait_until 15 no_member "$id.0"
    scontrol resume "$id"
    [[ ${as[*]} != *adloader* ]] || wait_until 20 has_member "$id.0"
    wait_until 20 signal_lands
}
# Slurm loses a signal that comes while a step is being resumed.
signal_lands() {
    scancel --signal=USR1 "$id.0" 2>/dev/null
    sleep 0.5
    ! step_runs "$id.0"
}
suspended() { disturbed suspend_resume -w n1 sh -c "$(catch 12)"; }
kind "scontrol suspend and resume" "0.0:2/2" suspended

# Slurm's time limits are minutes; so the end is put to in a moment, which slurmctld sees within half a minute.
end_is_set() { scontrol update "job=$id" "EndTime=$(date -d '+2 seconds' +%Y-%m-%dT%H:%M:%S)"; }
end_soon() { wait_until 20 end_is_set; } # one that has passed meanwhile is refused
out_of_time() { disturbed end_soon -w n1 sleep 120; }
kind "time limit" "0.0:1/1" out_of_time

# One node for both runs: whoever comes second finds it failed already.
fail_node() {
    wait_until 20 both_run
    if mkdir "$work/failed" 2>/dev/null; then
        daemon slurmd-n3 kill
        scontrol update node=n3 state=down reason=test
        : >"$work/failed/done"
    fi
    wait_until 20 test -e "$work/failed/done"
}
both_run() { [[ $(squeue -h -w n3 -t running -o %A | wc -l) == 2 || -e $work/failed/done ]]; }
node_failed() {
    disturbed fail_node -w n3 sleep 120
    local status=$?
    if mkdir "$work/failed/mended" 2>/dev/null; then
        daemon slurmd-n3 start
        wait_until 20 scontrol update node=n3 state=resume
    fi
    return "$status"
}
kind "node fails (slurmd killed, node set down)" "0.0:1/1" node_failed

kinds_end
tap_true "no node was drained" no_node_drained
test_end
