/*
 * Putting loader tasks where the controller wants them, and back. One target for all loader tasks
 * of the member: the assigned CPUs, or Slurm's own placement (each task's rank's mask as it was
 * when the step started).
 *
 * A task is changed only if it is still the task that was scanned and its process still lies in the
 * step, which is looked at before and after; every mask is read back. A mask that somebody else
 * changes is set again a few times a minute, then left alone: the application owns it. So does one
 * that came with a mask of its own choice, several CPUs of the step or one that no other has; not
 * one that was squeezed onto a single CPU by inheritance, as some OpenMP runtimes do to children.
 */
#ifndef ADLOADER_BIND_H
#define ADLOADER_BIND_H

#include "cpus.h"
#include "tasks.h"

#include <stdbool.h>
#include <stdint.h>

#define BIND_TRIES_A_MINUTE 3u
#define BIND_LEAVE_MS       600000u /* a task whose mask is contended is left alone this long */
#define BIND_CHECKED_UP_TO  64u     /* loaders; of more, their masks are read by turns */
#define BIND_PAST           8u      /* assignments remembered, to know inherited masks by */

struct binder {
    bool own;             /* target is Slurm's own placement */
    struct cpus assigned; /* else these; may be empty: the loaders then stay on their home masks */
    uint32_t generation;  /* of the target: a task is brought to each one once */
    uint32_t checks;      /* binder_check()s */
    uint32_t round;       /* of changes, to know by which ones the last has made */
    uint64_t past[BIND_PAST];
    unsigned npast;
    uint64_t lone;   /* fingerprint of a single-CPU mask that a loader came with, 0 none ... */
    pid_t lone_pid;  /* ... and its process */
    bool said;       /* that the application manages affinity */
    uint32_t drift;  /* masks found changed by somebody else, since the start */
    uint32_t failed; /* binds that did not hold, since the start */
};

struct bind_result {
    unsigned tasks;  /* loader tasks that are there */
    unsigned failed; /* of them not where they should be */
};

void binder_init(struct binder *b);
void binder_free(struct binder *b);

/* A new target; nothing is applied yet. 0, or -1 (ENOMEM): the target is as before. */
int binder_target(struct binder *b, bool own, const struct cpus *cpus);

/*
 * Bring every task to the target that was not brought there before: all after a new target, new
 * ones after a scan. One that could not be bound is tried again by binder_check().
 */
void binder_apply(struct binder *b, struct tasks *tasks, struct bind_result *result);

/* All loaders are to be bound again by the next binder_apply(): others changed what they may use.
 */
void binder_redo(struct binder *b, struct tasks *tasks);

/* Loader tasks whose masks are left to the application. */
unsigned binder_left_alone(const struct tasks *tasks);

/* Look for masks changed by others and repair them as far as that is polite. */
void binder_check(struct binder *b, struct tasks *tasks, uint64_t now_ms);

#endif
