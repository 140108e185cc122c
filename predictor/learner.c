/*
 * Learning a member's demand from its reports, of which the loaders' CPU use is always there and
 * all else may be missing.
 *
 * The loaders' busy share q = use / (cores they could use) tells more than use alone: below
 * saturation the member gets all it wants, so its demand is what it uses (knee.c gives the small
 * difference). In saturation the demand is at least the cores it has; how much more follows from
 * the share of time the GPU is busy (use / share), or from samples and the training loop's own
 * clock, or else is a guess that doubles what it has, so that a squeezed member is tried with more
 * and its demand seen. What was seen before a squeeze is remembered.
 */
#include "terms.h"
#include "track.h"

#include <math.h>
#include <string.h>

#define SATURATED       0.92 /* busy share from which more cores would have been used */
#define SATURATED_FIT   0.97
#define ASLEEP          0.75 /* busy share below which cores are certainly not what is missing */
#define IO_SHARE        0.2  /* of the workers, waiting for storage, from which it is the limit */
#define CROWDED         0.5  /* of the time that loaders run, from which waiting for a CPU tells */
#define STARVED         0.85 /* GPU-busy share, of that when free, below which data is late */
#define GROWTH_MAX      4.0  /* what one look may conclude beyond the cores it has seen */
#define NO_CORES        UINT32_MAX
#define PEAK_SECONDS    600.0
#define POINT_SECONDS   600.0
#define BURST_MARGIN    0.1 /* of a standard deviation of use, on top of its mean */
#define FREE_BUSY_START 0.97
#define BETA_PRIOR      0.03
#define BETA_PRIOR_SD   0.05
#define BETA_DRIFT_SD   0.01 /* a move */
#define COST_SD         0.05 /* relative, of a settled mean */
#define SETTLE_SECONDS  4.0
#define CAPPED_REPORTS  5u /* with cores to spare, until workers count as the limit */

void pred_learner_init(struct pred_learner *learner)
{
    *learner = (struct pred_learner){
        .last_cores = NO_CORES,
        .use = NAN,
        .use_at_cores = NAN,
        .saturation = NAN,
        .busy = NAN,
        .core_rate = NAN,
        .rate = NAN,
        .gpu_rate = NAN,
        .beta = NAN,
        .sample_bytes = NAN,
        .variance = NAN,
        .error = NAN,
        .demand = NAN,
        .demand_rel_sd = NAN,
        .seen = NAN,
        .free_busy = NAN,
    };
}

/* ---- one report ------------------------------------------------------------------------------ */

static bool unknown_or_within(double value, double limit)
{
    return isnan(value) || (value >= 0 && value <= limit);
}

static bool plausible(const struct pred_observation *o)
{
    double use, seconds_max;

    if (!(o->interval_s > 0 && o->interval_s <= 86400) || o->cores > PRED_CORES_MAX)
        return false;
    if (!(o->loader_cpu_s >= 0) || o->workers > o->tasks)
        return false;
    use = o->loader_cpu_s / o->interval_s;
    /* In own placement loaders may also run on the cores kept for main threads, hence the margin.
     */
    if (use > 2.0 * o->cores + 4 || use > 1.25 * o->tasks + 1)
        return false;
    seconds_max = 2.0 * o->interval_s * (o->tasks + 1024.0);
    return unknown_or_within(o->queue_s, seconds_max) &&
           unknown_or_within(o->wait_s, seconds_max) && unknown_or_within(o->busy_s, seconds_max) &&
           unknown_or_within(o->gpu_busy, 1.001) && unknown_or_within(o->io_wait, o->tasks + 0.5) &&
           unknown_or_within(o->samples, 1e12) && unknown_or_within(o->read_bytes, 1e15);
}

/* Share of time in which the GPU had work: from the training loop's clock, else from the GPU. */
static double busy_share(const struct pred_observation *o, bool *exact)
{
    double clocked = o->busy_s + o->wait_s;

    *exact = clocked > 0.05 * o->interval_s; /* false for NAN */
    if (*exact)
        return fmin(1, o->busy_s / clocked);
    return isnan(o->gpu_busy) ? NAN : fmin(1, o->gpu_busy);
}

/* Work a sample takes, relative to one core alone, with so many cores busy beyond the first. */
static double contention(double beta, double beyond)
{
    return 1 + beta * beyond;
}

/* Contention can be told from heavier work only by the same work on other numbers of cores: so it
 * is learned from each move, from the CPU seconds a sample before and after it. */
static void learn_contention(struct pred_learner *l, const struct pred_job *job, double beyond)
{
    double before = (double)l->cost_before, beyond_before = (double)l->beyond_before;
    double apart = beyond - beyond_before, ratio, measured, measured_sd, sd, gain;

    if (isnan(l->beta)) {
        bool told = job->beta.value >= 0;

        l->beta = told ? fmin(job->beta.value, PRED_BETA_MAX) : BETA_PRIOR;
        l->beta_sd = (float)BETA_PRIOR_SD;
    }
    if (!(before > 0) || (double)l->cost_track.seconds < SETTLE_SECONDS)
        return;
    l->cost_before = 0;
    if (fabs(apart) < 0.5)
        return;
    ratio = (double)l->cost_track.mean / before;
    measured = beyond - ratio * beyond_before;
    measured = measured * apart > 0 ? (ratio - 1) / measured : PRED_BETA_MAX;
    measured = fmax(-BETA_PRIOR_SD, fmin(measured, PRED_BETA_MAX));
    measured_sd =
        COST_SD * fmax(1, ratio) * pow(contention(l->beta, beyond_before), 2) / fabs(apart);
    sd = hypot((double)l->beta_sd, BETA_DRIFT_SD);
    gain = sd * sd / (sd * sd + measured_sd * measured_sd);
    l->beta = fmax(0, fmin(l->beta + gain * (measured - l->beta), PRED_BETA_MAX));
    l->beta_sd = (float)(sd * sqrt(1 - gain));
}

static void learn_cost(struct pred_learner *l, const struct pred_job *job,
                       const struct pred_observation *o, double use)
{
    double beyond = fmax(0, l->use - 1);
    double cost = o->loader_cpu_s / o->samples;

    if (!(o->samples > 0) || !(use > 0.02) || !(cost > 1e-12 && cost < 1e12))
        return;
    pred_track_update(&l->cost_track, cost, o->interval_s, 0);
    learn_contention(l, job, beyond);
    l->core_rate = contention(l->beta, beyond) / (double)l->cost_track.mean;
}

static void learn_bytes(struct pred_learner *l, const struct pred_observation *o)
{
    double bytes = o->read_bytes / o->samples;

    if (!(o->samples > 0) || !(bytes >= 0 && bytes <= 1e15))
        return;
    l->sample_bytes =
        isnan(l->sample_bytes) ? bytes : l->sample_bytes + 0.1 * (bytes - l->sample_bytes);
}

static void learn_workers(struct pred_learner *l, const struct pred_observation *o)
{
    double busy_at_once = fmin(o->workers, o->cores);
    bool more_cores = o->workers > 0 && o->cores > o->workers;

    /* A verdict once reached stands while the cores are too few to test it anew. */
    if (o->workers > l->workers)
        l->capped_reports = 0;
    else if (more_cores)
        l->capped_reports = l->use > SATURATED * busy_at_once ? l->capped_reports + 1 : 0;
    if (o->workers >= l->workers || l->workers <= 1)
        l->workers = o->workers;
    else
        l->workers += 0.2 * (o->workers - l->workers);
}

/*
 * Cores beyond which this program has nobody to work on them. It may run few workers only because
 * it has few cores (libadloader and ADLOADER_WORKERS advise so), hence it is seen to leave cores
 * unused before it counts as limited.
 */
double pred_learner_cores_max(const struct pred_learner *l, const struct pred_job *job)
{
    double workers = l->workers > 0.5 ? ceil(l->workers - 0.25) : INFINITY;

    if (l->use > 1.1 * workers) /* its workers have threads of their own */
        return INFINITY;
    if (l->capped_reports >= CAPPED_REPORTS)
        return workers;
    if (job->workers_max == 0)
        return INFINITY;
    return isinf(workers) ? job->workers_max : fmax(workers, job->workers_max);
}

static double usable_cores(const struct pred_learner *l, unsigned cores)
{
    double usable = cores;

    if (l->workers > 0.5 && l->use <= 1.1 * l->workers)
        usable = fmin(usable, ceil(l->workers - 0.25));
    return fmax(usable, l->use);
}

static double relative_sd(const struct pred_track *t)
{
    double samples = fmax(1, (double)t->seconds);

    if (!(t->mean > 0))
        return 1;
    return fmin(1, sqrt((double)t->variance / samples) / (double)t->mean);
}

/* The demand was seen, and it is about what the member has. */
static bool seen_to_fit(const struct pred_learner *l, double usable)
{
    return l->seen > 0.8 * usable && l->seen < 1.1 * usable;
}

/* Saturated and nothing known of the GPU: what was seen before a squeeze stands; else it is a guess
 * upward, a small step where the demand was seen to be about this (it cannot have grown much). */
static void guess_demand(struct pred_learner *l, const struct pred_job *job, double usable)
{
    double growth = seen_to_fit(l, usable) ? 1.25 : 2;

    l->exploring = !(l->seen >= 1.1 * usable);
    if (!l->exploring) {
        l->demand = l->seen;
        l->demand_rel_sd = 0.3;
        return;
    }
    l->demand = fmax(fmax(growth * usable, usable + 1), l->peak);
    l->demand = fmax(usable, fmin(l->demand, pred_learner_cores_max(l, job)));
    l->demand_rel_sd = 0.5;
}

/* Mean number of loaders that waited for a CPU. */
static double queue_length(const struct pred_observation *o)
{
    return o->queue_s > 0 ? o->queue_s / o->interval_s : 0; /* 0 for NAN */
}

/* Busy share of the usable cores if the loaders had not been kept waiting for a CPU. */
static double wanted_share(const struct pred_learner *l, const struct pred_observation *o,
                           double usable)
{
    return usable > 0 ? fmin(1, (l->use + queue_length(o)) / usable) : 0;
}

/*
 * Loaders that wait for a CPU much of the time lack cores though they do not use all of those that
 * they may: main threads, or others, run on them too.
 */
static bool crowded_out(const struct pred_learner *l, const struct pred_observation *o,
                        double usable)
{
    return queue_length(o) > CROWDED * l->use && wanted_share(l, o, usable) >= 1;
}

static void learn_demand(struct pred_learner *l, const struct pred_job *job,
                         const struct pred_observation *o)
{
    double usable = usable_cores(l, o->cores);
    double free_busy = l->free_busy > 0 ? l->free_busy : FREE_BUSY_START;
    double share = isnan(l->busy) ? NAN : fmin(1, l->busy / free_busy);
    double burst = BURST_MARGIN * sqrt((double)l->use_track.variance);
    double most = GROWTH_MAX * fmax(usable, 1);
    double wants;

    l->saturation = usable > 0 ? fmin(1, l->use / usable) : 0;
    if (crowded_out(l, o, usable))
        l->saturation = 1;
    /* Others on the same CPUs make loaders look idle that are not. */
    l->held_back = wanted_share(l, o, usable) < ASLEEP && share < STARVED;
    if (o->io_wait >= 0) /* one report alone is no verdict */
        l->io_wait += 0.2 * (o->io_wait - l->io_wait);
    l->io_bound = l->held_back && l->io_wait > fmax(0.3, IO_SHARE * l->workers);
    l->demand_rel_sd = fmax(0.05, relative_sd(&l->use_track));
    if (l->saturation < (seen_to_fit(l, usable) ? SATURATED_FIT : SATURATED)) {
        wants = l->use > 0 ? usable / pred_knee_ratio(l->saturation, PRED_KNEE_DEPTH) : 0;
        if (share < STARVED && !l->held_back)
            wants = fmax(wants, fmin(most, l->use / fmax(share, 0.01)));
        l->seen = l->demand = fmax(wants, fmin(wants + burst, usable));
        l->exploring = false;
    } else if (share >= 0) {
        l->demand = fmax(SATURATED * usable, fmin(most, l->use / fmax(share, 0.01)));
        l->demand_rel_sd = fmax(l->demand_rel_sd, 0.15);
        l->seen = l->demand;
        l->exploring = false;
    } else {
        guess_demand(l, job, usable);
    }
    l->demand = fmin(l->demand, PRED_CORES_MAX);
}

/* G in samples/s: the rate when the GPU had work, or the rate itself where nothing held it back. */
static void learn_gpu_rate(struct pred_learner *l)
{
    double free_busy = l->free_busy > 0 ? l->free_busy : FREE_BUSY_START;

    if (!(l->rate > 0))
        return;
    if (l->busy > 0.01)
        l->gpu_rate = l->rate / fmin(1, l->busy / free_busy);
    else if (isnan(l->busy) && l->saturation < SATURATED)
        l->gpu_rate = l->rate * fmax(1, l->demand / fmax(l->use, 1e-9));
    else if (isnan(l->busy) && l->core_rate > 0)
        l->gpu_rate = pred_loader_rate(l->core_rate, l->beta, l->demand);
    if (l->gpu_rate < l->rate)
        l->gpu_rate = l->rate;
}

/* The GPU's busy share while its data comes in time: launch gaps and the like keep it below 1. */
static void learn_free_busy(struct pred_learner *l, bool exact, double share, double seconds)
{
    double weight = 1 - exp(-seconds / PRED_TRACK_SECONDS);

    if (exact) {
        l->free_busy = 1; /* the loop's own clock knows no launch gaps */
        return;
    }
    if (!(l->saturation < ASLEEP) || !(share > 0.7))
        return;
    if (isnan(l->free_busy))
        l->free_busy = FREE_BUSY_START;
    l->free_busy += weight * (share - l->free_busy);
}

static void forget_points(struct pred_learner *l)
{
    memset(l->points, 0, sizeof(l->points));
}

/* Keep the rate at this number of cores, in the place of the least known other one. */
static void keep_point(struct pred_learner *l, unsigned cores, double rate, double seconds)
{
    struct pred_point *place = &l->points[0];

    for (unsigned i = 0; i < PRED_LEARNER_POINTS; i++)
        l->points[i].seconds *= (float)exp(-seconds / POINT_SECONDS);
    for (unsigned i = 0; i < PRED_LEARNER_POINTS; i++) {
        if (l->points[i].cores == (float)cores && l->points[i].seconds > 0) {
            place = &l->points[i];
            break;
        }
        if (l->points[i].seconds < place->seconds)
            place = &l->points[i];
    }
    if (place->cores != (float)cores)
        *place = (struct pred_point){0};
    *place = (struct pred_point){(float)cores, (float)rate, place->seconds + (float)seconds};
}

/* How far the prediction for this report was off, before the report is learned from. */
static void score(struct pred_learner *l, const struct pred_job *job,
                  const struct pred_observation *o, double use)
{
    struct pred_params p;
    double predicted, observed, off;

    if (isnan(l->demand) || !(use > 0.05) || !pred_learner_params(l, job, o->cores, &p) || p.idle)
        return;
    predicted = pred_params_rate(&p, o->cores);
    observed = o->samples / o->interval_s;
    if (!(observed > 0) || p.relative || isnan(l->core_rate)) {
        predicted = pred_loader_cores(p.core_rate, p.beta, predicted);
        observed = use;
    }
    if (!(predicted >= 0 && predicted <= 1e15) || !(o->cores > 0))
        return;
    off = fmin(10, fabs(predicted - observed) / observed);
    l->error = isnan(l->error) ? off : l->error + 0.05 * (off - l->error);
    l->variance = isnan(l->variance) ? off * off : l->variance + 0.05 * (off * off - l->variance);
}

/* The cores changed within the interval: its numbers belong to neither. */
static void begin_anew(struct pred_learner *l, unsigned cores)
{
    if ((double)l->cost_track.seconds >= SETTLE_SECONDS) {
        l->cost_before = l->cost_track.mean;
        l->beyond_before = (float)fmax(0, l->use - 1);
    }
    pred_track_restart(&l->use_track);
    pred_track_restart(&l->rate_track);
    pred_track_restart(&l->busy_track);
    pred_track_restart(&l->cost_track);
    l->last_cores = cores;
    if (l->capped_reports < CAPPED_REPORTS)
        l->capped_reports = 0;
}

static void learn_rates(struct pred_learner *l, const struct pred_job *job,
                        const struct pred_observation *o, double use)
{
    bool exact, shifted;
    double share = busy_share(o, &exact);
    double rate = o->samples / o->interval_s;

    shifted = pred_track_update(&l->use_track, use, o->interval_s, 0.01);
    l->use = (double)l->use_track.mean;
    l->use_at_cores = o->cores;
    if (isnan(share)) {
        pred_track_restart(&l->busy_track);
        l->busy = NAN;
    } else {
        pred_track_update(&l->busy_track, share, o->interval_s, 0.01);
        l->busy = (double)l->busy_track.mean;
    }
    if (isnan(rate)) {
        pred_track_restart(&l->rate_track);
        l->rate = NAN;
    } else {
        shifted = pred_track_update(&l->rate_track, fmin(rate, 1e12), o->interval_s, 0) || shifted;
        l->rate = (double)l->rate_track.mean;
    }
    if (shifted)
        forget_points(l);
    learn_cost(l, job, o, use);
    learn_bytes(l, o);
    learn_workers(l, o);
    learn_demand(l, job, o);
    learn_free_busy(l, exact, share, o->interval_s);
    learn_gpu_rate(l);
}

int pred_learner_observe(struct pred_learner *learner, const struct pred_job *job,
                         const struct pred_observation *observation)
{
    double use;
    bool rated;

    if (!plausible(observation))
        return 0;
    use = observation->loader_cpu_s / observation->interval_s;
    learner->reports += learner->reports < UINT32_MAX;
    if (observation->tasks == 0) {
        learner->idle_reports += learner->idle_reports < UINT32_MAX;
        learner->last_cores = observation->cores;
        return 1;
    }
    learner->idle_reports = 0;
    if (learner->last_cores != observation->cores && learner->last_cores != NO_CORES) {
        begin_anew(learner, observation->cores);
        return 1;
    }
    learner->last_cores = observation->cores;
    rated = learner->core_rate > 0;
    score(learner, job, observation, use);
    learn_rates(learner, job, observation, use);
    if (rated != (learner->core_rate > 0))
        forget_points(learner); /* their unit changed */
    if (observation->cores > 0 && (double)learner->use_track.seconds > 0.5 * PRED_TRACK_SECONDS)
        keep_point(learner, observation->cores, rated ? learner->rate : learner->use,
                   observation->interval_s);
    learner->peak *= exp(-observation->interval_s / PEAK_SECONDS);
    learner->peak = fmax(learner->peak, learner->exploring ? learner->use : learner->demand);
    return 1;
}
