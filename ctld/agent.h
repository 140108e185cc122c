/* What agents say: registration, acknowledgements, reports, goodbye. */
#ifndef ADLOADER_AGENT_H
#define ADLOADER_AGENT_H

#include "session.h"

/* A REGISTER frame from a peer whose user is known. */
void agent_register(struct session *session, const struct wire_view *view);

/* Any frame of a registered agent. */
void agent_frame(struct session *session, const struct wire_view *view);

/* The session of this member is over: the member leaves. Called by session.c alone. */
void agent_gone(struct session *session, struct member *member);

#endif
