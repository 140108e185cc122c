/* A thread that helper processes hand work to: see executor.h. */
#include "config.h"

#include "executor.h"

#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define STACK_BYTES (256u * 1024u) /* as the agent's */
#define QUEUE_MAX   4u
#define LOOK_NS     300000L /* between two looks whether work is done */

/*
 * A helper may be killed at any moment. So none waits for a condition, whose other users would then
 * wait for it; nobody waits for the lock without limit but the thread; and neither is destroyed.
 */
struct executor {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t handed; /* to the thread: work, or the dismissal */
    void (*queue[QUEUE_MAX])(void);
    unsigned nhanded;  /* in all; number n is at n modulo QUEUE_MAX */
    atomic_uint ndone; /* of them */
    bool dismissed;
};

static void *run(void *argument)
{
    struct executor *e = argument;
    (void)pthread_setname_np(pthread_self(), "adl-executor");
    pthread_mutex_lock(&e->lock);
    while (e->ndone != e->nhanded || !e->dismissed) {
        if (e->ndone == e->nhanded) {
            pthread_cond_wait(&e->handed, &e->lock);
            continue;
        }
        void (*work)(void) = e->queue[e->ndone % QUEUE_MAX];
        pthread_mutex_unlock(&e->lock);
        work();
        pthread_mutex_lock(&e->lock);
        e->ndone++;
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- start ---- */

struct executor *executor_start(void)
{
    struct executor *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_cond_init(&e->handed, NULL);
    int rc = thread_start(&e->thread, STACK_BYTES, run, e);
    if (rc == 0)
        return e;
    (void)pthread_cond_destroy(&e->handed);
    (void)pthread_mutex_destroy(&e->lock);
    free(e);
    errno = rc;
    return NULL;
}

/* ---- use ---- */

static struct timespec in_ms(clockid_t clock, unsigned ms)
{
    struct timespec at = {0, 0};
    (void)clock_gettime(clock, &at);
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000L;
    }
    return at;
}

static bool lock_within(struct executor *e, unsigned ms)
{
    struct timespec until = in_ms(CLOCK_REALTIME, ms);
    return pthread_mutex_timedlock(&e->lock, &until) == 0;
}

/* Put work into the queue as number *n. 0 or an error's number. */
static int hand(struct executor *e, void (*work)(void), unsigned ms, unsigned *n)
{
    int rc = 0;
    if (!lock_within(e, ms))
        return ETIMEDOUT;
    if (e->dismissed) {
        rc = ESHUTDOWN;
    } else if (e->nhanded - e->ndone == QUEUE_MAX) {
        rc = ENOBUFS;
    } else {
        *n = e->nhanded++;
        e->queue[*n % QUEUE_MAX] = work;
        pthread_cond_signal(&e->handed);
    }
    pthread_mutex_unlock(&e->lock);
    return rc;
}

static bool is_over(const struct timespec *until)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > until->tv_sec ||
           (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec);
}

bool executor_run(struct executor *e, void (*work)(void), unsigned ms)
{
    struct timespec until = in_ms(CLOCK_MONOTONIC, ms), pause = {0, LOOK_NS};
    unsigned n = 0;
    int rc = hand(e, work, ms, &n);
    while (rc == 0 && (int)(e->ndone - n) <= 0) {
        if (is_over(&until))
            rc = ETIMEDOUT;
        else
            (void)nanosleep(&pause, NULL);
    }
    errno = rc;
    return rc == 0;
}

bool executor_dismiss(struct executor *e, unsigned ms)
{
    if (!lock_within(e, ms))
        return false;
    e->dismissed = true;
    pthread_cond_signal(&e->handed);
    pthread_mutex_unlock(&e->lock);
    return true;
}

bool executor_join(struct executor *e, unsigned ms)
{
    struct timespec until = in_ms(CLOCK_REALTIME, ms);
    if (!executor_dismiss(e, ms) || pthread_timedjoin_np(e->thread, NULL, &until) != 0)
        return false;
    free(e);
    return true;
}
