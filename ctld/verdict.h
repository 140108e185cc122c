/*
 * Why a member's GPUs wait for data, or that they do not: a verdict with its evidence in words and
 * what the user can do. Pure: looks (reports in the verdict's terms) go in, one at a time; the
 * state is small, since there may be 100,000 members.
 *
 * Measured values are smoothed over a few seconds; a new verdict replaces the old one only when it
 * has held for VERDICT_HOLD_S, so that bursts (loaders deliver in bursts of as many batches as
 * there are workers) do not make it flicker.
 */
#ifndef ADLOADER_VERDICT_H
#define ADLOADER_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERDICT_HOLD_S    3.0
#define VERDICT_STALL_S   30.0 /* without any progress */
#define VERDICT_TEXT_SIZE 400

enum verdict {
    VERDICT_UNKNOWN,
    VERDICT_GPU_BOUND,
    VERDICT_CPU_STARVED,
    VERDICT_WORKER_LIMITED,
    VERDICT_IO_BOUND,
    VERDICT_MAIN_THREAD_BOUND,
    VERDICT_STALLED,
    VERDICT_ORPHANED,
    VERDICT_UNMANAGED,
    VERDICTS
};

struct verdict_look { /* one report; NAN: unknown */
    double interval_s;
    bool gpus;               /* it has some */
    bool unconfined;         /* its own CPUs are not known */
    bool bound;              /* its user has bound its tasks */
    unsigned tasks, workers; /* loaders, and of them those that take samples */
    unsigned orphans;        /* workers whose rank is gone */
    unsigned left_alone;     /* loader tasks whose masks the application manages */
    double cores;            /* that its loaders may use */
    double use;              /* that they use */
    double queue;            /* mean number of loader tasks waiting for a CPU */
    double io_wait;          /* mean number of them waiting for storage */
    double main_use;         /* cores that all other tasks use */
    double main_thread;      /* share of time that the busiest main thread of a rank had work */
    double busy;             /* share of time that the GPUs, or the training loop, worked */
    bool clocked;            /* busy is the training loop's own clock */
    double rate;             /* samples/s */
    double read_bytes_per_s;
    double cpu_limit; /* cores that a bandwidth quota allows the step */
};

struct verdict_state {
    float seconds; /* looked at, up to a bound */
    float cores, use, queue, io_wait, main_use, main_thread, busy, rate, read_rate, cpu_limit;
    float tasks, workers;
    float still_s;     /* since anything was last seen to move */
    float warm_s;      /* since loaders were first seen, up to a bound */
    float candidate_s; /* how long the candidate has held */
    uint8_t kind, candidate;
    uint16_t left_alone, orphans;
    bool clocked, unconfined, bound, gpus;
    bool moved; /* it has been seen to load, or to take samples */
};

void verdict_init(struct verdict_state *state);

/* Take one look. Returns whether the verdict has changed. */
bool verdict_update(struct verdict_state *state, const struct verdict_look *look);

enum verdict verdict_kind(const struct verdict_state *state);
const char *verdict_name(enum verdict verdict);

/*
 * What was seen, and what the user can do: a sentence each without a full stop; advice may be "".
 * demand_cores: what the predictor asks for, NAN unknown. Lengths as snprintf.
 */
int verdict_evidence(const struct verdict_state *state, char *buf, size_t size);
int verdict_advice(const struct verdict_state *state, double demand_cores, char *buf, size_t size);

#endif
