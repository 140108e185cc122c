/* The fitted physics of step times; the inside of steptime.h. */
#ifndef ADLOADER_PREDICTOR_PHYSICS_H
#define ADLOADER_PREDICTOR_PHYSICS_H

#include "steptime.h"

#define PRED_PHYSICS_BATCHES                                                                       \
    40 /* distinct batches at which computing time has a wiggle of its own */
#define PRED_PHYSICS_PARAMS (13 + PRED_PHYSICS_BATCHES)

struct pred_physics {
    double x[PRED_PHYSICS_PARAMS];
    unsigned nbatches;
    double log_batch[PRED_PHYSICS_BATCHES];
    double wiggle[PRED_PHYSICS_BATCHES * PRED_PHYSICS_BATCHES]; /* factor of its covariance */
    double wiggle_weight[PRED_PHYSICS_BATCHES]; /* covariance^-1 times the wiggle, after the fit */
};

/* Returns 0, -1 where memory is lacking. n >= 1, points sensible. */
int pred_physics_fit(struct pred_physics *physics, const struct pred_step *points, size_t n);
void pred_physics_time(const struct pred_physics *physics, const struct pred_step *query,
                       struct pred_step_time *time);

#endif
