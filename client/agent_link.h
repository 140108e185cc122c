/*
 * The client library's connection to the step's agent: a Unix stream socket that connects, fails
 * and comes back without ever blocking, and one descriptor that polls readable when link_pump()
 * has something to do. It knows frames, not what they say. Not thread-safe: the caller serialises.
 *
 * The descriptor is an epoll instance over the socket, a timer for the next attempt to connect,
 * and an event counter with which the caller keeps it readable; its number never changes.
 */
#ifndef ADLOADER_AGENT_LINK_H
#define ADLOADER_AGENT_LINK_H

#include "wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

struct link {
    struct sockaddr_un address; /* sun_path "" : no agent is to be had, ever */
    int epoll, timer, event;    /* -1: could not be had; then only link_pump() drives the link */
    int socket;                 /* -1: not connected */
    bool wants_write;           /* EPOLLOUT is asked for */
    bool raised;                /* the event counter is set */
    bool backing_off;           /* retry_at_ns counts */
    uint64_t retry_at_ns;       /* no attempt to connect before this */
    unsigned attempts;          /* since a connection last said something sensible */
    uint32_t jitter;
    pid_t owner; /* the process whose connection this is */
    uint8_t *in, *out;
    size_t in_length, in_capacity, out_start, out_length, out_capacity;
    size_t
        handed; /* length of the frame that link_pump() handed out last; it goes at the next call */
};

/* path may be NULL. Never fails: what cannot be had is left out. Opens nothing to the agent yet. */
void link_init(struct link *link, const char *path);
void link_free(struct link *link);

/*
 * In a forked child: let go of the parent's connection without a word, and have a descriptor of
 * its own under the same number.
 */
void link_after_fork(struct link *link);

enum link_event {
    LINK_NOTHING,      /* all is done for now */
    LINK_CONNECTED,    /* a new connection: say who you are */
    LINK_FRAME,        /* a frame came: view is valid until the next call */
    LINK_DISCONNECTED, /* the connection ended */
};

/* Do what can be done without waiting; to be called until it returns LINK_NOTHING. */
enum link_event link_pump(struct link *link, struct wire_view *view);

/* The peer talks nonsense: end the connection, come back later than after a plain end. */
void link_reject(struct link *link);
/* The peer talks sense: the next loss is followed by a quick attempt. */
void link_accept(struct link *link);

/* True if the last frame has left entirely, so that the next one may be sent. */
bool link_idle(const struct link *link);
/* Send a frame; link_idle() must hold. 0, or -1 (ENOMEM). A loss is seen by the next link_pump().
 */
int link_send(struct link *link, const struct wire_writer *frame);

/* Keep the descriptor readable, or no longer. */
void link_raise(struct link *link, bool readable);

#endif
