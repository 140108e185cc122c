/*
 * Synchronous steps wait for the slowest of K workers.
 *
 * If their computing times vary with relative standard deviation cv, the slowest of K takes
 * 1 + cv * e(K) times the mean, with e(K) the expected largest of K standard normal numbers, about
 * the normal quantile at (K - 3/8) / (K + 1/4) (Blom, "Statistical Estimates and Transformed
 * Beta-Variables", 1958).
 */
#include "terms.h"

#include <math.h>

/* Quantile of the normal distribution for p in 1/2 .. 1 by Newton steps on erfc. */
static double normal_quantile(double p)
{
    double x = 0;

    for (int i = 0; i < 30; i++) {
        double off = 0.5 * erfc(-x / sqrt(2)) - p;
        double density = exp(-x * x / 2) / 2.5066282746310002;

        if (fabs(off) < 1e-13)
            break;
        x -= fmax(-1, fmin(1, off / density));
    }
    return x;
}

double pred_straggler(double workers)
{
    if (!(workers > 1))
        return 0;
    return normal_quantile((fmin(workers, 1e6) - 0.375) / (fmin(workers, 1e6) + 0.25));
}
