/* The cpusets on a step's own path: see cpuset.h. */
#include "config.h"

#include "cpuset.h"

#include "log.h"
#include "stepgroup.h"
#include "steprecord.h"
#include "threadmasks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCK_MS       40u   /* others hold the lock for the time of a few writes */
#define SET_TEXT_MAX  16384 /* bytes of a cpuset's file */
#define PARENTS_MAX   32
#define TASK_DIRS_MAX 4096u

/* ---- files of a level ---- */

static int read_set(const char *directory, const char *file, struct cpus *set)
{
    char path[PATH_MAX + 32], text[SET_TEXT_MAX];
    size_t length = 0;
    snprintf(path, sizeof path, "%s/%s", directory, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (length < sizeof text - 1) {
        ssize_t n = read(fd, text + length, sizeof text - 1 - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int saved = errno;
            close(fd);
            errno = saved;
            return -1;
        }
        if (n == 0)
            break;
        length += (size_t)n;
    }
    close(fd);
    text[length] = '\0';
    return cpus_parse(set, text);
}

static int write_set(const char *directory, const struct cpus *set)
{
    char path[PATH_MAX + 32];
    if (cpus_is_empty(set)) {
        errno = EINVAL;
        return -1;
    }
    char *text = cpus_to_string(set);
    if (text == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/cpuset.cpus", directory);
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    ssize_t length = (ssize_t)strlen(text), n = -1;
    int saved = errno;
    if (fd >= 0) {
        n = write(fd, text, (size_t)length);
        saved = errno;
        close(fd);
    }
    if (n == length)
        log_debug("%s: %s", path, text);
    else
        log_debug("%s cannot be set to %s: %s", path, text, strerror(saved));
    free(text);
    errno = saved;
    return n == length ? 0 : -1;
}

/* What is really usable there: the kernel's word, else the nearest set that is not inherited. */
static int in_force(const char *directory, bool version2, struct cpus *set)
{
    char path[PATH_MAX];
    if (read_set(directory, version2 ? "cpuset.cpus.effective" : "cpuset.effective_cpus", set) ==
            0 &&
        !cpus_is_empty(set))
        return 0;
    snprintf(path, sizeof path, "%s", directory);
    for (unsigned i = 0; i < PARENTS_MAX; i++) {
        if (read_set(path, "cpuset.cpus", set) == 0 && !cpus_is_empty(set))
            return 0;
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path)
            break;
        *slash = '\0';
    }
    errno = ENOENT;
    return -1;
}

/* What the parent of a level has, of the CPUs that are online. */
static int ceiling(const char *root, const char *directory, bool version2, struct cpus *set)
{
    char path[PATH_MAX];
    struct cpus online = CPUS_EMPTY;
    snprintf(path, sizeof path, "%s", directory);
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return -1;
    *slash = '\0';
    if (in_force(path, version2, set) < 0)
        return -1;
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu", root);
    if (read_set(path, "online", &online) == 0)
        cpus_and(set, &online);
    cpus_free(&online);
    return 0;
}

/* ---- the path ---- */

/* Cut the last component off; its start is returned, NULL at the root. */
static char *cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
        return NULL;
    *slash = '\0';
    return slash + 1;
}

/* A level on top of those found so far. */
static void add_on_top(struct cpuset *set, const char *directory)
{
    memmove(&set->levels[1], &set->levels[0], set->nlevels * sizeof set->levels[0]);
    memset(&set->levels[0], 0, sizeof set->levels[0]);
    snprintf(set->levels[0].directory, sizeof set->levels[0].directory, "%s", directory);
    set->nlevels++;
}

/*
 * Split the path of the step's group, ".../job/step_S" or ".../job/step_S/user", into levels. The
 * job's directory has other names in other releases, but is the step's parent in all.
 */
static bool split(struct cpuset *set, const char *directory)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", directory);
    char *name = strrchr(path, '/');
    if (name != NULL && strcmp(name, "/user") == 0) {
        add_on_top(set, path);
        (void)cut(path);
        name = strrchr(path, '/');
    }
    if (name == NULL || strncmp(name, "/step_", 6) != 0)
        return false;
    add_on_top(set, path);
    (void)cut(path);
    name = strrchr(path, '/');
    if (name == NULL || strstr(name, "slurm") != NULL)
        return false; /* Slurm's own directory, for all jobs */
    add_on_top(set, path);
    (void)cut(path);
    name = strrchr(path, '/');
    if (name != NULL && strncmp(name, "/uid_", 5) == 0)
        add_on_top(set, path);
    return true;
}

void cpuset_init(struct cpuset *set, const struct procfs *fs, pid_t pid, struct nodedir *node,
                 uint32_t job, uint32_t step)
{
    memset(set, 0, sizeof *set);
    set->node = node;
    set->job = job;
    set->step = step;
    snprintf(set->root, sizeof set->root, "%s", fs->root);
    struct procfs_stat self;
    set->holder = getpid();
    set->holder_start = procfs_process_stat(fs, set->holder, &self) == 0 ? self.start_ticks : 0;
    struct stepgroup *group = malloc(sizeof *group);
    if (group == NULL || node->fd < 0 || stepgroup_find_cpuset(group, fs, pid) < 0)
        goto out;
    set->version2 = group->controllers[0] == '\0';
    set->available = split(set, group->directory);
out:
    free(group);
    if (!set->available)
        log_debug("no cpuset of the step that could be changed: affinity only");
}

void cpuset_free(struct cpuset *set)
{
    for (unsigned i = 0; i < set->nlevels; i++)
        cpus_free(&set->levels[i].added);
    memset(set, 0, sizeof *set);
}

static const char *lowest(const struct cpuset *set)
{
    return set->levels[set->nlevels - 1].directory;
}

int cpuset_allowed(const struct cpuset *set, struct cpus *allowed)
{
    if (!set->available) {
        errno = ENOENT;
        return -1;
    }
    return in_force(lowest(set), set->version2, allowed);
}

/* The masks that were read before a change, as far as they are allowed after it. */
static void restore_masks(struct threadmasks *masks, const char *directory, bool version2)
{
    struct cpus allowed = CPUS_EMPTY;
    if (in_force(directory, version2, &allowed) == 0)
        threadmasks_restore(masks, &allowed);
    threadmasks_free(masks);
    cpus_free(&allowed);
}

/* ---- task directories, below the lowest level ---- */

typedef int task_fn(const char *directory, const void *argument);

/* Call fn for each directory task_T of it that has a set of its own. -1 if one failed. */
static int each_task(const char *directory, task_fn *fn, const void *argument)
{
    char path[PATH_MAX];
    unsigned n = 0;
    int rc = 0;
    DIR *dir = opendir(directory);
    if (dir == NULL)
        return errno == ENOENT ? 0 : -1;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL && n < TASK_DIRS_MAX) {
        if (strncmp(entry->d_name, "task_", 5) != 0)
            continue;
        n++;
        int length = snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (length > 0 && (size_t)length < sizeof path && fn(path, argument) < 0)
            rc = -1;
    }
    closedir(dir);
    return rc;
}

static int widen_task(const char *directory, const void *argument)
{
    const struct cpus *more = argument;
    struct cpus now = CPUS_EMPTY;
    int rc = 0;
    if (read_set(directory, "cpuset.cpus", &now) == 0 && !cpus_is_empty(&now) &&
        !cpus_is_subset(more, &now)) {
        rc = cpus_or(&now, more);
        if (rc == 0)
            rc = write_set(directory, &now);
    }
    cpus_free(&now);
    return rc;
}

static int narrow_task(const char *directory, const void *argument)
{
    const struct cpus *drop = argument;
    struct cpus now = CPUS_EMPTY;
    int rc = 0;
    if (read_set(directory, "cpuset.cpus", &now) == 0 && cpus_intersects(&now, drop)) {
        cpus_andnot(&now, drop);
        rc = write_set(directory, &now);
    }
    cpus_free(&now);
    return rc;
}

/* ---- widening ---- */

/* What a level is to become, into to; stays empty if it inherits. top: what it may have at most. */
static int plan_level(struct cpuset *set, unsigned i, const struct cpus *cpus, struct cpus *top,
                      struct cpus *to)
{
    struct cpuset_level *level = &set->levels[i];
    struct cpus now = CPUS_EMPTY, more = CPUS_EMPTY, others = CPUS_EMPTY;
    int rc = read_set(level->directory, "cpuset.cpus", &now);
    if (rc < 0 || cpus_is_empty(&now)) { /* inherits, as version 2's step level does */
        rc = rc < 0 && errno != ENOENT ? -1 : 0;
        goto out;
    }
    rc = steprecord_added(set->node, set->job, set->step, level->directory, &others);
    if (rc < 0 || (rc = cpus_copy(&more, cpus)) < 0)
        goto out;
    cpus_and(&more, top);
    rc = cpus_copy(to, &now);
    if (rc < 0 || (rc = cpus_or(to, &more)) < 0)
        goto out;
    /* ours is what is not Slurm's: what is missing, and what others have added before */
    cpus_andnot(&now, &others);
    cpus_andnot(&more, &now);
    rc = cpus_or(&level->added, &more);
    cpus_and(top, to); /* what the level below may have */
out:
    cpus_free(&now);
    cpus_free(&more);
    cpus_free(&others);
    return rc;
}

static int apply_level(const struct cpuset *set, unsigned i, const struct cpus *to)
{
    struct cpus now = CPUS_EMPTY;
    int rc = 0;
    if (!cpus_is_empty(to) && read_set(set->levels[i].directory, "cpuset.cpus", &now) == 0 &&
        !cpus_equal(&now, to))
        rc = write_set(set->levels[i].directory, to);
    cpus_free(&now);
    return rc;
}

/* Record first, then write from the top. The lock is held. */
static int widen(struct cpuset *set, const struct cpus *cpus)
{
    struct cpus to[CPUSET_LEVELS_MAX] = {0};
    struct cpus top = CPUS_EMPTY;
    struct threadmasks masks;
    int rc = ceiling(set->root, set->levels[0].directory, set->version2, &top);
    for (unsigned i = 0; i < set->nlevels && rc == 0; i++)
        rc = plan_level(set, i, cpus, &top, &to[i]);
    if (rc == 0)
        rc = steprecord_write(set);
    if (rc == 0) {
        threadmasks_read(&masks, lowest(set), set->version2);
        for (unsigned i = 0; i < set->nlevels && rc == 0; i++)
            rc = apply_level(set, i, &to[i]);
        cpus_and(&top, cpus);
        if (rc == 0)
            rc = each_task(lowest(set), widen_task, &top);
        restore_masks(&masks, lowest(set), set->version2);
    }
    for (unsigned i = 0; i < set->nlevels; i++)
        cpus_free(&to[i]);
    cpus_free(&top);
    return rc;
}

/* Are the CPUs usable already? */
static bool suffices(const struct cpuset *set, const struct cpus *cpus)
{
    struct cpus now = CPUS_EMPTY;
    bool yes = in_force(lowest(set), set->version2, &now) == 0 && cpus_is_subset(cpus, &now);
    cpus_free(&now);
    return yes;
}

int cpuset_widen(struct cpuset *set, const struct cpus *cpus)
{
    int rc;
    if (!set->available) {
        errno = ENOENT;
        return -1;
    }
    if (suffices(set, cpus))
        return 0;
    if (!nodedir_lock(set->node, LOCK_MS)) {
        errno = EBUSY;
        return -1;
    }
    if (!set->version2 && nodedir_starting(set->node, set->job)) {
        rc = -1; /* to be done by a check */
        errno = EAGAIN;
    } else {
        rc = widen(set, cpus);
    }
    int saved = errno;
    nodedir_unlock(set->node);
    if (rc == 0 && !suffices(set, cpus)) {
        rc = -1;
        saved = EACCES;
    }
    errno = saved;
    return rc;
}

/* ---- narrowing ---- */

/* Take CPUs out of a level and of the tasks below it. A level that is gone has none. */
static int lower_level(const char *directory, bool bottom, const struct cpus *drop)
{
    struct cpus now = CPUS_EMPTY;
    int rc = bottom ? each_task(directory, narrow_task, drop) : 0;
    if (read_set(directory, "cpuset.cpus", &now) < 0)
        rc = errno == ENOENT || errno == ENODEV ? rc : -1;
    else if (cpus_intersects(&now, drop)) {
        cpus_andnot(&now, drop);
        if (write_set(directory, &now) < 0)
            rc = errno == ENOENT || errno == ENODEV ? rc : -1;
    }
    cpus_free(&now);
    return rc;
}

/*
 * What of a level's additions may go: those that are not kept here, and that no other record keeps.
 */
static int to_drop(const struct cpuset *set, const struct cpuset_level *level,
                   const struct cpus *keep, struct cpus *gone, struct cpus *drop)
{
    struct cpus others = CPUS_EMPTY;
    int rc = cpus_copy(gone, &level->added);
    if (rc == 0 && keep != NULL)
        cpus_andnot(gone, keep);
    if (rc == 0)
        rc = cpus_copy(drop, gone);
    if (rc == 0)
        rc = steprecord_added(set->node, set->job, set->step, level->directory, &others);
    if (rc == 0)
        cpus_andnot(drop, &others);
    cpus_free(&others);
    return rc;
}

static int narrow(struct cpuset *set, const struct cpus *keep)
{
    struct cpus gone = CPUS_EMPTY, drop = CPUS_EMPTY;
    struct threadmasks masks;
    bool rest = false;
    int rc = 0;
    threadmasks_read(&masks, lowest(set), set->version2);
    for (unsigned i = set->nlevels; i-- > 0;) {
        struct cpuset_level *level = &set->levels[i];
        if (to_drop(set, level, keep, &gone, &drop) < 0 ||
            lower_level(level->directory, i + 1 == set->nlevels, &drop) < 0)
            rc = -1;
        else
            cpus_andnot(&level->added, &gone);
        rest = rest || !cpus_is_empty(&level->added);
    }
    restore_masks(&masks, lowest(set), set->version2);
    cpus_free(&gone);
    cpus_free(&drop);
    if (rest && steprecord_write(set) < 0)
        rc = -1;
    if (!rest && steprecord_remove(set->node, set->job, set->step) < 0)
        rc = -1;
    return rc;
}

int cpuset_narrow(struct cpuset *set, const struct cpus *keep)
{
    bool any = false;
    for (unsigned i = 0; i < set->nlevels; i++)
        any = any || (keep == NULL ? !cpus_is_empty(&set->levels[i].added)
                                   : !cpus_is_subset(&set->levels[i].added, keep));
    if (!set->available || !any)
        return 0;
    /* taking back is right with the lock or without it; somebody who keeps it is stuck */
    bool locked = nodedir_lock(set->node, LOCK_MS);
    int rc = narrow(set, keep);
    if (locked)
        nodedir_unlock(set->node);
    set->unfinished = rc < 0;
    return rc;
}

/* ---- changes by others ---- */

bool cpuset_check(struct cpuset *set, const struct cpus *wanted)
{
    if (!set->available)
        return false;
    if (set->unfinished)
        (void)cpuset_narrow(set, wanted);
    if (wanted == NULL || cpus_is_empty(wanted) || suffices(set, wanted) ||
        cpuset_widen(set, wanted) < 0)
        return false;
    set->repairs++;
    return true;
}

/* ---- for other steps ---- */

/* Version 1's level of all jobs of a user. */
static bool is_users(const struct cpuset_level *level)
{
    const char *name = strrchr(level->directory, '/');
    return name != NULL && strncmp(name, "/uid_", 5) == 0;
}

/* Take CPUs back from what a record says was added; NULL: all of it. -1: some level keeps them. */
static int take_back(struct nodedir *node, const struct steprecord *record, const struct cpus *cpus,
                     bool keep_others)
{
    struct cpus drop = CPUS_EMPTY, others = CPUS_EMPTY;
    struct threadmasks masks;
    int rc = 0;
    if (record->nlevels == 0)
        return 0;
    const char *bottom = record->levels[record->nlevels - 1].directory;
    threadmasks_read(&masks, bottom, record->version2);
    for (unsigned i = record->nlevels; i-- > 0;) {
        const struct cpuset_level *level = &record->levels[i];
        int here = cpus_copy(&drop, &level->added);
        if (here == 0 && cpus != NULL)
            cpus_and(&drop, cpus);
        if (here == 0 && (keep_others || is_users(level)) &&
            (here = steprecord_added(node, record->job, record->step, level->directory, &others)) ==
                0)
            cpus_andnot(&drop, &others);
        if (here < 0 || lower_level(level->directory, i + 1 == record->nlevels, &drop) < 0)
            rc = -1;
    }
    restore_masks(&masks, bottom, record->version2);
    cpus_free(&drop);
    cpus_free(&others);
    return rc;
}

struct mending {
    struct nodedir *node;
    const struct procfs *fs;
    unsigned done;
};

static void mend_one(const struct steprecord *record, void *argument)
{
    struct mending *m = argument;
    if (steprecord_alive(record, m->fs))
        return;
    bool here = steprecord_of_this_boot(record, m->fs);
    if (here)
        log_info("step %u.%u has left its cpusets widened: set back", (unsigned)record->job,
                 (unsigned)record->step);
    if ((!here || take_back(m->node, record, NULL, true) == 0) &&
        steprecord_remove(m->node, record->job, record->step) == 0)
        m->done++;
}

unsigned cpuset_mend(struct nodedir *node, const struct procfs *fs)
{
    struct mending m = {node, fs, 0};
    if (node->fd < 0 || !steprecord_any_dead(node, fs) || !nodedir_lock(node, LOCK_MS))
        return 0;
    steprecord_each(node, mend_one, &m);
    nodedir_unlock(node);
    return m.done;
}

struct taking {
    struct nodedir *node;
    uint32_t job, step;
    bool whole_job;
    const struct cpus *cpus;
};

static void take_one(const struct steprecord *record, void *argument)
{
    const struct taking *t = argument;
    if (record->job != t->job || (!t->whole_job && record->step != t->step) ||
        (t->whole_job && record->version2))
        return;
    /* Slurm is to find the job's level as it set it, whoever wants more of it */
    (void)take_back(t->node, record, t->cpus, !t->whole_job);
}

void cpuset_take(struct nodedir *node, uint32_t job, uint32_t step, const struct cpus *cpus)
{
    struct taking t = {node, job, step, false, cpus};
    if (node->fd < 0)
        return;
    bool locked = nodedir_lock(node, LOCK_MS);
    steprecord_each(node, take_one, &t);
    if (locked)
        nodedir_unlock(node);
}

void cpuset_make_way(struct nodedir *node, uint32_t job)
{
    struct taking t = {node, job, 0, true, NULL};
    if (node->fd < 0)
        return;
    bool locked = nodedir_lock(node, LOCK_MS);
    steprecord_each(node, take_one, &t);
    if (locked)
        nodedir_unlock(node);
}
