/* What agents say: registration, acknowledgements, reports, goodbye. */
#ifndef ADLOADER_AGENT_H
#define ADLOADER_AGENT_H

#include "session.h"

struct ctld;
struct node;

/* A REGISTER frame from a peer whose user is known. */
void agent_register(struct session *session, const struct wire_view *view);

/* Any frame of a registered agent. */
void agent_frame(struct session *session, const struct wire_view *view);

/* Take the node's topology from the store, if it has it. */
void agent_use_topology(struct ctld *ctld, struct node *node);

/* The store has read one: nodes that wait for it get it. arg is the struct ctld. */
void agent_topology_ready(const char *digest, void *arg);

/* Another controller serves: all agents are told to go there. */
void agent_send_all_away(struct ctld *ctld, const char *where);

/* The session of this member is over: the member leaves. Called by session.c alone. */
void agent_gone(struct session *session, struct member *member);

#endif
