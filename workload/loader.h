/*
 * The pool of loader threads (named adl-loader): each reads a sample, decodes, augments, and fills
 * the next place of the queue of batches. The pool follows the number of workers that are wanted:
 * more threads are started up to its maximum, surplus ones park and are woken again, none is ever
 * torn down before the end. Bad samples are skipped, counted and named.
 */
#ifndef ADLTRAIN_LOADER_H
#define ADLTRAIN_LOADER_H

#include "adloader.h"
#include "batches.h"
#include "cpus.h"
#include "sampler.h"
#include "store.h"

#include <stdbool.h>

#define LOADER_THREADS_MAX 4096u

struct loader_config {
    struct store *store;
    struct sampler *sampler;
    struct batches *queue;
    adloader_t *client; /* threads are announced to it; may be NULL */
    uint64_t seed;
    unsigned threads_max; /* 1..LOADER_THREADS_MAX */
    unsigned side;        /* of the square crop */
    unsigned tokens;      /* of a text; 0: samples are pictures */
    bool dct_scaling;     /* decode no larger than the crop needs */
};

struct loader;

struct loader *loader_new(const struct loader_config *config); /* NULL: ENOMEM */

/*
 * How many threads shall work from now on, within 1..threads_max. Returns the number that do: less
 * where the system gives no more threads (said once in the log).
 */
unsigned loader_set_workers(struct loader *loader, unsigned workers);
unsigned loader_workers(struct loader *loader);

/* The union of the affinity masks of the working threads; 0 or -1 (ENOMEM). */
int loader_cpus(struct loader *loader, struct cpus *cpus);

/* Sums over all threads since the start. */
struct loader_totals {
    uint64_t samples, skipped, bytes;
    double read_s, decode_s, augment_s; /* elapsed */
    double cpu_s;
    double waiting_s; /* for room in the queue: the training loop is slower */
};
void loader_totals(struct loader *loader, struct loader_totals *totals);

/* True once no file of the data set could be used for a whole epoch, or memory ran out. */
bool loader_failed(struct loader *loader);

/* Stops the queue, waits for all threads and frees the pool. */
void loader_free(struct loader *loader);

#endif
