/*
 * The one file that calls libslurm: see slurmjob.h.
 *
 * While a job runs its text belongs to slurmctld, which hands it to slurmdbd with the completion
 * record. slurmctld refuses changes from the moment the job completes, and only when slurmdbd has
 * got that record is a change there safe from being overwritten by it.
 */
#include "config.h"

#include "slurmjob.h"

#include "slurm_compat.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Clocks of the controller's and of Slurm's hosts may differ by so much. */
#define CLOCK_SLACK_S 5

static char cluster[256]; /* "" until slurmctld told */
static bool has_slurmdbd;

/* What slurmctld says of the job's present run; start 0: nothing. */
struct run {
    time_t start;
    uint32_t restart;
};

void slurmjob_init(void)
{
    slurm_init(NULL);
}

/* ---- replies ------------------------------------------------------------------------------- */

static void answer(struct slurmjob_reply *reply, enum slurmjob_outcome outcome, const char *format,
                   ...) __attribute__((format(printf, 3, 4)));

static void answer(struct slurmjob_reply *reply, enum slurmjob_outcome outcome, const char *format,
                   ...)
{
    va_list arguments;

    reply->outcome = outcome;
    va_start(arguments, format);
    (void)vsnprintf(reply->reason, sizeof(reply->reason), format, arguments);
    va_end(arguments);
}

static void answer_error(struct slurmjob_reply *reply, const char *whose, int error)
{
    if (error == ESLURM_ACCESS_DENIED || error == ESLURM_USER_ID_MISSING || error == EPERM ||
        error == EACCES)
        answer(reply, SLURMJOB_DENIED, "%s: %s", whose, slurm_strerror(error));
    else
        answer(reply, SLURMJOB_UNREACHABLE, "%s: %s", whose,
               error != 0 ? slurm_strerror(error) : "no answer");
}

/* Whether run and field are as expected; if not, the reply says so. */
static bool as_expected(const struct slurmjob_request *request, const char *found,
                        struct slurmjob_reply *reply)
{
    if (found == NULL)
        found = "";
    if (strcmp(found, request->expected) == 0 &&
        (!reply->restart_known || reply->restart == request->restart))
        return true;
    (void)snprintf(reply->found, sizeof(reply->found), "%s", found);
    answer(reply, SLURMJOB_CHANGED, "it was changed");
    return false;
}

/* ---- slurmctld ----------------------------------------------------------------------------- */

/* Of a job array's number slurmctld sends all tasks. */
static slurm_job_info_t *find_job(job_info_msg_t *jobs, uint32_t id)
{
    for (uint32_t i = 0; i < jobs->record_count; i++)
        if (COMPAT_JOB_ID(&jobs->job_array[i]) == id)
            return &jobs->job_array[i];
    return NULL;
}

/* Is it the run that is meant, and does slurmctld still take changes? A step does not always know
 * of restarts; then the clocks alone decide. */
static bool takes_changes(const slurm_job_info_t *job, const struct slurmjob_request *request)
{
    uint32_t state = job->job_state & JOB_STATE_BASE;
    int slack = job->restart_cnt == request->restart ? CLOCK_SLACK_S : 0;

    return (state == JOB_RUNNING || state == JOB_SUSPENDED) &&
           (job->job_state & JOB_COMPLETING) == 0 && job->start_time <= request->moment_s + slack;
}

static int set_in_slurmctld(const struct slurmjob_request *request)
{
    job_desc_msg_t change;
    char text[RECORD_TEXT_SIZE];

    (void)snprintf(text, sizeof(text), "%s", request->text);
    slurm_init_job_desc_msg(&change);
    COMPAT_JOB_ID(&change) = request->job;
    if (request->field == SLURMJOB_COMMENT)
        change.comment = text;
    else
        change.admin_comment = text;
    errno = 0;
    return slurm_update_job(&change) == SLURM_SUCCESS ? 0 : errno != 0 ? errno : EIO;
}

/* The job as slurmctld has it: the reply is complete, or false: it takes no changes. */
static bool change_running(const slurm_job_info_t *job, const struct slurmjob_request *request,
                           struct slurmjob_reply *reply)
{
    int error;

    if (!takes_changes(job, request))
        return false;
    reply->restart = job->restart_cnt;
    reply->restart_known = 1;
    if (!as_expected(request,
                     request->field == SLURMJOB_COMMENT ? job->comment : job->admin_comment, reply))
        return true;
    error = set_in_slurmctld(request);
    if (error == ESLURM_JOB_FINISHED || error == ESLURM_ALREADY_DONE ||
        error == ESLURM_INVALID_JOB_ID)
        return false;
    if (error == 0)
        reply->outcome = SLURMJOB_DONE;
    else
        answer_error(reply, "slurmctld", error);
    return true;
}

/* True: the reply is complete. False: the job is over for slurmctld, as far as *run tells. */
static bool try_slurmctld(const struct slurmjob_request *request, struct slurmjob_reply *reply,
                          struct run *run)
{
    job_info_msg_t *jobs = NULL;
    const slurm_job_info_t *job;
    bool complete = false;

    errno = 0;
    if (compat_load_job(&jobs, request->job) != SLURM_SUCCESS) {
        if (errno == ESLURM_INVALID_JOB_ID)
            return false;
        answer_error(reply, "slurmctld", errno);
        return true;
    }
    job = find_job(jobs, request->job);
    if (job != NULL) {
        run->start = job->start_time;
        run->restart = job->restart_cnt;
        complete = change_running(job, request, reply);
    }
    slurm_free_job_info_msg(jobs);
    return complete;
}

/* ---- slurmdbd ------------------------------------------------------------------------------ */

/* Which cluster this is, and whether it has a slurmdbd. */
static bool know_cluster(struct slurmjob_reply *reply)
{
    slurm_conf_t *conf = NULL;

    if (cluster[0] != '\0')
        return true;
    errno = 0;
    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS) {
        answer_error(reply, "slurmctld", errno);
        return false;
    }
    (void)snprintf(cluster, sizeof(cluster), "%s",
                   conf->cluster_name != NULL ? conf->cluster_name : "");
    has_slurmdbd = conf->accounting_storage_type != NULL &&
                   strstr(conf->accounting_storage_type, "slurmdbd") != NULL;
    compat_free_conf(conf);
    return true;
}

/* One job of this cluster, all its runs. Owns its lists: condition_free(). */
static int condition_make(slurmdb_job_cond_t *condition, uint32_t job, uint32_t array_job,
                          uint32_t array_task)
{
    slurm_selected_step_t *selected = calloc(1, sizeof(*selected));
    char *name = strdup(cluster);

    memset(condition, 0, sizeof(*condition));
    if (selected == NULL || name == NULL) {
        free(selected);
        free(name);
        return -1;
    }
    selected->array_task_id = array_task;
    selected->het_job_offset = NO_VAL;
    selected->step_id.job_id = array_task != NO_VAL ? array_job : job;
    selected->step_id.step_id = NO_VAL;
    selected->step_id.step_het_comp = NO_VAL;
    condition->db_flags = SLURMDB_JOB_FLAG_NOTSET;
    condition->flags = JOBCOND_FLAG_NO_STEP | JOBCOND_FLAG_NO_TRUNC | JOBCOND_FLAG_DUP |
                       JOBCOND_FLAG_NO_WHOLE_HETJOB | JOBCOND_FLAG_NO_DEFAULT_USAGE;
    condition->step_list = slurm_list_create(free);
    condition->cluster_list = slurm_list_create(free);
    (void)slurm_list_append(condition->step_list, selected);
    (void)slurm_list_append(condition->cluster_list, name);
    return 0;
}

static void condition_free(slurmdb_job_cond_t *condition)
{
    slurm_list_destroy(condition->step_list);
    slurm_list_destroy(condition->cluster_list);
}

/* Runs of a job follow each other, so that a moment belongs to one, but for the clocks' slack: of
 * two the one that it lies deeper in. */
static double distance(const slurmdb_job_rec_t *run, int64_t moment_s)
{
    double middle, half;

    if (run->start == 0)
        return CLOCK_SLACK_S + 1; /* has not started */
    if (run->end == 0)
        return moment_s >= run->start ? 0 : (double)(run->start - moment_s);
    middle = ((double)run->start + (double)run->end) / 2;
    half = ((double)run->end - (double)run->start) / 2;
    return (double)moment_s > middle ? (double)moment_s - middle - half
                                     : middle - half - (double)moment_s;
}

/* The run of the job that is meant; *newest: it is the last one. NULL: not there. */
static const slurmdb_job_rec_t *find_run(compat_list runs, const struct slurmjob_request *request,
                                         bool *newest)
{
    compat_iterator i = slurm_list_iterator_create(runs);
    const slurmdb_job_rec_t *best = NULL, *last = NULL, *run;

    while ((run = slurm_list_next(i)) != NULL) {
        if (run->jobid != request->job) /* another task of the array */
            continue;
        if (last == NULL || run->submit >= last->submit)
            last = run;
        if (distance(run, request->moment_s) > CLOCK_SLACK_S)
            continue;
        if (best == NULL || distance(run, request->moment_s) < distance(best, request->moment_s))
            best = run;
    }
    slurm_list_iterator_destroy(i);
    *newest = best == last;
    return best;
}

static int set_in_slurmdbd(void *db, slurmdb_job_cond_t *condition,
                           const struct slurmjob_request *request)
{
    slurmdb_job_rec_t change;
    char text[RECORD_TEXT_SIZE];
    compat_list changed;
    int count, error;

    (void)snprintf(text, sizeof(text), "%s", request->text);
    memset(&change, 0, sizeof(change));
    change.derived_ec = NO_VAL;
    if (request->field == SLURMJOB_COMMENT)
        change.derived_es = text; /* the column that sacct calls Comment */
    else
        change.admin_comment = text;
    errno = 0;
    changed = slurmdb_job_modify(db, condition, &change);
    if (changed == NULL)
        return errno != 0 ? errno : EIO;
    count = slurm_list_count(changed);
    slurm_list_destroy(changed);
    if (count != 1) {
        (void)slurmdb_connection_commit(db, false);
        return ESLURM_INVALID_JOB_ID;
    }
    errno = 0;
    if (slurmdb_connection_commit(db, true) == SLURM_SUCCESS)
        return 0;
    error = errno;
    return error != 0 ? error : EIO;
}

static void change_run(void *db, const struct slurmjob_request *request,
                       const slurmdb_job_rec_t *run, bool newest, struct slurmjob_reply *reply)
{
    slurmdb_job_cond_t condition;
    int error;

    if (condition_make(&condition, run->jobid, run->array_job_id,
                       run->array_job_id != 0 ? run->array_task_id : NO_VAL) < 0) {
        answer(reply, SLURMJOB_UNREACHABLE, "out of memory");
        return;
    }
    if (newest) {
        condition.flags &= ~(uint32_t)JOBCOND_FLAG_DUP;
    } else {
        condition.usage_start = run->start + (run->end - run->start) / 2;
        condition.usage_end = condition.usage_start + 1;
    }
    error = set_in_slurmdbd(db, &condition, request);
    condition_free(&condition);
    if (error == 0)
        reply->outcome = SLURMJOB_DONE;
    else if (error == ESLURM_INVALID_JOB_ID || error == SLURM_NO_CHANGE_IN_DATA)
        answer(reply, SLURMJOB_IMPOSSIBLE, "this run of the job cannot be told from its others");
    else
        answer_error(reply, "slurmdbd", error);
}

static void with_connection(void *db, const struct slurmjob_request *request,
                            const struct run *present, struct slurmjob_reply *reply)
{
    slurmdb_job_cond_t condition;
    const slurmdb_job_rec_t *run;
    compat_list runs;
    bool newest;

    if (condition_make(&condition, request->job, 0, NO_VAL) < 0) {
        answer(reply, SLURMJOB_UNREACHABLE, "out of memory");
        return;
    }
    errno = 0;
    runs = slurmdb_jobs_get(db, &condition);
    condition_free(&condition);
    if (runs == NULL) {
        answer_error(reply, "slurmdbd", errno);
        return;
    }
    run = find_run(runs, request, &newest);
    if (run != NULL) {
        reply->restart_known = present->start != 0 && present->start == run->start;
        reply->restart = reply->restart_known ? present->restart : 0;
    }
    if (run == NULL)
        answer(reply, SLURMJOB_WAIT, "slurmdbd does not know this run of the job");
    else if (run->end == 0)
        answer(reply, SLURMJOB_WAIT, "slurmdbd does not know yet that the job has ended");
    else if (as_expected(request,
                         request->field == SLURMJOB_COMMENT ? run->derived_es : run->admin_comment,
                         reply))
        change_run(db, request, run, newest, reply);
    slurm_list_destroy(runs);
}

static void try_slurmdbd(const struct slurmjob_request *request, const struct run *present,
                         struct slurmjob_reply *reply)
{
    uint16_t flags = 0;
    void *db;

    reply->at_end = 1;
    if (!know_cluster(reply))
        return;
    if (!has_slurmdbd) {
        answer(reply, SLURMJOB_IMPOSSIBLE,
               "the job has ended, and without slurmdbd there is nowhere to write to");
        return;
    }
    errno = 0;
    db = slurmdb_connection_get(&flags);
    if (db == NULL || errno != 0) {
        answer_error(reply, "slurmdbd", errno);
    } else {
        with_connection(db, request, present, reply);
    }
    if (db != NULL)
        (void)slurmdb_connection_close(&db);
}

void slurmjob_update(const struct slurmjob_request *request, struct slurmjob_reply *reply)
{
    struct run present = {0, 0};

    memset(reply, 0, sizeof(*reply));
    reply->version = SLURMJOB_VERSION;
    reply->serial = request->serial;
    if (!try_slurmctld(request, reply, &present)) {
        reply->restart_known = 0;
        try_slurmdbd(request, &present, reply);
    }
}
