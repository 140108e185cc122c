/*
 * Munge credentials, decoded by worker threads: munged may be slow or stopped, and the loop must
 * not wait for it. The queue is bounded; whoever does not fit is told to come back.
 */
#ifndef ADLOADER_AUTH_H
#define ADLOADER_AUTH_H

#include <stddef.h>

struct auth_job;
struct ctld;
struct session;

/* 0, or -1 with a sentence in error. */
int auth_init(struct ctld *ctld, char *error, size_t error_size);
void auth_fini(struct ctld *ctld);

/* Decode for this session; session_authenticated() is called later. NULL: no room. */
struct auth_job *auth_submit(struct ctld *ctld, struct session *session, const char *credential,
                             size_t length);

/* The session is gone: nobody waits for this job any more. */
void auth_forget(struct auth_job *job);

#endif
