/*
 * The cpusets on a step's own path, where Slurm confines steps (ConstrainCores=yes): widened
 * before loader tasks are bound to CPUs outside of them, narrowed after the tasks have left.
 *
 *   cgroup v1: [uid_U], job_J, step_S, task_T       v2: job, step_S, user, task_T (an empty set
 *   inherits and is left empty)
 *
 * Levels grow from the top and shrink from the bottom. The path comes from /proc/PID/cgroup, and
 * nothing beside it is touched. The upper levels are shared by several steps, whose agents run in
 * different processes: all changes happen under the node's lock (nodedir.h), and each step that
 * has widened something has a record beside it, written before the change. A level keeps what any
 * record asks for. By the records a later process can undo what a dead one has left.
 *
 * What is remembered of a level is what was added to it, not what it was: so others (Slurm starts
 * a step, another agent widens) may change it meanwhile, and taking it back takes only that.
 *
 * No set becomes empty or gets CPUs that its parent does not have, so it never gets an offline one.
 */
#ifndef ADLOADER_CPUSET_H
#define ADLOADER_CPUSET_H

#include "cpus.h"
#include "nodedir.h"
#include "procfs.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define CPUSET_LEVELS_MAX 4u

struct cpuset_level { /* from the top */
    char directory[PATH_MAX];
    struct cpus added; /* by us, and not yet taken back */
};

struct cpuset {
    struct nodedir *node; /* not owned */
    uint32_t job, step;
    bool available; /* the step is confined by cpusets that can be changed */
    bool version2;
    char root[256]; /* of absolute paths, as in struct procfs */
    pid_t holder;   /* this process, for the record */
    uint64_t holder_start;
    struct cpuset_level levels[CPUSET_LEVELS_MAX];
    unsigned nlevels;
    bool unfinished;  /* taking back has failed somewhere; tried again at each check */
    unsigned repairs; /* times that what was missing has been added again */
};

/* Find the path of a task's step. Always initialises; available is false if nothing confines it. */
void cpuset_init(struct cpuset *set, const struct procfs *fs, pid_t pid, struct nodedir *node,
                 uint32_t job, uint32_t step);
void cpuset_free(struct cpuset *set);

/* CPUs that the step's tasks may use now. 0, or -1 (no cpuset, not readable). */
int cpuset_allowed(const struct cpuset *set, struct cpus *allowed);

/*
 * Let the step's tasks use these CPUs, too. 0: they may. -1: not all of them, with errno (EAGAIN:
 * Slurm sets up a step of this job now, EBUSY: the lock is held, ENOENT: unavailable).
 */
int cpuset_widen(struct cpuset *set, const struct cpus *cpus);

/* Take back all that was added but these CPUs (NULL: all). 0, or -1: some level keeps more. */
int cpuset_narrow(struct cpuset *set, const struct cpus *keep);

/*
 * Have others changed the sets? Slurm rewrites the job's level when it starts a step of the job.
 * Adds again what is missing of wanted (NULL: nothing is), and takes back what could not be taken
 * before. True: it was added again, and tasks must be bound anew.
 */
bool cpuset_check(struct cpuset *set, const struct cpus *wanted);

/* ---- for other steps of the node ---- */

/*
 * Undo what steps have left whose daemon is dead. Returns how many records were dealt with.
 */
unsigned cpuset_mend(struct nodedir *node, const struct procfs *fs);

/* Take these CPUs away from a step whose agent does not answer. */
void cpuset_take(struct nodedir *node, uint32_t job, uint32_t step, const struct cpus *cpus);

/*
 * Slurm is about to set up a step of the job (nodedir_start_begin() before). On version 1 it could
 * not: it writes the job's own CPUs to the job's level, which the kernel refuses while a step below
 * has more. So the job's widened steps are narrowed; their agents widen them again (cpuset_check)
 * when the start is over.
 */
void cpuset_make_way(struct nodedir *node, uint32_t job);

#endif
