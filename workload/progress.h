/*
 * What the training loop has done so far and what it is at: written by the loop, read at any moment
 * by the monitor, which so sees a long wait while it lasts.
 */
#ifndef ADLTRAIN_PROGRESS_H
#define ADLTRAIN_PROGRESS_H

#include <pthread.h>
#include <stdint.h>

enum phase {
    PHASE_WAIT,     /* for the next batch */
    PHASE_COMPUTE,  /* the GPU step */
    PHASE_EXCHANGE, /* the gradients */
    PHASE_OTHER,    /* before, between and after */
    PHASE_COUNT
};

struct totals {
    uint64_t samples, steps;
    double seconds[PHASE_COUNT];
};

struct progress {
    pthread_mutex_t lock;
    struct totals done;
    enum phase phase;
    uint64_t since_ns; /* the phase began */
};

int progress_init(struct progress *progress); /* 0 or -1 */
void progress_free(struct progress *progress);

/* The loop enters a phase. */
void progress_enter(struct progress *progress, enum phase phase);
/* A step is complete. */
void progress_step(struct progress *progress, uint64_t samples);
/* All up to this moment, the current phase included. */
struct totals progress_now(struct progress *progress);

/* Seconds in all phases. */
double totals_elapsed(const struct totals *totals);
/* The part of the time between two moments that went into a phase, 0..1. */
double totals_share(const struct totals *from, const struct totals *to, enum phase phase);

#endif
