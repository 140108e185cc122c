/* What the step's tasks did since the last sample: see sample.h. */
#include "config.h"

#include "sample.h"

#include <math.h>
#include <unistd.h>

/* Did something that started at start_ticks begin after the last sample? */
static bool began_since(const struct sampler *s, const struct tasks *t, uint64_t start_ticks)
{
    return s->last_boot_ms > 0 && start_ticks * 1000u / (uint64_t)t->fs.tick_hz >= s->last_boot_ms;
}

static uint64_t since(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* Run and queue time of a loader since the last sample. False: it is gone. */
static bool sample_schedstat(const struct sampler *s, const struct tasks *t, struct task *task,
                             uint64_t *ran, uint64_t *waited)
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
    return true;
}

static void sample_state(const struct tasks *t, struct task *task, struct msg_report *report)
{
    struct procfs_stat stat;
    if (task->tid != task->pid) { /* a process's own state is as fresh as the scan */
        if (procfs_thread_stat(&t->fs, task->pid, task->tid, &stat) < 0)
            return;
        task->state = stat.state;
    }
    report->runnable += task->state == 'R';
    report->io_wait += task->state == 'D';
}

static void sample_loaders(const struct sampler *s, struct tasks *t, struct msg_report *report)
{
    for (size_t i = 0; i < t->ntasks; i++) {
        struct task *task = &t->tasks[i];
        uint64_t ran = 0, waited = 0;
        if (task->class != TASK_LOADER)
            continue;
        if (!sample_schedstat(s, t, task, &ran, &waited)) {
            task->looks = 0; /* the next scan reads anew who bears that id */
            continue;
        }
        report->tasks++;
        report->loader_cpu_s += (double)ran / 1e9;
        report->queue_s += (double)waited / 1e9;
        sample_state(t, task, report);
    }
}

static void sample_processes(const struct sampler *s, struct tasks *t, struct msg_report *report)
{
    double all_s = 0;
    for (size_t i = 0; i < t->nprocesses; i++) {
        struct process *p = &t->processes[i];
        uint64_t bytes = p->read_bytes_last;
        bool counted = p->sampled || began_since(s, t, p->start_ticks);
        (void)procfs_read_bytes(&t->fs, p->pid, &bytes); /* not counted here, or gone: no news */
        if (counted) {
            all_s += (double)since(p->cpu_ticks, p->cpu_ticks_last) / (double)t->fs.tick_hz;
            report->read_bytes += since(bytes, p->read_bytes_last);
        }
        p->cpu_ticks_last = p->cpu_ticks;
        p->read_bytes_last = bytes;
        p->sampled = true;
    }
    report->main_cpu_s = fmax(0, all_s - report->loader_cpu_s);
}

void sampler_take(struct sampler *s, struct tasks *t, uint64_t now_ms, uint64_t boot_ms,
                  struct msg_report *report)
{
    report->interval_ms = since(now_ms, s->last_ms);
    report->tasks = report->runnable = report->io_wait = 0;
    report->loader_cpu_s = report->queue_s = report->main_cpu_s = 0;
    report->read_bytes = 0;
    report->workers = tasks_workers(t);
    sample_loaders(s, t, report);
    sample_processes(s, t, report);
    s->loader_cpu_s += report->loader_cpu_s;
    s->last_ms = now_ms;
    s->last_boot_ms = boot_ms;
}
