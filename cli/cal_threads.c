/* Threads that measure side by side; see cal.h. */
#include "config.h"

#include "cal.h"

#include "clock.h"
#include "cpus.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 4096u

struct worker {
    pthread_t thread;
    const struct cal_work *work;
    unsigned index;
    long cpu;                             /* -1: not bound */
    double seconds, units, elapsed, used; /* wall and CPU seconds */
    bool failed;
    struct gate *gate;
};

/* Opens once all that could be started are ready. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned ready;
    bool open;
};

static void wait_at_gate(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->ready++;
    (void)pthread_cond_broadcast(&gate->changed);
    while (!gate->open)
        (void)pthread_cond_wait(&gate->changed, &gate->lock);
    (void)pthread_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate, unsigned expected)
{
    (void)pthread_mutex_lock(&gate->lock);
    while (gate->ready < expected)
        (void)pthread_cond_wait(&gate->changed, &gate->lock);
    gate->open = true;
    (void)pthread_cond_broadcast(&gate->changed);
    (void)pthread_mutex_unlock(&gate->lock);
}

static void bind_to(long cpu)
{
    struct cpus one = CPUS_EMPTY;

    /* Not being bound makes the figures noisier, not wrong. */
    if (cpu >= 0 && cpus_set(&one, (unsigned)cpu) == 0)
        (void)cpus_set_affinity(0, &one);
    cpus_free(&one);
}

static double cpu_seconds(void)
{
    struct timespec t;

    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0
               ? (double)t.tv_sec + (double)t.tv_nsec / 1e9
               : 0;
}

static void *run_worker(void *data)
{
    double used;
    struct worker *w = data;
    void *state;
    uint64_t begin;

    bind_to(w->cpu);
    state = w->work->start(w->index, w->work->data);
    if (state != NULL && w->work->work(state) < 0) /* once, to warm up */
        w->failed = true;
    wait_at_gate(w->gate);
    begin = clock_monotonic_ns();
    used = cpu_seconds();
    while (state != NULL && !w->failed) {
        double units = w->work->work(state);

        if (units < 0)
            w->failed = true;
        w->units += units;
        w->elapsed = (double)(clock_monotonic_ns() - begin) / 1e9;
        if (w->elapsed >= w->seconds)
            break;
    }
    w->used = cpu_seconds() - used;
    if (state == NULL)
        w->failed = true;
    else
        w->work->stop(state);
    return NULL;
}

/* The i-th CPU of those allowed, in turn. */
static long cpu_for(const struct cpus *allowed, unsigned i)
{
    unsigned n = cpus_count(allowed);
    long cpu = -1;

    for (unsigned k = 0; n > 0 && k <= i % n; k++)
        cpu = cpus_next(allowed, (unsigned long)(cpu + 1));
    return cpu;
}

static double sum_up(const struct worker *workers, unsigned n)
{
    double rate = 0;

    for (unsigned i = 0; i < n; i++) {
        if (workers[i].failed || !(workers[i].elapsed > 0))
            return NAN;
        rate += workers[i].units / (workers[i].work->by_cpu_time && workers[i].used > 0
                                        ? workers[i].used
                                        : workers[i].elapsed);
    }
    return rate;
}

double cal_parallel(const struct cal_work *work, unsigned n, double seconds)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, false};
    struct cpus allowed = CPUS_EMPTY;
    struct worker *workers;
    unsigned started = 0;
    double rate = NAN;

    if (n == 0 || n > THREADS_MAX)
        return NAN;
    workers = calloc(n, sizeof(*workers));
    if (workers == NULL)
        return NAN;
    if (cpus_get_affinity(0, &allowed) != 0)
        cpus_clear_all(&allowed);
    for (; started < n; started++) {
        workers[started] = (struct worker){.work = work,
                                           .index = started,
                                           .seconds = seconds,
                                           .cpu = cpu_for(&allowed, started),
                                           .gate = &gate};
        if (pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]) != 0)
            break;
    }
    open_gate(&gate, started);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(workers[i].thread, NULL);
    if (started == n)
        rate = sum_up(workers, n);
    cpus_free(&allowed);
    free(workers);
    return rate;
}

unsigned cal_cpus(void)
{
    struct cpus allowed = CPUS_EMPTY;
    unsigned n = 1;

    if (cpus_get_affinity(0, &allowed) == 0)
        n = cpus_count(&allowed);
    cpus_free(&allowed);
    return n > 0 ? n : 1;
}

unsigned cal_thread_counts(unsigned n, unsigned *counts, unsigned size)
{
    unsigned k = 0;

    for (unsigned c = 1; c < n && k + 1 < size; c = c < 4                ? c + 1
                                                    : (c & (c - 1)) == 0 ? c * 3 / 2
                                                                         : c * 4 / 3)
        counts[k++] = c;
    counts[k++] = n;
    return k;
}
