/* See baselines.h. Both are fitted as well as ours: robustly, in logarithms, from many starts. */
#include "baselines.h"

#include "solve.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define STARTS 12
#define NOISE  0.05
#define FREE   50.0 /* sd of a prior that holds nothing */

static double ring(const struct pred_step *s)
{
    return 2.0 * (s->replicas - 1) / s->replicas;
}

static double flops_step(const double *x, const struct pred_step *s)
{
    double exchange = s->replicas > 1 ? exp(s->nodes > 1 ? x[2] : x[1]) * ring(s) : 0;

    return exp(x[0]) * s->batch + exchange;
}

static void flops_start(double step_s, double batch, double *x)
{
    x[0] = log(0.7 * step_s / batch);
    x[1] = log(0.05 * step_s);
    x[2] = log(0.2 * step_s);
}

const struct baseline BASELINE_FLOPS = {"flops+ring", 3, flops_step, flops_start};

static double pollux_step(const double *x, const struct pred_step *s)
{
    double more = fmax(s->replicas - 2.0, 1e-8), exchange = 0;
    double overlap = 1 + 9 / (1 + exp(-x[6]));
    double compute = exp(x[0]) + exp(x[1]) * s->batch;

    if (s->nodes > 1)
        exchange = exp(x[2]) + exp(x[3]) * more;
    else if (s->replicas > 1)
        exchange = exp(x[4]) + exp(x[5]) * more;
    return pow(pow(compute, overlap) + pow(exchange, overlap), 1 / overlap);
}

static void pollux_start(double step_s, double batch, double *x)
{
    x[0] = log(0.1 * step_s);
    x[1] = log(0.5 * step_s / batch);
    x[2] = log(0.3 * step_s);
    x[3] = log(0.02 * step_s);
    x[4] = log(0.05 * step_s);
    x[5] = log(0.02 * step_s);
    x[6] = -1.5;
}

const struct baseline BASELINE_POLLUX = {"pollux-7", 7, pollux_step, pollux_start};

struct data {
    const struct baseline *baseline;
    const struct pred_step *steps;
    size_t n;
};

static void residuals(const double *x, double *r, const void *opaque)
{
    const struct data *d = opaque;

    for (size_t i = 0; i < d->n; i++)
        r[i] = log(d->baseline->step_s(x, &d->steps[i]) / d->steps[i].step_s) / NOISE;
}

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

int baseline_fit(const struct baseline *b, const struct pred_step *steps, size_t n, double *x)
{
    double mean[PRED_FIT_PARAMS_MAX], sd[PRED_FIT_PARAMS_MAX], trial[PRED_FIT_PARAMS_MAX];
    double *values = calloc(n, sizeof(*values)), step_s, batch, best = INFINITY;
    struct data data = {b, steps, n};
    struct pred_fit fit = {b->nparams, n, mean, sd, residuals, &data, 100};
    uint64_t random = 1;

    if (values == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        values[i] = steps[i].step_s;
    qsort(values, n, sizeof(*values), by_value);
    step_s = values[n / 2];
    for (size_t i = 0; i < n; i++)
        values[i] = steps[i].batch;
    qsort(values, n, sizeof(*values), by_value);
    batch = values[n / 2];
    free(values);
    b->start(step_s, batch, mean);
    for (unsigned j = 0; j < b->nparams; j++)
        sd[j] = FREE;
    if (b == &BASELINE_POLLUX)
        sd[6] = 6; /* beyond it the exponent is at its bound anyway */
    for (unsigned start = 0; start < STARTS; start++) {
        double cost;

        for (unsigned j = 0; j < b->nparams; j++)
            trial[j] = mean[j] + (start > 0 ? 4 * uniform(&random) - 2 : 0);
        cost = pred_fit_run(&fit, trial);
        if (cost < best) {
            best = cost;
            memcpy(x, trial, b->nparams * sizeof(*x));
        }
    }
    return isfinite(best) ? 0 : -1;
}
