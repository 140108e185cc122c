/*
 * Who may speak for which CPU of a node: a pure function.
 *
 * Slurm lets steps overlap (a batch script and the steps that it starts, `srun --overlap`), so a
 * CPU may belong to several members. Each CPU is claimed by exactly one of its owners:
 *
 *   - an ordinary step beats the batch or interactive step of the same job;
 *   - between the owners that are left, contested CPUs are divided evenly, SMT siblings together;
 *   - the result depends on the members' keys (job, step), not on the order in which they came.
 *
 * Main cores are kept for the ranks' main threads and never lent: out of the claim where it is
 * large enough, else shared with other members. A batch step shares those of its job's steps.
 *
 *     loader = claim less everybody's main cores, less the reserved cores
 *     pool   = (all claims and the admin's extra cores) less all main cores, less the reserved
 * cores
 */
#ifndef ADLOADER_CLAIMS_H
#define ADLOADER_CLAIMS_H

#include "cpus.h"
#include "topo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claims_member {
    uint32_t job, step;
    bool special;            /* batch or interactive step */
    bool bystander;          /* claims nothing, lends nothing */
    unsigned main_cores;     /* wanted */
    const struct cpus *own;  /* CPUs that Slurm gave it; not owned */
    const struct cpus *near; /* CPUs near its GPUs, empty: unknown; not owned */
    /* results, owned by the caller: release with claims_member_free() */
    struct cpus claim;  /* CPUs for which it speaks */
    struct cpus main;   /* kept for its main threads */
    struct cpus loader; /* of the claim, those for loaders: what it may lend */
};

/*
 * Fill the results of all members of a node, and its pool. extra and reserved may be NULL. Returns
 * 0, or -1 with errno ENOMEM; results are then incomplete but may be freed.
 */
int claims_divide(const struct topo *topo, struct claims_member *members, size_t nmembers,
                  const struct cpus *extra, const struct cpus *reserved, struct cpus *pool);

void claims_member_free(struct claims_member *member);

#endif
