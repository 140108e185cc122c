/*
 * Emulated storage of a chosen bandwidth and latency, shared by the loader threads of a rank: a
 * token bucket, kept as the moment at which the device is free again. Requests take their turn on
 * the device; latencies of several overlap. What the real storage needed counts in, so the emulated
 * one is never faster than it is.
 *
 * A thread that waits here sleeps on a timer. The kernel does not see it as waiting for a disk.
 */
#ifndef ADLTRAIN_THROTTLE_H
#define ADLTRAIN_THROTTLE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define THROTTLE_BURST_S 0.02 /* so long the device may have idled and still make up for it */

struct throttle {
    double bytes_per_s; /* 0: as fast as it is */
    double latency_s;   /* of each request */
    pthread_mutex_t lock;
    uint64_t free_ns; /* the requests so far are served */
};

int throttle_init(struct throttle *throttle, double bytes_per_s, double latency_s); /* 0 or -1 */
void throttle_free(struct throttle *throttle);

/* When a request of so many bytes, made at now_ns, is served. Takes its turn; does not wait. */
uint64_t throttle_book(struct throttle *throttle, uint64_t now_ns, size_t bytes);

/* Book, and sleep until then. */
void throttle_wait(struct throttle *throttle, uint64_t asked_ns, size_t bytes);

#endif
