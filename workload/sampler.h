/*
 * Which sample comes next: each epoch is a seeded permutation of all samples, of which rank r of R
 * takes positions r, r + R, ...; all ranks agree without talking. Where the number of samples is no
 * multiple of R the last ranks begin the permutation again, so that each takes as many.
 */
#ifndef ADLTRAIN_SAMPLER_H
#define ADLTRAIN_SAMPLER_H

#include <pthread.h>
#include <stdint.h>

struct sampler {
    pthread_mutex_t lock;
    uint32_t *order; /* the permutation of the epoch */
    uint32_t count, shard;
    unsigned rank, ranks;
    uint64_t seed, epoch;
    uint32_t position; /* in the shard */
};

/* 0, or -1 on lack of memory. count and ranks are at least 1, rank is below ranks. */
int sampler_init(struct sampler *sampler, uint32_t count, unsigned rank, unsigned ranks,
                 uint64_t seed);
void sampler_free(struct sampler *sampler);

struct sample {
    uint32_t index; /* 0..count-1 */
    uint64_t epoch;
};

/* May be called from many threads. */
struct sample sampler_next(struct sampler *sampler);

#endif
