/*
 * Storage as a limit: bandwidth / (bytes a sample * (1 - cache hit)).
 *
 * With uniform random order each sample is read once an epoch. A cache that keeps a fixed part of
 * the data set hits just that share x (the argument of MinIO in CoorDL, VLDB 2021, and of SiloD,
 * EuroSys 2023). The kernel's page cache is nearer to least recently used, which hits less: a
 * sample at place a of one epoch and b of the next (fractions) has 1 - a (1 - b) of the data set
 * read in between, and is still there if that is below x; over uniform a and b this is x + (1-x)
 * ln(1-x).
 */
#include "terms.h"

#include <math.h>

double pred_io_rate(double bytes_per_s, double sample_bytes, double cache_hit)
{
    double miss = cache_hit > 0 ? 1 - fmin(cache_hit, 1) : 1;

    if (!(bytes_per_s >= 0) || !(sample_bytes * miss > 0))
        return INFINITY;
    return bytes_per_s / (sample_bytes * miss);
}

double pred_cache_hit(double cache_bytes, double dataset_bytes)
{
    double share;

    if (!(cache_bytes > 0) || !(dataset_bytes > 0))
        return 0;
    share = cache_bytes / dataset_bytes;
    return share >= 1 ? 1 : share + (1 - share) * log1p(-share);
}
