/* Threads for what may take long. See workers.h. */
#include "config.h"

#include "offload.h"

#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define END_STEPS   40 /* to wait for free threads at the end */
#define END_STEP_NS 5000000

STAILQ_HEAD(work_list, work);

/* Between the loop and the threads; it goes with whoever leaves last. */
struct shared {
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct work_list queue, done;
    unsigned pending, pending_max; /* submitted and not back in the loop */
    unsigned users;                /* threads, and the loop */
    bool stop;
    int wake; /* eventfd to the loop */
};

struct workers {
    struct shared *shared;
    struct event *event;
};

static void discard_all(struct work_list *list)
{
    struct work *work;

    while ((work = STAILQ_FIRST(list)) != NULL) {
        STAILQ_REMOVE_HEAD(list, link);
        work->discard(work);
    }
}

/* With the lock held; it is released. */
static void leave(struct shared *shared)
{
    bool last = --shared->users == 0;

    (void)pthread_mutex_unlock(&shared->lock);
    if (!last)
        return;
    discard_all(&shared->queue);
    discard_all(&shared->done);
    (void)close(shared->wake);
    (void)pthread_cond_destroy(&shared->news);
    (void)pthread_mutex_destroy(&shared->lock);
    free(shared);
}

static void *thread_main(void *arg)
{
    struct shared *shared = arg;
    const uint64_t one = 1;

    (void)pthread_mutex_lock(&shared->lock);
    while (!shared->stop) {
        struct work *work = STAILQ_FIRST(&shared->queue);

        if (work == NULL) {
            (void)pthread_cond_wait(&shared->news, &shared->lock);
            continue;
        }
        STAILQ_REMOVE_HEAD(&shared->queue, link);
        (void)pthread_mutex_unlock(&shared->lock);
        work->run(work);
        (void)pthread_mutex_lock(&shared->lock);
        STAILQ_INSERT_TAIL(&shared->done, work, link);
        /* A full counter (EAGAIN) has woken the loop already. */
        if (write(shared->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
            log_error("a worker cannot wake the loop: %s", strerror(errno));
    }
    leave(shared);
    return NULL;
}

static void deliver(evutil_socket_t fd, short what, void *arg)
{
    struct workers *workers = arg;
    struct work_list done = STAILQ_HEAD_INITIALIZER(done);
    struct work *work;
    uint64_t count;

    (void)what;
    if (read((int)fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        log_error("the workers' wake-up cannot be read: %s", strerror(errno));
    (void)pthread_mutex_lock(&workers->shared->lock);
    STAILQ_CONCAT(&done, &workers->shared->done);
    STAILQ_FOREACH(work, &done, link)
    {
        workers->shared->pending--;
    }
    (void)pthread_mutex_unlock(&workers->shared->lock);
    while ((work = STAILQ_FIRST(&done)) != NULL) {
        STAILQ_REMOVE_HEAD(&done, link);
        work->done(work);
    }
}

bool workers_submit(struct workers *workers, struct work *work)
{
    struct shared *shared = workers->shared;
    bool room;

    (void)pthread_mutex_lock(&shared->lock);
    room = shared->pending < shared->pending_max;
    if (room) {
        shared->pending++;
        STAILQ_INSERT_TAIL(&shared->queue, work, link);
        (void)pthread_cond_signal(&shared->news);
    }
    (void)pthread_mutex_unlock(&shared->lock);
    return room;
}

static struct shared *shared_new(unsigned queue_max)
{
    struct shared *shared = calloc(1, sizeof(*shared));

    if (shared == NULL)
        return NULL;
    shared->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (shared->wake < 0) {
        free(shared);
        return NULL;
    }
    /* With default attributes these cannot fail on Linux. */
    (void)pthread_mutex_init(&shared->lock, NULL);
    (void)pthread_cond_init(&shared->news, NULL);
    STAILQ_INIT(&shared->queue);
    STAILQ_INIT(&shared->done);
    shared->pending_max = queue_max;
    shared->users = 1;
    return shared;
}

/* Threads take no signals: those are the loop's. */
static int start_thread(struct shared *shared)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    int rc = pthread_attr_init(&attributes);

    if (rc != 0)
        return rc;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_mutex_lock(&shared->lock);
    rc = pthread_create(&thread, &attributes, thread_main, shared);
    if (rc == 0)
        shared->users++;
    (void)pthread_mutex_unlock(&shared->lock);
    (void)pthread_attr_destroy(&attributes);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

struct workers *workers_new(struct event_base *base, unsigned nthreads, unsigned queue_max)
{
    struct workers *workers = calloc(1, sizeof(*workers));
    int rc = 0;

    if (workers == NULL)
        return NULL;
    workers->shared = shared_new(queue_max);
    if (workers->shared == NULL) {
        free(workers);
        return NULL;
    }
    workers->event = event_new(base, workers->shared->wake, EV_READ | EV_PERSIST, deliver, workers);
    if (workers->event == NULL || event_add(workers->event, NULL) < 0)
        rc = ENOMEM;
    for (unsigned i = 0; i < nthreads && rc == 0; i++)
        rc = start_thread(workers->shared);
    if (rc != 0) {
        workers_free(workers);
        errno = rc;
        return NULL;
    }
    return workers;
}

void workers_free(struct workers *workers)
{
    const struct timespec step = {0, END_STEP_NS};
    struct shared *shared;

    if (workers == NULL)
        return;
    shared = workers->shared;
    if (workers->event != NULL)
        event_free(workers->event);
    free(workers);
    (void)pthread_mutex_lock(&shared->lock);
    shared->stop = true;
    (void)pthread_cond_broadcast(&shared->news);
    for (int i = 0; i < END_STEPS && shared->users > 1; i++) {
        (void)pthread_mutex_unlock(&shared->lock);
        (void)nanosleep(&step, NULL);
        (void)pthread_mutex_lock(&shared->lock);
    }
    leave(shared);
}
