/* Putting loader tasks where the controller wants them: see bind.h. */
#include "config.h"

#include "bind.h"

#include "log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_MS 60000u

void binder_init(struct binder *b)
{
    memset(b, 0, sizeof *b);
    b->own = true;
}

void binder_free(struct binder *b)
{
    cpus_free(&b->assigned);
}

/* A set's fingerprint: what a task remembers of a mask instead of the mask. 0 is never one. */
static uint64_t fingerprint(const struct cpus *set)
{
    uint64_t hash = 14695981039346656037u;
    for (long cpu = cpus_next(set, 0); cpu >= 0; cpu = cpus_next(set, (unsigned long)cpu + 1))
        hash = (hash ^ (uint64_t)cpu) * 1099511628211u;
    return hash != 0 ? hash : 1;
}

static void remember(struct binder *b, const struct cpus *set)
{
    b->past[b->npast++ % BIND_PAST] = fingerprint(set);
}

static bool remembered(const struct binder *b, uint64_t mark)
{
    for (unsigned i = 0; i < BIND_PAST; i++)
        if (b->past[i] == mark)
            return true;
    return false;
}

int binder_target(struct binder *b, bool own, const struct cpus *cpus)
{
    struct cpus copy = CPUS_EMPTY;
    if (!own && cpus_copy(&copy, cpus) < 0)
        return -1;
    bool same = b->generation > 0 && own == b->own && cpus_equal(&copy, &b->assigned);
    cpus_free(&b->assigned);
    b->assigned = copy;
    b->own = own;
    if (!same)
        b->generation++;
    if (!cpus_is_empty(&b->assigned))
        remember(b, &b->assigned);
    return 0;
}

/* ---- one task ---- */

enum outcome { DONE, GONE, FAILED };

/* Set a mask and read it back. A task that could not be set has mask_hash 0. */
static enum outcome set_mask(struct task *task, const struct cpus *want)
{
    struct cpus got = CPUS_EMPTY;
    task->mask_hash = 0;
    if (cpus_set_affinity(task->tid, want) < 0) {
        if (errno == ESRCH)
            return GONE;
        log_debug("cannot bind task %d: %s", (int)task->tid, strerror(errno));
        return FAILED; /* EINVAL: none of the CPUs is allowed; EPERM: not now */
    }
    if (cpus_get_affinity(task->tid, &got) < 0)
        return errno == ESRCH ? GONE : FAILED;
    enum outcome outcome = cpus_equal(&got, want) ? DONE : FAILED;
    task->mask_hash = fingerprint(&got);
    cpus_free(&got);
    return outcome;
}

/* What the task should be bound to, and how that is called; NULL: leave it as it is. */
static const struct cpus *wanted(const struct binder *b, const struct tasks *t,
                                 const struct task *task, enum placement *placement)
{
    if (task->class == TASK_LOADER && !b->own && !cpus_is_empty(&b->assigned)) {
        *placement = PLACED_ASSIGNED;
        return &b->assigned;
    }
    *placement = PLACED_HOME;
    return task->placed == PLACED_ASSIGNED ? tasks_home(t, task) : NULL;
}

/* ---- all tasks ---- */

/*
 * A round of changes. Which processes are in the step's group is asked of the kernel once before
 * and once after it; that a task is still the same one is seen at each.
 */
struct round {
    struct binder *b;
    struct tasks *t;
    pid_t *pids; /* of the step, sorted; NULL until they are needed */
    ssize_t npids;
};

static int compare_pids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

static bool ours(struct round *r, const struct task *task)
{
    if (!r->t->grouped) /* descent does not change: the same process is still the step's */
        return tasks_process(r->t, task->pid) != NULL;
    if (r->pids == NULL) {
        r->pids = malloc(TASKS_LISTED_MAX * sizeof *r->pids);
        r->npids = r->pids != NULL ? tasks_list(r->t, r->pids) : -1;
    }
    return r->npids > 0 &&
           bsearch(&task->pid, r->pids, (size_t)r->npids, sizeof *r->pids, compare_pids) != NULL;
}

static enum outcome move(struct round *r, struct task *task, const struct cpus *want,
                         enum placement placement)
{
    if (!ours(r, task) || !tasks_alive(r->t, task)) {
        tasks_distrust(r->t, task); /* whoever bears the id now is looked at anew */
        return GONE;
    }
    enum outcome outcome = set_mask(task, want);
    task->generation = r->b->generation;
    task->round = r->b->round;
    if (outcome != GONE)
        task->placed = (uint8_t)placement;
    if (outcome == FAILED)
        r->b->failed++;
    return outcome;
}

/* Has a task that we never touched been born with the mask of a loader that was bound? */
static void check_inherited(struct round *r, struct task *task)
{
    struct cpus mask = CPUS_EMPTY;
    task->checked = true;
    if (r->b->npast == 0 || task->placed != PLACED_UNTOUCHED ||
        cpus_get_affinity(task->tid, &mask) < 0)
        return;
    if (remembered(r->b, fingerprint(&mask)) && !cpus_equal(&mask, tasks_home(r->t, task)))
        task->placed = PLACED_ASSIGNED; /* so it is treated as one that we bound */
    cpus_free(&mask);
}

/* After the round: a task that was bound while its process left the step gets its mask back. */
static void verify(struct round *r, struct task *task)
{
    if (task->round != r->b->round || task->placed != PLACED_ASSIGNED)
        return;
    if (!tasks_alive(r->t, task)) {
        tasks_distrust(r->t, task);
    } else if (!ours(r, task)) {
        log_info("task %d has left the step while it was bound: mask restored", (int)task->tid);
        if (set_mask(task, tasks_home(r->t, task)) != GONE)
            task->placed = PLACED_HOME;
    }
}

/* Does the rank's main thread have this mask, too? */
static bool is_main_mask(const struct tasks *t, const struct task *task, uint64_t mark)
{
    const struct process *p = tasks_process(t, task->pid);
    struct cpus mask = CPUS_EMPTY;
    if (p == NULL || p->rank < 0 || cpus_get_affinity(t->ranks[p->rank].pid, &mask) < 0)
        return false;
    bool same = fingerprint(&mask) == mark;
    cpus_free(&mask);
    return same;
}

/* Has the task been put on that one CPU with others, or on the first one, as nobody would choose?
 */
static bool is_squeezed(struct round *r, const struct task *task, const struct cpus *mask)
{
    uint64_t mark = fingerprint(mask);
    if (cpus_next(mask, 0) == cpus_next(tasks_home(r->t, task), 0))
        return true;
    if (r->b->lone == mark && r->b->lone_pid != task->pid) {
        for (size_t i = 0; i < r->t->ntasks; i++) /* the first of them was taken for a choice */
            if (r->t->tasks[i].own_mask && r->t->tasks[i].mask_hash == mark)
                r->t->tasks[i].own_mask = false;
        return true;
    }
    r->b->lone = mark;
    r->b->lone_pid = task->pid;
    return false;
}

/* Does a loader that was never bound run where it, or its program, has chosen? */
static bool has_own_mask(struct round *r, const struct task *task, const struct cpus *mask)
{
    const struct cpus *home = tasks_home(r->t, task);
    if (!cpus_is_subset(mask, home) || cpus_equal(mask, home) ||
        remembered(r->b, fingerprint(mask)) || is_main_mask(r->t, task, fingerprint(mask)))
        return false;
    return cpus_count(mask) > 1 || !is_squeezed(r, task, mask);
}

static void judge_mask(struct round *r, struct task *task)
{
    struct cpus mask = CPUS_EMPTY;
    task->judged = true;
    if (task->placed != PLACED_UNTOUCHED || cpus_get_affinity(task->tid, &mask) < 0)
        return;
    task->own_mask = has_own_mask(r, task, &mask);
    if (task->own_mask) {
        task->mask_hash = fingerprint(&mask);
        if (!r->b->said)
            log_info("application manages affinity: loader task %d came with a mask of its own",
                     (int)task->tid);
        r->b->said = true;
    }
    cpus_free(&mask);
}

/* Bring one task to the target if that is still to be done. False: it is gone. */
static bool settle(struct round *r, struct task *task, bool *changed)
{
    enum placement placement;
    if (!task->checked)
        check_inherited(r, task);
    const struct cpus *want = wanted(r->b, r->t, task, &placement);
    if (want == NULL || (task->placed == placement && task->generation == r->b->generation))
        return true;
    if (!task->judged)
        judge_mask(r, task);
    if (task->own_mask)
        return true;
    *changed = true;
    return move(r, task, want, placement) != GONE;
}

/* Is a loader task elsewhere than it should be, by what was last read back? */
static bool misplaced(const struct round *r, const struct task *task)
{
    return task->placed == PLACED_ASSIGNED && task->mask_hash != fingerprint(&r->b->assigned);
}

void binder_apply(struct binder *b, struct tasks *t, struct bind_result *result)
{
    struct round before = {b, t, NULL, 0}, after = {b, t, NULL, 0};
    bool changed = false;
    b->round++;
    *result = (struct bind_result){0, 0};
    for (size_t i = 0; i < t->ntasks; i++) {
        struct task *task = &t->tasks[i];
        if (!settle(&before, task, &changed) || task->class != TASK_LOADER)
            continue;
        result->tasks++;
        result->failed += misplaced(&before, task);
    }
    for (size_t i = 0; changed && i < t->ntasks; i++)
        verify(&after, &t->tasks[i]);
    free(before.pids);
    free(after.pids);
}

void binder_redo(struct binder *b, struct tasks *t)
{
    for (size_t i = 0; i < t->ntasks; i++)
        if (t->tasks[i].class == TASK_LOADER && t->tasks[i].placed == PLACED_ASSIGNED)
            t->tasks[i].generation = b->generation - 1;
}

/* ---- masks that others change ---- */

/* Is there a try left in this minute? */
static bool may_repair(struct task *task, uint64_t now_ms)
{
    if (task->given_up && now_ms - task->tries_from_ms < BIND_LEAVE_MS)
        return false;
    if (task->given_up || task->tries == 0 || now_ms - task->tries_from_ms > MINUTE_MS) {
        task->tries_from_ms = now_ms;
        task->tries = 0;
        task->given_up = false;
    }
    if (task->tries < BIND_TRIES_A_MINUTE) {
        task->tries++;
        return true;
    }
    task->given_up = true;
    task->tries_from_ms = now_ms;
    log_info("application manages affinity: the mask of task %d is changed again and again: it is "
             "left alone",
             (int)task->tid);
    return false;
}

/* One that could not be set last time is due at once. */
static bool is_due(const struct round *r, const struct task *task)
{
    return r->t->nloaders <= BIND_CHECKED_UP_TO || task->mask_hash == 0 ||
           tasks_turn(r->t, r->b->checks, task->tid);
}

static void check_task(struct round *r, struct task *task, uint64_t now_ms)
{
    struct cpus mask = CPUS_EMPTY;
    enum placement placement;
    if (!is_due(r, task) || task->placed != PLACED_ASSIGNED ||
        cpus_get_affinity(task->tid, &mask) < 0)
        return;
    uint64_t mark = fingerprint(&mask);
    cpus_free(&mask);
    const struct cpus *want = wanted(r->b, r->t, task, &placement);
    if (mark == task->mask_hash || want == NULL)
        return;
    if (task->mask_hash != 0) /* else it could not be set last time */
        r->b->drift++;
    task->mask_hash = mark;
    if (may_repair(task, now_ms))
        move(r, task, want, placement);
}

void binder_check(struct binder *b, struct tasks *t, uint64_t now_ms)
{
    struct round round = {b, t, NULL, 0};
    b->round++;
    if (b->own)
        return;
    for (size_t i = 0; i < t->ntasks; i++)
        check_task(&round, &t->tasks[i], now_ms);
    b->checks++;
    free(round.pids);
}

unsigned binder_left_alone(const struct tasks *t)
{
    unsigned n = 0;
    for (size_t i = 0; i < t->ntasks; i++)
        n += t->tasks[i].class == TASK_LOADER && (t->tasks[i].own_mask || t->tasks[i].given_up);
    return n;
}
