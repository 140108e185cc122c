/* Which sample comes next. */
#include "sampler.h"

#include "rng.h"

#include <stdlib.h>

/* Fisher and Yates' shuffle, from the identity each time: epoch e needs no epoch before it. */
static void shuffle(struct sampler *sampler)
{
    struct rng rng = rng_for(sampler->seed, sampler->epoch);

    for (uint32_t i = 0; i < sampler->count; i++)
        sampler->order[i] = i;
    for (uint32_t i = sampler->count - 1; i > 0; i--) {
        uint32_t j = rng_below(&rng, i + 1), swap = sampler->order[i];

        sampler->order[i] = sampler->order[j];
        sampler->order[j] = swap;
    }
}

int sampler_init(struct sampler *sampler, uint32_t count, unsigned rank, unsigned ranks,
                 uint64_t seed)
{
    *sampler = (struct sampler){.count = count, .rank = rank, .ranks = ranks, .seed = seed};
    sampler->shard = count / ranks + (count % ranks != 0);
    sampler->order = malloc(count * sizeof *sampler->order);
    if (sampler->order == NULL)
        return -1;
    if (pthread_mutex_init(&sampler->lock, NULL) != 0) {
        free(sampler->order);
        return -1;
    }
    shuffle(sampler);
    return 0;
}

void sampler_free(struct sampler *sampler)
{
    (void)pthread_mutex_destroy(&sampler->lock);
    free(sampler->order);
}

struct sample sampler_next(struct sampler *sampler)
{
    struct sample sample;
    uint64_t at;

    (void)pthread_mutex_lock(&sampler->lock);
    if (sampler->position == sampler->shard) {
        sampler->position = 0;
        sampler->epoch++;
        shuffle(sampler);
    }
    at = (uint64_t)sampler->position++ * sampler->ranks + sampler->rank;
    sample = (struct sample){sampler->order[at % sampler->count], sampler->epoch};
    (void)pthread_mutex_unlock(&sampler->lock);
    return sample;
}
