/* One stream connection to a controller: see link.h. */
#include "config.h"

#include "link.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_CHUNK 4096u

void link_init(struct link *link)
{
    memset(link, 0, sizeof *link);
    link->fd = -1;
}

void link_close(struct link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    free(link->in);
    free(link->out);
    link_init(link);
}

/* ---- connecting ---- */

static int start_connect(struct link *link, int family, const struct sockaddr *address,
                         socklen_t length)
{
    link->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->fd < 0)
        return -1;
    if (connect(link->fd, address, length) == 0)
        return 0;
    if (errno == EINPROGRESS) {
        link->connecting = true;
        return 0;
    }
    int saved = errno; /* a Unix socket whose queue is full says EAGAIN: try again later */
    link_close(link);
    errno = saved;
    return -1;
}

static int open_local(struct link *link, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, length + 1);
    return start_connect(link, AF_UNIX, (const struct sockaddr *)&address, sizeof address);
}

static int connect_any(struct link *link, const struct addrinfo *list, struct link_address *known)
{
    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next)
        if (a->ai_addrlen <= sizeof known->address &&
            start_connect(link, a->ai_family, a->ai_addr, a->ai_addrlen) == 0) {
            memcpy(&known->address, a->ai_addr, a->ai_addrlen);
            known->length = a->ai_addrlen;
            return 0;
        }
    return -1;
}

static int connect_by_name(struct link *link, const struct endpoint *e, struct link_address *known,
                           int flags)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    if (getaddrinfo(e->path, e->port, &hints, &list) != 0) {
        errno = EHOSTUNREACH;
        return -1;
    }
    int rc = connect_any(link, list, known);
    int saved = errno;
    freeaddrinfo(list);
    errno = saved;
    return rc;
}

static int open_tcp(struct link *link, const struct endpoint *e, struct link_address *known,
                    bool may_look_up)
{
    int rc = connect_by_name(link, e, known, AI_NUMERICHOST);
    if (rc < 0 && errno == EHOSTUNREACH) { /* or it is a name, not a number */
        if (may_look_up)
            rc = connect_by_name(link, e, known, 0);
        else if (known->length > 0)
            rc = start_connect(link, known->address.ss_family,
                               (const struct sockaddr *)&known->address, known->length);
    }
    if (rc == 0) {
        int on = 1; /* frames are small and answered: do not hold them back */
        (void)setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return rc;
}

int link_open(struct link *link, const struct endpoint *e, struct link_address *known,
              bool may_look_up)
{
    link_close(link);
    return e->local ? open_local(link, e->path) : open_tcp(link, e, known, may_look_up);
}

void link_look_up(const struct endpoint *e, struct link_address *known)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    if (e->local || known->length > 0 || getaddrinfo(e->path, e->port, &hints, &list) != 0)
        return; /* if it is not to be found now: link_open() tries again */
    if (list->ai_addrlen <= sizeof known->address) {
        memcpy(&known->address, list->ai_addr, list->ai_addrlen);
        known->length = list->ai_addrlen;
    }
    freeaddrinfo(list);
}

static int finish_connect(struct link *link)
{
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
        return -1;
    if (error != 0) {
        errno = error;
        return -1;
    }
    link->connecting = false;
    return 0;
}

/* ---- bytes ---- */

static int flush_out(struct link *link)
{
    while (link->out_sent < link->out_length) {
        ssize_t n = send(link->fd, link->out + link->out_sent, link->out_length - link->out_sent,
                         MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        link->out_sent += (size_t)n;
    }
    free(link->out); /* empty nearly always: keep no memory for it */
    link->out = NULL;
    link->out_length = link->out_sent = 0;
    return 0;
}

static int make_room(struct link *link)
{
    if (link->in_size - link->in_length >= READ_CHUNK)
        return 0;
    uint8_t *grown = realloc(link->in, link->in_size + READ_CHUNK);
    if (grown == NULL)
        return -1;
    link->in = grown;
    link->in_size += READ_CHUNK;
    return 0;
}

static void drop_used(struct link *link)
{
    if (link->in_used == 0)
        return;
    link->in_length -= link->in_used;
    memmove(link->in, link->in + link->in_used, link->in_length);
    link->in_used = 0;
}

static int fill_in(struct link *link)
{
    drop_used(link);
    /* link_next() empties it of whole frames, and one is never longer than a small frame */
    if (link->in_length > WIRE_SMALL_FRAME + READ_CHUNK) {
        errno = EMSGSIZE;
        return -1;
    }
    if (make_room(link) < 0)
        return -1;
    ssize_t n = recv(link->fd, link->in + link->in_length, READ_CHUNK, 0);
    if (n > 0) {
        link->in_length += (size_t)n;
        return 0;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n == 0)
        errno = ECONNRESET;
    return -1;
}

short link_events(const struct link *link)
{
    if (link->connecting)
        return POLLOUT;
    return (short)(link->out_sent < link->out_length ? POLLIN | POLLOUT : POLLIN);
}

int link_ready(struct link *link, short revents)
{
    if (link->connecting) {
        if ((revents & (POLLOUT | POLLERR | POLLHUP)) == 0)
            return 0;
        return finish_connect(link);
    }
    if ((revents & POLLOUT) != 0 && flush_out(link) < 0)
        return -1;
    if ((revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        return fill_in(link);
    return 0;
}

/* ---- frames ---- */

int link_next(struct link *link, struct wire_view *view)
{
    drop_used(link);
    ssize_t length = wire_frame_length(link->in, link->in_length, WIRE_SMALL_FRAME);
    if (length < 0)
        return -1;
    if (length == 0)
        return 0;
    if (wire_open(view, link->in, (size_t)length) < 0)
        return -1;
    link->in_used = (size_t)length;
    return 1;
}

int link_send(struct link *link, const struct wire_writer *frame)
{
    size_t pending = link->out_length - link->out_sent;
    if (pending > LINK_QUEUE_MAX) {
        errno = ENOBUFS;
        return -1;
    }
    uint8_t *joined = malloc(pending + frame->length);
    if (joined == NULL)
        return -1;
    if (pending > 0)
        memcpy(joined, link->out + link->out_sent, pending);
    memcpy(joined + pending, frame->data, frame->length);
    free(link->out);
    link->out = joined;
    link->out_length = pending + frame->length;
    link->out_sent = 0;
    return link->connecting ? 0 : flush_out(link);
}
