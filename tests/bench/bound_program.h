/*
 * A program with loader threads and the real agent beside it, as slurmstepd would have them: for
 * benchmarks that watch its masks from outside.
 */
#ifndef BENCH_BOUND_PROGRAM_H
#define BENCH_BOUND_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct bound_program {
    pid_t pid;
    pid_t *loaders; /* threads whose name starts as asked for */
    size_t nloaders;
    struct agent *agent;     /* spank/agent.h */
    struct agent_step *step; /* what it was started with */
};

/*
 * Start command on these CPUs (bit c: CPU c) and wait until it has count threads with names that
 * start with prefix. False: why is on standard error, and nothing is left.
 */
bool bound_program_start(struct bound_program *p, char *const *command, unsigned long cpus,
                         const char *prefix, size_t count);
/*
 * Start an agent for it, as step job.step of a node, whose controller listens on that socket and
 * whose agents meet in folder. False: why is on standard error. The agent can be ended and started
 * anew.
 */
bool bound_program_attach(struct bound_program *p, const char *socket, const char *folder,
                          unsigned job, unsigned step);
void bound_program_detach(struct bound_program *p);
/* All its loaders may run on these CPUs (bit c: CPU c) and no others. */
bool bound_program_is_on(const struct bound_program *p, unsigned long cpus);
/* End agent and program. */
void bound_program_stop(struct bound_program *p);

#endif
