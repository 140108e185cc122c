/*
 * A noisy quantity followed over time, smoothed over PRED_TRACK_SECONDS while it is steady (and
 * over more where it comes in bursts), and at once at its new level when it has shifted for good.
 *
 * The mean is exponential with that time constant (a plain mean until then). Two cumulative sums
 * (Page, "Continuous inspection schemes", Biometrika 1954), up and down, collect deviations beyond
 * half a standard deviation; when one passes its threshold the mean is replaced by that of the
 * reports since the sum was last zero. Bursts within the window are part of the variance and shift
 * nothing.
 */
#ifndef ADLOADER_PREDICTOR_TRACK_H
#define ADLOADER_PREDICTOR_TRACK_H

#include "predictor.h"

#define PRED_TRACK_SECONDS 8.0

/* Returns true when a shift was noticed. value finite, seconds > 0; floor: standard deviation below
 * which noise is not told apart, in the value's unit. */
bool pred_track_update(struct pred_track *track, double value, double seconds, double floor);

/* Forget the level but not how noisy it is. */
void pred_track_restart(struct pred_track *track);

#endif
