/*
 * A munge credential, made by a thread of its own: where munged is slow or stopped, libmunge waits
 * and tries again for many seconds, and the agent's thread has a lease to keep meanwhile.
 */
#ifndef ADLOADER_CREDENTIAL_H
#define ADLOADER_CREDENTIAL_H

#include <stddef.h>

struct credential;

/*
 * Begin to make one for length bytes of payload, which are copied; munge_socket "" is libmunge's
 * default. NULL with errno. The result must be taken or abandoned.
 */
struct credential *credential_start(const void *payload, size_t length, const char *munge_socket);

/* Polls readable when it is finished, well or badly. */
int credential_fd(const struct credential *c);

/*
 * Once finished: the credential, which the caller frees, or NULL with a sentence in error. Either
 * way c is gone.
 */
char *credential_take(struct credential *c, char *error, size_t error_size);

/* Nobody waits for it any more, finished or not; c is gone for the caller. NULL is allowed. */
void credential_abandon(struct credential *c);

#endif
