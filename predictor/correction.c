/*
 * A Gaussian process over batch and placement (Rasmussen and Williams, "Gaussian Processes for
 * Machine Learning", 2006, chapters 2 and 5): the sum of
 *
 *     a smooth function of log(batch),
 *     a smooth function of log(batch) and of the placement's numbers,
 *     a smooth function of log(batch) for each shape, and for each layout, of placement, and noise.
 *
 * Scales and lengths are found by climbing the marginal likelihood, with priors, on at most
 * PICK points, by resilient propagation (Riedmiller and Braun, 1993), which needs signs of the
 * gradient only. Prediction uses all points.
 */
#include "correction.h"

#include "solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES   6 /* log: batch, replicas, is one node, nodes, most, least */
#define PICK       250
#define ITERATIONS 35
#define PRIOR_SD   1.5 /* of each log hyperparameter */

enum hyper {
    BATCH_VAR,
    BATCH_LENGTH,
    ALL_VAR,
    ALL_LENGTH, /* FEATURES of them */
    GROUP_LENGTH = ALL_LENGTH + FEATURES,
    SHAPE_VAR,
    LAYOUT_VAR,
    NOISE_VAR,
    NHYPER
};

static const double START[NHYPER] = {
    [BATCH_VAR] = 0.005,
    [BATCH_LENGTH] = 0.5,
    [ALL_VAR] = 0.005,
    [ALL_LENGTH] = 1,
    0.7,
    1,
    0.7,
    0.7,
    1,
    [GROUP_LENGTH] = 1,
    [SHAPE_VAR] = 0.001,
    [LAYOUT_VAR] = 0.001,
    [NOISE_VAR] = 0.002,
};

struct place {
    double x[FEATURES];
    uint64_t shape, layout;
};

struct pred_correction {
    size_t n;
    double log_hyper[NHYPER], hyper[NHYPER];
    struct place *places;
    double *factor; /* of the covariance of all points */
    double *weight; /* covariance^-1 times residuals */
};

static struct place place_of(const struct pred_step *s)
{
    return (struct place){
        .x = {log(s->batch), log(s->replicas), s->nodes == 1, log(s->nodes), log(s->most),
              log(s->least)},
        .shape = s->shape,
        .layout = s->layout,
    };
}

/* The four summands of the covariance of two places, without noise; their sum. */
static double covariance(const double *h, const struct place *a, const struct place *b,
                         double *parts)
{
    double q = 0, batch = pow(a->x[0] - b->x[0], 2), group;

    for (unsigned f = 0; f < FEATURES; f++)
        q += pow((a->x[f] - b->x[f]) / h[ALL_LENGTH + f], 2);
    group = exp(-batch / (2 * h[GROUP_LENGTH] * h[GROUP_LENGTH]));
    parts[0] = h[BATCH_VAR] * exp(-batch / (2 * h[BATCH_LENGTH] * h[BATCH_LENGTH]));
    parts[1] = h[ALL_VAR] * exp(-q / 2);
    parts[2] = a->shape == b->shape ? h[SHAPE_VAR] * group : 0;
    parts[3] = a->layout == b->layout ? h[LAYOUT_VAR] * group : 0;
    return parts[0] + parts[1] + parts[2] + parts[3];
}

static bool factorise(const double *h, const struct place *places, size_t n, double *k)
{
    double parts[4];

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j <= i; j++)
            k[i * n + j] = covariance(h, &places[i], &places[j], parts);
        k[i * n + i] += h[NOISE_VAR];
    }
    return pred_cholesky(k, n);
}

/* Derivatives of each pair's covariance by the log hyperparameters, weighted and summed. */
static void add_slopes(const double *h, const struct place *a, const struct place *b, double weight,
                       double *gradient)
{
    double parts[4], batch = pow(a->x[0] - b->x[0], 2);

    covariance(h, a, b, parts);
    gradient[BATCH_VAR] += weight * parts[0];
    gradient[BATCH_LENGTH] += weight * parts[0] * batch / (h[BATCH_LENGTH] * h[BATCH_LENGTH]);
    gradient[ALL_VAR] += weight * parts[1];
    for (unsigned f = 0; f < FEATURES; f++)
        gradient[ALL_LENGTH + f] +=
            weight * parts[1] * pow((a->x[f] - b->x[f]) / h[ALL_LENGTH + f], 2);
    gradient[SHAPE_VAR] += weight * parts[2];
    gradient[LAYOUT_VAR] += weight * parts[3];
    gradient[GROUP_LENGTH] +=
        weight * (parts[2] + parts[3]) * batch / (h[GROUP_LENGTH] * h[GROUP_LENGTH]);
}

struct climb {
    const struct place *places;
    const double *y;
    size_t n;
    double *k, *inverse, *weight;
};

/* The gradient of the negative log posterior of the hyperparameters. */
static bool slope(const struct climb *c, const double *log_hyper, double *gradient)
{
    double h[NHYPER];

    for (unsigned j = 0; j < NHYPER; j++)
        h[j] = exp(log_hyper[j]);
    if (!factorise(h, c->places, c->n, c->k))
        return false;
    pred_cholesky_invert(c->k, c->n, c->inverse);
    memcpy(c->weight, c->y, c->n * sizeof(double));
    pred_solve_lower(c->k, c->n, c->weight);
    pred_solve_upper(c->k, c->n, c->weight);
    for (unsigned j = 0; j < NHYPER; j++)
        gradient[j] = (log_hyper[j] - log(START[j])) / (PRIOR_SD * PRIOR_SD);
    for (size_t i = 0; i < c->n; i++) {
        double own = (c->inverse[i * c->n + i] - c->weight[i] * c->weight[i]) / 2;

        gradient[NOISE_VAR] += own * h[NOISE_VAR];
        add_slopes(h, &c->places[i], &c->places[i], own, gradient);
        for (size_t j = 0; j < i; j++)
            add_slopes(h, &c->places[i], &c->places[j],
                       c->inverse[i * c->n + j] - c->weight[i] * c->weight[j], gradient);
    }
    return true;
}

static void climb(const struct climb *c, double *log_hyper)
{
    double step[NHYPER], last[NHYPER] = {0}, gradient[NHYPER];

    for (unsigned j = 0; j < NHYPER; j++)
        step[j] = 0.2;
    for (unsigned i = 0; i < ITERATIONS; i++) {
        if (!slope(c, log_hyper, gradient))
            return;
        for (unsigned j = 0; j < NHYPER; j++) {
            double agree = gradient[j] * last[j];

            step[j] = agree > 0 ? fmin(step[j] * 1.2, 0.6) : agree < 0 ? step[j] * 0.5 : step[j];
            last[j] = agree < 0 ? 0 : gradient[j];
            if (last[j] != 0)
                log_hyper[j] -= copysign(step[j], last[j]);
        }
    }
}

/* A fixed shuffle: the same table gives the same fit. */
static size_t shuffled(size_t i, size_t n)
{
    uint64_t step = 2654435761u % n;
    uint64_t a = step > 0 ? step : 1;

    for (;; a++) {
        uint64_t x = a, y = n;

        while (y != 0) {
            uint64_t rest = x % y;

            x = y;
            y = rest;
        }
        if (x == 1) /* coprime: visits everything once */
            return (size_t)((a * i) % n);
    }
}

static bool learn_scales(struct pred_correction *c, const double *residual)
{
    size_t pick = c->n < PICK ? c->n : PICK;
    struct place *places = calloc(pick, sizeof(*places));
    double *y = calloc(pick, sizeof(*y));
    struct climb work = {places,
                         y,
                         pick,
                         calloc(pick * pick, sizeof(double)),
                         calloc(pick * pick, sizeof(double)),
                         calloc(pick, sizeof(double))};
    bool ok = places != NULL && y != NULL && work.k != NULL && work.inverse != NULL &&
              work.weight != NULL;

    for (size_t i = 0; ok && i < pick; i++) {
        size_t at = shuffled(i, c->n);

        places[i] = c->places[at];
        y[i] = residual[at];
    }
    if (ok)
        climb(&work, c->log_hyper);
    free(places);
    free(y);
    free(work.k);
    free(work.inverse);
    free(work.weight);
    return ok;
}

struct pred_correction *pred_correction_fit(const struct pred_step *points, const double *residual,
                                            size_t n)
{
    struct pred_correction *c = calloc(1, sizeof(*c));

    if (c == NULL || n == 0)
        goto fail;
    c->n = n;
    c->places = calloc(n, sizeof(*c->places));
    c->factor = calloc(n * n, sizeof(double));
    c->weight = calloc(n, sizeof(double));
    if (c->places == NULL || c->factor == NULL || c->weight == NULL)
        goto fail;
    for (size_t i = 0; i < n; i++)
        c->places[i] = place_of(&points[i]);
    for (unsigned j = 0; j < NHYPER; j++)
        c->log_hyper[j] = log(START[j]);
    if (!learn_scales(c, residual))
        goto fail;
    for (unsigned j = 0; j < NHYPER; j++)
        c->hyper[j] = exp(c->log_hyper[j]);
    if (!factorise(c->hyper, c->places, n, c->factor))
        goto fail;
    memcpy(c->weight, residual, n * sizeof(double));
    pred_solve_lower(c->factor, n, c->weight);
    pred_solve_upper(c->factor, n, c->weight);
    return c;
fail:
    pred_correction_free(c);
    return NULL;
}

void pred_correction_free(struct pred_correction *c)
{
    if (c == NULL)
        return;
    free(c->places);
    free(c->factor);
    free(c->weight);
    free(c);
}

double pred_correction_at(const struct pred_correction *c, const struct pred_step *query,
                          double *sd)
{
    struct place at = place_of(query);
    double *k = calloc(c->n, sizeof(*k));
    double parts[4], mean = 0,
                     variance = covariance(c->hyper, &at, &at, parts) + c->hyper[NOISE_VAR];

    if (k == NULL) { /* without memory the physics alone, and honestly unsure */
        *sd = sqrt(variance);
        return 0;
    }
    for (size_t i = 0; i < c->n; i++) {
        k[i] = covariance(c->hyper, &at, &c->places[i], parts);
        mean += k[i] * c->weight[i];
    }
    pred_solve_lower(c->factor, c->n, k);
    for (size_t i = 0; i < c->n; i++)
        variance -= k[i] * k[i];
    free(k);
    *sd = sqrt(fmax(variance, c->hyper[NOISE_VAR]));
    return mean;
}
