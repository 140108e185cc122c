/*
 * One connection: frames in and out, deadlines and bounds. What the frames say is agent.c's and
 * query.c's business.
 *
 * A peer has a fixed time from accept to a registration or query; a registered agent must be heard
 * within its lease; a peer that does not read is dropped when too much waits for it.
 */
#ifndef ADLOADER_SESSION_H
#define ADLOADER_SESSION_H

#include "msg.h"
#include "wire.h"

#include <event2/bufferevent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct ctld;
struct member;
struct asking;
struct auth_job;

enum session_state {
    SESSION_HELLO,   /* challenge sent */
    SESSION_CHECKED, /* credential is being decoded */
    SESSION_AGENT,   /* registered */
    SESSION_ASKING,  /* its answer is being written */
    SESSION_CLOSING, /* last words are being written */
    SESSION_DEAD     /* freed when the loop comes round */
};

struct session {
    struct ctld *ctld;
    struct bufferevent *bev;
    struct member *member;     /* of an agent */
    struct auth_job *auth_job; /* while CHECKED */
    struct asking *asking;     /* while ASKING */
    TAILQ_ENTRY(session) link; /* on the server's list of its state */
    uint64_t deadline_ms; /* HELLO, CHECKED, ASKING, CLOSING: fixed; AGENT: after the last frame */
    uint64_t sent_ms;     /* of the last message to it: an agent's lease runs from there */
    uid_t uid;            /* (uid_t)-1: unknown, TCP without credential */
    uint8_t state;        /* enum session_state */
    bool tcp;
    bool goodbye;         /* the agent said so */
    bool refused;         /* it was told so */
    bool topology_wanted; /* a large frame is welcome */
    uint8_t nonce[MSG_NONCE];
};

TAILQ_HEAD(session_list, session);

/* How long an agent may be silent. */
unsigned session_patience_ms(const struct ctld *ctld);

/* Take over an accepted connection. Closes fd on failure. */
void session_open(struct ctld *ctld, int fd, bool tcp);

/* Queue the finished frame in writer. A peer with too much unread output is dropped. */
void session_send(struct session *session, const struct wire_writer *writer);

/* The same for a large one, whose memory is taken over: writer is empty then. */
void session_send_large(struct session *session, struct wire_writer *writer);

/* Send what is queued, then close. */
void session_close(struct session *session);

/* REFUSE, then close. */
void session_refuse(struct session *session, enum msg_refusal code, uint32_t retry_ms,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Gone now; its member, if any, is lost. May be called from anywhere; freed later. */
void session_end(struct session *session);

/* It registered: from now on it only has to be heard now and then. */
void session_set_agent(struct session *session, struct member *member);

/* It asked, and waits for query.c to write the answer. */
void session_set_asking(struct session *session, struct asking *asking);

/* auth.c decoded its credential: payload is a frame of the user uid, or NULL with a reason. */
void session_authenticated(struct session *session, uid_t uid, const void *payload, size_t length,
                           const char *error, bool try_again);

/* Drop those whose time is over. */
void session_look_for_silent(struct ctld *ctld, uint64_t now_ms);

#endif
