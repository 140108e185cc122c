/* What the step's tasks did since the last sample: see sample.h. */
#include "config.h"

#include "sample.h"

#include <math.h>
#include <unistd.h>

#define LOOKS         8u  /* at tasks, each sample ... */
#define PART_MAX      16u /* ... or one in so many, if these are more */
#define MOSTLY_ACTIVE 0.9
#define MAIN_MATTERS  0.1 /* of a core */

/* Did something that started at start_ticks begin after the last sample? */
static bool began_since(const struct sampler *s, const struct tasks *t, uint64_t start_ticks)
{
    return s->last_boot_ms > 0 && start_ticks * 1000u / (uint64_t)t->fs.tick_hz >= s->last_boot_ms;
}

static uint64_t since(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* Run and queue time of a loader since it was last sampled. False: it is gone. */
static bool sample_schedstat(const struct sampler *s, const struct tasks *t, struct task *task,
                             uint64_t now_ms, uint64_t *ran, uint64_t *waited)
{
    int fd = task->fd >= 0 ? task->fd : procfs_schedstat_open(&t->fs, task->pid, task->tid);
    uint64_t run_ns, wait_ns;
    bool ok = fd >= 0 && procfs_schedstat_read(fd, &run_ns, &wait_ns) == 0;
    if (fd >= 0 && fd != task->fd)
        close(fd);
    if (!ok)
        return false;
    bool counted = task->sampled || began_since(s, t, task->start_ticks);
    *ran = counted ? since(run_ns, task->run_ns) : 0;
    *waited = counted ? since(wait_ns, task->wait_ns) : 0;
    task->run_ns = run_ns;
    task->wait_ns = wait_ns;
    task->sampled = true;
    task->sampled_ms = now_ms;
    return true;
}

/*
 * Of many tasks, each sample looks at a part, by turns; the others are taken to be like them. A
 * look into stat or io costs more than all else that a sample reads.
 */
static bool turn(const struct sampler *s, size_t many, pid_t id)
{
    size_t part = (many + LOOKS - 1) / LOOKS;
    if (part > PART_MAX)
        part = PART_MAX;
    return part <= 1 || (s->samples + (uint32_t)id) % part == 0;
}

/* Loaders in uninterruptible sleep: those that were not on a CPU, or waiting for one, all the time.
 */
static void sample_io_wait(const struct sampler *s, const struct tasks *t, const struct task *task,
                           double active, unsigned *looked, unsigned *sleeping)
{
    struct procfs_stat stat;
    if (!turn(s, t->nloaders, task->tid))
        return;
    (*looked)++;
    if (active < MOSTLY_ACTIVE && procfs_thread_stat(&t->fs, task->pid, task->tid, &stat) == 0 &&
        stat.state == 'D')
        (*sleeping)++;
}

/* Is a loader to be read now? One whose schedstat is not kept open, of so many, by turns. */
static bool is_due(const struct sampler *s, const struct tasks *t, const struct task *task)
{
    return task->fd >= 0 || !task->sampled || t->nloaders <= t->fds_max ||
           tasks_turn(t, s->samples, task->tid);
}

/* Share of its time since it was last sampled that a task ran or wanted to. */
static double share_of(uint64_t active_ns, uint64_t now_ms, uint64_t then_ms)
{
    double interval_ns = (double)since(now_ms, then_ms) * 1e6;
    return interval_ns > 0 ? fmin(1, (double)active_ns / interval_ns) : 0;
}

static void sample_loaders(const struct sampler *s, struct tasks *t, uint64_t now_ms,
                           struct msg_report *report)
{
    double active = 0;
    unsigned read = 0, looked = 0, sleeping = 0;
    for (size_t i = 0; i < t->ntasks; i++) {
        struct task *task = &t->tasks[i];
        uint64_t ran = 0, waited = 0, then_ms = task->sampled ? task->sampled_ms : s->last_ms;
        if (task->class != TASK_LOADER)
            continue;
        if (!is_due(s, t, task)) {
            report->tasks++;
            continue;
        }
        if (!sample_schedstat(s, t, task, now_ms, &ran, &waited)) {
            tasks_distrust(t, task);
            continue;
        }
        struct process *p = tasks_process(t, task->pid);
        if (p != NULL)
            p->loader_ns += ran;
        double share = share_of(ran + waited, now_ms, then_ms);
        active += share;
        read++;
        report->tasks++;
        report->loader_cpu_s += (double)ran / 1e9;
        report->queue_s += (double)waited / 1e9;
        sample_io_wait(s, t, task, share, &looked, &sleeping);
    }
    if (read > 0)
        report->runnable = (uint32_t)lround(active * report->tasks / read);
    if (looked > 0)
        report->io_wait = (uint32_t)lround((double)sleeping * report->tasks / looked);
}

/*
 * Seconds that a process's main thread had work: that it ran, or waited for a CPU. They are read
 * only of a process that uses some CPU; of the others what all its threads used is close enough.
 */
static double main_thread_s(const struct sampler *s, const struct tasks *t, pid_t pid,
                            uint64_t now_ms, double cpu_s, double interval_s)
{
    struct task *task = tasks_task(t, pid);
    uint64_t ran = 0, waited = 0;
    if (task == NULL || cpu_s < MAIN_MATTERS * interval_s ||
        !sample_schedstat(s, t, task, now_ms, &ran, &waited))
        return cpu_s < MAIN_MATTERS * interval_s ? cpu_s : 0;
    return fmin(interval_s, (double)(ran + waited) / 1e9);
}

static void sample_process(const struct sampler *s, const struct tasks *t, struct process *p,
                           uint64_t now_ms, struct msg_report *report)
{
    uint64_t bytes = p->read_bytes_last;
    bool counted = p->sampled || began_since(s, t, p->start_ticks);
    if (!p->sampled || turn(s, t->nprocesses, p->pid))
        (void)procfs_read_bytes(&t->fs, p->pid, &bytes); /* not counted here, or gone: no news */
    if (counted) {
        double cpu_s = (double)since(p->cpu_ticks, p->cpu_ticks_last) / (double)t->fs.tick_hz;
        if (p->class != TASK_LOADER) { /* of a worker, all time is its loader threads' */
            report->main_cpu_s += fmax(0, cpu_s - (double)p->loader_ns / 1e9);
            report->main_thread_s =
                fmax(report->main_thread_s, main_thread_s(s, t, p->pid, now_ms, cpu_s,
                                                          (double)report->interval_ms / 1000));
        }
        report->read_bytes += since(bytes, p->read_bytes_last);
    }
    p->cpu_ticks_last = p->cpu_ticks;
    p->loader_ns = 0;
    p->read_bytes_last = bytes;
    p->sampled = true;
}

void sampler_take(struct sampler *s, struct tasks *t, uint64_t now_ms, uint64_t boot_ms,
                  struct msg_report *report)
{
    report->interval_ms = since(now_ms, s->last_ms);
    report->tasks = report->runnable = report->io_wait = 0;
    report->loader_cpu_s = report->queue_s = report->main_cpu_s = 0;
    report->read_bytes = 0;
    report->main_thread_s = 0;
    report->orphans = tasks_orphans(t);
    report->workers = tasks_workers(t);
    sample_loaders(s, t, now_ms, report);
    for (size_t i = 0; i < t->nprocesses; i++)
        sample_process(s, t, &t->processes[i], now_ms, report);
    s->loader_cpu_s += report->loader_cpu_s;
    s->last_ms = now_ms;
    s->last_boot_ms = boot_ms;
    s->samples++;
}
