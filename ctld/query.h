/* Questions of the tool, answered with JSON: status, explain, metrics. Anybody may ask. */
#ifndef ADLOADER_QUERY_H
#define ADLOADER_QUERY_H

#include "session.h"

/* A QUERY frame from a peer whose user is known; the session ends with the answer. */
void query_answer(struct session *session, const struct wire_view *view);

#endif
