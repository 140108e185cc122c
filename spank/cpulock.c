/* A lock a CPU, between the agents of a node: see cpulock.h. */
#include "config.h"

#include "cpulock.h"

#include "log.h"

#include <errno.h>
#include <string.h>

void cpulock_init(struct cpulock *lock, const struct nodedir *node)
{
    *lock = (struct cpulock){node, CPUS_EMPTY, CPUS_EMPTY};
}

void cpulock_free(struct cpulock *lock)
{
    cpulock_keep(lock, NULL, NULL);
    cpus_free(&lock->shared);
    cpus_free(&lock->exclusive);
}

/* The next run of CPUs without a hole, from *first on; false: there is none. */
static bool next_run(const struct cpus *cpus, unsigned long from, unsigned *first, unsigned *count)
{
    long cpu = cpus_next(cpus, from);
    if (cpu < 0)
        return false;
    *first = (unsigned)cpu;
    for (*count = 1; cpus_isset(cpus, *first + *count); (*count)++)
        ;
    return true;
}

/* One after the other: some of them are somebody else's. */
static int take_each(struct cpulock *lock, unsigned first, unsigned count, bool exclusive,
                     struct cpus *refused)
{
    struct cpus *held = exclusive ? &lock->exclusive : &lock->shared;
    int rc = 0;
    for (unsigned cpu = first; cpu < first + count && rc == 0; cpu++)
        rc = cpus_set(nodedir_lock_cpus(lock->node, cpu, 1, exclusive) ? held : refused, cpu);
    return rc;
}

static int take_run(struct cpulock *lock, unsigned first, unsigned count, bool exclusive,
                    struct cpus *refused)
{
    struct cpus *held = exclusive ? &lock->exclusive : &lock->shared;
    int rc = 0;
    if (!nodedir_lock_cpus(lock->node, first, count, exclusive))
        return take_each(lock, first, count, exclusive, refused);
    for (unsigned cpu = first; cpu < first + count && rc == 0; cpu++)
        rc = cpus_set(held, cpu);
    return rc;
}

int cpulock_take(struct cpulock *lock, const struct cpus *cpus, bool exclusive,
                 struct cpus *refused)
{
    struct cpus fresh = CPUS_EMPTY;
    unsigned first, count;
    unsigned long from = 0;
    if (lock->node->locks < 0)
        return exclusive ? cpus_or(refused, cpus) : 0;
    int rc = cpus_copy(&fresh, cpus);
    if (rc == 0)
        cpus_andnot(&fresh, exclusive ? &lock->exclusive : &lock->shared);
    while (rc == 0 && next_run(&fresh, from, &first, &count)) {
        rc = take_run(lock, first, count, exclusive, refused);
        from = (unsigned long)first + count;
    }
    cpus_free(&fresh);
    return rc;
}

/* What is held beyond keep, away. */
static void release(struct cpulock *lock, struct cpus *held, const struct cpus *keep)
{
    unsigned first, count;
    unsigned long from = 0;
    struct cpus gone = CPUS_EMPTY;
    if (cpus_copy(&gone, held) < 0) {
        log_debug("no memory to release locks of CPUs: they are kept a little longer");
        return;
    }
    if (keep != NULL)
        cpus_andnot(&gone, keep);
    while (next_run(&gone, from, &first, &count)) {
        nodedir_unlock_cpus(lock->node, first, count);
        from = (unsigned long)first + count;
    }
    cpus_andnot(held, &gone);
    cpus_free(&gone);
}

void cpulock_keep(struct cpulock *lock, const struct cpus *shared, const struct cpus *exclusive)
{
    release(lock, &lock->shared, shared);
    release(lock, &lock->exclusive, exclusive);
}
