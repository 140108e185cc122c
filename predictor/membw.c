/*
 * Memory bandwidth as a limit of loaders: a decoded sample is written and read several times on its
 * way (decode, crop, normalise, collate, copy to the GPU), and no number of cores moves more bytes
 * a second than the node's memory does.
 */
#include "terms.h"

#include <math.h>

double pred_memory_rate(double memory_bytes_per_s, double memory_bytes_per_sample)
{
    if (!(memory_bytes_per_s >= 0) || !(memory_bytes_per_sample > 0))
        return INFINITY;
    return memory_bytes_per_s / memory_bytes_per_sample;
}
