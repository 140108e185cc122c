/*
 * One stream connection to a controller: connecting without waiting, whole frames in and out. It
 * knows no meaning of messages.
 */
#ifndef ADLOADER_LINK_H
#define ADLOADER_LINK_H

#include "args.h"
#include "wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define LINK_QUEUE_MAX (128u * 1024u) /* unsent bytes at which a controller counts as stuck */

struct link {
    int fd; /* -1: closed */
    bool connecting;
    uint8_t *in;
    size_t in_length, in_size;
    size_t in_used; /* of the frame last handed out */
    uint8_t *out;
    size_t out_length, out_sent;
};

void link_init(struct link *link);

/* Where an endpoint was found last. */
struct link_address {
    struct sockaddr_storage address;
    socklen_t length; /* 0: not known yet */
};

/*
 * Start to connect. 0: under way or done; -1 with errno. A host name may have to be looked up,
 * which can block for long: only if may_look_up. Otherwise it is taken to be where it was found
 * last, which known remembers from call to call.
 */
int link_open(struct link *link, const struct endpoint *endpoint, struct link_address *known,
              bool may_look_up);
void link_close(struct link *link);

/* Find out where the endpoint is, as far as that is not known. Can block for long. */
void link_look_up(const struct endpoint *endpoint, struct link_address *known);

/* What to poll for, and what to do after: 0, or -1 with errno (ECONNRESET at the end of stream). */
short link_events(const struct link *link);
int link_ready(struct link *link, short revents);

/*
 * The next whole frame: 1 and view is valid until the next call of link_next or link_ready; 0 none
 * yet; -1 what came can never become one (errno EBADMSG, EPROTONOSUPPORT).
 */
int link_next(struct link *link, struct wire_view *view);

/* Queue a finished frame and send what goes at once. 0, or -1 with errno (ENOBUFS: stuck). */
int link_send(struct link *link, const struct wire_writer *frame);

#endif
