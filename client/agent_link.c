/* The client library's connection to the step's agent. */
#include "config.h"

#include "agent_link.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define RETRY_FIRST_NS (100u * 1000000ull)
#define RETRY_LAST_NS  (10000u * 1000000ull)
#define READ_BYTES     4096u

static void close_descriptor(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* ---- the descriptor ---------------------------------------------------------------------- */

static void watch(const struct link *link, int fd, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};

    /* A failure leaves the program without a wake-up; link_pump() still serves each call. */
    if (link->epoll >= 0 && fd >= 0)
        (void)epoll_ctl(link->epoll, operation, fd, &event);
}

/* Timer and event counter of an epoll instance that exists already. */
static void open_sources(struct link *link)
{
    link->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    link->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    watch(link, link->timer, EPOLL_CTL_ADD, EPOLLIN);
    watch(link, link->event, EPOLL_CTL_ADD, EPOLLIN);
    link->raised = false;
}

static void set_timer(const struct link *link, uint64_t at_ns)
{
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at_ns / 1000000000u),
                                           .tv_nsec = (long)(at_ns % 1000000000u)}};

    if (link->timer >= 0)
        (void)timerfd_settime(link->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void clear_event(const struct link *link)
{
    uint64_t count;
    /* EAGAIN, if it was not set, is as good */
    if (link->event >= 0 && read(link->event, &count, sizeof count) < 0)
        return;
}

static void set_event(const struct link *link)
{
    uint64_t one = 1;
    /* EAGAIN, if it is full, is as good */
    if (link->event >= 0 && write(link->event, &one, sizeof one) < 0)
        return;
}

void link_raise(struct link *link, bool readable)
{
    if (readable == link->raised)
        return;
    if (readable)
        set_event(link);
    else
        clear_event(link);
    link->raised = readable;
}

/* ---- life -------------------------------------------------------------------------------- */

void link_init(struct link *link, const char *path)
{
    *link = (struct link){.epoll = -1, .timer = -1, .event = -1, .socket = -1};
    link->owner = getpid();
    link->jitter = (uint32_t)link->owner * 2654435761u | 1u;
    link->address.sun_family = AF_UNIX;
    if (path != NULL && path[0] == '/' && strlen(path) < sizeof link->address.sun_path)
        memcpy(link->address.sun_path, path, strlen(path) + 1);
    link->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (link->address.sun_path[0] != '\0' && link->epoll >= 0)
        open_sources(link);
}

static void drop_buffers(struct link *link)
{
    free(link->in);
    free(link->out);
    link->in = link->out = NULL;
    link->in_length = link->in_capacity = link->handed = 0;
    link->out_start = link->out_length = link->out_capacity = 0;
}

void link_free(struct link *link)
{
    close_descriptor(&link->socket);
    close_descriptor(&link->timer);
    close_descriptor(&link->event);
    close_descriptor(&link->epoll);
    drop_buffers(link);
}

void link_after_fork(struct link *link)
{
    struct sockaddr_un address = link->address;
    int number = link->epoll;

    /* Only this process' references go: nothing may be changed in what is shared with the parent.
     */
    close_descriptor(&link->socket);
    close_descriptor(&link->timer);
    close_descriptor(&link->event);
    drop_buffers(link);
    link_init(link, address.sun_path);
    if (number < 0 || link->epoll < 0) {
        /* none of its own: better none than the parent's */
        if (number >= 0)
            (void)close(number);
        return;
    }
    if (dup3(link->epoll, number, O_CLOEXEC) == number) {
        (void)close(link->epoll);
        link->epoll = number;
    }
}

/* ---- connecting -------------------------------------------------------------------------- */

static void disconnect(struct link *link)
{
    watch(link, link->socket, EPOLL_CTL_DEL, 0);
    close_descriptor(&link->socket);
    drop_buffers(link);
    link->wants_write = false;
}

/* The next attempt: after twice as long each time, and half of that at random. */
static void back_off(struct link *link)
{
    unsigned shift = link->attempts < 8 ? link->attempts : 8;
    uint64_t wait = RETRY_FIRST_NS << shift;

    if (wait > RETRY_LAST_NS)
        wait = RETRY_LAST_NS;
    link->jitter = link->jitter * 1664525u + 1013904223u;
    wait -= (wait / 2) * (link->jitter >> 16) / 65536u;
    link->attempts++;
    link->retry_at_ns = clock_monotonic_ns() + wait;
    link->backing_off = true;
    set_timer(link, link->retry_at_ns);
}

static bool try_connect(struct link *link)
{
    link->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->socket < 0 ||
        connect(link->socket, (const struct sockaddr *)&link->address, sizeof link->address) < 0) {
        /* EAGAIN too: the agent's backlog is full; a Unix socket does not connect later by itself
         */
        close_descriptor(&link->socket);
        back_off(link);
        return false;
    }
    link->backing_off = false;
    watch(link, link->socket, EPOLL_CTL_ADD, EPOLLIN | EPOLLRDHUP);
    set_timer(link, 0); /* disarms it, and takes back an expiry that was not read */
    return true;
}

/* ---- bytes ------------------------------------------------------------------------------- */

static void want_write(struct link *link, bool wanted)
{
    if (wanted == link->wants_write)
        return;
    watch(link, link->socket, EPOLL_CTL_MOD,
          EPOLLIN | EPOLLRDHUP | (wanted ? (uint32_t)EPOLLOUT : 0u));
    link->wants_write = wanted;
}

/* False: the connection is gone. */
static bool flush(struct link *link)
{
    while (link->out_start < link->out_length) {
        ssize_t n = send(link->socket, link->out + link->out_start,
                         link->out_length - link->out_start, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            want_write(link, true);
            return true;
        }
        if (n < 0)
            return false;
        link->out_start += (size_t)n;
    }
    want_write(link, false);
    return true;
}

static bool reserve(uint8_t **buffer, size_t *capacity, size_t need)
{
    uint8_t *grown;

    if (need <= *capacity)
        return true;
    grown = realloc(*buffer, need);
    if (grown == NULL)
        return false;
    *buffer = grown;
    *capacity = need;
    return true;
}

enum got { GOT_BYTES, GOT_NOTHING, GOT_END };

static enum got receive(struct link *link)
{
    ssize_t n;

    if (!reserve(&link->in, &link->in_capacity, link->in_length + READ_BYTES))
        return GOT_END;
    do
        n = recv(link->socket, link->in + link->in_length, link->in_capacity - link->in_length,
                 MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? GOT_NOTHING : GOT_END;
    link->in_length += (size_t)n;
    return n == 0 ? GOT_END : GOT_BYTES;
}

/* Drop the frame that link_pump() handed out last. */
static void consume(struct link *link)
{
    if (link->handed == 0)
        return;
    link->in_length -= link->handed;
    memmove(link->in, link->in + link->handed, link->in_length);
    link->handed = 0;
}

/* ---- pumping ----------------------------------------------------------------------------- */

static enum link_event lost(struct link *link)
{
    disconnect(link);
    back_off(link);
    return LINK_DISCONNECTED;
}

/* Bytes are read only while no whole frame is there, so what is kept stays below one frame and a
 * read. */
static enum link_event next_frame(struct link *link, struct wire_view *view)
{
    for (;;) {
        ssize_t length = link->in_length == 0
                             ? 0
                             : wire_frame_length(link->in, link->in_length, WIRE_SMALL_FRAME);

        if (length < 0 || (length > 0 && wire_open(view, link->in, (size_t)length) < 0))
            return lost(link);
        if (length > 0) {
            link->handed = (size_t)length;
            return LINK_FRAME;
        }
        switch (receive(link)) {
        case GOT_BYTES:
            break;
        case GOT_NOTHING:
            return LINK_NOTHING;
        case GOT_END:
            return lost(link);
        }
    }
}

enum link_event link_pump(struct link *link, struct wire_view *view)
{
    if (link->address.sun_path[0] == '\0')
        return LINK_NOTHING;
    if (link->socket < 0) {
        if (link->backing_off && clock_monotonic_ns() < link->retry_at_ns)
            return LINK_NOTHING;
        return try_connect(link) ? LINK_CONNECTED : LINK_NOTHING;
    }
    consume(link);
    if (!flush(link))
        return lost(link);
    return next_frame(link, view);
}

bool link_idle(const struct link *link)
{
    return link->socket >= 0 && link->out_start == link->out_length;
}

int link_send(struct link *link, const struct wire_writer *frame)
{
    if (!reserve(&link->out, &link->out_capacity, frame->length)) {
        errno = ENOMEM;
        return -1;
    }
    memcpy(link->out, frame->data, frame->length);
    link->out_start = 0;
    link->out_length = frame->length;
    /* A loss is left for link_pump(), which reads the end of the connection. */
    (void)flush(link);
    return 0;
}

void link_reject(struct link *link)
{
    disconnect(link);
    back_off(link);
}

void link_accept(struct link *link)
{
    link->attempts = 0;
}
