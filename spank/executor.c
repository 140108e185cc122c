/* A thread that helper processes hand work to: see executor.h. */
#include "config.h"

#include "executor.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#define STACK_BYTES (256u * 1024u) /* as the agent's */
#define QUEUE_MAX   4u

struct executor {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t handed; /* to the thread: work, or the dismissal */
    pthread_cond_t done;   /* from it */
    void (*queue[QUEUE_MAX])(void);
    unsigned nhanded, ndone; /* in all; number n is at n modulo QUEUE_MAX */
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
        pthread_cond_broadcast(&e->done);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* ---- start ---- */

/* Deadlines by the monotonic clock. */
static int init_done(pthread_cond_t *done)
{
    pthread_condattr_t attributes;
    int rc = pthread_condattr_init(&attributes);
    if (rc != 0)
        return rc;
    rc = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (rc == 0)
        rc = pthread_cond_init(done, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return rc;
}

static int start_thread(struct executor *e)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int rc = pthread_attr_init(&attributes);
    if (rc != 0)
        return rc;
    sigfillset(&all);
    rc = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (rc == 0 && (rc = pthread_sigmask(SIG_SETMASK, &all, &before)) == 0) {
        rc = pthread_create(&e->thread, &attributes, run, e);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    (void)pthread_attr_destroy(&attributes);
    return rc;
}

static void release(struct executor *e)
{
    (void)pthread_cond_destroy(&e->done);
    (void)pthread_cond_destroy(&e->handed);
    (void)pthread_mutex_destroy(&e->lock);
    free(e);
}

struct executor *executor_start(void)
{
    struct executor *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    (void)pthread_mutex_init(&e->lock, NULL);
    (void)pthread_cond_init(&e->handed, NULL);
    int rc = init_done(&e->done);
    if (rc == 0)
        rc = start_thread(e);
    if (rc == 0)
        return e;
    release(e);
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

/* Wait until number n is done; with the lock. An error of pthread_cond_timedwait(). */
static int wait_done(struct executor *e, unsigned n, unsigned ms)
{
    struct timespec until = in_ms(CLOCK_MONOTONIC, ms);
    int rc = 0;
    while (rc == 0 && (int)(e->ndone - n) <= 0)
        rc = pthread_cond_timedwait(&e->done, &e->lock, &until);
    return rc;
}

bool executor_run(struct executor *e, void (*work)(void), unsigned ms)
{
    int rc;
    pthread_mutex_lock(&e->lock);
    if (e->dismissed) {
        rc = ESHUTDOWN;
    } else if (e->nhanded - e->ndone == QUEUE_MAX) {
        rc = ENOBUFS;
    } else {
        unsigned n = e->nhanded++;
        e->queue[n % QUEUE_MAX] = work;
        pthread_cond_signal(&e->handed);
        rc = wait_done(e, n, ms);
    }
    pthread_mutex_unlock(&e->lock);
    errno = rc;
    return rc == 0;
}

void executor_dismiss(struct executor *e)
{
    pthread_mutex_lock(&e->lock);
    e->dismissed = true;
    pthread_cond_signal(&e->handed);
    pthread_mutex_unlock(&e->lock);
}

bool executor_join(struct executor *e, unsigned ms)
{
    executor_dismiss(e);
    struct timespec until = in_ms(CLOCK_REALTIME, ms);
    if (pthread_timedjoin_np(e->thread, NULL, &until) != 0)
        return false;
    release(e);
    return true;
}
