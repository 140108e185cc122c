/* One connection: frames, deadlines, bounds. See session.h. */
#include "config.h"

#include "session.h"

#include "agent.h"
#include "auth.h"
#include "clock.h"
#include "control.h"
#include "ctld.h"
#include "log.h"
#include "query.h"
#include "server.h"

#include <errno.h>
#include <event2/buffer.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_MS       5000u          /* from accept to registration or query */
#define CLOSING_MS     30000u         /* to read the last words */
#define OUTPUT_MAX     (256u * 1024u) /* unread by an agent */
#define INPUT_SLACK    4096u
#define FRAMES_A_ROUND 64u
/* Connections that have not registered. After our restart all agents come at once over TCP. */
#define STRANGERS_MAX     512u
#define STRANGERS_MAX_TCP 4096u

/* ---- lists and life ------------------------------------------------------------------------ */

static struct session_list *list_of(struct server *server, uint8_t state)
{
    switch (state) {
    case SESSION_AGENT:
        return &server->agents;
    case SESSION_ASKING:
    case SESSION_CLOSING:
        return &server->closing;
    case SESSION_DEAD:
        return &server->dead;
    default:
        return &server->hello;
    }
}

static void move_to(struct session *session, uint8_t state)
{
    struct server *server = session->ctld->server;

    TAILQ_REMOVE(list_of(server, session->state), session, link);
    session->state = state;
    TAILQ_INSERT_TAIL(list_of(server, state), session, link);
}

static void detach_member(struct session *session)
{
    struct member *member = session->member;

    session->member = NULL;
    if (member != NULL)
        agent_gone(session, member);
}

void session_end(struct session *session)
{
    struct timeval at_once = {0, 0};

    if (session->state == SESSION_DEAD)
        return;
    if (session->state == SESSION_AGENT)
        session->ctld->server->nagents--;
    if (session->auth_job != NULL)
        auth_forget(session->auth_job);
    session->auth_job = NULL;
    if (session->asking != NULL)
        query_forget(session->asking);
    session->asking = NULL;
    (void)bufferevent_disable(session->bev, EV_READ | EV_WRITE);
    move_to(session, SESSION_DEAD);
    detach_member(session);
    if (!evtimer_pending(session->ctld->server->reap, NULL))
        (void)evtimer_add(session->ctld->server->reap, &at_once);
}

void session_close(struct session *session)
{
    if (session->state == SESSION_DEAD || session->state == SESSION_CLOSING)
        return;
    if (session->state == SESSION_AGENT)
        session->ctld->server->nagents--;
    session->deadline_ms = clock_monotonic_ms() + CLOSING_MS;
    move_to(session, SESSION_CLOSING);
    detach_member(session);
    if (evbuffer_get_length(bufferevent_get_output(session->bev)) == 0)
        session_end(session);
}

/* It ends at the next look for silent peers: whoever sends may be walking over members, and one
 * must not vanish then. */
static void doom(struct session *session)
{
    struct session_list *list = list_of(session->ctld->server, session->state);

    session->deadline_ms = 0;
    TAILQ_REMOVE(list, session, link);
    TAILQ_INSERT_HEAD(list, session, link);
}

static bool is_doomed(const struct session *session)
{
    return session->state == SESSION_DEAD || session->deadline_ms == 0;
}

/* What the kernel takes at once, which mostly is all: that spares the loop two rounds of epoll. */
static size_t send_now(struct session *session, const struct wire_writer *writer)
{
    ssize_t n = send(bufferevent_getfd(session->bev), writer->data, writer->length,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    return n > 0 ? (size_t)n : 0; /* an error is told by the next event */
}

void session_send(struct session *session, const struct wire_writer *writer)
{
    struct evbuffer *output = bufferevent_get_output(session->bev);
    size_t sent = 0;

    if (is_doomed(session))
        return;
    if (session->state == SESSION_AGENT && evbuffer_get_length(output) > OUTPUT_MAX) {
        log_warning("an agent does not read what it is sent; its connection is given up");
        doom(session);
        return;
    }
    session->sent_ms = clock_monotonic_ms();
    if (!session->refused && evbuffer_get_length(output) == 0)
        sent = send_now(session, writer);
    if (sent < writer->length &&
        bufferevent_write(session->bev, writer->data + sent, writer->length - sent) < 0) {
        log_error("cannot queue a message: out of memory");
        doom(session);
    }
}

static void free_data(const void *data, size_t length, void *arg)
{
    (void)data;
    (void)length;
    free(arg);
}

void session_send_large(struct session *session, struct wire_writer *writer)
{
    struct evbuffer *output = bufferevent_get_output(session->bev);

    if (session->state == SESSION_DEAD)
        return;
    if (evbuffer_add_reference(output, writer->data, writer->length, free_data, writer->data) < 0) {
        log_error("cannot queue an answer: out of memory");
        session_end(session);
        return;
    }
    *writer = (struct wire_writer){0};
}

void session_refuse(struct session *session, enum msg_refusal code, uint32_t retry_ms,
                    const char *format, ...)
{
    struct msg_refuse refuse = {.code = code, .retry_ms = retry_ms};
    va_list args;

    if (session->state == SESSION_DEAD || session->state == SESSION_CLOSING)
        return;
    va_start(args, format);
    (void)vsnprintf(refuse.text, sizeof(refuse.text), format, args);
    va_end(args);
    session->ctld->refusals++;
    session->refused = true; /* its end follows, and what it sends meanwhile is to be read first */
    log_debug("refused a peer (uid %d): %s", (int)session->uid, refuse.text);
    if (msg_refuse_write(&session->ctld->writer, &refuse) == 0)
        session_send(session, &session->ctld->writer);
    session_close(session);
}

unsigned session_patience_ms(const struct ctld *ctld)
{
    const struct conf *conf = ctld->conf;

    return conf->lease_ms > 3 * conf->report_ms ? conf->lease_ms : 3 * conf->report_ms;
}

void session_set_agent(struct session *session, struct member *member)
{
    session->member = member;
    session->ctld->server->nagents++;
    move_to(session, SESSION_AGENT);
}

void session_set_asking(struct session *session, struct asking *asking)
{
    session->asking = asking;
    session->deadline_ms = clock_monotonic_ms() + CLOSING_MS;
    move_to(session, SESSION_ASKING);
}

/* ---- frames in ----------------------------------------------------------------------------- */

static void hello_frame(struct session *session, const struct wire_view *view)
{
    const char *credential;
    size_t length;

    if (view->type == MSG_CREDENTIAL && session->tcp && session->uid == (uid_t)-1) {
        if (msg_credential_read(view, &credential, &length) < 0) {
            session_refuse(session, MSG_REFUSED_INVALID, 0, "the credential cannot be read");
            return;
        }
        session->auth_job = auth_submit(session->ctld, session, credential, length);
        if (session->auth_job == NULL)
            session_refuse(session, MSG_REFUSED_BUSY, 1000, "too many credentials are waiting");
        else
            session->state = SESSION_CHECKED; /* same list as HELLO, same deadline */
        return;
    }
    if (session->uid == (uid_t)-1) {
        session_refuse(session, MSG_REFUSED_DENIED, 0, "a munge credential is needed over TCP");
        return;
    }
    if (view->type == MSG_REGISTER)
        agent_register(session, view);
    else if (view->type == MSG_QUERY)
        query_answer(session, view);
    else
        session_refuse(session, MSG_REFUSED_INVALID, 0, "message of type %u out of place",
                       view->type);
}

static void frame(struct session *session, const void *data, size_t length)
{
    struct wire_view view;

    if (wire_open(&view, data, length) < 0) {
        session_refuse(session, MSG_REFUSED_INVALID, 0, "a frame is malformed");
        return;
    }
    if (session->state == SESSION_HELLO) {
        hello_frame(session, &view);
    } else if (session->state == SESSION_AGENT) {
        /* Heard of: to the end of the list, which is ordered by deadline. */
        session->deadline_ms = clock_monotonic_ms() + session_patience_ms(session->ctld);
        move_to(session, SESSION_AGENT);
        agent_frame(session, &view);
    }
}

static size_t frame_limit(const struct session *session, const unsigned char *head,
                          size_t available)
{
    /* A topology is the one large thing that a peer may send, and only when asked. */
    if (session->state == SESSION_AGENT && session->topology_wanted &&
        available >= WIRE_HEAD_BYTES && head[5] == MSG_TOPOLOGY)
        return WIRE_LARGE_FRAME;
    return WIRE_SMALL_FRAME;
}

static bool reads_frames(const struct session *session)
{
    if (is_doomed(session))
        return false;
    return session->state == SESSION_HELLO || session->state == SESSION_AGENT;
}

/* One whole frame from the input, if there is one. */
static bool next_frame(struct session *session, struct evbuffer *input)
{
    size_t available = evbuffer_get_length(input);
    size_t head_length = available < WIRE_HEAD_BYTES ? available : WIRE_HEAD_BYTES;
    unsigned char *head = head_length > 0 ? evbuffer_pullup(input, (ev_ssize_t)head_length) : NULL;
    ssize_t length;
    unsigned char *data;

    if (head == NULL)
        return false;
    /* wire_frame_length() looks at no more than the head, which lies in one piece. */
    length = wire_frame_length(head, available, frame_limit(session, head, available));
    if (length == 0)
        return false;
    if (length < 0) {
        if (errno == EPROTONOSUPPORT)
            session_refuse(session, MSG_REFUSED_VERSION, 0,
                           "this controller (%s) speaks version %u of the protocol", CTLD_VERSION,
                           WIRE_VERSION);
        else
            session_refuse(session, MSG_REFUSED_INVALID, 0, "a frame is malformed or too long");
        return false;
    }
    data = evbuffer_pullup(input, length);
    if (data == NULL) {
        session_end(session);
        return false;
    }
    frame(session, data, (size_t)length);
    if (session->state != SESSION_DEAD)
        (void)evbuffer_drain(input, (size_t)length);
    return reads_frames(session);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct session *session = arg;
    struct evbuffer *input = bufferevent_get_input(bev);
    unsigned taken = 0;

    while (taken < FRAMES_A_ROUND && reads_frames(session) && next_frame(session, input))
        taken++;
    if (session->state == SESSION_CLOSING || session->state == SESSION_ASKING)
        (void)evbuffer_drain(input, evbuffer_get_length(input));
    else if (taken == FRAMES_A_ROUND && reads_frames(session)) /* others in between */
        bufferevent_trigger(bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

static void on_write(struct bufferevent *bev, void *arg)
{
    struct session *session = arg;

    (void)bev;
    if (session->state == SESSION_CLOSING)
        session_end(session);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
    struct session *session = arg;

    (void)bev;
    if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR)) != 0)
        session_end(session);
}

void session_authenticated(struct session *session, uid_t uid, const void *payload, size_t length,
                           const char *error, bool try_again)
{
    struct wire_view view;

    session->auth_job = NULL;
    if (session->state != SESSION_CHECKED)
        return;
    session->state = SESSION_HELLO;
    if (payload == NULL) {
        session_refuse(session, try_again ? MSG_REFUSED_BUSY : MSG_REFUSED_DENIED,
                       try_again ? 2000 : 30000, "credential: %s", error);
        return;
    }
    if (length > WIRE_SMALL_FRAME || wire_open(&view, payload, length) < 0 ||
        (view.type != MSG_REGISTER && view.type != MSG_QUERY)) {
        session_refuse(session, MSG_REFUSED_INVALID, 0,
                       "the credential holds neither a registration nor a query");
        return;
    }
    session->uid = uid;
    hello_frame(session, &view);
    if (reads_frames(session)) /* what came meanwhile */
        bufferevent_trigger(session->bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

/* ---- opening ------------------------------------------------------------------------------- */

static uid_t peer_of(int fd)
{
    struct ucred cred;
    socklen_t length = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length) < 0)
        return (uid_t)-1;
    return cred.uid;
}

static void prepare_tcp(int fd)
{
    int on = 1;
    unsigned unacknowledged_ms = 20000;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms,
                     sizeof(unacknowledged_ms));
}

static int send_challenge(struct session *session)
{
    struct msg_challenge challenge = {.credential_wanted = session->tcp,
                                      .standby = !role_serves(session->ctld)};

    if (getrandom(session->nonce, sizeof(session->nonce), 0) != sizeof(session->nonce))
        return -1;
    memcpy(challenge.nonce, session->nonce, sizeof(challenge.nonce));
    (void)snprintf(challenge.server, sizeof(challenge.server), "%s", CTLD_VERSION);
    if (msg_challenge_write(&session->ctld->writer, &challenge) < 0)
        return -1;
    session_send(session, &session->ctld->writer);
    return 0;
}

void session_open(struct ctld *ctld, int fd, bool tcp)
{
    struct server *server = ctld->server;
    struct session *session = calloc(1, sizeof(*session));

    if (session == NULL) {
        (void)close(fd);
        return;
    }
    session->ctld = ctld;
    session->tcp = tcp;
    session->uid = (uid_t)-1;
    if (tcp)
        prepare_tcp(fd);
    else
        session->uid = peer_of(fd);
    session->bev = bufferevent_socket_new(ctld->base, fd, BEV_OPT_CLOSE_ON_FREE);
    if (session->bev == NULL) {
        (void)close(fd);
        free(session);
        return;
    }
    session->state = SESSION_HELLO;
    session->deadline_ms = clock_monotonic_ms() + HELLO_MS;
    TAILQ_INSERT_TAIL(&server->hello, session, link);
    server->nsessions++;
    bufferevent_setcb(session->bev, on_read, on_write, on_event, session);
    bufferevent_setwatermark(session->bev, EV_READ, 0, WIRE_LARGE_FRAME + INPUT_SLACK);

    if (server->nsessions - server->nagents > (tcp ? STRANGERS_MAX_TCP : STRANGERS_MAX) &&
        !ctld_trusts(ctld, session->uid)) {
        (void)bufferevent_enable(session->bev, EV_READ);
        session_refuse(session, MSG_REFUSED_BUSY, 1000, "too many connections at once");
        return;
    }
    /* writing is enabled from the start, and would be tried at once if it were said again */
    if (send_challenge(session) < 0 || bufferevent_enable(session->bev, EV_READ) < 0)
        session_end(session);
}

/* ---- time ---------------------------------------------------------------------------------- */

static void end_expired(struct session_list *list, uint64_t now_ms, const char *what)
{
    struct session *session;

    while ((session = TAILQ_FIRST(list)) != NULL && session->deadline_ms <= now_ms) {
        if (what != NULL)
            log_debug("%s (uid %d)", what, (int)session->uid);
        session_end(session);
    }
}

void session_look_for_silent(struct ctld *ctld, uint64_t now_ms)
{
    struct server *server = ctld->server;

    end_expired(&server->hello, now_ms, "a peer neither registered nor asked in time");
    end_expired(&server->closing, now_ms, NULL);
    end_expired(&server->agents, now_ms, "an agent has been silent for longer than its lease");
}
