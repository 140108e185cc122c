/*
 * The bounded queue of batches between loader threads and the training loop. Loaders claim single
 * places of the batches to come, in order, and fill them side by side; a batch is ready when its
 * last place is filled, and batches are taken in order. It is also where loaders wait: for room, or
 * because fewer of them are wanted now (parked). Nobody spins.
 */
#ifndef ADLTRAIN_BATCHES_H
#define ADLTRAIN_BATCHES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the samples lie: memory that somebody else gives (a GPU: pinned). */
struct batches_memory {
    void *(*alloc)(void *of, size_t bytes); /* NULL: it said why, there is none */
    void (*release)(void *of, void *memory);
    void *of;
};

struct batch {
    float *samples; /* size * sample_floats */
    unsigned filled;
};

struct batches {
    pthread_mutex_t lock;
    pthread_cond_t room;         /* for loaders that may claim: a place to claim */
    pthread_cond_t allowed_more; /* for parked loaders, which room does not wake */
    pthread_cond_t ready;        /* for the training loop */
    struct batch *ring;
    struct batches_memory memory;
    unsigned depth, size;
    size_t sample_floats;
    uint64_t next_claim, next_take; /* numbers of batches since the start */
    unsigned claimed;               /* places of batch next_claim already claimed */
    bool taken;                     /* batch next_take is in the training loop's hands */
    unsigned allowed;               /* loaders 0..allowed-1 may claim, the others are parked */
    bool stopped;
    uint64_t waiting_ns; /* summed over loaders: for room while allowed */
};

/* depth batches of size samples of sample_floats floats each, in that memory (NULL: ordinary). 0,
 * or -1 on lack of memory. */
int batches_init(struct batches *queue, unsigned depth, unsigned size, size_t sample_floats,
                 const struct batches_memory *memory);
void batches_free(struct batches *queue);

/* How many loaders may work from now on; the others park after the place they are at. */
void batches_allow(struct batches *queue, unsigned loaders);

/* End: all waiting and later calls return false. */
void batches_stop(struct batches *queue);

struct batch_place {
    struct batch *batch;
    float *sample; /* sample_floats to be written by the caller alone */
};

/* Loader number loader takes the next place; blocks. False: stopped. */
bool batches_claim(struct batches *queue, unsigned loader, struct batch_place *place);
/* That place is written. */
void batches_fill(struct batches *queue, const struct batch_place *place);

/* The next batch for the training loop; blocks. NULL: stopped. */
const struct batch *batches_take(struct batches *queue);
/* The loop is done with the batch it took. */
void batches_release(struct batches *queue);

#endif
