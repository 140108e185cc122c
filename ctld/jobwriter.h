/*
 * The controller's end of adloader-slurmjob (slurmjob.h): starts it when there is a request, kills
 * it when it takes too long, gathers its last words when it dies. One request at a time; never
 * blocks.
 */
#ifndef ADLOADER_JOBWRITER_H
#define ADLOADER_JOBWRITER_H

#include "slurmjob.h"

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct jobwriter;

/* reply NULL: the helper did not answer, and why is in reason. Sending again from here is fine. */
typedef void (*jobwriter_done)(void *arg, const struct slurmjob_reply *reply, const char *reason);

/* program: path of the helper, NULL to look for it. NULL on lack of memory. */
struct jobwriter *jobwriter_new(struct event_base *base, const char *program, unsigned timeout_ms,
                                jobwriter_done done, void *arg);

/* Kills the helper. done is not called any more. */
void jobwriter_free(struct jobwriter *writer);

bool jobwriter_busy(const struct jobwriter *writer);

/* version and serial are filled in. Only when not busy. -1 with a sentence in reason: there is no
 * helper to send it to, and done is not called. */
int jobwriter_send(struct jobwriter *writer, struct slurmjob_request *request, char *reason,
                   size_t reason_size);

#endif
