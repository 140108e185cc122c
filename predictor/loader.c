/*
 * What c cores of loaders deliver: k c / (1 + beta (c - 1)).
 *
 * The form is the contention part of the Universal Scalability Law (Gunther, "Guerrilla Capacity
 * Planning", 2007; with beta alone it is Amdahl's law): k is one core's rate, beta the share of its
 * work that it cannot do while others do theirs (locks, one consumer process, memory, SMT).
 */
#include "terms.h"

#include <math.h>

static double bounded_beta(double beta)
{
    return beta > 0 ? fmin(beta, PRED_BETA_MAX) : 0; /* also NAN */
}

double pred_loader_rate(double core_rate, double beta, double cores)
{
    if (!(cores > 0))
        return 0;
    if (isinf(cores))
        return bounded_beta(beta) > 0 ? core_rate / bounded_beta(beta) : INFINITY;
    return core_rate * cores / (1 + bounded_beta(beta) * (cores - 1));
}

double pred_loader_cores(double core_rate, double beta, double rate)
{
    double b = bounded_beta(beta);

    if (!(rate > 0))
        return 0;
    if (!(core_rate - rate * b > 0))
        return INFINITY;
    return rate * (1 - b) / (core_rate - rate * b);
}
