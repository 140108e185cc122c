/*
 * Overlap of computing and exchanging gradients: t = (a^g + b^g)^(1/g); g = 1 is their sum, a large
 * g their maximum (the form and the range 1..10 are those of Pollux, Qiao et al., OSDI 2021).
 */
#include "terms.h"

#include <math.h>

double pred_overlap_s(double compute_s, double sync_s, double overlap)
{
    double high = fmax(compute_s, sync_s), low = fmin(compute_s, sync_s);

    if (!(high > 0))
        return 0;
    if (!(overlap > 1)) /* also NAN */
        return compute_s + sync_s;
    return high * pow(1 + pow(low / high, overlap), 1 / overlap);
}
