/*
 * What brings batches to the GPU: a thread (named adl-feed) that sends the next batch while the one
 * before is in work, so that copies hide behind computing. Without a GPU there is no
 * thread.
 */
#ifndef ADLTRAIN_FEED_H
#define ADLTRAIN_FEED_H

#include "batches.h"
#include "gpu.h"

struct feed;

/*
 * gpu NULL: batches are taken, and that is all. repeat: the first batch comes again and again, so
 * that data is never late. NULL with the reason in the log.
 */
struct feed *feed_start(struct batches *queue, struct gpu *gpu, bool repeat);

/* The slot of the next batch on the GPU; blocks. -1: no batch will come any more (the queue was
 * stopped, or a copy failed). */
int feed_take(struct feed *feed);
/* The GPU is done with that batch. */
void feed_release(struct feed *feed, unsigned slot);

bool feed_failed(struct feed *feed);

/* Stops the queue and frees the feed. NULL is nothing. */
void feed_stop(struct feed *feed);

#endif
