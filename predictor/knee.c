/*
 * The soft knee between a producer (loaders) and a consumer (the training loop) with a queue of
 * finite depth between them.
 *
 * With exponential times it is the queue M/M/1/n: throughput = demand * r (1 - r^n) / (1 - r^(n+1))
 * with r = supply/demand. Steadier batches act like a deeper queue: depth = places * 2 /
 * (cv_supply^2 + cv_demand^2), the two-moment approximation (Buzacott and Shanthikumar, "Stochastic
 * Models of Manufacturing Systems", 1993, chapter 5). It grows in both rates and never passes
 * either; at r = 1 it is n/(n+1).
 */
#include "terms.h"

#include <math.h>

/* Share of time the producer works: (1 - r^n) / (1 - r^(n+1)), in a form without overflow or loss
 * of digits near 1. */
double pred_knee_busy(double ratio, double depth)
{
    double log_r;

    if (!(ratio > 0))
        return 1;
    if (isinf(ratio))
        return 0;
    log_r = log(ratio);
    if (fabs(log_r) * (depth + 1) < 1e-6)
        return depth / (depth + 1);
    if (log_r > 0) /* divide both by r^(n+1) */
        return expm1(-depth * log_r) / expm1(-(depth + 1) * log_r) / ratio;
    return expm1(depth * log_r) / expm1((depth + 1) * log_r);
}

double pred_knee(double demand, double supply, double depth)
{
    double rate;

    if (!(demand > 0) || !(supply > 0))
        return 0;
    if (isinf(supply))
        return demand;
    if (isinf(demand))
        return supply;
    rate = supply * pred_knee_busy(supply / demand, depth);
    return fmin(rate, fmin(demand, supply));
}

double pred_knee_ratio(double busy, double depth)
{
    double low = 0, high;

    if (!(busy > 0))
        return INFINITY;
    if (busy >= 1)
        return 0;
    high = 1 / busy + 1; /* busy(r) <= 1/r */
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;

        if (pred_knee_busy(middle, depth) > busy)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}
