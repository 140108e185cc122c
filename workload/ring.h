/*
 * The gradient exchange: a ring of TCP connections over the ranks, with the all-reduce that NCCL's
 * ring uses (reduce-scatter, then all-gather: each rank sends 2 (R-1)/R of the buffer). It
 * synchronises the ranks for real: none gets its sums before all have brought theirs.
 *
 * Every wait has a deadline; a rank that is dead, silent or speaks nonsense is named in the log.
 * Who may join is not authenticated: a token from the job's identity keeps jobs apart by accident,
 * not by attack.
 */
#ifndef ADLTRAIN_RING_H
#define ADLTRAIN_RING_H

#include "world.h"

#include <stdatomic.h>
#include <stddef.h>

struct ring;

/*
 * Meet all ranks within timeout_s and connect the ring; *stop set meanwhile ends the wait. NULL
 * with the reason in the log. A world of one rank has a ring too, that does nothing.
 * step_timeout_s: how long an exchange may stand still, because a rank is late, before it fails.
 */
struct ring *ring_join(const struct world *world, double timeout_s, double step_timeout_s,
                       atomic_int *stop);
void ring_leave(struct ring *ring);

/* values[i] becomes the sum over all ranks. All ranks call it with the same count. 0 or -1. */
int ring_sum(struct ring *ring, float *values, size_t count);

/* blocks has ranks records of size bytes, of which the caller's own is filled; all become. 0 or -1.
 */
int ring_gather(struct ring *ring, void *blocks, size_t size);

#endif
