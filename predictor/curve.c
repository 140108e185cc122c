/* From a member's parameters, of whatever source, to its curve T(c). */
#include "terms.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

void pred_curve_free(struct pred_curve *curve)
{
    free(curve->rate);
    free(curve->low);
    free(curve->high);
    free(curve->limit);
    *curve = (struct pred_curve){0};
}

unsigned pred_curve_knee(const struct pred_curve *curve, double tolerance)
{
    double tolerated = tolerance > 0 ? tolerance * curve->gpu_rate : 0;
    unsigned knee = curve->ncores;

    /* A step that gains little may stand before one that gains much (curves need not be concave):
     * so it is looked for from the top. */
    while (knee > 0 && curve->rate[knee] - curve->rate[knee - 1] <= tolerated)
        knee--;
    return knee;
}

static double model_rate(const struct pred_params *p, double cores)
{
    double loader = pred_loader_rate(p->core_rate, p->beta, fmin(cores, p->cores_max));

    if (p->idle)
        return p->gpu_rate;
    if (p->linear)
        return fmin(loader, p->gpu_rate);
    if (isfinite(p->supply_max))
        loader = pred_knee(p->supply_max, loader, p->depth);
    return pred_knee(p->gpu_rate, loader, p->depth);
}

/* The correction, as a logarithm, that measured point i asks of the model at its cores. */
static double point_correction(const struct pred_params *p, unsigned i)
{
    double model = model_rate(p, p->points[i].cores);

    if (!(model > 0) || !(p->points[i].rate > 0))
        return 0;
    return p->points[i].trust * log(p->points[i].rate / model);
}

/* Linear between neighbouring points, fading to nothing at half the first and twice the last. */
static double correction(const struct pred_params *p, double cores)
{
    unsigned last = p->npoints - 1, i = 0;
    double left, right, at;

    while (i < p->npoints && p->points[i].cores <= cores)
        i++;
    if (i == 0)
        return point_correction(p, 0) * fmax(0, 2 * cores / p->points[0].cores - 1);
    if (i > last)
        return point_correction(p, last) * fmax(0, 2 - cores / p->points[last].cores);
    left = point_correction(p, i - 1);
    right = point_correction(p, i);
    at = (cores - p->points[i - 1].cores) / (p->points[i].cores - p->points[i - 1].cores);
    return left + at * (right - left);
}

double pred_params_rate(const struct pred_params *p, double cores)
{
    double rate = model_rate(p, cores);

    if (p->npoints > 0)
        rate *= exp(correction(p, fmin(cores, p->cores_max)));
    return rate > 0 ? fmin(rate, p->gpu_rate) : 0;
}

double pred_params_demand(const struct pred_params *p)
{
    return p->idle ? 0 : pred_loader_cores(p->core_rate, p->beta, p->gpu_rate);
}

static enum pred_limit limit_at(const struct pred_params *p, double cores)
{
    double loader = pred_loader_rate(p->core_rate, p->beta, fmin(cores, p->cores_max));

    if (p->idle)
        return PRED_LIMIT_GPU;
    if (p->linear)
        return cores > p->cores_max ? PRED_LIMIT_WORKERS : PRED_LIMIT_UNKNOWN;
    if (p->guess && cores >= p->cores_max && loader <= p->supply_max)
        return PRED_LIMIT_WORKERS;
    if (p->gpu_rate <= fmin(loader, p->supply_max))
        return PRED_LIMIT_GPU;
    if (p->supply_max <= loader)
        return p->supply_limit;
    return cores > p->cores_max ? PRED_LIMIT_WORKERS : PRED_LIMIT_LOADER;
}

/* The rate with every parameter a standard deviation to one side. */
static double rate_aside(const struct pred_params *p, double cores, double side)
{
    struct pred_params aside = *p;

    aside.core_rate = p->core_rate * exp(side * p->core_rate_sd);
    aside.gpu_rate = p->gpu_rate * exp(side * p->gpu_rate_sd);
    aside.supply_max = p->supply_max * exp(side * p->core_rate_sd);
    aside.npoints = 0;
    return model_rate(&aside, cores);
}

static void fill_at(const struct pred_params *p, unsigned c, struct pred_curve *curve)
{
    double rate = pred_params_rate(p, c);
    double model = model_rate(p, c);
    double scale = model > 0 ? rate / model : 1;

    curve->rate[c] = rate;
    curve->low[c] = fmin(rate, scale * rate_aside(p, c, -1));
    curve->high[c] = fmax(rate, scale * rate_aside(p, c, 1));
    curve->limit[c] = (uint8_t)limit_at(p, c);
}

/* Noise in measured points is no reason to believe that a core does harm. */
static void keep_rising(struct pred_curve *curve)
{
    for (unsigned c = 1; c <= curve->ncores; c++) {
        curve->rate[c] = fmax(curve->rate[c], curve->rate[c - 1]);
        curve->low[c] = fmax(curve->low[c], curve->low[c - 1]);
        curve->high[c] = fmax(curve->high[c], curve->high[c - 1]);
    }
}

int pred_params_curve(const struct pred_params *p, unsigned ncores, struct pred_curve *curve)
{
    size_t n = (size_t)ncores + 1;

    *curve = (struct pred_curve){0};
    if (ncores > PRED_CORES_MAX) {
        errno = EINVAL;
        return -1;
    }
    curve->rate = calloc(n, sizeof(*curve->rate));
    curve->low = calloc(n, sizeof(*curve->low));
    curve->high = calloc(n, sizeof(*curve->high));
    curve->limit = calloc(n, sizeof(*curve->limit));
    if (curve->rate == NULL || curve->low == NULL || curve->high == NULL || curve->limit == NULL) {
        pred_curve_free(curve);
        errno = ENOMEM;
        return -1;
    }
    curve->ncores = ncores;
    for (unsigned c = 0; c <= ncores; c++)
        fill_at(p, c, curve);
    keep_rising(curve);
    curve->gpu_rate = p->gpu_rate;
    curve->demand = fmin(fmin(pred_params_demand(p), p->cores_max), PRED_CORES_MAX);
    curve->demand_rel_sd = p->demand_sd;
    curve->relative = p->relative;
    curve->source = p->source;
    return 0;
}
