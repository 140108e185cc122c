/* See loaderfit.h. */
#include "loaderfit.h"

#include "solve.h"
#include "terms.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

enum { CORE_RATE, BETA, CEILING, NPARAMS };

#define NOISE      0.03 /* relative, of a measured rate */
#define FREE_SD    10.0
#define SD_LEAST   0.2 /* learned priors are not believed to be narrower */
#define POINTS_MAX 4096

void pred_loader_prior_init(struct pred_loader_prior *prior)
{
    /* a few per cent of contention, and a ceiling somewhere beyond a dozen cores */
    *prior = (struct pred_loader_prior){
        .log_beta = log(0.05), .log_beta_sd = 1, .log_ceiling = log(16), .log_ceiling_sd = 1};
}

static void learn(const double *values, size_t n, double *mean, double *sd)
{
    double sum = *mean * 0.5, weight = 0.5, square = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i];
    weight += (double)n;
    square = *sd * *sd * 0.5;
    for (size_t i = 0; i < n; i++)
        square += pow(values[i] - sum / weight, 2);
    *mean = sum / weight;
    *sd = fmax(SD_LEAST, sqrt(square / weight));
}

void pred_loader_prior_learn(struct pred_loader_prior *prior, const struct pred_loader *loaders,
                             size_t n)
{
    double *values = calloc(n, sizeof(*values));

    if (values == NULL || n == 0) { /* the old prior is still a prior */
        free(values);
        return;
    }
    for (size_t i = 0; i < n; i++)
        values[i] = log(fmax(loaders[i].beta, 1e-3));
    learn(values, n, &prior->log_beta, &prior->log_beta_sd);
    for (size_t i = 0; i < n; i++)
        values[i] = log(fmin(loaders[i].ceiling / loaders[i].core_rate, 1e4));
    learn(values, n, &prior->log_ceiling, &prior->log_ceiling_sd);
    free(values);
}

struct data {
    const struct pred_loader_point *points;
    size_t n;
};

static void decode(const double *x, struct pred_loader *loader)
{
    loader->core_rate = exp(x[CORE_RATE]);
    loader->beta = fmin(exp(x[BETA]), PRED_BETA_MAX);
    loader->ceiling = exp(x[CORE_RATE] + x[CEILING]);
}

double pred_loader_at(const struct pred_loader *loader, double cores)
{
    return pred_knee(loader->ceiling, pred_loader_rate(loader->core_rate, loader->beta, cores),
                     PRED_KNEE_DEPTH);
}

static void residuals(const double *x, double *r, const void *opaque)
{
    const struct data *d = opaque;
    struct pred_loader loader;

    decode(x, &loader);
    for (size_t i = 0; i < d->n; i++)
        r[i] = log(pred_loader_at(&loader, d->points[i].cores) / d->points[i].rate) / NOISE;
}

int pred_loader_fit(const struct pred_loader_point *points, size_t n,
                    const struct pred_loader_prior *prior, struct pred_loader *loader)
{
    double mean[NPARAMS], x[NPARAMS], best = INFINITY;
    const double sd[NPARAMS] = {FREE_SD, prior->log_beta_sd, prior->log_ceiling_sd};
    const struct data data = {points, n};
    const struct pred_fit fit = {NPARAMS, n, mean, sd, residuals, &data, 100};

    errno = EINVAL;
    if (n == 0 || n > POINTS_MAX)
        return -1;
    mean[CORE_RATE] = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(points[i].cores > 0 && points[i].cores <= PRED_CORES_MAX) ||
            !(points[i].rate > 1e-12 && points[i].rate < 1e15))
            return -1;
        mean[CORE_RATE] = fmax(mean[CORE_RATE], points[i].rate / points[i].cores);
    }
    mean[CORE_RATE] = log(mean[CORE_RATE]);
    mean[BETA] = prior->log_beta;
    mean[CEILING] = prior->log_ceiling;
    errno = ENOMEM;
    for (unsigned start = 0; start < 2; start++) { /* contention or ceiling: either may bend it */
        double cost;

        for (unsigned j = 0; j < NPARAMS; j++)
            x[j] = mean[j];
        x[CEILING] += start == 0 ? 0 : -1.5;
        cost = pred_fit_run(&fit, x);
        if (cost < best) {
            best = cost;
            decode(x, loader);
        }
    }
    return isfinite(best) ? 0 : -1;
}
