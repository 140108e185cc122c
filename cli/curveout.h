/* A predicted curve, printed: as a table, as JSON, as an SVG picture. */
#ifndef ADLOADER_CURVEOUT_H
#define ADLOADER_CURVEOUT_H

#include "predictor.h"

#include <stdio.h>

struct json_object;

/* Cores beyond which a further one gives less than a quarter of the first, and less than 2 % of the
 * GPU's rate. */
unsigned curve_knee(const struct pred_curve *curve);

/* The table, the knee and what the unit means; 0 or -1 (no memory). */
int curve_print(const struct pred_curve *curve, FILE *out);

/*
 * {"unit", "gpu_rate_samples_per_s", "demand_cores", ..., "curve": [{"cores", "rate_samples_per_s",
 * ...}]}, NULL without memory. Where only the work of a loader core is known, rates are
 * "..._core_loads".
 */
struct json_object *curve_json(const struct pred_curve *curve);

/* The curve over cores with its band, the GPU's rate and the demand. 0 or -1 (errno). */
int curve_svg(const struct pred_curve *curve, const char *title, FILE *out);

#endif
