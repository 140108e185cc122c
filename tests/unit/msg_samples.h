/* Valid messages of every type from a seed, for tests and fuzzing. */
#ifndef TESTS_MSG_SAMPLES_H
#define TESTS_MSG_SAMPLES_H

#include "msg.h"
#include "rng.h"

#define SAMPLE_TYPES 16
extern const enum msg_type sample_types[SAMPLE_TYPES];

/* The structs behind the samples; those with a struct cpus inside are the caller's to free. */
void sample_register(struct rng *rng, struct msg_register *m);
void sample_assign(struct rng *rng, struct msg_assign *m);
void sample_report(struct rng *rng, struct msg_report *m);

/* Write a random valid message of the type; 0 or -1 as msg_*_write(). */
int sample_write(enum msg_type type, struct rng *rng, struct wire_writer *w);

enum reread { REREAD_REFUSED, REREAD_SAME_RULES, REREAD_UNWRITABLE };

/*
 * Read the message whatever its type, and write what was read to w. What a reader accepts a writer
 * must be able to send: REREAD_UNWRITABLE is a defect.
 */
enum reread sample_reread(const struct wire_view *view, struct wire_writer *w);

#endif
