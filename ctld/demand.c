/* A member in the predictor's terms. See demand.h. */
#include "config.h"

#include "demand.h"

#include "clock.h"
#include "curvecap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_PER_PARAMETER 4.0 /* gradients are exchanged in single precision */

/* ---- declared ------------------------------------------------------------------------------ */

static void take_gpus(const struct member *member, struct pred_job *job)
{
    unsigned nodes = member->step_nodes > 0 ? member->step_nodes : 1;

    if (member->ngpus > 0) {
        job->gpus = member->ngpus;
        job->gpus_total = member->ngpus * nodes;
        job->nodes = nodes;
    }
}

/* Without a word about its model or data there is nothing to look up. */
static bool says_something(const struct hints *hints)
{
    return hints->model[0] != '\0' || hints->profile[0] != '\0' ||
           hints->data != HINTS_DATA_UNKNOWN;
}

void demand_know(struct member *member, const struct pred_known *known, struct warnonce *warned)
{
    const struct pred_tell tell = {warnonce_log, warned};

    if (known == NULL || !says_something(member_hints(member)))
        return;
    member->declared = malloc(sizeof(*member->declared));
    if (member->declared == NULL)
        return; /* then it has to be measured */
    pred_job_init(member->declared);
    take_gpus(member, member->declared);
    pred_known_job(known, member_hints(member), member->uid, member->node->name,
                   (double)clock_wall_s(), member->declared, &tell);
}

void demand_teach(const struct member *member, const struct pred_known *known,
                  struct warnonce *warned)
{
    const struct pred_tell tell = {warnonce_log, warned};

    if (known == NULL)
        return;
    (void)pred_known_learn(known, member_hints(member), member->uid, member->node->name,
                           member->ngpus, &member->learner, (double)clock_wall_s(), &tell);
}

void demand_job(const struct member *member, struct pred_job *job)
{
    const struct hints *hints = member_hints(member);

    if (member->declared != NULL) {
        *job = *member->declared;
        return;
    }
    pred_job_init(job);
    if (hints->flops > 0)
        job->flops_forward = hints->flops;
    if (hints->params > 0)
        job->gradient_bytes = hints->params * BYTES_PER_PARAMETER;
    job->batch = hints->batch;
    job->workers_min = hints->workers_min;
    job->workers_max = hints->workers_max;
    take_gpus(member, job);
}

/* ---- observed ------------------------------------------------------------------------------ */

/*
 * Cores that the loaders could use. On Slurm's own placement they share all CPUs of the step with
 * the main threads, so that what those leave free counts as well.
 */
static unsigned cores_in_force(const struct member *member, const struct msg_report *report,
                               double interval_s)
{
    unsigned loader = cpus_count(&member->place.loader);
    double left;

    if (!report->held_is_own) {
        unsigned assigned = cpus_count(&member->place.sent.cpus);

        if (assigned == 0)
            assigned = cpus_count(&member->main);
        return assigned > 0 ? assigned : 1;
    }
    left = cpus_count(&member->own) - fmax(0, report->main_cpu_s) / interval_s;
    if (left > loader)
        return (unsigned)lround(left);
    return loader > 0 ? loader : 1;
}

void demand_observe(struct member *member, const struct msg_report *report, uint64_t now_ms)
{
    struct pred_job job;
    struct pred_observation o;

    if (report->interval_ms == 0 || now_ms - member->changed_ms < report->interval_ms)
        return;
    if (report->held_seq != member->place.seq || member->place.in_flight)
        return;
    demand_job(member, &job);
    o.interval_s = (double)report->interval_ms / 1000;
    o.cores = cores_in_force(member, report, o.interval_s);
    o.tasks = report->tasks;
    o.workers = report->workers < report->tasks ? report->workers : report->tasks;
    o.loader_cpu_s = report->loader_cpu_s;
    o.queue_s = report->queue_s;
    o.io_wait = report->io_wait;
    o.gpu_busy = report->gpu_busy;
    o.samples = report->samples;
    o.wait_s = report->wait_s;
    o.busy_s = report->busy_s;
    o.read_bytes = (double)report->read_bytes;
    (void)pred_learner_observe(&member->learner, &job, &o);
}

bool demand_cap(const struct member *member, unsigned *cores, enum pred_limit *limit)
{
    struct curvecap verdict, quota;

    curvecap_of_verdict(&member->verdict, &verdict);
    curvecap_of_quota((double)member->quota, &quota);
    if (quota.limit != PRED_LIMIT_UNKNOWN && quota.cores < verdict.cores)
        verdict = quota;
    *cores = verdict.cores;
    *limit = verdict.limit;
    return verdict.limit != PRED_LIMIT_UNKNOWN;
}

int demand_curve(const struct member *member, unsigned ncores, struct pred_curve *curve)
{
    struct curvecap cap;
    struct pred_job job;

    demand_job(member, &job);
    if (pred_learner_curve(&member->learner, &job, ncores, curve) < 0)
        return -1;
    curvecap_of_verdict(&member->verdict, &cap);
    curvecap_apply(&cap, curve);
    curvecap_of_quota((double)member->quota, &cap);
    curvecap_apply(&cap, curve);
    return 0;
}

void demand_remember(struct member *member, bool loaders)
{
    struct curvecap cap;

    member->decided_demand = (float)member->learner.demand;
    member->decided_gpu_rate = (float)member->learner.gpu_rate;
    member->decided_loaders = loaders;
    curvecap_of_verdict(&member->verdict, &cap);
    member->decided_cap = (uint16_t)cap.cores;
}

/* Unknown and known differ; two unknowns do not. */
static bool moved(double before, double now, double fraction)
{
    if (isnan(before) || isnan(now))
        return isnan(before) != isnan(now);
    return fabs(now - before) > fraction * fmax(fabs(before), 0.5);
}

/* Is the curve flat from elsewhere on, or no longer, since it was decided? By a core it may waver.
 */
static bool cap_moved(const struct member *member)
{
    struct curvecap cap;

    curvecap_of_verdict(&member->verdict, &cap);
    return abs((int)cap.cores - (int)member->decided_cap) > 1;
}

bool demand_changed(const struct member *member, bool loaders, double fraction)
{
    return cap_moved(member) || loaders != member->decided_loaders ||
           moved((double)member->decided_demand, member->learner.demand, fraction) ||
           moved((double)member->decided_gpu_rate, member->learner.gpu_rate, fraction);
}

bool demand_state_stale(const struct member *member, double fraction)
{
    return moved((double)member->sent_demand, member->learner.demand, fraction);
}

/* ---- state across our restart -------------------------------------------------------------- */

#define STATE_VERSION 1u
#define STATE_LEARNED 1u
#define STATE_LOADERS 2u
#define STATE_HEAD    6u

size_t demand_save(const struct member *member, uint8_t *buf, size_t size)
{
    if (size < STATE_HEAD)
        return 0;
    buf[0] = STATE_VERSION;
    buf[1] = (uint8_t)((member->learned ? STATE_LEARNED : 0) |
                       (member->loaders_seen_ms != 0 ? STATE_LOADERS : 0));
    buf[2] = (uint8_t)(member->moves >> 24);
    buf[3] = (uint8_t)(member->moves >> 16);
    buf[4] = (uint8_t)(member->moves >> 8);
    buf[5] = (uint8_t)member->moves;
    return STATE_HEAD + pred_learner_save(&member->learner, buf + STATE_HEAD, size - STATE_HEAD);
}

void demand_load(struct member *member, const uint8_t *buf, size_t length, uint64_t now_ms)
{
    struct pred_learner learner;

    if (length < STATE_HEAD || buf[0] != STATE_VERSION)
        return;
    pred_learner_init(&learner);
    if (pred_learner_load(&learner, buf + STATE_HEAD, length - STATE_HEAD) < 0)
        return;
    member->learner = learner;
    member->learned = (buf[1] & STATE_LEARNED) != 0;
    member->loaders_seen_ms = (buf[1] & STATE_LOADERS) != 0 ? now_ms : 0;
    member->moves =
        (unsigned)buf[2] << 24 | (unsigned)buf[3] << 16 | (unsigned)buf[4] << 8 | buf[5];
}

/* ---- verdict ------------------------------------------------------------------------------- */

double demand_busy(const struct msg_report *report, bool *clocked)
{
    double loop_s = report->busy_s + report->wait_s;

    *clocked = loop_s > 0.05 * (double)report->interval_ms / 1000; /* false for NAN */
    return *clocked ? report->busy_s / loop_s : report->gpu_busy;
}

bool demand_judge(struct member *member, const struct msg_report *report)
{
    struct verdict_look look;
    double interval_s = (double)report->interval_ms / 1000;

    if (report->interval_ms == 0)
        return false;
    look.interval_s = interval_s;
    look.gpus = member->ngpus > 0;
    look.unconfined = member->unconfined;
    look.bound = member->cpu_bind[0] != '\0';
    look.tasks = report->tasks;
    look.workers = report->workers < report->tasks ? report->workers : report->tasks;
    look.orphans = report->orphans;
    look.left_alone = report->left_alone;
    look.cores = cores_in_force(member, report, interval_s);
    look.use = report->loader_cpu_s / interval_s;
    look.queue = report->queue_s / interval_s;
    look.io_wait = report->io_wait;
    look.main_use = report->main_cpu_s / interval_s;
    look.main_thread = report->main_thread_s / interval_s;
    look.busy = demand_busy(report, &look.clocked);
    look.rate = report->samples / interval_s;
    look.read_bytes_per_s = (double)report->read_bytes / interval_s;
    look.cpu_limit = report->cpu_limit > 0 ? report->cpu_limit : NAN;
    return verdict_update(&member->verdict, &look);
}

const char *demand_verdict(const struct member *member)
{
    return verdict_name(member_is_bystander(member) ? VERDICT_UNMANAGED
                                                    : verdict_kind(&member->verdict));
}

void demand_words(const struct member *member, char *buf, size_t size)
{
    char seen[VERDICT_TEXT_SIZE], advice[VERDICT_TEXT_SIZE];

    (void)verdict_evidence(&member->verdict, seen, sizeof(seen));
    (void)verdict_advice(&member->verdict, (double)member->demand, advice, sizeof(advice));
    (void)snprintf(buf, size, "%s: %s%s%s", demand_verdict(member), seen,
                   advice[0] != '\0' ? "; " : "", advice);
}
