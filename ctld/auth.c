/* Munge credentials in worker threads. See auth.h. */
#include "config.h"

#include "auth.h"

#include "ctld.h"
#include "log.h"
#include "session.h"

#include <errno.h>
#include <event2/event.h>
#include <munge.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#define WORKERS   4
#define QUEUE_MAX 4096u
#define FINI_MS   200

struct auth_job {
    STAILQ_ENTRY(auth_job) link;
    struct session *session; /* the loop's thread only; NULL: forgotten */
    char *credential;        /* the worker's from here on */
    void *payload;
    int payload_length;
    uid_t uid;
    munge_err_t result;
    char error[256];
};

STAILQ_HEAD(job_list, auth_job);

/* Shared with the workers, and freed by whoever leaves last: one may be stuck in munge_decode(). */
struct shared {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct job_list queue, done;
    unsigned queued;
    unsigned users; /* workers and the loop's thread */
    bool stop;
    int wake; /* eventfd to the loop */
    char *munge_socket;
};

struct auth {
    struct shared *shared;
    struct event *event;
};

static void job_free(struct auth_job *job)
{
    free(job->credential);
    free(job->payload);
    free(job);
}

static void drain(struct job_list *list)
{
    struct auth_job *job;

    while ((job = STAILQ_FIRST(list)) != NULL) {
        STAILQ_REMOVE_HEAD(list, link);
        job_free(job);
    }
}

/* Call with the lock held; it is released. */
static void leave(struct shared *shared)
{
    bool last = --shared->users == 0;

    (void)pthread_mutex_unlock(&shared->lock);
    if (!last)
        return;
    drain(&shared->queue);
    drain(&shared->done);
    if (shared->wake >= 0)
        (void)close(shared->wake);
    (void)pthread_cond_destroy(&shared->work);
    (void)pthread_mutex_destroy(&shared->lock);
    free(shared->munge_socket);
    free(shared);
}

/* ---- the workers --------------------------------------------------------------------------- */

static void decode(const char *munge_socket, struct auth_job *job)
{
    munge_ctx_t ctx = munge_ctx_create();
    gid_t gid;

    job->result = EMUNGE_NO_MEMORY;
    if (ctx == NULL) {
        (void)snprintf(job->error, sizeof(job->error), "out of memory");
        return;
    }
    job->result = EMUNGE_SUCCESS;
    if (munge_socket[0] != '\0')
        job->result = munge_ctx_set(ctx, MUNGE_OPT_SOCKET, munge_socket);
    if (job->result == EMUNGE_SUCCESS)
        job->result = munge_decode(job->credential, ctx, &job->payload, &job->payload_length,
                                   &job->uid, &gid);
    if (job->result != EMUNGE_SUCCESS) {
        const char *why = munge_ctx_strerror(ctx);

        (void)snprintf(job->error, sizeof(job->error), "%s",
                       why != NULL ? why : munge_strerror(job->result));
        /* Expired and replayed credentials bring their payload too. */
        free(job->payload);
        job->payload = NULL;
        job->payload_length = 0;
    }
    munge_ctx_destroy(ctx);
}

static void *worker(void *arg)
{
    struct shared *shared = arg;
    const uint64_t one = 1;

    (void)pthread_mutex_lock(&shared->lock);
    while (!shared->stop) {
        struct auth_job *job = STAILQ_FIRST(&shared->queue);

        if (job == NULL) {
            (void)pthread_cond_wait(&shared->work, &shared->lock);
            continue;
        }
        STAILQ_REMOVE_HEAD(&shared->queue, link);
        (void)pthread_mutex_unlock(&shared->lock);
        decode(shared->munge_socket, job);
        (void)pthread_mutex_lock(&shared->lock);
        shared->queued--;
        STAILQ_INSERT_TAIL(&shared->done, job, link);
        if (write(shared->wake, &one, sizeof(one)) != sizeof(one) && errno != EAGAIN)
            break;
    }
    leave(shared);
    return NULL;
}

/* ---- the loop's side ----------------------------------------------------------------------- */

static bool worth_another_try(munge_err_t result)
{
    return result == EMUNGE_SOCKET || result == EMUNGE_TIMEOUT || result == EMUNGE_NO_MEMORY ||
           result == EMUNGE_CRED_EXPIRED || result == EMUNGE_CRED_REWOUND;
}

static void deliver(evutil_socket_t fd, short what, void *arg)
{
    struct auth *auth = arg;
    struct job_list done = STAILQ_HEAD_INITIALIZER(done);
    struct auth_job *job;
    uint64_t count;

    (void)what;
    if (read((int)fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        log_error("the credential workers' wake-up cannot be read: %s", strerror(errno));
    (void)pthread_mutex_lock(&auth->shared->lock);
    STAILQ_CONCAT(&done, &auth->shared->done);
    (void)pthread_mutex_unlock(&auth->shared->lock);
    while ((job = STAILQ_FIRST(&done)) != NULL) {
        STAILQ_REMOVE_HEAD(&done, link);
        if (job->session != NULL)
            session_authenticated(
                job->session, job->uid, job->result == EMUNGE_SUCCESS ? job->payload : NULL,
                (size_t)job->payload_length, job->error, worth_another_try(job->result));
        job_free(job);
    }
}

struct auth_job *auth_submit(struct auth *auth, struct session *session, const char *credential,
                             size_t length)
{
    struct shared *shared;
    struct auth_job *job;

    if (auth == NULL)
        return NULL;
    shared = auth->shared;
    job = calloc(1, sizeof(*job));
    if (job == NULL)
        return NULL;
    job->session = session;
    job->credential = strndup(credential, length);
    if (job->credential == NULL) {
        free(job);
        return NULL;
    }
    (void)pthread_mutex_lock(&shared->lock);
    if (shared->queued >= QUEUE_MAX) {
        (void)pthread_mutex_unlock(&shared->lock);
        job_free(job);
        return NULL;
    }
    shared->queued++;
    STAILQ_INSERT_TAIL(&shared->queue, job, link);
    (void)pthread_cond_signal(&shared->work);
    (void)pthread_mutex_unlock(&shared->lock);
    return job;
}

void auth_forget(struct auth_job *job)
{
    job->session = NULL;
}

/* ---- init, fini ---------------------------------------------------------------------------- */

static struct shared *shared_new(const char *munge_socket)
{
    struct shared *shared = calloc(1, sizeof(*shared));

    if (shared == NULL)
        return NULL;
    shared->munge_socket = strdup(munge_socket);
    shared->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (shared->munge_socket == NULL || shared->wake < 0 ||
        pthread_mutex_init(&shared->lock, NULL) != 0) {
        if (shared->wake >= 0)
            (void)close(shared->wake);
        free(shared->munge_socket);
        free(shared);
        return NULL;
    }
    (void)pthread_cond_init(&shared->work, NULL); /* cannot fail with default attributes */
    STAILQ_INIT(&shared->queue);
    STAILQ_INIT(&shared->done);
    shared->users = 1;
    return shared;
}

/* Workers take no signals: those are the loop's. */
static int start_worker(struct shared *shared)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    int rc;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_mutex_lock(&shared->lock);
    shared->users++;
    rc = pthread_create(&thread, &attributes, worker, shared);
    if (rc != 0)
        shared->users--;
    (void)pthread_mutex_unlock(&shared->lock);
    (void)pthread_attr_destroy(&attributes);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int auth_init(struct ctld *ctld, char *error, size_t error_size)
{
    struct auth *auth = calloc(1, sizeof(*auth));

    ctld->auth = auth;
    if (auth != NULL)
        auth->shared = shared_new(ctld->conf->munge_socket);
    if (auth == NULL || auth->shared == NULL) {
        (void)snprintf(error, error_size, "cannot set up credential checking: %s", strerror(errno));
        return -1;
    }
    auth->event = event_new(ctld->base, auth->shared->wake, EV_READ | EV_PERSIST, deliver, auth);
    if (auth->event == NULL || event_add(auth->event, NULL) < 0) {
        (void)snprintf(error, error_size, "cannot set up credential checking: out of memory");
        return -1;
    }
    for (int i = 0; i < WORKERS; i++) {
        int rc = start_worker(auth->shared);

        if (rc != 0) {
            (void)snprintf(error, error_size, "cannot start a credential worker: %s", strerror(rc));
            return -1;
        }
    }
    return 0;
}

/* Workers that are free leave now; one that waits for munged frees what is left when it returns. */
void auth_fini(struct ctld *ctld)
{
    struct auth *auth = ctld->auth;
    struct shared *shared;

    if (auth == NULL)
        return;
    ctld->auth = NULL;
    if (auth->event != NULL)
        event_free(auth->event);
    shared = auth->shared;
    free(auth);
    if (shared == NULL)
        return;
    (void)pthread_mutex_lock(&shared->lock);
    shared->stop = true;
    (void)pthread_cond_broadcast(&shared->work);
    for (int i = 0; i < FINI_MS / 5 && shared->users > 1; i++) {
        const struct timespec pause = {0, 5000000};

        (void)pthread_mutex_unlock(&shared->lock);
        (void)nanosleep(&pause, NULL);
        (void)pthread_mutex_lock(&shared->lock);
    }
    leave(shared);
}
