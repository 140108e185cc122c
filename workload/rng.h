/*
 * A small seeded generator (splitmix64): every picture and every augmentation has one of its own,
 * so that results depend on the seed and the sample, never on which thread did the work.
 */
#ifndef ADLTRAIN_RNG_H
#define ADLTRAIN_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A stream for item number index of a stream family; different pairs give unrelated streams. */
static inline struct rng rng_for(uint64_t seed, uint64_t index)
{
    return (struct rng){rng_mix(rng_mix(seed + 0x9e3779b97f4a7c15u) ^ index)};
}

static inline uint64_t rng_u64(struct rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    return rng_mix(rng->state);
}

/* Uniform in [0, n); n must not be 0. The bias is below n / 2^32. */
static inline uint32_t rng_below(struct rng *rng, uint32_t n)
{
    return (uint32_t)(((rng_u64(rng) >> 32) * n) >> 32);
}

/* Uniform in [0, 1). */
static inline double rng_unit(struct rng *rng)
{
    return (double)(rng_u64(rng) >> 11) * 0x1.0p-53;
}

static inline double rng_range(struct rng *rng, double low, double high)
{
    return low + (high - low) * rng_unit(rng);
}

/* About normal with mean 0 and standard deviation 1 (a sum of four uniforms, so within +-3.5). */
static inline double rng_normal(struct rng *rng)
{
    double sum = rng_unit(rng) + rng_unit(rng) + rng_unit(rng) + rng_unit(rng);
    return (sum - 2.0) * 1.7320508075688772;
}

#endif
