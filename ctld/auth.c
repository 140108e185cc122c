/* Munge credentials, decoded by worker threads. See auth.h. */
#include "config.h"

#include "auth.h"

#include "ctld.h"
#include "offload.h"
#include "session.h"

#include <errno.h>
#include <munge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS   4
#define QUEUE_MAX 4096u

struct auth_job {
    struct work work;
    struct session *session; /* the loop's alone; NULL: forgotten */
    char *munge_socket;
    char *credential;
    /* result */
    void *payload;
    int payload_length;
    uid_t uid;
    munge_err_t result;
    char error[256];
};

static void discard(struct work *work)
{
    struct auth_job *job = (struct auth_job *)work;

    free(job->munge_socket);
    free(job->credential);
    free(job->payload);
    free(job);
}

/* In a thread. */
static void decode(struct work *work)
{
    struct auth_job *job = (struct auth_job *)work;
    munge_ctx_t ctx = munge_ctx_create();
    const char *why;
    gid_t gid;

    job->result = EMUNGE_NO_MEMORY;
    if (ctx == NULL) {
        (void)snprintf(job->error, sizeof(job->error), "out of memory");
        return;
    }
    job->result = EMUNGE_SUCCESS;
    if (job->munge_socket[0] != '\0')
        job->result = munge_ctx_set(ctx, MUNGE_OPT_SOCKET, job->munge_socket);
    if (job->result == EMUNGE_SUCCESS)
        job->result = munge_decode(job->credential, ctx, &job->payload, &job->payload_length,
                                   &job->uid, &gid);
    if (job->result != EMUNGE_SUCCESS) {
        why = munge_ctx_strerror(ctx);
        (void)snprintf(job->error, sizeof(job->error), "%s",
                       why != NULL ? why : munge_strerror(job->result));
    }
    munge_ctx_destroy(ctx);
}

static bool worth_another_try(munge_err_t result)
{
    return result == EMUNGE_SOCKET || result == EMUNGE_TIMEOUT || result == EMUNGE_NO_MEMORY ||
           result == EMUNGE_CRED_EXPIRED || result == EMUNGE_CRED_REWOUND;
}

static void decoded(struct work *work)
{
    struct auth_job *job = (struct auth_job *)work;
    bool good = job->result == EMUNGE_SUCCESS; /* expired and replayed ones bring a payload too */

    if (job->session != NULL)
        session_authenticated(job->session, job->uid, good ? job->payload : NULL,
                              good ? (size_t)job->payload_length : 0, job->error,
                              worth_another_try(job->result));
    discard(work);
}

struct auth_job *auth_submit(struct ctld *ctld, struct session *session, const char *credential,
                             size_t length)
{
    struct auth_job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->work = (struct work){.run = decode, .done = decoded, .discard = discard};
    job->session = session;
    job->munge_socket = strdup(ctld->conf->munge_socket);
    job->credential = strndup(credential, length);
    if (job->munge_socket == NULL || job->credential == NULL ||
        !workers_submit(ctld->auth, &job->work)) {
        discard(&job->work);
        return NULL;
    }
    return job;
}

void auth_forget(struct auth_job *job)
{
    job->session = NULL;
}

int auth_init(struct ctld *ctld, char *error, size_t error_size)
{
    ctld->auth = workers_new(ctld->base, THREADS, QUEUE_MAX);
    if (ctld->auth != NULL)
        return 0;
    (void)snprintf(error, error_size, "cannot start the threads that check credentials: %s",
                   strerror(errno));
    return -1;
}

void auth_fini(struct ctld *ctld)
{
    workers_free(ctld->auth);
    ctld->auth = NULL;
}
