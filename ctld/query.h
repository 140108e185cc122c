/*
 * Questions of the tool, answered with JSON: status, explain, metrics. Anybody may ask, and the
 * answer may be long, so it is written in small pieces between other events; only a few answers are
 * written at a time, and whoever comes then is told to come back.
 *
 * A piece is a node with its members, so that what is said of a node is of one moment.
 */
#ifndef ADLOADER_QUERY_H
#define ADLOADER_QUERY_H

#include "session.h"

struct asking;
struct ctld;

/* 0, or -1 (ENOMEM). */
int query_init(struct ctld *ctld);
void query_fini(struct ctld *ctld);

/* A QUERY frame from a peer whose user is known; the session ends with the answer. */
void query_answer(struct session *session, const struct wire_view *view);

/* The session is gone: its answer is not needed. Called by session.c alone. */
void query_forget(struct asking *asking);

#endif
