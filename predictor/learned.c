/*
 * From what was declared and what was learned to one member's parameters and curve: each number is
 * fused by the two uncertainties, in logarithms; measured points overrule the model near them.
 */
#include "terms.h"
#include "track.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_REPORTS  3u  /* without loader tasks, of a member that had some */
#define NEVER_REPORTS 60u /* the same of one that declared some but never had any */

/* Two estimates of one positive number, weighted by their certainty, in logarithms. */
static double fused(double a, double a_sd, double b, double b_sd, double *sd)
{
    double wa = 1 / (a_sd * a_sd), wb = 1 / (b_sd * b_sd);

    *sd = 1 / sqrt(wa + wb);
    return exp((wa * log(a) + wb * log(b)) / (wa + wb));
}

static double bounded_sd(double sd)
{
    return fmax(0.02, fmin(sd, 2));
}

static int by_cores(const void *a, const void *b)
{
    const float left = ((const struct pred_point *)a)->cores;
    const float right = ((const struct pred_point *)b)->cores;

    return (left > right) - (left < right);
}

static void take_points(const struct pred_learner *l, struct pred_params *p)
{
    struct pred_point sorted[PRED_LEARNER_POINTS];

    memcpy(sorted, l->points, sizeof(sorted));
    qsort(sorted, PRED_LEARNER_POINTS, sizeof(sorted[0]), by_cores);
    for (unsigned i = 0; i < PRED_LEARNER_POINTS; i++) {
        double seconds = (double)sorted[i].seconds;

        if (!(seconds > 1) || !((double)sorted[i].cores > 0) || !((double)sorted[i].rate > 0))
            continue;
        p->points[p->npoints].cores = fmin((double)sorted[i].cores, p->cores_max);
        p->points[p->npoints].rate = (double)sorted[i].rate;
        p->points[p->npoints].trust = seconds / (seconds + PRED_TRACK_SECONDS / 2);
        p->npoints++;
    }
}

/* Samples were seen: k, beta and G in samples, each fused with what was declared. */
static void samples_params(const struct pred_learner *l, struct pred_params *p)
{
    double sd = bounded_sd(fmax(0.05, l->demand_rel_sd / 2));

    p->beta = l->beta;
    p->core_rate = p->core_rate_sd < 1 ? fused(l->core_rate, 0.05, p->core_rate,
                                               bounded_sd(p->core_rate_sd), &p->core_rate_sd)
                                       : l->core_rate;
    p->core_rate_sd = fmin(p->core_rate_sd, 0.05);
    if (!(l->gpu_rate > 0))
        p->gpu_rate = pred_loader_rate(p->core_rate, p->beta, l->demand), p->gpu_rate_sd = sd;
    else if (p->gpu_rate_sd < 1)
        p->gpu_rate = fused(l->gpu_rate, l->exploring ? 0.5 : sd, p->gpu_rate,
                            bounded_sd(p->gpu_rate_sd), &p->gpu_rate_sd);
    else
        p->gpu_rate = l->gpu_rate, p->gpu_rate_sd = sd;
    if (l->rate > 0)
        p->gpu_rate = fmax(p->gpu_rate, l->rate);
    p->relative = false;
    p->demand_sd = hypot(p->core_rate_sd, p->gpu_rate_sd);
    if (l->held_back && l->rate > 0)
        p->supply_max = fmin(p->supply_max, l->rate);
}

/* Only cores were seen: the demand in cores, which with a declared G or k becomes one in samples.
 */
static void cores_params(const struct pred_learner *l, struct pred_params *p)
{
    double sd = bounded_sd(l->demand_rel_sd), demand = fmax(l->demand, 0.01);
    double declared = pred_params_demand(p);

    if (p->demand_known && isfinite(declared) && declared > 0)
        demand = fused(demand, sd, declared, bounded_sd(p->demand_sd), &sd);
    if (l->use > 0 && demand < 0.95 * l->use)
        demand = 0.95 * l->use;
    if (p->gpu_known && (!p->core_known || p->gpu_rate_sd <= p->core_rate_sd)) {
        p->core_rate = p->gpu_rate / pred_loader_rate(1, p->beta, demand);
        p->core_rate_sd = hypot(p->gpu_rate_sd, sd);
    } else {
        p->core_rate = p->core_known ? p->core_rate : 1;
        p->core_rate_sd = p->core_known ? p->core_rate_sd : 0.05;
        p->gpu_rate = pred_loader_rate(p->core_rate, p->beta, demand);
        p->gpu_rate_sd = sd;
    }
    p->demand_sd = sd;
    if (l->held_back && l->use > 0)
        p->supply_max = fmin(p->supply_max, pred_loader_rate(p->core_rate, p->beta, l->use));
}

bool pred_learner_params(const struct pred_learner *l, const struct pred_job *job, unsigned ncores,
                         struct pred_params *p)
{
    bool never = l->idle_reports == l->reports;

    if (pred_job_check(job) != 0)
        return false;
    pred_job_params(job, ncores, p);
    if (l->idle_reports >= (never && p->demand_known ? NEVER_REPORTS : IDLE_REPORTS)) {
        p->idle = true;
        p->demand_sd = 0.2;
        p->linear = false;
        p->source = PRED_MEASURED;
        return true;
    }
    if (isnan(l->demand))
        return true;
    p->linear = false;
    p->source = PRED_MEASURED;
    p->cores_max = pred_learner_cores_max(l, job);
    p->guess = l->exploring;
    if (l->held_back)
        p->supply_limit = l->io_bound ? PRED_LIMIT_IO : PRED_LIMIT_UNKNOWN;
    if (l->core_rate > 0)
        samples_params(l, p);
    else
        cores_params(l, p);
    if ((l->core_rate > 0) == !p->relative)
        take_points(l, p);
    return true;
}

int pred_learner_curve(const struct pred_learner *learner, const struct pred_job *job,
                       unsigned ncores, struct pred_curve *curve)
{
    struct pred_params p;

    *curve = (struct pred_curve){0};
    if (ncores > PRED_CORES_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (!pred_learner_params(learner, job, ncores, &p))
        return -1;
    return pred_params_curve(&p, ncores, curve);
}
