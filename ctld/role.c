/* Which of several controllers serves. See role.h. */
#include "config.h"

#include "role.h"

#include "agent.h"
#include "clock.h"
#include "control.h"
#include "ctld.h"
#include "hostaddr.h"
#include "log.h"
#include "msg.h"
#include "wire.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_MS   250u  /* between two looks at another controller */
#define SOON_MS   20u   /* after its connection ended: has it died? */
#define ANSWER_MS 1000u /* for its greeting; then the next look begins */

struct other { /* one before us in the list */
    struct role *role;
    char name[CONF_ADDRESS_TEXT];
    struct sockaddr_storage address;
    socklen_t length;
    struct bufferevent *bev; /* the look under way, or the last one, held to see its end */
    uint64_t began_ms, answered_ms;
    bool answered; /* on this connection */
};

struct role {
    struct ctld *ctld;
    struct other others[CONF_CONTROLLERS_MAX];
    unsigned nothers;
    struct event *timer;
    bool serves;
    uint64_t takeovers;
};

/* ---- which one is this ---- */

static int by_name(const struct conf_address *list, unsigned n, const char *name, char *error,
                   size_t size)
{
    int found = -1;
    char text[CONF_ADDRESS_TEXT];

    for (unsigned i = 0; i < n; i++) {
        if (strcasecmp(conf_address_text(&list[i], text, sizeof(text)), name) != 0 &&
            strcasecmp(list[i].host, name) != 0)
            continue;
        if (found >= 0) {
            (void)snprintf(error, size,
                           "--controller %s: several of Controllers are on that host; "
                           "give the port, too",
                           name);
            return -1;
        }
        found = (int)i;
    }
    if (found < 0)
        (void)snprintf(error, size, "--controller %s: Controllers does not list it", name);
    return found;
}

static int by_host(const struct conf *conf, const struct conf_address *list, unsigned n,
                   char *error, size_t size)
{
    int found = -1, with_port = -1;
    unsigned here = 0, ports = 0;

    for (unsigned i = 0; i < n; i++) {
        if (!hostaddr_is_this_host(list[i].host))
            continue;
        here++;
        found = (int)i;
        if (list[i].port == conf->port) {
            ports++;
            with_port = (int)i;
        }
    }
    if (here == 1)
        return found;
    if (here > 1 && ports == 1)
        return with_port;
    if (here == 0)
        (void)snprintf(error, size,
                       "Controllers=%s does not list this host; add it, or say with "
                       "--controller HOST:PORT which of them this is",
                       conf->controllers);
    else
        (void)snprintf(error, size,
                       "several of Controllers=%s are this host; say with --controller "
                       "HOST:PORT which one this is",
                       conf->controllers);
    return -1;
}

int role_find_self(const struct conf *conf, const char *name, struct role_self *self, char *error,
                   size_t error_size)
{
    struct conf_address list[CONF_CONTROLLERS_MAX];
    int n = conf_controllers(conf, list), found;

    *self = (struct role_self){.port = conf->port};
    if (n == 0 && name != NULL) {
        (void)snprintf(error, error_size, "--controller %s: Controllers is not set", name);
        return -1;
    }
    if (n <= 0)
        return n;
    found = name != NULL ? by_name(list, (unsigned)n, name, error, error_size)
                         : by_host(conf, list, (unsigned)n, error, error_size);
    if (found < 0)
        return -1;
    self->index = (unsigned)found;
    self->count = (unsigned)n;
    self->port = list[found].port;
    (void)conf_address_text(&list[found], self->address, sizeof(self->address));
    return 0;
}

/* ---- serving and standing by ---- */

/* The one that answered last, if it did so within TakeoverTime. */
static const struct other *living(const struct role *role, uint64_t now)
{
    for (unsigned i = 0; i < role->nothers; i++)
        if (now - role->others[i].answered_ms < role->ctld->conf->takeover_ms)
            return &role->others[i];
    return NULL;
}

static void judge(struct role *role)
{
    const struct other *other = living(role, clock_monotonic_ms());

    if (other == NULL && !role->serves) {
        role->serves = true;
        role->takeovers++;
        log_warning("%s has said nothing for %u ms: this controller serves now",
                    role->others[0].name, role->ctld->conf->takeover_ms);
        control_serve(role->ctld);
    } else if (other != NULL && role->serves) {
        role->serves = false;
        log_warning("%s answers again: this controller stands by", other->name);
        agent_send_all_away(role->ctld, other->name);
        control_stand_by(role->ctld);
    }
}

/* ---- looking ---- */

static void end_look(struct other *other)
{
    if (other->bev != NULL)
        bufferevent_free(other->bev);
    other->bev = NULL;
    other->answered = false;
}

/* Any frame of a controller's says that it lives, also one that refuses us. */
static void on_read(struct bufferevent *bev, void *arg)
{
    struct other *other = arg;
    struct evbuffer *input = bufferevent_get_input(bev);
    size_t length = evbuffer_get_length(input);
    unsigned char *data = length > 0 ? evbuffer_pullup(input, -1) : NULL;
    ssize_t whole = data != NULL ? wire_frame_length(data, length, WIRE_SMALL_FRAME) : 0;

    if (whole > 0 && (data[5] == MSG_CHALLENGE || data[5] == MSG_REFUSE)) {
        other->answered = true;
        other->answered_ms = clock_monotonic_ms();
        (void)evbuffer_drain(input, length);
        judge(other->role);
    } else if (whole != 0) {
        end_look(other); /* something else listens there */
    }
}

static void look_soon(struct role *role)
{
    struct timeval soon = {0, SOON_MS * 1000};

    (void)evtimer_add(role->timer, &soon);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct other *other = arg;
    bool was_there = other->answered;

    (void)bev;
    if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) == 0)
        return;
    end_look(other);
    if (was_there)
        look_soon(other->role);
}

static void look(struct other *other, uint64_t now)
{
    if (other->bev != NULL && !other->answered && now - other->began_ms < ANSWER_MS)
        return; /* still under way */
    end_look(other);
    other->began_ms = now;
    other->bev = bufferevent_socket_new(other->role->ctld->base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (other->bev == NULL)
        return;
    bufferevent_setcb(other->bev, on_read, NULL, on_event, other);
    bufferevent_setwatermark(other->bev, EV_READ, 0, WIRE_SMALL_FRAME);
    if (bufferevent_enable(other->bev, EV_READ) < 0 ||
        bufferevent_socket_connect(other->bev, (struct sockaddr *)&other->address,
                                   (int)other->length) < 0)
        end_look(other);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct role *role = arg;
    struct timeval next = {0, LOOK_MS * 1000};
    uint64_t now = clock_monotonic_ms();

    (void)fd;
    (void)what;
    for (unsigned i = 0; i < role->nothers; i++)
        look(&role->others[i], now);
    judge(role);
    if (evtimer_add(role->timer, &next) < 0)
        log_error("cannot arm a timer; the other controllers are not looked after");
}

/* ---- init, fini ---- */

static int find_address(struct other *other, const struct conf_address *conf, char *error,
                        size_t size)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char port[8];
    int rc;

    (void)snprintf(port, sizeof(port), "%u", conf->port);
    (void)conf_address_text(conf, other->name, sizeof(other->name));
    rc = getaddrinfo(conf->host, port, &hints, &list);
    if (rc != 0) {
        (void)snprintf(error, size, "Controllers: %s is not to be found: %s", other->name,
                       gai_strerror(rc));
        return -1;
    }
    memcpy(&other->address, list->ai_addr, list->ai_addrlen);
    other->length = list->ai_addrlen;
    freeaddrinfo(list);
    return 0;
}

int role_init(struct ctld *ctld, char *error, size_t error_size)
{
    struct conf_address list[CONF_CONTROLLERS_MAX];
    struct role *role = calloc(1, sizeof(*role));
    struct timeval at_once = {0, 0};

    if (role == NULL || conf_controllers(ctld->conf, list) < (int)ctld->self.count) {
        (void)snprintf(error, error_size, "out of memory");
        free(role);
        return -1;
    }
    ctld->role = role;
    role->ctld = ctld;
    role->serves = ctld->self.index == 0;
    for (unsigned i = 0; i < ctld->self.index; i++) {
        struct other *other = &role->others[role->nothers++];

        other->role = role;
        other->answered_ms = clock_monotonic_ms();
        if (find_address(other, &list[i], error, error_size) < 0)
            return -1;
    }
    if (role->nothers == 0)
        return 0;
    role->timer = evtimer_new(ctld->base, on_timer, role);
    if (role->timer == NULL || evtimer_add(role->timer, &at_once) < 0) {
        (void)snprintf(error, error_size, "out of memory");
        return -1;
    }
    control_stand_by(ctld);
    log_info("this is %s, number %u of %u controllers: it stands by", ctld->self.address,
             ctld->self.index + 1, ctld->self.count);
    return 0;
}

void role_fini(struct ctld *ctld)
{
    struct role *role = ctld->role;

    if (role == NULL)
        return;
    for (unsigned i = 0; i < role->nothers; i++)
        end_look(&role->others[i]);
    if (role->timer != NULL)
        event_free(role->timer);
    free(role);
    ctld->role = NULL;
}

/* ---- what others ask ---- */

bool role_serves(const struct ctld *ctld)
{
    return ctld->role == NULL || ctld->role->serves;
}

const char *role_name(const struct ctld *ctld)
{
    if (ctld->self.count < 2)
        return "only";
    return ctld->self.index == 0 ? "primary" : "backup";
}

const char *role_instead(const struct ctld *ctld)
{
    const struct other *other;

    if (role_serves(ctld))
        return "";
    other = living(ctld->role, clock_monotonic_ms());
    return other != NULL ? other->name : ctld->role->others[0].name;
}

uint64_t role_takeovers(const struct ctld *ctld)
{
    return ctld->role != NULL ? ctld->role->takeovers : 0;
}
