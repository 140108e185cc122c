/*
 * A simulated training step, the oracle of the predictor's tests: it knows its true loader, GPU,
 * storage and workers and makes the reports that an agent would send. It does not share the
 * predictor's knee or any other of its code: the rate is the plain minimum.
 */
#ifndef ADLOADER_TESTS_PREDICTOR_SIM_H
#define ADLOADER_TESTS_PREDICTOR_SIM_H

#include "predictor.h"

#include <math.h>
#include <stdint.h>

struct sim {
    double core_rate, beta, gpu_rate, io_rate; /* samples/s; io_rate INFINITY: no limit */
    unsigned workers;
    double noise;                 /* relative sd of each number reported */
    bool samples, clock;          /* the application tells samples; and its waiting time */
    bool gpu;                     /* GPU busy share is measured */
    unsigned burst_on, burst_off; /* reports in which loaders work, and pause; 0 steady */
    uint64_t random;
    unsigned reports;
};

static inline double sim_uniform(struct sim *s) /* splitmix64 */
{
    uint64_t z = (s->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static inline double sim_noisy(struct sim *s, double value, double noise)
{
    double normal = sqrt(-2 * log(1 - sim_uniform(s))) * cos(6.283185307179586 * sim_uniform(s));

    return fmax(0, value * (1 + noise * normal));
}

static inline double sim_loader_rate(const struct sim *s, double cores)
{
    double busy = fmin(cores, s->workers);

    return busy > 0 ? s->core_rate * busy / (1 + s->beta * (busy - 1)) : 0;
}

static inline double sim_rate(const struct sim *s, double cores)
{
    return fmin(s->gpu_rate, fmin(s->io_rate, sim_loader_rate(s, cores)));
}

/* Cores that the loaders keep busy to make this rate. */
static inline double sim_use(const struct sim *s, double rate)
{
    double b = s->beta;

    return rate * (1 - b) / (s->core_rate - rate * b);
}

static inline double sim_demand(const struct sim *s)
{
    return sim_use(s, fmin(s->gpu_rate, s->io_rate));
}

static inline struct pred_observation sim_report(struct sim *s, unsigned cores)
{
    double pace = sim_noisy(s, s->gpu_rate, s->noise);
    double rate = fmin(pace, sim_rate(s, cores)), use = sim_use(s, rate);
    double share = rate / pace;
    struct pred_observation o = {
        .interval_s = 1,
        .cores = cores,
        .tasks = s->workers,
        .workers = s->workers,
        .queue_s = NAN,
        .io_wait = NAN,
        .gpu_busy = NAN,
        .samples = NAN,
        .wait_s = NAN,
        .busy_s = NAN,
        .read_bytes = NAN,
    };

    if (s->burst_on > 0) {
        unsigned period = s->burst_on + s->burst_off;
        double peak = fmin(fmin(cores, s->workers), use * period / s->burst_on);

        use = s->reports % period < s->burst_on ? peak : 0;
    }
    o.loader_cpu_s = fmin(sim_noisy(s, use, s->noise / 10), fmin(cores, s->workers));
    if (s->samples)
        o.samples = sim_noisy(s, rate, s->noise / 10);
    if (s->clock) {
        o.busy_s = fmin(1, sim_noisy(s, share, s->noise / 10));
        o.wait_s = 1 - o.busy_s;
    }
    if (s->gpu)
        o.gpu_busy = fmin(1, sim_noisy(s, 0.97 * share, s->noise / 2));
    s->reports++;
    return o;
}

#endif
