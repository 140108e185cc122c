/* The inventory of a step's processes and threads: see tasks.h. */
#include "config.h"

#include "tasks.h"

#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define YOUNG_LOOKS      4u     /* a task's name and program are read anew at so many scans ... */
#define LOOK_PERIOD      16u    /* ... and then at every so many */
#define MACHINE_PIDS_MAX 32768u /* processes of the whole machine that a descent search reads */
#define ANCESTORS_MAX    64     /* steps up the tree, against loops in text that is not ours */
#define CLASSIFY_PASSES  4      /* generations of processes that loaders start */
#define RELISTED_UP_TO   32u    /* threads: of so few the directory is read at each scan */

/*
 * Does a process's master work itself? Looked at for so long at a time, from the moment on that it
 * has started no process for a while: before that it is busy with just that. One that goes on and
 * on starting processes is looked at in spite of it.
 */
#define MASTER_QUIET_MS 300u
#define MASTER_AFTER_MS 10000u
#define MASTER_LOOK_MS  500u
#define MASTER_LOOKS_MS 2000u
#define MASTER_WORKS    0.01 /* of a core ... */
#define MASTER_TICKS    2u /* ... and so many clock ticks: one comes by chance to who hardly works */

/* Threads without a name are watched for what they do: so many at a scan, each so often. */
#define SOCKETS_LOOKS       4u /* of who is not known to be a loader: its sockets at so many scans */
#define SOCKETS_PERIOD      64u /* of a loader */
#define WATCHED_MAX         64u
#define WATCH_MS            250u
#define WATCH_FROM_BIRTH_MS 3000u /* one so young has done all since the last scan */

/* ---- life ---- */

static void drop_one(struct tasks *t, int *fd)
{
    if (*fd < 0)
        return;
    close(*fd);
    *fd = -1;
    t->nfds--;
}

static void drop_fds(struct tasks *t, struct task *task)
{
    drop_one(t, &task->fd);
    drop_one(t, &task->pidfd);
}

void tasks_free(struct tasks *t)
{
    for (size_t i = 0; i < t->ntasks; i++)
        drop_fds(t, &t->tasks[i]);
    for (size_t i = 0; i < t->nranks; i++)
        cpus_free(&t->ranks[i].home);
    cpus_free(&t->home);
    free(t->ranks);
    free(t->processes);
    free(t->tasks);
    procfs_close(&t->fs);
    memset(t, 0, sizeof *t);
    t->fs.fd = -1;
}

static int copy_ranks(struct tasks *t, const struct rank *ranks, size_t nranks)
{
    t->ranks = calloc(nranks > 0 ? nranks : 1, sizeof *t->ranks);
    if (t->ranks == NULL)
        return -1;
    for (size_t i = 0; i < nranks; i++) {
        t->ranks[i] = (struct rank){.pid = ranks[i].pid, .start_ticks = ranks[i].start_ticks};
        t->nranks = i + 1;
        if (cpus_copy(&t->ranks[i].home, &ranks[i].home) < 0 ||
            cpus_or(&t->home, &ranks[i].home) < 0)
            return -1;
    }
    return 0;
}

/* The host program opens files, too: take a quarter of what its limit allows at most. */
static unsigned fds_to_spare(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 4 > TASKS_FDS_MAX)
        return TASKS_FDS_MAX;
    return (unsigned)(limit.rlim_cur / 4);
}

static bool lists_children(const struct tasks *t)
{
    pid_t child;
    bool more;
    return procfs_children(&t->fs, t->self, t->self, &child, 1, &more) >= 0;
}

static bool has_gpus(const char *root)
{
    static const char *const files[] = {"/dev/nvidiactl", "/dev/kfd"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s%s", root, files[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

int tasks_init(struct tasks *t, const char *root, const struct rank *ranks, size_t nranks,
               pid_t self)
{
    memset(t, 0, sizeof *t);
    t->fs.fd = -1;
    t->self = self;
    t->fds_max = fds_to_spare();
    t->processes_max = TASKS_PROCESSES_MAX;
    t->threads_max = TASKS_THREADS_MAX;
    char name[PROCFS_COMM_MAX];
    if (procfs_open(&t->fs, root) < 0 || copy_ranks(t, ranks, nranks) < 0) {
        int saved = errno;
        tasks_free(t);
        errno = saved;
        return -1;
    }
    t->childless = !lists_children(t);
    t->gpus = has_gpus(root);
    if (procfs_program(&t->fs, self, &t->self_dev, &t->self_ino, name, sizeof name) < 0)
        t->self_ino = 0;
    for (size_t i = 0; i < nranks && !t->grouped; i++)
        t->grouped = stepgroup_find(&t->group, &t->fs, ranks[i].pid) == 0;
    return 0;
}

/* ---- look-up ---- */

static int compare_process(const void *key, const void *element)
{
    pid_t a = *(const pid_t *)key, b = ((const struct process *)element)->pid;
    return (a > b) - (a < b);
}

static int compare_task(const void *key, const void *element)
{
    pid_t a = *(const pid_t *)key, b = ((const struct task *)element)->tid;
    return (a > b) - (a < b);
}

static struct process *find_process(struct process *array, size_t n, pid_t pid)
{
    return n == 0 ? NULL : bsearch(&pid, array, n, sizeof *array, compare_process);
}

struct process *tasks_process(const struct tasks *t, pid_t pid)
{
    return find_process(t->processes, t->nprocesses, pid);
}

struct task *tasks_task(const struct tasks *t, pid_t tid)
{
    return t->ntasks == 0 ? NULL
                          : bsearch(&tid, t->tasks, t->ntasks, sizeof *t->tasks, compare_task);
}

const struct cpus *tasks_home(const struct tasks *t, const struct task *task)
{
    const struct process *p = tasks_process(t, task->pid);
    return p != NULL && p->rank >= 0 ? &t->ranks[p->rank].home : &t->home;
}

static const struct rank *rank_of(const struct tasks *t, pid_t pid, int *index)
{
    for (size_t i = 0; i < t->nranks; i++)
        if (t->ranks[i].pid == pid) {
            *index = (int)i;
            return &t->ranks[i];
        }
    return NULL;
}

/* The more there are, the more rarely each: a look costs the same whoever has to be looked at. */
static uint32_t turn_period(const struct tasks *t)
{
    return t->ntasks <= 16 ? 4 : t->ntasks <= 48 ? 8 : 16;
}

bool tasks_turn(const struct tasks *t, uint32_t count, pid_t id)
{
    return (count + (uint32_t)id) % turn_period(t) == 0;
}

/*
 * A process that has ended is there until its parent takes note, and its number may be another's
 * the next moment: it counts as gone. A thread's number is free when it ends, and then reading its
 * open file fails.
 */
bool tasks_alive(const struct tasks *t, const struct task *task)
{
    struct pollfd process = {.fd = task->pidfd, .events = POLLIN};
    struct procfs_stat stat;
    uint64_t run, waited;
    if (task->pidfd >= 0)
        return poll(&process, 1, 0) == 0;
    if (task->fd >= 0 && task->tid != task->pid)
        return procfs_schedstat_read(task->fd, &run, &waited) == 0;
    return procfs_thread_stat(&t->fs, task->pid, task->tid, &stat) == 0 &&
           stat.start_ticks == task->start_ticks && stat.state != 'Z' && stat.state != 'X';
}

/* Up the tree from pid: does it come to a rank, or to a process known as the step's? */
static bool descends(const struct tasks *t, pid_t pid)
{
    for (int up = 0; up < ANCESTORS_MAX && pid > 1; up++) {
        struct procfs_stat stat;
        int index;
        if (procfs_process_stat(&t->fs, pid, &stat) < 0)
            return false;
        const struct rank *rank = rank_of(t, pid, &index);
        if (rank != NULL && rank->start_ticks == stat.start_ticks)
            return true;
        const struct process *known = tasks_process(t, pid);
        if (known != NULL && known->start_ticks == stat.start_ticks)
            return true;
        pid = stat.ppid;
    }
    return false;
}

bool tasks_belongs(const struct tasks *t, pid_t pid)
{
    if (pid <= 1 || pid == t->self)
        return false;
    return t->grouped ? stepgroup_contains(&t->group, &t->fs, pid) : descends(t, pid);
}

void tasks_distrust(struct tasks *t, struct task *task)
{
    struct process *p = tasks_process(t, task->pid);
    task->looks = 0;
    if (p != NULL)
        p->looks = 0;
}

/* ---- which processes there are ---- */

static int compare_ids(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return (x > y) - (x < y);
}

/* Sort, and drop doubles (a process that changed its group while the groups were read). */
static size_t sort_ids(pid_t *ids, size_t n)
{
    size_t kept = 0;
    qsort(ids, n, sizeof *ids, compare_ids);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || ids[i] != ids[kept - 1])
            ids[kept++] = ids[i];
    return kept;
}

struct edge {
    pid_t pid, ppid;
    bool inside;
};

static int compare_edge(const void *key, const void *element)
{
    pid_t a = *(const pid_t *)key, b = ((const struct edge *)element)->pid;
    return (a > b) - (a < b);
}

/* Is the process the step's by itself: a rank, or one that was the step's before? */
static bool is_root(const struct tasks *t, pid_t pid, uint64_t start_ticks)
{
    int index;
    const struct rank *rank = rank_of(t, pid, &index);
    const struct process *known = tasks_process(t, pid);
    return (rank != NULL && rank->start_ticks == start_ticks) ||
           (known != NULL && known->start_ticks == start_ticks);
}

/* Read who is whose child, for the whole machine, in the order of ids. Returns how many. */
static size_t read_edges(const struct tasks *t, const pid_t *ids, size_t n, struct edge *edges)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct procfs_stat stat;
        if (procfs_process_stat(&t->fs, ids[i], &stat) < 0 || stat.kernel_thread)
            continue;
        edges[kept++] = (struct edge){ids[i], stat.ppid, is_root(t, ids[i], stat.start_ticks)};
    }
    return kept;
}

/* Spread "inside" from parents to children until nothing changes (ids may have wrapped). */
static void spread(struct edge *edges, size_t n)
{
    bool changed = true;
    for (int pass = 0; changed && pass < ANCESTORS_MAX; pass++) {
        changed = false;
        for (size_t i = 0; i < n; i++) {
            if (edges[i].inside)
                continue;
            const struct edge *parent =
                bsearch(&edges[i].ppid, edges, n, sizeof *edges, compare_edge);
            if (parent != NULL && parent->inside)
                edges[i].inside = changed = true;
        }
    }
}

/* By a pass over the whole machine, where the kernel lists no children. */
static ssize_t list_by_parents(const struct tasks *t, pid_t *pids, size_t max, bool *more)
{
    ssize_t found = -1;
    pid_t *ids = malloc(MACHINE_PIDS_MAX * sizeof *ids);
    struct edge *edges = NULL;
    if (ids == NULL)
        goto out;
    ssize_t n = procfs_list(&t->fs, "", ids, MACHINE_PIDS_MAX, more);
    if (n < 0)
        goto out;
    edges = malloc(((size_t)n + 1) * sizeof *edges);
    if (edges == NULL)
        goto out;
    size_t nedges = read_edges(t, ids, sort_ids(ids, (size_t)n), edges);
    spread(edges, nedges);
    found = 0;
    for (size_t i = 0; i < nedges; i++) {
        if (!edges[i].inside)
            continue;
        if ((size_t)found == max) {
            *more = true;
            break;
        }
        pids[found++] = edges[i].pid;
    }
out:
    free(edges);
    free(ids);
    return found;
}

/* The processes found so far: a sorted part to know doubles by, then those found since. */
struct family {
    pid_t *pids;
    size_t sorted, n, max;
    bool all; /* ask everybody for children */
    bool more;
};

static bool is_member(const struct family *f, pid_t pid)
{
    return f->sorted > 0 && bsearch(&pid, f->pids, f->sorted, sizeof *f->pids, compare_ids) != NULL;
}

static void add_member(struct family *f, pid_t pid)
{
    if (is_member(f, pid))
        return;
    if (f->n == f->max)
        f->more = true;
    else
        f->pids[f->n++] = pid;
}

static void add_children(const struct tasks *t, struct family *f, pid_t pid, pid_t tid)
{
    bool more = false;
    size_t from = f->n;
    ssize_t n = procfs_children(&t->fs, pid, tid, f->pids + from, f->max - from, &more);
    f->more = f->more || more;
    for (ssize_t i = 0; i < n; i++) /* the children lie behind those that are taken */
        add_member(f, f->pids[from + (size_t)i]);
}

/* A worker that has been looked at a few times starts others rarely: it is asked by turns. What it
 * has started bears its mask, and before loaders are moved all are asked. */
static bool is_asked(const struct tasks *t, const struct family *f, pid_t pid)
{
    const struct process *known = f->all ? NULL : tasks_process(t, pid);
    return known == NULL || known->class != TASK_LOADER || known->looks < YOUNG_LOOKS ||
           tasks_turn(t, t->scan, pid);
}

/* All descendants of those found since the last time. */
static void descend(const struct tasks *t, struct family *f)
{
    for (size_t i = f->sorted; i < f->n; i++) /* grows while it is walked */
        if (is_asked(t, f, f->pids[i]))
            add_children(t, f, f->pids[i], f->pids[i]);
    f->n = f->sorted = sort_ids(f->pids, f->n);
}

/*
 * Children hang on the thread that forked them. Main threads are asked at each scan, the others
 * while they are young and then now and then: few threads but the main one fork.
 */
static void add_children_of_threads(const struct tasks *t, struct family *f)
{
    for (size_t i = 0; i < t->ntasks; i++) {
        const struct task *task = &t->tasks[i];
        if (task->tid != task->pid &&
            (task->looks < YOUNG_LOOKS || tasks_turn(t, t->scan, task->tid)) &&
            is_member(f, task->pid))
            add_children(t, f, task->pid, task->tid);
    }
}

/* Is the process of that number still the one that it was? A worker's open descriptor is quicker.
 */
static bool same_process(const struct tasks *t, pid_t pid, uint64_t start_ticks)
{
    const struct task *main_thread = tasks_task(t, pid);
    struct procfs_stat stat;
    if (main_thread != NULL && main_thread->pidfd >= 0 && main_thread->start_ticks == start_ticks)
        return tasks_alive(t, main_thread);
    return procfs_process_stat(&t->fs, pid, &stat) == 0 && stat.start_ticks == start_ticks;
}

static void add_ranks(const struct tasks *t, struct family *f)
{
    for (size_t i = 0; i < t->nranks; i++)
        if (same_process(t, t->ranks[i].pid, t->ranks[i].start_ticks))
            add_member(f, t->ranks[i].pid);
}

/* Those that were the step's before and that nobody's main thread has for a child now. */
static void add_known(const struct tasks *t, struct family *f)
{
    for (size_t i = 0; i < t->nprocesses; i++) {
        const struct process *p = &t->processes[i];
        if (!p->is_rank && !is_member(f, p->pid) && same_process(t, p->pid, p->start_ticks))
            add_member(f, p->pid);
    }
}

static ssize_t list_by_children(const struct tasks *t, bool all, pid_t *pids, size_t max,
                                bool *more)
{
    struct family f = {.pids = pids, .max = max, .all = all};
    add_ranks(t, &f);
    descend(t, &f);
    add_known(t, &f);
    descend(t, &f);
    add_children_of_threads(t, &f);
    descend(t, &f);
    *more = f.more;
    return (ssize_t)f.n;
}

/* A list that was cut may lack processes that are known and still there. */
static size_t add_missing(const struct tasks *t, pid_t *pids, size_t n)
{
    size_t sorted = n;
    for (size_t i = 0; i < t->nprocesses; i++) {
        const struct process *p = &t->processes[i];
        if (bsearch(&p->pid, pids, sorted, sizeof *pids, compare_ids) == NULL &&
            same_process(t, p->pid, p->start_ticks) && tasks_belongs(t, p->pid))
            pids[n++] = p->pid;
    }
    return sort_ids(pids, n);
}

/* Into pids, of TASKS_LISTED_MAX. */
static ssize_t list_all(const struct tasks *t, bool all, pid_t *pids, bool *more)
{
    const size_t max = TASKS_LISTED_MAX - TASKS_PROCESSES_MAX;
    ssize_t n;
    if (t->grouped)
        n = stepgroup_list(&t->group, pids, max, more);
    else if (t->childless)
        n = list_by_parents(t, pids, max, more);
    else
        n = list_by_children(t, all, pids, max, more);
    if (n < 0)
        return -1;
    size_t kept = sort_ids(pids, (size_t)n);
    return (ssize_t)(*more ? add_missing(t, pids, kept) : kept);
}

ssize_t tasks_list(const struct tasks *t, pid_t *pids)
{
    bool more = false;
    return list_all(t, true, pids, &more);
}

/* ---- looking at processes ---- */

static uint64_t hash_bytes(const char *bytes, size_t length)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
    return hash;
}

static void read_identity(const struct tasks *t, struct process *p)
{
    char command[2048], program[64];
    p->identity_age = 0;
    if (procfs_program(&t->fs, p->pid, &p->program_dev, &p->program_ino, program, sizeof program) <
        0) {
        p->program_ino = 0;
        return;
    }
    p->own_image =
        t->self_ino != 0 && p->program_ino == t->self_ino && p->program_dev == t->self_dev;
    p->launcher = classify_is_launcher(program);
    ssize_t length = procfs_command_line(&t->fs, p->pid, command, sizeof command);
    size_t usable = length > 0 ? (size_t)length : 0;
    p->command_hash = hash_bytes(command, usable);
    p->command = classify_command(command, usable);
}

static bool look_due(uint8_t looks, uint32_t scan, pid_t id)
{
    return looks < YOUNG_LOOKS || (scan + (uint32_t)id) % LOOK_PERIOD == 0;
}

static void look_at_gpu(const struct tasks *t, struct process *p)
{
    p->gpu_files = procfs_gpu_files(&t->fs, p->pid);
    p->without_gpu = p->without_gpu || p->gpu_files == 0;
}

/* A process may open a GPU at any time; one that loads hardly will. */
static bool gpu_due(const struct tasks *t, const struct process *p)
{
    return t->gpus &&
           (p->class == TASK_LOADER ? look_due(p->looks, t->scan, p->pid)
                                    : p->looks < YOUNG_LOOKS || tasks_turn(t, t->scan, p->pid));
}

/* Fill one process's record from /proc and from what is known of it. False: it is gone. */
static bool look_at_process(const struct tasks *t, pid_t pid, uint64_t boot_ms, struct process *p)
{
    struct procfs_stat stat;
    if (procfs_process_stat(&t->fs, pid, &stat) < 0 || stat.kernel_thread || stat.state == 'Z' ||
        stat.state == 'X')
        return false;
    const struct process *old = tasks_process(t, pid);
    if (old != NULL && old->start_ticks == stat.start_ticks)
        *p = *old;
    else
        *p = (struct process){.pid = pid, .start_ticks = stat.start_ticks, .rank = -1};
    bool renamed = strcmp(p->comm, stat.comm) != 0; /* perhaps by exec */
    if (stat.cpu_ticks > p->cpu_ticks || p->active_ms == 0)
        p->active_ms = boot_ms;
    p->ppid = stat.ppid;
    p->stack = stat.stack;
    p->cpu_ticks = stat.cpu_ticks;
    p->threads = stat.threads;
    p->seen = t->scan;
    memcpy(p->comm, stat.comm, sizeof p->comm);
    int index;
    const struct rank *rank = rank_of(t, pid, &index);
    p->is_rank = rank != NULL && rank->start_ticks == stat.start_ticks;
    if (p->is_rank)
        p->rank = index;
    if (p->identity_age < UINT8_MAX)
        p->identity_age++;
    if (renamed || p->own_image || look_due(p->looks, t->scan, pid))
        read_identity(t, p);
    if (gpu_due(t, p))
        look_at_gpu(t, p);
    if (p->looks < UINT8_MAX)
        p->looks++;
    return true;
}

static uint64_t age_ms(const struct tasks *t, uint64_t start_ticks, uint64_t boot_ms)
{
    uint64_t start_ms = start_ticks * 1000u / (uint64_t)t->fs.tick_hz;
    return boot_ms > start_ms ? boot_ms - start_ms : 0;
}

/* Has the process been forked from its parent, without an exec since? Where the kernel does not
 * tell where stacks begin, the same command line speaks for it. */
static bool is_forked(const struct process *p, const struct process *parent)
{
    if (p->program_ino == 0 || p->program_ino != parent->program_ino ||
        p->program_dev != parent->program_dev)
        return false;
    if (p->stack != 0 && parent->stack != 0)
        return p->stack == parent->stack;
    return p->command_hash == parent->command_hash;
}

static bool looks_like_worker(const struct tasks *t, const struct process *p, uint64_t boot_ms)
{
    return (p->forked || p->command == COMMAND_SPAWNED || p->command == COMMAND_SERVER) &&
           age_ms(t, p->start_ticks, boot_ms) >= CLASSIFY_YOUNG_MS;
}

/* Who works with it: the parent, or the fork server's parent. */
static struct process *master_of(struct process *array, size_t n, struct process *parent)
{
    struct process *above =
        parent->command == COMMAND_SERVER ? find_process(array, n, parent->ppid) : NULL;
    return above != NULL ? above : parent;
}

/* Has it started no process for a while? */
static bool is_quiet(const struct process *master, uint64_t boot_ms)
{
    return boot_ms >= master->forked_ms + MASTER_QUIET_MS;
}

/* Does the master work, or only wait? */
static void watch_master(const struct tasks *t, struct process *p, struct process *master,
                         uint64_t boot_ms)
{
    uint64_t since_ms = boot_ms - p->mark_ms;
    uint64_t used = master->cpu_ticks > p->master_mark ? master->cpu_ticks - p->master_mark : 0;
    bool first = p->mark_ms == 0;
    if (age_ms(t, p->start_ticks, boot_ms) < MASTER_AFTER_MS && !is_quiet(master, boot_ms)) {
        p->mark_ms = 0; /* what it has used is for starting others */
        return;
    }
    if (!first && since_ms >= MASTER_LOOK_MS && used >= MASTER_TICKS &&
        (double)used / (double)t->fs.tick_hz >= MASTER_WORKS * (double)since_ms / 1000)
        p->master_active = master->works_itself = true;
    if (first || since_ms >= MASTER_LOOKS_MS) {
        p->mark_ms = boot_ms;
        p->master_mark = master->cpu_ticks;
    }
}

static void watch_idle_master(const struct tasks *t, struct process *p,
                              const struct process *master, uint64_t boot_ms)
{
    uint64_t idle_ms = boot_ms - master->active_ms;
    if (idle_ms < CLASSIFY_IDLE_MS / 2 || p->idle_mark == 0)
        p->idle_mark = p->cpu_ticks;
    p->master_idle =
        idle_ms >= CLASSIFY_IDLE_MS && p->cpu_ticks - p->idle_mark >= (uint64_t)t->fs.tick_hz;
}

/* When did each one last start a process, for itself or through a fork server? */
static void note_starts(const struct tasks *t, struct process *array, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t start_ms = array[i].start_ticks * 1000u / (uint64_t)t->fs.tick_hz;
        struct process *parent = find_process(array, n, array[i].ppid);
        if (parent == NULL)
            continue;
        struct process *master = master_of(array, n, parent);
        if (start_ms > parent->forked_ms)
            parent->forked_ms = start_ms;
        if (start_ms > master->forked_ms)
            master->forked_ms = start_ms;
    }
}

/*
 * Has a forked process sockets of its own? That is looked at where nothing else tells what it is,
 * while it is not decided and then now and then; of many, some at each scan.
 */
static void look_at_sockets(struct tasks *t, struct process *p, const struct process *parent)
{
    bool inherited_gpu = p->gpu_files > 0 && parent->gpu_files > 0;
    uint32_t period = p->class == TASK_LOADER ? SOCKETS_PERIOD : SOCKETS_LOOKS;
    bool due = !p->tcp_known || (t->scan + (uint32_t)p->pid) % period == 0;
    if (!p->forked || !due || inherited_gpu || p->own_tcp || t->tcp_looks >= WATCHED_MAX ||
        classify_name(p->comm) != NAME_PLAIN)
        return;
    t->tcp_looks++;
    p->own_tcp = procfs_has_own_tcp(&t->fs, p->pid, parent->pid);
    p->tcp_known = true;
}

/* Who descends from which rank, who was forked from its parent, and who has workers. */
static void relate_processes(struct tasks *t, uint64_t boot_ms, struct process *array, size_t n)
{
    for (size_t i = 0; i < n; i++)
        array[i].parent_known = array[i].forked = array[i].has_workers = false;
    note_starts(t, array, n);
    for (size_t i = 0; i < n; i++) {
        struct process *p = &array[i];
        struct process *parent = find_process(array, n, p->ppid);
        if (parent == NULL || p->is_rank)
            continue;
        p->parent_known = true;
        if (p->identity_age == 0 && parent->identity_age != 0)
            read_identity(t, parent); /* compare with what the parent is now */
        if (t->gpus && p->looks <= 1)
            look_at_gpu(t, parent);
        p->forked = is_forked(p, parent);
        look_at_sockets(t, p, parent);
        if (looks_like_worker(t, p, boot_ms))
            parent->has_workers = true;
        struct process *master = master_of(array, n, parent);
        watch_master(t, p, master, boot_ms);
        watch_idle_master(t, p, master, boot_ms);
        struct process *up = parent;
        for (int hop = 0; hop < ANCESTORS_MAX && up != NULL && !up->is_rank; hop++)
            up = find_process(array, n, up->ppid);
        if (up != NULL && up->is_rank)
            p->rank = up->rank;
        else if (p->rank < 0 && t->nranks == 1)
            p->rank = 0;
    }
}

/*
 * May a process be taken as it was? In a search for newcomers every one that is known; else a
 * worker that has been looked at a few times, but for its turn: what is wanted of workers at each
 * scan are their threads' times, which sample.c reads. One that ends is not listed any more.
 */
static bool taken_as_known(const struct tasks *t, enum tasks_depth depth, const struct process *old)
{
    if (old == NULL)
        return false;
    if (depth == TASKS_NEWCOMERS)
        return true;
    return old->class == TASK_LOADER && old->looks >= YOUNG_LOOKS &&
           !tasks_turn(t, t->scan, old->pid);
}

/*
 * Of more processes than the bound allows those stay that are known: one that has been bound is not
 * lost sight of.
 */
static size_t look_at_processes(struct tasks *t, enum tasks_depth depth, uint64_t boot_ms,
                                const pid_t *pids, size_t n, struct process *array)
{
    size_t kept = 0, room = t->processes_max - t->nprocesses;
    for (size_t i = 0; i < n; i++) {
        struct process *p = &array[kept];
        const struct process *old = tasks_process(t, pids[i]);
        if (old == NULL && room == 0) {
            t->cut = true;
        } else if (taken_as_known(t, depth, old)) {
            *p = *old;
            p->seen = t->scan;
            kept++;
        } else if (pids[i] != t->self && look_at_process(t, pids[i], boot_ms, p)) {
            room -= old == NULL;
            kept++;
        }
    }
    return kept;
}

static int scan_processes(struct tasks *t, enum tasks_depth depth, uint64_t boot_ms)
{
    bool more = false;
    pid_t *pids = malloc(TASKS_LISTED_MAX * sizeof *pids);
    ssize_t n = pids != NULL ? list_all(t, depth == TASKS_NEWCOMERS, pids, &more) : -1;
    size_t most = n > (ssize_t)TASKS_PROCESSES_MAX ? TASKS_PROCESSES_MAX : (size_t)n;
    struct process *array = n >= 0 ? calloc(most + 1, sizeof *array) : NULL;
    if (array == NULL) {
        free(pids);
        return -1;
    }
    size_t kept = look_at_processes(t, depth, boot_ms, pids, (size_t)n, array);
    free(pids);
    relate_processes(t, boot_ms, array, kept);
    free(t->processes);
    t->processes = array;
    t->nprocesses = kept;
    t->cut = t->cut || more;
    return 0;
}

/* ---- looking at threads ---- */

/* Fill one thread's record. False: it is gone. */
static bool look_at_thread(const struct tasks *t, struct process *p, pid_t tid, struct task *task)
{
    const struct task *old = tasks_task(t, tid);
    bool known =
        old != NULL && old->pid == p->pid && (tid != p->pid || old->start_ticks == p->start_ticks);
    if (known)
        *task = *old;
    else
        *task = (struct task){.tid = tid, .pid = p->pid, .fd = -1, .pidfd = -1};
    if (tid == p->pid) { /* the process's own stat is the main thread's but for the CPU time */
        task->start_ticks = p->start_ticks;
        task->kind = (uint8_t)classify_name(p->comm);
    } else if (!known || look_due(task->looks, t->scan, tid)) {
        struct procfs_stat stat;
        if (procfs_thread_stat(&t->fs, p->pid, tid, &stat) < 0)
            return false;
        if (known && stat.start_ticks != old->start_ticks)
            *task = (struct task){.tid = tid, .pid = p->pid, .fd = -1, .pidfd = -1};
        task->start_ticks = stat.start_ticks;
        task->kind = (uint8_t)classify_name(stat.comm);
    }
    if (task->looks < UINT8_MAX)
        task->looks++;
    task->seen = t->scan;
    if (task->kind == NAME_COMMUNICATION)
        p->trainer_threads = true;
    return true;
}

struct task_list {
    struct task *items;
    size_t n, size;
    size_t room; /* for threads that are new */
};

static struct task *task_slot(struct task_list *list)
{
    if (list->n == list->size) {
        size_t size = list->size == 0 ? 64 : list->size * 2;
        struct task *grown = realloc(list->items, size * sizeof *grown);
        if (grown == NULL)
            return NULL;
        list->items = grown;
        list->size = size;
    }
    return &list->items[list->n];
}

/* One thread into the list; -1 only without memory. New ones as far as there is room. */
static int scan_thread(struct tasks *t, struct process *p, pid_t tid, struct task_list *list)
{
    bool is_new = tasks_task(t, tid) == NULL;
    if (is_new && list->room == 0) {
        t->cut = true;
        return 0;
    }
    struct task *slot = task_slot(list);
    if (slot == NULL)
        return -1;
    if (!look_at_thread(t, p, tid, slot)) {
        p->relist = true;
        return 0;
    }
    list->n++;
    list->room -= is_new;
    return 0;
}

/*
 * Has a process of many threads those that are known? So it is taken to be while their number stays
 * the same and none of them is missed, but for its turn: its directory costs as much as all that is
 * read of its loaders.
 */
static bool keeps_threads(const struct tasks *t, enum tasks_depth depth, const struct process *p)
{
    return depth == TASKS_FULL && p->threads > RELISTED_UP_TO && p->threads == p->listed &&
           !p->relist && p->looks >= YOUNG_LOOKS && !tasks_turn(t, t->scan, p->pid);
}

/* All threads of one process into the list; -1 only without memory. */
static int scan_process_threads(struct tasks *t, struct process *p, pid_t *tids,
                                struct task_list *list)
{
    ssize_t n = 1;
    bool more = false;
    tids[0] = p->pid;
    if (p->threads > 1) {
        char path[64];
        snprintf(path, sizeof path, "%d/task", (int)p->pid);
        n = procfs_list(&t->fs, path, tids, TASKS_THREADS_MAX, &more);
    }
    t->cut = t->cut || more;
    p->relist = more;
    p->listed = n > 0 ? (uint32_t)n : 0;
    for (ssize_t i = 0; i < n; i++)
        if (scan_thread(t, p, tids[i], list) < 0)
            return -1;
    return 0;
}

/* The threads of those processes whose directories were not read. */
static int scan_kept_threads(struct tasks *t, struct task_list *list)
{
    for (size_t i = 0; i < t->ntasks; i++) {
        struct process *p = tasks_process(t, t->tasks[i].pid);
        if (p != NULL && p->keeps_threads && scan_thread(t, p, t->tasks[i].tid, list) < 0)
            return -1;
    }
    return 0;
}

static int compare_tids(const void *a, const void *b)
{
    pid_t x = ((const struct task *)a)->tid, y = ((const struct task *)b)->tid;
    return (x > y) - (x < y);
}

/* Close what the old list kept open for tasks that the new one does not continue. */
static void drop_lost(struct tasks *t, const struct task_list *list)
{
    for (size_t i = 0; i < t->ntasks; i++) {
        struct task *old = &t->tasks[i];
        const struct task *now = list->n == 0 ? NULL
                                              : bsearch(&old->tid, list->items, list->n,
                                                        sizeof *list->items, compare_task);
        if (now == NULL || now->fd != old->fd)
            drop_one(t, &old->fd);
        if (now == NULL || now->pidfd != old->pidfd)
            drop_one(t, &old->pidfd);
    }
}

static int scan_threads(struct tasks *t, enum tasks_depth depth)
{
    struct task_list list = {.room = t->threads_max - t->ntasks};
    bool any_kept = false;
    pid_t *tids = malloc(TASKS_THREADS_MAX * sizeof *tids);
    int rc = tids == NULL ? -1 : 0;
    for (size_t i = 0; rc == 0 && i < t->nprocesses; i++) {
        struct process *p = &t->processes[i];
        p->keeps_threads = keeps_threads(t, depth, p);
        p->trainer_threads = p->trainer_threads && p->threads > 1;
        any_kept = any_kept || p->keeps_threads;
        if (!p->keeps_threads)
            rc = scan_process_threads(t, p, tids, &list);
    }
    if (rc == 0 && any_kept)
        rc = scan_kept_threads(t, &list);
    free(tids);
    if (rc < 0) {
        free(list.items); /* the old list stays as it was */
        return -1;
    }
    if (list.n > 0)
        qsort(list.items, list.n, sizeof *list.items, compare_tids);
    drop_lost(t, &list);
    free(t->tasks);
    t->tasks = list.items;
    t->ntasks = list.n;
    return 0;
}

/* ---- what threads without a name do ---- */

static bool is_watched(const struct tasks *t, const struct task *task)
{
    const struct process *p = tasks_process(t, task->pid);
    return task->tid != task->pid && task->kind == NAME_PLAIN && p != NULL &&
           p->role == ROLE_MAIN && !p->has_workers;
}

/* One look at a thread's work. Its descriptor's cost is saved where it has used no CPU. */
static void watch(const struct tasks *t, struct task *task, uint64_t boot_ms)
{
    struct thread_work work = {.seconds = (double)(boot_ms - task->work_ms) / 1000};
    uint64_t run_ns, wait_ns, rchars, wchars, age = age_ms(t, task->start_ticks, boot_ms);
    int fd = procfs_schedstat_open(&t->fs, task->pid, task->tid);
    bool ok = fd >= 0 && procfs_schedstat_read(fd, &run_ns, &wait_ns) == 0;
    if (fd >= 0)
        close(fd);
    bool first = task->work_ms == 0;
    if (!ok || (!first && run_ns == task->work_ns) ||
        procfs_thread_io(&t->fs, task->pid, task->tid, &rchars, &wchars) < 0)
        return;
    if (first)
        work.seconds = (double)age / 1000;
    work.cpu_s = (double)(run_ns - task->work_ns) / 1e9;
    work.read_bytes = rchars - task->read_chars;
    work.written_bytes = wchars - task->written_chars;
    if (!first || age < WATCH_FROM_BIRTH_MS)
        task->reads = (uint8_t)classify_reads(task->reads, &work);
    task->work_ms = boot_ms;
    task->work_ns = run_ns;
    task->read_chars = rchars;
    task->written_chars = wchars;
}

/* Of many, a part at each scan; those first of which it is already known that they read. */
static void watch_threads(struct tasks *t, uint64_t boot_ms)
{
    unsigned left = WATCHED_MAX;
    for (size_t i = 0; i < t->ntasks && left > 0; i++) {
        struct task *task = &t->tasks[i];
        bool due = t->ntasks <= WATCHED_MAX || task->reads > 0 || task->looks < YOUNG_LOOKS ||
                   (t->scan + (uint32_t)task->tid) % LOOK_PERIOD == 0;
        if (!due || boot_ms - task->work_ms < WATCH_MS || !is_watched(t, task))
            continue;
        watch(t, task, boot_ms);
        left--;
    }
}

/* ---- classes ---- */

static enum task_role process_role(const struct tasks *t, const struct process *p, uint64_t boot_ms)
{
    const struct process *parent = p->parent_known ? tasks_process(t, p->ppid) : NULL;
    const struct process *master =
        parent != NULL ? master_of(t->processes, t->nprocesses, tasks_process(t, p->ppid)) : NULL;
    const uint32_t master_files = master != NULL ? master->gpu_files : 0;
    const struct process_view view = {
        .is_rank = p->is_rank,
        .not_yet_program = p->own_image,
        .parent_known = p->parent_known,
        .parent_loader = parent != NULL && parent->class == TASK_LOADER,
        .parent_helper = parent != NULL && parent->command == COMMAND_HELPER,
        .parent_server = parent != NULL && p->forked && parent->command == COMMAND_SERVER,
        .forked = p->forked,
        .launcher = p->launcher,
        .was_loader = p->class == TASK_LOADER,
        .has_workers = p->has_workers,
        .announced = p->announced,
        .trainer_threads = p->trainer_threads,
        .gpu = p->gpu_files > 0,
        .tcp_known = p->tcp_known,
        .own_tcp = p->own_tcp,
        .opened_gpu = p->gpu_files > 0 && (p->without_gpu || p->gpu_files > master_files),
        .master_gpu = master_files > 0,
        .master_active = p->master_active || (master != NULL && master->works_itself),
        .master_idle = p->master_idle,
        .command = p->command,
        .comm = p->comm,
        .age_ms = age_ms(t, p->start_ticks, boot_ms),
    };
    return classify_process(&view);
}

static void classify_processes(struct tasks *t, uint64_t boot_ms)
{
    bool changed = true;
    for (int pass = 0; changed && pass < CLASSIFY_PASSES; pass++) {
        changed = false;
        for (size_t i = 0; i < t->nprocesses; i++) {
            struct process *p = &t->processes[i];
            enum task_role role = process_role(t, p, boot_ms);
            changed = changed || role != p->role;
            p->role = role;
            p->class = classify_class(role);
        }
    }
}

static enum task_role thread_role(const struct process *p, const struct task *task)
{
    const struct thread_view view = {.process = p->role,
                                     .is_main = task->tid == task->pid,
                                     .announced = task->announced,
                                     .has_workers = p->has_workers,
                                     .was_loader = task->class == TASK_LOADER,
                                     .kind = (enum name_kind)task->kind,
                                     .reads = task->reads};
    return classify_thread(&view);
}

static int counted(struct tasks *t, int fd)
{
    t->nfds += fd >= 0;
    return fd;
}

/*
 * What is read of a loader at each sample, and by which it is known before its mask is changed,
 * stays open. What was opened is the task's only if the task is still there afterwards.
 */
static void keep_open(struct tasks *t, struct task *task)
{
    struct procfs_stat stat;
    bool process = task->tid == task->pid && t->fs.root[0] == '\0';
    if (task->fd >= 0 || t->nfds + 2 > t->fds_max)
        return;
    task->fd = counted(t, procfs_schedstat_open(&t->fs, task->pid, task->tid));
    if (process) /* -1 before Linux 5.3 */
        task->pidfd = counted(t, (int)syscall(SYS_pidfd_open, task->pid, 0));
    if (procfs_thread_stat(&t->fs, task->pid, task->tid, &stat) < 0 ||
        stat.start_ticks != task->start_ticks)
        drop_fds(t, task);
}

static void set_class(struct tasks *t, const struct process *p, struct task *task)
{
    task->role = (uint8_t)thread_role(p, task);
    task->class = (uint8_t)classify_class((enum task_role)task->role);
    if (task->class == TASK_LOADER) {
        t->nloaders++;
        keep_open(t, task);
    } else {
        drop_fds(t, task);
    }
    if (task->class == TASK_UNDECIDED)
        t->undecided = true;
}

static void classify_threads(struct tasks *t)
{
    t->nloaders = 0;
    t->undecided = false;
    for (size_t i = 0; i < t->ntasks; i++) {
        const struct process *p = tasks_process(t, t->tasks[i].pid);
        if (p != NULL)
            set_class(t, p, &t->tasks[i]);
    }
}

void tasks_classify(struct tasks *t, uint64_t boot_ms)
{
    classify_processes(t, boot_ms);
    classify_threads(t);
}

/* Without file descriptors to spare (a scan has that many open at a time, at most) every process
 * would look as if it had ended. */
static bool can_look(const struct tasks *t)
{
    int fds[4];
    size_t n = 0;
    int error = 0;

    while (n < sizeof(fds) / sizeof(fds[0]) && error == 0) {
        fds[n] = openat(t->fs.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fds[n] >= 0)
            n++;
        else
            error = errno;
    }
    while (n > 0)
        close(fds[--n]);
    errno = error;
    return error == 0;
}

int tasks_scan(struct tasks *t, enum tasks_depth depth, uint64_t boot_ms)
{
    bool was_cut = t->cut;
    if (!can_look(t))
        return -1;
    t->scan++;
    t->cut = false;
    t->tcp_looks = 0;
    if (scan_processes(t, depth, boot_ms) < 0 || scan_threads(t, depth) < 0)
        return -1;
    classify_processes(t, boot_ms);
    if (depth == TASKS_FULL)
        watch_threads(t, boot_ms);
    classify_threads(t);
    if (t->cut && !was_cut)
        log_warning(
            "the step has more than %u processes or %u threads: those beyond are not looked "
            "at and stay as they are",
            TASKS_PROCESSES_MAX, TASKS_THREADS_MAX);
    return 0;
}

/* ---- what clients and reports ask ---- */

int tasks_announce(struct tasks *t, pid_t pid, pid_t tid, bool on)
{
    struct process *p = tasks_process(t, pid);
    struct task *task = tasks_task(t, tid);
    if (p == NULL || task == NULL || task->pid != pid) {
        errno = ESRCH;
        return -1;
    }
    if (p->is_rank && tid == pid) {
        errno = EPERM;
        return -1;
    }
    task->announced = on;
    if (tid == pid)
        p->announced = on;
    return 0;
}

unsigned tasks_workers(const struct tasks *t)
{
    unsigned workers = 0;
    for (size_t i = 0; i < t->nprocesses; i++)
        workers += t->processes[i].class == TASK_LOADER;
    for (size_t i = 0; i < t->ntasks; i++) {
        const struct task *task = &t->tasks[i];
        const struct process *p = tasks_process(t, task->pid);
        workers += task->class == TASK_LOADER && p != NULL && p->class != TASK_LOADER;
    }
    return workers;
}

unsigned tasks_orphans(const struct tasks *t)
{
    unsigned orphans = 0;
    for (size_t i = 0; i < t->nprocesses; i++)
        orphans += t->processes[i].class == TASK_LOADER && !t->processes[i].parent_known;
    return orphans;
}
