/* What limits a member, and its curve: see curvecap.h. */
#include "config.h"

#include "curvecap.h"

#include <math.h>

#define UNHURRIED 0.5  /* busy share of the cores that loaders who wait for others keep */
#define WORKER    0.25 /* of a worker, in a smoothed number of them, that does not make one more */

static const struct curvecap no_cap = {PRED_LIMIT_UNKNOWN, PRED_CORES_MAX, NAN};

static unsigned whole(double cores)
{
    return cores >= PRED_CORES_MAX ? PRED_CORES_MAX : cores > 1 ? (unsigned)ceil(cores) : 1;
}

/* Loaders that have time to spare. */
static void cap_at_use(const struct verdict_state *v, enum pred_limit limit, struct curvecap *cap)
{
    double wanted = fmax(0, (double)v->use) + fmax(0, (double)v->queue); /* fmax: 0 for NAN */
    double had = isnan(v->cores) ? PRED_CORES_MAX : (double)v->cores;

    *cap = (struct curvecap){limit, whole(fmin(wanted / UNHURRIED, had)), (double)v->rate};
}

void curvecap_of_verdict(const struct verdict_state *v, struct curvecap *cap)
{
    *cap = no_cap;
    switch (verdict_kind(v)) {
    case VERDICT_WORKER_LIMITED: /* a worker with threads of its own uses more than one core */
        *cap = (struct curvecap){PRED_LIMIT_WORKERS,
                                 whole(fmax((double)v->workers, (double)v->use) - WORKER), NAN};
        break;
    case VERDICT_IO_BOUND:
        cap_at_use(v, PRED_LIMIT_IO, cap);
        break;
    case VERDICT_MAIN_THREAD_BOUND:
        cap_at_use(v, PRED_LIMIT_MAIN_THREAD, cap);
        break;
    case VERDICT_UNKNOWN:
    case VERDICT_GPU_BOUND: /* the learner sees that by itself */
    case VERDICT_CPU_STARVED:
    case VERDICT_STALLED:
    case VERDICT_ORPHANED:
    case VERDICT_UNMANAGED:
    case VERDICTS:
        break;
    }
}

void curvecap_of_quota(double quota, struct curvecap *cap)
{
    *cap = no_cap;
    if (quota > 0)
        *cap = (struct curvecap){PRED_LIMIT_QUOTA, whole(floor(quota)), NAN};
}

void curvecap_apply(const struct curvecap *cap, struct pred_curve *curve)
{
    unsigned last = cap->cores < curve->ncores ? cap->cores : curve->ncores;
    double level = curve->rate[last];

    if (cap->limit == PRED_LIMIT_UNKNOWN)
        return;
    if (cap->rate > 0 && !curve->relative)
        level = fmin(level, cap->rate);
    for (unsigned c = 0; c <= curve->ncores; c++) {
        if (c >= cap->cores || curve->rate[c] > level)
            curve->limit[c] = (uint8_t)cap->limit;
        curve->rate[c] = fmin(curve->rate[c], level);
        curve->low[c] = fmin(curve->low[c], curve->rate[c]);
        if (c > last)
            curve->high[c] = curve->high[last];
        curve->high[c] = fmax(curve->high[c], curve->rate[c]);
    }
    curve->demand = fmin(curve->demand, cap->cores);
}
