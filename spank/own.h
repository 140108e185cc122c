/*
 * What Slurm gave the step on this node, read from what is really in force: the masks of its tasks.
 * Slurm's own items speak of abstract cores, which say how many there are but not which.
 */
#ifndef ADLOADER_OWN_H
#define ADLOADER_OWN_H

#include "cpus.h"
#include "tasks.h"

#include <stdbool.h>
#include <stddef.h>

/* How much Slurm says that the step has here; 0: not known. */
struct own_grant {
    const char *abstract_cores; /* S_STEP_ALLOC_CORES, NULL unknown */
    unsigned cpus;              /* S_JOB_NCPUS */
    unsigned threads_per_core;  /* of this machine, at least 1 */
};

/*
 * The masks together are more than the grant: nothing confines the tasks, and whose CPUs they are
 * is not known. An unknown grant counts as confined unless the masks are the whole machine.
 */
bool own_is_unconfined(const struct cpus *own, const struct own_grant *grant,
                       unsigned machine_cpus);

/* PUs of one core, by the siblings of a CPU; root "" is the machine's own /sys. At least 1. */
unsigned own_threads_per_core(const char *root, unsigned cpu);

/*
 * Read start time and mask of each rank (pid set) and their union. 0, or -1 with errno: no rank
 * could be read.
 */
int own_read(struct rank *ranks, size_t nranks, struct cpus *own);

#endif
