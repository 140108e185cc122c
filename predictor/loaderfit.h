/*
 * A loader's parameters from few measured points (cores, samples/s): what one core does, how much
 * cores hinder one another, and the ceiling that no number of cores passes (the one process that
 * takes the samples, memory).
 *
 * Two points do not tell three numbers: what they leave open comes from the prior, which is what is
 * usual, or what other loaders or machines taught (pred_loader_prior_learn).
 */
#ifndef ADLOADER_PREDICTOR_LOADERFIT_H
#define ADLOADER_PREDICTOR_LOADERFIT_H

#include <stddef.h>

struct pred_loader_point {
    double cores, rate; /* > 0 */
};

struct pred_loader_prior {
    double log_beta, log_beta_sd;
    double log_ceiling, log_ceiling_sd; /* of ceiling / core_rate: how many cores' worth it is */
};

struct pred_loader {
    double core_rate; /* samples/s of one core alone */
    double beta;
    double ceiling; /* samples/s; INFINITY none */
};

/* What is usual where nothing else is known. */
void pred_loader_prior_init(struct pred_loader_prior *prior);

/* Moves the prior to what fully measured curves show, half-trusting few of them. */
void pred_loader_prior_learn(struct pred_loader_prior *prior, const struct pred_loader *loaders,
                             size_t n);

/* Returns 0; -1 with errno EINVAL (no sensible point) or ENOMEM. */
int pred_loader_fit(const struct pred_loader_point *points, size_t n,
                    const struct pred_loader_prior *prior, struct pred_loader *loader);

double pred_loader_at(const struct pred_loader *loader, double cores);

#endif
