/*
 * Where this process stands among the ranks of its job: from Slurm's environment of the task, from
 * --rank and --ranks, or alone.
 */
#ifndef ADLTRAIN_WORLD_H
#define ADLTRAIN_WORLD_H

#include <stdint.h>

#define WORLD_RANKS_MAX 4096u
#define WORLD_HOST_MAX  256

struct world {
    unsigned rank, ranks;
    char master[WORLD_HOST_MAX]; /* where rank 0 is to be found; "" when alone */
    uint16_t port;
    uint64_t token; /* the same for all ranks of a job and for nobody else's by chance */
    long job, step; /* -1 outside Slurm */
    unsigned nodes; /* that the ranks are on */
    int local;      /* number among the ranks of its node; -1 unknown */
};

/*
 * rank, ranks: as given, or -1; master: "HOST:PORT" or NULL. 0, or -1 with the reason in the log.
 *
 * Under srun, rank 0 is looked for on the first node of SLURM_STEP_NODELIST (127.0.0.1 if it is the
 * only one; SLURM_LAUNCH_NODE_IPADDR where that name cannot be resolved), at a port that depends on
 * the job and step.
 */
int world_find(long rank, long ranks, const char *master, struct world *world);

#endif
