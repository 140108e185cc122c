/* What physics leaves over, learned as a Gaussian process; the inside of steptime.h. */
#ifndef ADLOADER_PREDICTOR_CORRECTION_H
#define ADLOADER_PREDICTOR_CORRECTION_H

#include "steptime.h"

struct pred_correction;

/* residual: log(measured / physics) of each point. NULL: no memory, or nothing to learn. */
struct pred_correction *pred_correction_fit(const struct pred_step *points, const double *residual,
                                            size_t n);
void pred_correction_free(struct pred_correction *correction);

/* The expected log(measured / physics) and its standard deviation, noise included. */
double pred_correction_at(const struct pred_correction *correction, const struct pred_step *query,
                          double *sd);

#endif
