/*
 * The node's truth about who has loaders on a CPU, whatever controllers say: a lock a CPU on the
 * node's file of locks (nodedir.h), kept by the kernel and gone with its holder.
 *
 *     shared       by members that Slurm gave the CPU to (several, where steps overlap), as long as
 *                  they do not lend it
 *     exclusive    by a member whose loaders are there and that does not own it: a borrower, or a
 *                  user of the admin's pool
 *
 * It is taken before the first loader goes there and released after the last one has left. So a CPU
 * is either its owners' or one borrower's, also while two controllers decide at the same time.
 */
#ifndef ADLOADER_CPULOCK_H
#define ADLOADER_CPULOCK_H

#include "cpus.h"
#include "nodedir.h"

#include <stdbool.h>

struct cpulock {
    const struct nodedir *node; /* not owned */
    struct cpus shared, exclusive;
};

/* Holds nothing. */
void cpulock_init(struct cpulock *lock, const struct nodedir *node);

/* Releases all; before nodedir_close(). */
void cpulock_free(struct cpulock *lock);

/*
 * Take these CPUs, too. Those that others keep from us are added to refused. Never waits. Without a
 * directory of the node nobody can borrow: then shared ones are granted and exclusive ones refused.
 * 0, or -1 with errno (ENOMEM): what was taken is not known to be all that is not in refused.
 */
int cpulock_take(struct cpulock *lock, const struct cpus *cpus, bool exclusive,
                 struct cpus *refused);

/* Release all but these (NULL: none). */
void cpulock_keep(struct cpulock *lock, const struct cpus *shared, const struct cpus *exclusive);

#endif
