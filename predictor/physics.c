/*
 * Fitting the constants of a step's physics.
 *
 *     compute = (a + c batch) * wiggle(batch) * (1 + cv e(K)) * (1 + sharing (m - 1))
 *     one node:      exchange = alpha_in + ring_in(m)
 *     several nodes: exchange = alpha + latency (N - 2)
 *                               + ring(K) * m^crowding * (own factor at 2 and at 3 nodes)
 *     step    = overlap(compute, exchange)
 *
 * with K GPUs in all on N nodes, m of them on the fullest. GPUs of a node share its cores, memory
 * and PCIe, which slows their computing (sharing) and their way out (crowding). Constants are
 * fitted as logarithms (crowding, between 0 and 1, as its logit) under priors around the data's own
 * scale. The wiggle is a Gaussian process over log(batch), since kernels are chosen by size and
 * computing time is no straight line. Two and three nodes have factors of their own, held near 1:
 * small rings use links differently.
 */
#include "physics.h"

#include "solve.h"
#include "terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum param {
    CONSTANT,
    SLOPE,
    ALPHA_IN,
    RING_IN,
    ALPHA,
    RING,
    TWO_NODES,
    THREE_NODES,
    CROWDING,
    SPREAD,
    SHARING,
    OVERLAP,
    LATENCY,
    FIRST_WIGGLE
};
_Static_assert(FIRST_WIGGLE + PRED_PHYSICS_BATCHES == PRED_PHYSICS_PARAMS,
               "parameters are counted");
_Static_assert(PRED_PHYSICS_PARAMS <= PRED_FIT_PARAMS_MAX, "the fit takes that many");

#define NOISE         0.05 /* relative: residuals are counted in it */
#define WIGGLE_SD     0.06
#define WIGGLE_LENGTH 0.7 /* in log(batch) */
#define FACTOR_SD     0.15
#define ITERATIONS    40

struct data {
    struct pred_physics *physics;
    const struct pred_step *points;
    const double *excess; /* pred_straggler() of each */
    const unsigned *batch_index;
    size_t n;
};

static double covariance(double a, double b)
{
    double apart = (a - b) / WIGGLE_LENGTH;

    return WIGGLE_SD * WIGGLE_SD * exp(-apart * apart / 2);
}

static double exchange_in_node(const double *x, const struct pred_step *q)
{
    const struct pred_link link = {0, exp(-x[RING_IN])};

    return q->replicas > 1 ? exp(x[ALPHA_IN]) + pred_ring_s(q->replicas, 1, &link) : 0;
}

static double exchange_between_nodes(const double *x, const struct pred_step *q)
{
    const struct pred_link link = {0, exp(-x[RING])};
    double latency = exp(x[LATENCY]) * (q->nodes - 2);
    double crowding = 1 / (1 + exp(-x[CROWDING]));
    double factor = q->nodes == 2 ? x[TWO_NODES] : q->nodes == 3 ? x[THREE_NODES] : 0;

    return exp(x[ALPHA]) + latency +
           pred_ring_s(q->replicas, 1, &link) * exp(factor) * pow(q->most, crowding);
}

static void evaluate(const double *x, const struct pred_step *q, double wiggle, double excess,
                     struct pred_step_time *time)
{
    double compute = pred_compute_s(exp(x[CONSTANT]), q->batch, 1, 3 * exp(-x[SLOPE]), 0);
    double overlap = 1 + 9 / (1 + exp(-x[OVERLAP]));

    time->compute_s = compute * exp(wiggle) * (1 + exp(x[SPREAD]) * excess) *
                      (1 + exp(x[SHARING]) * (q->most - 1));
    time->exchange_s = q->nodes > 1 ? exchange_between_nodes(x, q) : exchange_in_node(x, q);
    time->step_s = pred_overlap_s(time->compute_s, time->exchange_s, overlap);
    time->correction = 1;
}

static double wiggle_at(const struct pred_physics *f, const double *x, unsigned index)
{
    double sum = 0;

    for (unsigned k = 0; k <= index; k++)
        sum += f->wiggle[index * f->nbatches + k] * x[FIRST_WIGGLE + k];
    return sum;
}

static void residuals(const double *x, double *r, const void *opaque)
{
    const struct data *d = opaque;
    double wiggle[PRED_PHYSICS_BATCHES];
    struct pred_step_time time;

    for (unsigned k = 0; k < d->physics->nbatches; k++)
        wiggle[k] = wiggle_at(d->physics, x, k);
    for (size_t i = 0; i < d->n; i++) {
        evaluate(x, &d->points[i], wiggle[d->batch_index[i]], d->excess[i], &time);
        r[i] = log(time.step_s / d->points[i].step_s) / NOISE;
    }
}

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static unsigned nearest_batch(const struct pred_physics *f, double batch)
{
    unsigned best = 0;

    for (unsigned k = 1; k < f->nbatches; k++)
        if (fabs(f->log_batch[k] - log(batch)) < fabs(f->log_batch[best] - log(batch)))
            best = k;
    return best;
}

/* The distinct batches, at most PRED_PHYSICS_BATCHES evenly picked ones, and their covariance. */
static bool prepare_wiggle(struct pred_physics *f, double *sorted, size_t n)
{
    size_t distinct = 0;

    qsort(sorted, n, sizeof(*sorted), by_value);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || sorted[i] > sorted[distinct - 1])
            sorted[distinct++] = sorted[i];
    f->nbatches = (unsigned)(distinct < PRED_PHYSICS_BATCHES ? distinct : PRED_PHYSICS_BATCHES);
    for (unsigned k = 0; k < f->nbatches; k++)
        f->log_batch[k] = log(sorted[k * distinct / f->nbatches]);
    for (unsigned i = 0; i < f->nbatches; i++)
        for (unsigned k = 0; k < f->nbatches; k++)
            f->wiggle[i * f->nbatches + k] =
                covariance(f->log_batch[i], f->log_batch[k]) + (i == k ? 1e-8 : 0);
    return pred_cholesky(f->wiggle, f->nbatches);
}

static void priors(double step, double batch, double *mean, double *sd)
{
    const double scale[FIRST_WIGGLE][2] = {
        [CONSTANT] = {log(0.2 * step), 2},
        [SLOPE] = {log(0.5 * step / batch), 2},
        [ALPHA_IN] = {log(0.03 * step), 2},
        [RING_IN] = {log(0.05 * step), 2},
        [ALPHA] = {log(0.05 * step), 2},
        [RING] = {log(0.3 * step), 2},
        [TWO_NODES] = {0, FACTOR_SD},
        [THREE_NODES] = {0, FACTOR_SD},
        [CROWDING] = {-3, 1},
        [SHARING] = {log(0.05), 0.7},
        [SPREAD] = {log(0.03), 0.7},
        [OVERLAP] = {0.5, 1.5},
        [LATENCY] = {log(0.04 * step), 0.6},
    };

    for (size_t j = 0; j < PRED_PHYSICS_PARAMS; j++) {
        mean[j] = j < FIRST_WIGGLE ? scale[j][0] : 0;
        sd[j] = j < FIRST_WIGGLE ? scale[j][1] : 1;
    }
}

/* From little and from much overlap: the better of the two optima. */
static int fit_from_both(struct pred_physics *f, const struct data *data, const double *mean,
                         const double *sd)
{
    const struct pred_fit fit = {
        .nparams = FIRST_WIGGLE + f->nbatches,
        .nresiduals = data->n,
        .mean = mean,
        .sd = sd,
        .residuals = residuals,
        .data = data,
        .iterations = ITERATIONS,
    };
    double best = INFINITY;

    for (int start = 0; start < 2; start++) {
        double x[PRED_PHYSICS_PARAMS], cost;

        memcpy(x, mean, sizeof(x));
        x[OVERLAP] = start == 0 ? -1 : 1.5;
        cost = pred_fit_run(&fit, x);
        if (cost < best) {
            best = cost;
            memcpy(f->x, x, sizeof(x));
        }
    }
    return isfinite(best) ? 0 : -1;
}

int pred_physics_fit(struct pred_physics *f, const struct pred_step *points, size_t n)
{
    double mean[PRED_PHYSICS_PARAMS], sd[PRED_PHYSICS_PARAMS];
    double *values = calloc(n, sizeof(*values)), *excess = calloc(n, sizeof(*excess));
    unsigned *index = calloc(n, sizeof(*index));
    double step, batch;
    int rc = -1;

    *f = (struct pred_physics){0};
    if (values == NULL || excess == NULL || index == NULL)
        goto out;
    for (size_t i = 0; i < n; i++) {
        values[i] = points[i].step_s;
        excess[i] = pred_straggler(points[i].replicas);
    }
    step = median(values, n);
    for (size_t i = 0; i < n; i++)
        values[i] = points[i].batch;
    batch = median(values, n);
    if (!prepare_wiggle(f, values, n))
        goto out;
    for (size_t i = 0; i < n; i++)
        index[i] = nearest_batch(f, points[i].batch);
    priors(step, batch, mean, sd);
    rc = fit_from_both(f, &(struct data){f, points, excess, index, n}, mean, sd);
    /* wiggle = L z, so covariance^-1 wiggle = L^-T z */
    memcpy(f->wiggle_weight, f->x + FIRST_WIGGLE, f->nbatches * sizeof(double));
    pred_solve_upper(f->wiggle, f->nbatches, f->wiggle_weight);
out:
    free(values);
    free(excess);
    free(index);
    return rc;
}

void pred_physics_time(const struct pred_physics *f, const struct pred_step *query,
                       struct pred_step_time *time)
{
    double wiggle = 0;

    for (unsigned k = 0; k < f->nbatches; k++)
        wiggle += covariance(log(query->batch), f->log_batch[k]) * f->wiggle_weight[k];
    evaluate(f->x, query, wiggle, pred_straggler(query->replicas), time);
}
