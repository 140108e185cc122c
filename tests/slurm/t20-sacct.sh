#!/bin/bash
# The job's record in Slurm's accounting, with a real slurmdbd and MariaDB: every kind of job, steps
# that end one after the other, a foreign text, and Slurm's daemons stopped at the wrong moment. What
# is written is read with sacct and jq, and once more with adloader report.
set -uo pipefail
# shellcheck source-path=SCRIPTDIR source=testlib.sh
. "$(dirname "${BASH_SOURCE[0]}")/testlib.sh"
# shellcheck source-path=SCRIPTDIR source=rows.sh
. "$testlib_here/rows.sh"

for program in slurmdbd mariadbd sacct jq; do
    command -v "$program" >/dev/null || {
        echo "1..0 # SKIP no $program"
        exit 0
    }
done
if [[ ! -x $ADL_BUILDDIR/adloader-slurmjob && ! -x $ADL_BUILDDIR/libexec/adloader/adloader-slurmjob ]]; then
    echo "1..0 # SKIP built without libslurm"
    exit 0
fi

test_begin --nodes 2 --cpus 2 --dbd --conf 'AccountingStoreFlags=job_comment' \
    --adl-conf LearnTime=1s --adl-conf SacctInterval=2s --adl-conf SacctRetryTime=180s
data_set

# The texts of all runs of job $1, oldest first, an empty one as "-"; column $2.
records() {
    sacct -X -D -P -n -j "$1" -o "${2:-AdminComment}" | sed 's/^$/-/'
}

# What jq finds with filter $2 in the record of the last run of job $1.
in_record() {
    records "$1" | tail -n 1 | sed -n 's/^ADL1://p' | jq -r "$2"
}

steps_of() { in_record "$1" '[.s[].i] | join(" ")'; }

has_steps() { [[ $(steps_of "$1") == "$2" ]]; }

# recorded JOB STEPS DESCRIPTION: the record comes, with these steps, and report decodes it.
recorded() {
    tap_within 40 "$3: the record names the steps: $2" has_steps "$1" "$2"
    has_steps "$1" "$2" || tap_note "sacct:" "$(records "$1")"
    if adloader report "$1" >"$work/report.out" 2>&1; then
        tap_is "$(grep -cE '^(batch|[0-9]+) ' "$work/report.out")" "$(wc -w <<<"$2")" "$3: adloader report shows them"
    else
        tap_fail "$3: adloader report shows them" "$(cat "$work/report.out")"
    fi
}

# ---- one step ----

job=$(next_job_id)
# shellcheck disable=SC2046
srun -N1 -n1 -c2 --adloader $(train 3) >"$work/train.out" 2>&1
recorded "$job" 0 "srun"
tap_true "srun: its loaders used CPU time" test "$(in_record "$job" '.s[0].c > 0.1')" = true
tap_true "srun: how long the training loop waited is known" test "$(in_record "$job" '.s[0].w | .[0] >= 0 and .[0] <= 1 and .[1] > 1')" = true
tap_true "srun: samples are counted" test "$(in_record "$job" '.s[0].q > 0')" = true
length=$(records "$job" | tail -n 1 | wc -c)
tap_true "srun: the text has $((length - 1)) of at most 255 bytes" test "$length" -le 256
if scontrol show job "$job" -o | grep -q AdminComment=ADL1: ; then
    tap_note "it was written while the job ran"
else
    tap_note "the job's end was faster: it was written in slurmdbd"
fi
srun_job=$job

job=$(next_job_id)
srun -N1 -n1 sleep 0
tap_is "$(records "$job")" - "a job without --adloader has no record"

job=$(next_job_id)
srun -N2 -n2 --adloader sleep 1
recorded "$job" 0 "a step on two nodes"
tap_is "$(in_record "$job" '.s[0].n')" 2 "a step on two nodes: both are in it"

# ---- kinds of jobs ----

job=$(sbatch --parsable --adloader=on -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 1; srun -n1 sleep 1; srun -n1 sleep 1')
wait_until 30 job_gone "$job"
recorded "$job" "0 1 2" "sbatch with three steps"
batch_job=$job

first=$(sbatch --parsable --adloader=on -a 1-2 -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 1')
wait_until 30 job_gone "$first"
recorded "${first}_1" 0 "the first task of an array"
recorded "${first}_2" 0 "the second task of an array"
tap_is "$(adloader report "$first" 2>&1 | grep -c '^Job ')" 2 "the array's number shows both"

job=$(next_job_id)
srun -N1 -n1 --adloader=on sleep 1 : -N1 -n1 sleep 1
recorded "$job+0" 0 "the first component of a het job"
recorded "$job+1" 0 "the second component of a het job"
tap_is "$(adloader report "$job" 2>&1 | grep -c '^Job ')" 2 "the het job's number shows both"

job=$(sbatch --parsable --adloader=on -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 300')
wait_until 15 has_member "$job.0"
scancel "$job"
wait_until 20 job_gone "$job"
recorded "$job" 0 "a cancelled job"
tap_like "$(adloader report "$job")" ': CANCELLED' "a cancelled job: report says so"

job=$(sbatch --parsable --requeue --adloader=on -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 1; srun -n1 sleep 3')
wait_until 15 has_member "$job.1"
scontrol requeue "$job"
both_runs() { [[ $(records "$job" | grep -c '^ADL1:') == 2 && $(steps_of "$job") == "0 1" ]]; }
tap_within 60 "a requeued job: each run has its own record" both_runs
both_runs || tap_note "$(records "$job")"
tap_is "$(in_record "$job" '.r')" 1 "a requeued job: the second says that it is one"
tap_is "$(in_record "$job" '.s[0].n // 1')" 1 "a requeued job: the first run's step is not in it"

# ---- what is there already ----

job=$(sbatch --parsable --adloader=on -N1 -n1 -o /dev/null --wrap 'sleep 1; srun -n1 sleep 1')
wait_until 10 job_is "$job" RUNNING
scontrol update job="$job" AdminComment='note of the admin'
wait_until 30 job_gone "$job"
left_alone() { [[ $(controller_log) == *"job $job: no record, since its field holds something else"* ]]; }
tap_within 20 "a foreign AdminComment is noticed" left_alone
tap_is "$(records "$job")" "note of the admin" "and left alone"
tap_like "$(adloader report "$job" 2>&1)" 'AdminComment holds something else' "and report says so"

job=$(sbatch --parsable --adloader=on -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 1; sleep 3; srun -n1 sleep 1')
first_step_written() { scontrol show job "$job" -o | grep -q 'AdminComment=ADL1:'; }
tap_within 15 "the first step is written while the job runs" first_step_written
daemon adloaderctld restart
wait_until 30 job_gone "$job"
recorded "$job" "0 1" "the controller restarted between two steps"

helper() { pgrep -P "$(proc_pid adloaderctld)" -f adloader-slurmjob; }
no_helper() { [[ -z $(helper) ]]; }
tap_like "$(helper)" '^[0-9]+$' "the helper waits for more"
kill -9 "$(helper)"
wait_until 5 no_helper
job=$(next_job_id)
srun -N1 -n1 --adloader sleep 1
recorded "$job" 0 "after the helper was killed"

# ---- Slurm's daemons stopped ----

job=$(next_job_id)
srun -N1 -n1 --adloader sleep 2 >/dev/null 2>&1 &
client=$!
wait_until 10 has_member "$job.0"
daemon slurmctld freeze
wait_until 15 left "$job.0"
tap_true "slurmctld stopped: the step was released" left "$job.0"
timed 3 "$(program adloader)" status --json
tap_is "$timed_status" 0 "slurmctld stopped: the controller answers ($timed_ms ms)"
sleep 2
timed 3 "$(program adloader)" status --json
tap_is "$timed_status" 0 "slurmctld stopped for longer: it still does ($timed_ms ms)"
began=$(date +%s%N)
daemon slurmctld thaw
wait $client
recorded "$job" 0 "slurmctld stopped while the step ended"
row faults "slurmctld stopped (SIGSTOP) while a step ends, later continued" "exit status 0 when it is back" \
    "-" "the job's record is written then" "$((($(date +%s%N) - began) / 1000000)) ms"

# The second step ends within SacctInterval of the first's record, on however slow a machine, and so
# is written after the job.
sacct_interval() { sed -i "s/^SacctInterval=.*/SacctInterval=$1/" "$ADL_CONF" && daemon adloaderctld reload; }
sacct_interval 15s
job=$(sbatch --parsable --adloader=on -N1 -n1 -o /dev/null --wrap 'srun -n1 sleep 0.2; srun -n1 sleep 0.2')
wait_until 10 has_member "$job.batch"
daemon slurmdbd stop
wait_until 30 job_gone "$job"
cannot() { [[ $(controller_log) == *'records of jobs cannot be written, slurmdbd: '* ]]; }
tap_within 40 "slurmdbd down at the end: the log says so" cannot
job2=$(next_job_id)
timed 30 srun -N1 -n1 --adloader sleep 0
tap_is "$timed_status" 0 "slurmdbd down: a job runs as ever"
began=$(date +%s%N)
daemon slurmdbd start
recorded "$job" "0 1" "slurmdbd down at the end, and up again"
sacct_interval 2s
row faults "slurmdbd stopped while a job ends, later started" "nothing; a new job: exit status $timed_status after $timed_ms ms" \
    "$(controller_log | sed -n 's/^.*\(records of jobs cannot be written\)/\1/p' | head -n 1)" "the job's record is written then" \
    "$((($(date +%s%N) - began) / 1000000)) ms"
recorded "$job2" 0 "slurmdbd down while a job ran and ended"
tap_like "$(controller_log)" 'records of jobs can be written again' "the log says that it is over"

# ---- other fields ----

conf_says() { # SacctField
    sed -i '/^SacctField=/d' "$ADL_CONF"
    echo "SacctField=$1" >>"$ADL_CONF"
    daemon adloaderctld reload
    sleep 0.3
}

conf_says Comment
job=$(next_job_id)
srun -N1 -n1 --adloader sleep 1
in_comment() { [[ $(records "$job" Comment) == ADL1:* ]]; }
tap_within 30 "SacctField=Comment: the record is in Comment" in_comment
tap_is "$(records "$job")" - "SacctField=Comment: AdminComment stays empty"
tap_like "$(adloader report "$job")" '^0 ' "SacctField=Comment: report finds it"
job=$(next_job_id)
srun -N1 -n1 --comment="run 7" --adloader sleep 1
tap_within 20 "SacctField=Comment: a user's comment is noticed" left_alone
is_left_alone() { [[ $(records "$job" Comment) == "run 7" ]]; }
tap_within 20 "SacctField=Comment: and left alone" is_left_alone

conf_says none
job=$(next_job_id)
srun -N1 -n1 --adloader sleep 1
sleep 2
tap_is "$(records "$job") $(records "$job" Comment)" "- -" "SacctField=none: no record"
tap_like "$(adloader report "$job" 2>&1)" 'No record' "SacctField=none: report says so"

# ---- what others see ----

daemon slurmctld stop
tap_like "$(adloader report "$srun_job,$batch_job")" '^Job ' "report needs no slurmctld"
daemon slurmctld start
daemon adloaderctld stop
tap_like "$(adloader report "$srun_job")" '^0 ' "nor the controller"
tap_is "$(pgrep -f "$ADL_BUILDDIR/.*adloader-slurmjob" | wc -l)" 0 "no helper outlives the controller"
tap_true "no node was drained" no_node_drained
tap_note "records written while the job ran: $(controller_log | grep -c 'its record is written:'), after its end: $(controller_log | grep -c 'its record is written after')"
test_end
