/*
 * The directory RUNDIR/node/NODE, where the step daemons of one node meet: root's alone (0700).
 * In it: the socket of each agent (loan.h), the record of each widened step (cpuset.h), and one
 * file of locks.
 *
 * Locks are open-file-description locks on bytes of that file: they end with their holder, however
 * it ends, and leave nothing to clean up.
 */
#ifndef ADLOADER_NODEDIR_H
#define ADLOADER_NODEDIR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct nodedir {
    int fd;    /* of the directory, -1: there is none */
    int locks; /* of the file of locks */
};

/* Make and open it. 0, or -1 with errno (EPERM: somebody else may write to it); fd is then -1. */
int nodedir_open(struct nodedir *dir, const char *rundir, const char *node);
void nodedir_close(struct nodedir *dir);

/*
 * The node's lock, for changes of cpusets. One at a time over all processes; waits ms at most.
 * False: somebody holds it for longer.
 */
bool nodedir_lock(struct nodedir *dir, unsigned ms);
void nodedir_unlock(struct nodedir *dir);

/*
 * Mark that Slurm sets up a step of the job, from _begin to _end (or the end of the process).
 * Several steps may do so at a time.
 */
void nodedir_start_begin(struct nodedir *dir, uint32_t job);
void nodedir_start_end(struct nodedir *dir, uint32_t job);

/* Does another process set up a step of the job now? */
bool nodedir_starting(const struct nodedir *dir, uint32_t job);

/*
 * Locks of CPUs first to first + count - 1, all or none: shared with other shared ones, or
 * exclusive (cpulock.h says who takes which). Does not wait. False: somebody else's lock is in the
 * way.
 */
bool nodedir_lock_cpus(const struct nodedir *dir, unsigned first, unsigned count, bool exclusive);
void nodedir_unlock_cpus(const struct nodedir *dir, unsigned first, unsigned count);

#endif
