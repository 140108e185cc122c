/*
 * The step's control group: where the processes of a step are listed, whoever created them. Its
 * path is taken from /proc/PID/cgroup of a task, cut at the step's own directory; it is never put
 * together from job ids, since that layout differs between releases and builds of Slurm
 * (slurm_NODE/uid_U/job_J/step_S, NODE_slurmstepd.scope/job_J/step_S/user, .../SLUID/step_S/user).
 */
#ifndef ADLOADER_STEPGROUP_H
#define ADLOADER_STEPGROUP_H

#include "procfs.h"

#include <limits.h>

struct stepgroup {
    char controllers[64];     /* the hierarchy's list as in /proc/PID/cgroup, "" for version 2 */
    char path[PATH_MAX];      /* of the step's group in that hierarchy; "" when there is none */
    char directory[PATH_MAX]; /* the same as a directory, under its mount point */
};

/*
 * Find the step's group from a task of it. 0, or -1: no hierarchy has a directory of a step there
 * (processes are then tracked by other means), or it is not mounted here.
 */
int stepgroup_find(struct stepgroup *group, const struct procfs *fs, pid_t pid);

/* The same in the hierarchy that confines the step's CPUs; -1: nothing does. */
int stepgroup_find_cpuset(struct stepgroup *group, const struct procfs *fs, pid_t pid);

/* Does the process lie in the group or below it? Reads /proc/PID/cgroup anew. */
bool stepgroup_contains(const struct stepgroup *group, const struct procfs *fs, pid_t pid);

/*
 * All processes in the group and below, at most max, in pids. Returns their number, -1 with errno
 * if the group itself cannot be read (ENOENT: the step is gone). *more: some were left out.
 */
ssize_t stepgroup_list(const struct stepgroup *group, pid_t *pids, size_t max, bool *more);

/*
 * The directory of the process's own group in the hierarchy that controls CPU time, not cut at the
 * step, and how much of that path is the mount point, above which there are no groups. unified: it
 * is version 2's. 0, or -1.
 */
struct stepgroup_cpu {
    char directory[PATH_MAX];
    size_t top;
    bool unified;
};
int stepgroup_cpu(struct stepgroup_cpu *cpu, const struct procfs *fs, pid_t pid);

#endif
