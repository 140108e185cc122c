/* A munge credential from a thread of its own: see credential.h. */
#include "config.h"

#include "credential.h"

#include "thread.h"

#include <errno.h>
#include <munge.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STACK_BYTES (128u * 1024u)
#define ERROR_BYTES 256u

struct credential {
    atomic_int users; /* the thread and the one who asked; the last one frees */
    int done;         /* eventfd, written after the result */
    char *socket;
    void *payload;
    int length;
    char *text; /* the result, NULL with a sentence in error */
    char error[ERROR_BYTES];
};

static void drop(struct credential *c)
{
    if (atomic_fetch_sub(&c->users, 1) > 1)
        return;
    if (c->done >= 0)
        close(c->done);
    free(c->socket);
    free(c->payload);
    free(c->text);
    free(c);
}

static void encode(struct credential *c)
{
    munge_err_t rc = EMUNGE_SUCCESS;
    munge_ctx_t ctx = munge_ctx_create();
    if (ctx == NULL) {
        snprintf(c->error, sizeof c->error, "no memory for a munge credential");
        return;
    }
    if (c->socket[0] != '\0')
        rc = munge_ctx_set(ctx, MUNGE_OPT_SOCKET, c->socket);
    if (rc == EMUNGE_SUCCESS) /* only such a one may be the controller; seteuid() is Slurm's */
        rc = munge_ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, getuid());
    if (rc == EMUNGE_SUCCESS)
        rc = munge_encode(&c->text, ctx, c->payload, c->length);
    if (rc != EMUNGE_SUCCESS) {
        const char *why = munge_ctx_strerror(ctx);
        snprintf(c->error, sizeof c->error,
                 "no munge credential: %s; is munged running on this node?",
                 why != NULL ? why : munge_strerror(rc));
        free(c->text);
        c->text = NULL;
    }
    munge_ctx_destroy(ctx);
}

static void *run(void *argument)
{
    struct credential *c = argument;
    uint64_t one = 1;
    (void)pthread_setname_np(pthread_self(), "adl-munge");
    encode(c);
    while (write(c->done, &one, sizeof one) < 0 && errno == EINTR)
        ;
    drop(c);
    return NULL;
}

struct credential *credential_start(const void *payload, size_t length, const char *munge_socket)
{
    int saved;
    if (length == 0 || length > 1u << 20) {
        errno = EMSGSIZE;
        return NULL;
    }
    struct credential *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    atomic_init(&c->users, 1);
    c->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->socket = strdup(munge_socket);
    c->payload = malloc(length);
    c->length = (int)length;
    if (c->done >= 0 && c->socket != NULL && c->payload != NULL) {
        memcpy(c->payload, payload, length);
        atomic_store(&c->users, 2);
        errno = thread_start(NULL, STACK_BYTES, run, c);
        if (errno == 0)
            return c;
        atomic_store(&c->users, 1);
    }
    saved = errno;
    drop(c);
    errno = saved;
    return NULL;
}

int credential_fd(const struct credential *c)
{
    return c->done;
}

char *credential_take(struct credential *c, char *error, size_t error_size)
{
    char *text = NULL;
    uint64_t count;
    if (read(c->done, &count, sizeof count) == (ssize_t)sizeof count) {
        text = c->text;
        c->text = NULL;
        if (text == NULL)
            snprintf(error, error_size, "%s", c->error);
    } else {
        snprintf(error, error_size, "the munge credential is not finished");
    }
    drop(c);
    return text;
}

void credential_abandon(struct credential *c)
{
    if (c != NULL)
        drop(c);
}
