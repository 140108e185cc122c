/* One question to the controller and its answer: see client.h. */
#include "config.h"

#include "client.h"

#include "cli.h"
#include "clock.h"
#include "conf.h"
#include "msg.h"
#include "netaddr.h"
#include "wire.h"

#include <errno.h>
#include <munge.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- addresses ---------------------------------------------------------------------------- */

static int parse_unix(const char *path, struct client_address *address, char *error, size_t size)
{
    if (path[0] != '/') {
        snprintf(error, size,
                 "controller address 'unix:%s': the path of the socket must be absolute", path);
        return -1;
    }
    if (strlen(path) >= sizeof(address->path)) {
        snprintf(error, size, "controller address: a Unix socket's path has at most %zu bytes",
                 sizeof(address->path) - 1);
        return -1;
    }
    memcpy(address->path, path, strlen(path) + 1);
    snprintf(address->shown, sizeof(address->shown), "unix:%s", path);
    return 0;
}

/* port 0: not known yet */
static void set_port(struct client_address *address, unsigned port)
{
    address->port[0] = '\0';
    if (port != 0)
        snprintf(address->port, sizeof(address->port), "%u", port);
    snprintf(address->shown, sizeof(address->shown),
             strchr(address->host, ':') ? "[%s]:%s" : "%s:%s", address->host, address->port);
}

/* Split "host:port", "host", "[v6]", "[v6]:port"; false if it is none of them. */
static bool split_host(const char *text, struct client_address *address)
{
    const char *host = text, *port = NULL;
    size_t length;

    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return false;
        host = text + 1;
        length = (size_t)(end - host);
        if (end[1] == ':')
            port = end + 2;
    } else {
        const char *colon = strchr(text, ':');
        if (colon != NULL && strchr(colon + 1, ':') != NULL)
            return false; /* IPv6 without brackets: which colon is the port's? */
        length = colon != NULL ? (size_t)(colon - text) : strlen(text);
        if (colon != NULL)
            port = colon + 1;
    }
    unsigned number = 0;
    if (length == 0 || length >= sizeof(address->host))
        return false;
    if (port != NULL && !netaddr_port(port, strlen(port), &number))
        return false;
    memcpy(address->host, host, length);
    address->host[length] = '\0';
    set_port(address, number);
    return true;
}

int client_address_parse(const char *text, struct client_address *address, char *error,
                         size_t error_size)
{
    *address = (struct client_address){0};
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, address, error, error_size);
    if (text[0] == '/')
        return parse_unix(text, address, error, error_size);
    if (split_host(text, address))
        return 0;
    snprintf(error, error_size,
             "controller address '%s': give unix:/path, host:port or [IPv6 address]:port "
             "(port 1 to 65535; without one the configuration's)",
             text);
    return -1;
}

/* The first address of a list; the others, if they are good, into others. */
static int parse_list(const char *text, struct client_address *address, char *error,
                      size_t error_size)
{
    char first[CLIENT_OTHERS_MAX], rest[CLIENT_OTHERS_MAX];
    size_t length = strcspn(text, ",");
    const char *comma = text[length] == ',' ? text + length + 1 : "";

    if (strlen(text) >= sizeof(first)) {
        snprintf(error, error_size, "the list of controllers is too long");
        return -1;
    }
    memcpy(rest, comma, strlen(comma) + 1);
    for (char *next = rest, *end = NULL; text[length] == ',' && next != NULL; next = end) {
        end = strchr(next, ',');
        if (end != NULL)
            *end++ = '\0';
        if (client_address_parse(next, address, error, error_size) != 0)
            return -1;
    }
    memcpy(first, text, length);
    first[length] = '\0';
    if (client_address_parse(first, address, error, error_size) != 0)
        return -1;
    memcpy(address->others, comma, strlen(comma) + 1);
    return 0;
}

/* The next of others, with the same munge socket and port in case that it says none. False: none.
 */
static bool next_address(struct client_address *address, unsigned port)
{
    struct client_address next;
    char others[CLIENT_OTHERS_MAX], error[512];

    if (address->others[0] == '\0')
        return false;
    memcpy(others, address->others, sizeof(others));
    if (parse_list(others, &next, error, sizeof(error)) != 0)
        return false;
    if (next.path[0] == '\0' && next.port[0] == '\0')
        set_port(&next, port);
    memcpy(next.munge_socket, address->munge_socket, sizeof(next.munge_socket));
    next.default_port = address->default_port;
    *address = next;
    return true;
}

const char *client_named(const struct cli *cli, const char **from)
{
    const char *text = getenv(CLIENT_ENV_CONTROLLER);

    *from = cli->controller != NULL ? "--controller" : CLIENT_ENV_CONTROLLER;
    if (cli->controller != NULL)
        return cli->controller;
    return text != NULL && text[0] != '\0' ? text : NULL;
}

int client_address(const struct cli *cli, struct client_address *address, int *status)
{
    const char *from, *text = client_named(cli, &from);
    char error[512];

    if (text != NULL && parse_list(text, address, error, sizeof(error)) != 0) {
        *status = cli_usage_error(cli, "%s: %s", from, error);
        return -1;
    }
    if (text != NULL && address->path[0] != '\0' && address->others[0] == '\0')
        return 0; /* needs nothing of the configuration */

    struct conf *conf = cli_conf(cli);
    *status = CLI_FAILURE;
    if (conf == NULL)
        return -1;
    int result = 0;
    if (text == NULL) {
        *address = (struct client_address){0};
        result = parse_unix(conf->socket, address, error, sizeof(error));
        memcpy(address->others, conf->controllers, strlen(conf->controllers) + 1);
    } else if (address->path[0] == '\0' && address->port[0] == '\0') {
        set_port(address, conf->port);
    }
    address->default_port = conf->port;
    if (conf->munge_socket != NULL) {
        int n = snprintf(address->munge_socket, sizeof(address->munge_socket), "%s",
                         conf->munge_socket);
        if (n < 0 || (size_t)n >= sizeof(address->munge_socket)) {
            snprintf(error, sizeof(error), "MungeSocket: the path is too long");
            result = -1;
        }
    }
    if (result != 0)
        cli_error("%s", error);
    conf_free(conf);
    return result;
}

/* ---- a connection under a deadline ---------------------------------------------------------- */

struct connection {
    int fd;
    uint64_t deadline_ms;
    uint8_t *data; /* received, not yet consumed */
    size_t length, capacity;
    char *error;
    size_t error_size;
    const char *shown;
};

static int fail(struct connection *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int fail(struct connection *c, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(c->error, c->error_size, format, arguments) < 0 && c->error_size > 0)
        c->error[0] = '\0';
    va_end(arguments);
    return -1;
}

static int fail_unreachable(struct connection *c, const char *why)
{
    return fail(c,
                "no controller at %s: %s. Is adloaderctld running there (systemctl status "
                "adloaderctld)? To ask another one: --controller unix:/path or host:port",
                c->shown, why);
}

static int fail_slow(struct connection *c)
{
    return fail(c,
                "the controller at %s did not answer within %u s: it is stopped, overloaded, or "
                "something else listens there",
                c->shown, CLIENT_TIMEOUT_MS / 1000);
}

/* Wait until the socket is ready for events; -1 at the deadline (said) or on failure. */
static int await(struct connection *c, short events)
{
    for (;;) {
        uint64_t now = clock_monotonic_ms();
        if (now >= c->deadline_ms)
            return fail_slow(c);
        struct pollfd p = {.fd = c->fd, .events = events};
        int n = poll(&p, 1, (int)(c->deadline_ms - now));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return fail(c, "cannot wait for the controller at %s: %s", c->shown, strerror(errno));
    }
}

/* Finish a connect that was begun on c->fd; 0 or an errno value. */
static int connected(struct connection *c, int rc)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (rc == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    if (await(c, POLLOUT) != 0)
        return ETIMEDOUT;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        return errno;
    return error;
}

static int connect_unix(struct connection *c, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, path, strlen(path) + 1);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd < 0)
        return fail(c, "cannot make a socket: %s", strerror(errno));
    int error = connected(c, connect(c->fd, (struct sockaddr *)&address, sizeof(address)));
    if (error == EAGAIN) /* its queue of new connections is full */
        return fail(c,
                    "the controller at %s does not take connections now: it is stopped or "
                    "overloaded",
                    c->shown);
    return error != 0 ? fail_unreachable(c, strerror(error)) : 0;
}

static int connect_tcp(struct connection *c, const struct client_address *to)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *all = NULL;
    int error = getaddrinfo(to->host, to->port, &hints, &all);

    if (error != 0)
        return fail_unreachable(c, error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    error = EADDRNOTAVAIL;
    c->deadline_ms = clock_monotonic_ms() + CLIENT_TIMEOUT_MS;
    for (const struct addrinfo *a = all; a != NULL && error != 0 && error != ETIMEDOUT;
         a = a->ai_next) {
        if (c->fd >= 0)
            close(c->fd);
        c->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        error = c->fd < 0 ? errno : connected(c, connect(c->fd, a->ai_addr, a->ai_addrlen));
    }
    freeaddrinfo(all);
    return error != 0 ? fail_unreachable(c, strerror(error)) : 0;
}

static int send_all(struct connection *c, const uint8_t *data, size_t length)
{
    while (length > 0) {
        ssize_t n = send(c->fd, data, length, MSG_NOSIGNAL);
        if (n >= 0) {
            data += n;
            length -= (size_t)n;
        } else if (errno == EAGAIN) {
            if (await(c, POLLOUT) != 0)
                return -1;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return 0; /* it closed: what it said before that tells why */
        } else if (errno != EINTR) {
            return fail(c, "cannot send to the controller at %s: %s", c->shown, strerror(errno));
        }
    }
    return 0;
}

/* Make room for more bytes; the buffer grows with what really arrived, not with what a length says.
 */
static int reserve(struct connection *c)
{
    if (c->capacity - c->length >= 16384)
        return 0;
    size_t wanted = c->capacity == 0 ? 65536 : c->capacity * 2;
    uint8_t *data = realloc(c->data, wanted);
    if (data == NULL)
        return fail(c, "not enough memory for the controller's answer");
    c->data = data;
    c->capacity = wanted;
    return 0;
}

static int fail_nonsense(struct connection *c)
{
    return fail(c,
                "what listens at %s does not speak adloader's protocol (version %u): is it "
                "adloaderctld, and of this release?",
                c->shown, WIRE_VERSION);
}

/* Receive one frame of at most limit bytes: view points into c->data until consume(). */
static int receive(struct connection *c, size_t limit, struct wire_view *view, size_t *frame)
{
    for (;;) {
        ssize_t whole = wire_frame_length(c->data, c->length, limit);
        if (whole < 0 || (whole > 0 && wire_open(view, c->data, (size_t)whole) != 0))
            return fail_nonsense(c);
        if (whole > 0) {
            *frame = (size_t)whole;
            return 0;
        }
        if (await(c, POLLIN) != 0 || reserve(c) != 0)
            return -1;
        ssize_t n = recv(c->fd, c->data + c->length, c->capacity - c->length, 0);
        if (n > 0)
            c->length += (size_t)n;
        else if (n == 0)
            return fail(c, "the controller at %s closed the connection %s", c->shown,
                        c->length > 0 ? "in the middle of its answer" : "without an answer");
        else if (errno != EAGAIN && errno != EINTR)
            return fail(c, "cannot receive from the controller at %s: %s", c->shown,
                        strerror(errno));
    }
}

static void consume(struct connection *c, size_t frame)
{
    memmove(c->data, c->data + frame, c->length - frame);
    c->length -= frame;
}

/* ---- the exchange ------------------------------------------------------------------------- */

static int copy_text(char *to, size_t size, const char *from)
{
    size_t length = strlen(from);

    if (length >= size)
        return -1;
    memcpy(to, from, length + 1);
    return 0;
}

/* Put the frame in writer into a munge credential and that into a frame of its own. */
static int wrap_in_credential(struct connection *c, struct wire_writer *writer,
                              const char *munge_socket)
{
    munge_ctx_t context = munge_ctx_create();
    char *credential = NULL;

    if (context == NULL)
        return fail(c, "not enough memory for a credential");
    munge_err_t error = EMUNGE_SUCCESS;
    if (munge_socket[0] != '\0')
        error = munge_ctx_set(context, MUNGE_OPT_SOCKET, munge_socket);
    if (error == EMUNGE_SUCCESS)
        error = munge_encode(&credential, context, writer->data, (int)writer->length);
    int result = 0;
    if (error != EMUNGE_SUCCESS) {
        const char *why = munge_ctx_strerror(context);
        result =
            fail(c,
                 "cannot get a munge credential for the controller at %s: %s. Is munged running "
                 "on this host?",
                 c->shown, why != NULL ? why : munge_strerror(error));
    } else if (msg_credential_write(writer, credential) != 0) {
        result = fail(c, "cannot send a credential: %s", strerror(errno));
    }
    free(credential);
    munge_ctx_destroy(context);
    return result;
}

static int send_query(struct connection *c, const struct client_address *address,
                      const struct msg_challenge *challenge, const struct msg_query *query)
{
    struct wire_writer writer = {0};
    int result;

    if (msg_query_write(&writer, query) != 0)
        result = fail(c, "cannot send the question: %s", strerror(errno));
    else if (challenge->credential_wanted)
        result = wrap_in_credential(c, &writer, address->munge_socket);
    else
        result = 0;
    if (result == 0)
        result = send_all(c, writer.data, writer.length);
    wire_writer_free(&writer);
    return result;
}

static enum client_result refused(struct connection *c, const struct wire_view *view)
{
    struct msg_refuse refusal;

    if (msg_refuse_read(view, &refusal) != 0) {
        fail_nonsense(c);
        return CLIENT_FAILED;
    }
    if (refusal.code == MSG_REFUSED_UNKNOWN) {
        fail(c, "%s", refusal.text[0] != '\0' ? refusal.text : "the controller does not know that");
        return CLIENT_UNKNOWN;
    }
    fail(c, "the controller at %s refused: %s%s", c->shown,
         refusal.text[0] != '\0' ? refusal.text : "no reason given",
         refusal.code == MSG_REFUSED_BUSY ? " (try again)" : "");
    return CLIENT_REFUSED;
}

/* Take the answer's text out of its frame. */
static enum client_result answered(struct connection *c, const struct wire_view *view, char **text,
                                   size_t *length)
{
    const char *json;

    if (msg_answer_read(view, &json, length) != 0) {
        fail_nonsense(c);
        return CLIENT_FAILED;
    }
    *text = malloc(*length + 1);
    if (*text == NULL) {
        fail(c, "not enough memory for the controller's answer");
        return CLIENT_FAILED;
    }
    memcpy(*text, json, *length);
    (*text)[*length] = '\0';
    return CLIENT_OK;
}

/* serving: only if it does; else *stands_by tells why it was not asked. */
static enum client_result exchange(struct connection *c, const struct client_address *address,
                                   bool serving, struct msg_query *query, char **text,
                                   size_t *length, bool *stands_by)
{
    struct msg_challenge challenge;
    struct wire_view view;
    size_t frame;

    if (receive(c, WIRE_SMALL_FRAME, &view, &frame) != 0)
        return CLIENT_FAILED;
    if (view.type == MSG_REFUSE)
        return refused(c, &view);
    if (view.type != MSG_CHALLENGE || msg_challenge_read(&view, &challenge) != 0) {
        fail_nonsense(c);
        return CLIENT_FAILED;
    }
    consume(c, frame);
    if (serving && challenge.standby) {
        *stands_by = true;
        return CLIENT_FAILED;
    }
    memcpy(query->nonce, challenge.nonce, sizeof(query->nonce));
    if (send_query(c, address, &challenge, query) != 0 ||
        receive(c, WIRE_ANSWER_FRAME, &view, &frame) != 0)
        return CLIENT_FAILED;
    if (view.type == MSG_REFUSE)
        return refused(c, &view);
    if (view.type == MSG_ANSWER)
        return answered(c, &view, text, length);
    fail_nonsense(c);
    return CLIENT_FAILED;
}

static enum client_result ask(const struct client_address *address, bool serving,
                              const struct msg_query *question, char **text, size_t *length,
                              bool *stands_by, char *error, size_t error_size)
{
    struct connection c = {
        .fd = -1,
        .deadline_ms = clock_monotonic_ms() + CLIENT_TIMEOUT_MS,
        .error = error,
        .error_size = error_size,
        .shown = address->shown,
    };
    struct msg_query query = *question;
    enum client_result result = CLIENT_FAILED;

    *stands_by = false;
    if ((address->path[0] != '\0' ? connect_unix(&c, address->path) : connect_tcp(&c, address)) ==
        0)
        result = exchange(&c, address, serving, &query, text, length, stands_by);
    if (c.fd >= 0)
        close(c.fd);
    free(c.data);
    return result;
}

/* What each of several has failed with, one behind the other. */
static void add_error(char *error, size_t size, const char *more)
{
    size_t length = strlen(error);

    if (length < size)
        (void)snprintf(error + length, size - length, "%s%s", length > 0 ? "\n" : "", more);
}

enum client_result client_query(const struct client_address *address, const char *what,
                                const char *job, const char *node, char **text, size_t *length,
                                char *error, size_t error_size)
{
    struct client_address at = *address, waiting;
    struct msg_query query = {0};
    bool stands_by, any_waiting = false;
    char one[1024];

    *text = NULL;
    *length = 0;
    error[0] = '\0';
    if (copy_text(query.what, sizeof(query.what), what) != 0 ||
        copy_text(query.job, sizeof(query.job), job) != 0 ||
        copy_text(query.node, sizeof(query.node), node) != 0) {
        (void)snprintf(error, error_size, "the name of a job or node has at most %d bytes",
                       MSG_NAME_MAX - 1);
        return CLIENT_FAILED;
    }
    do {
        enum client_result result =
            ask(&at, true, &query, text, length, &stands_by, one, sizeof(one));
        if (result != CLIENT_FAILED) {
            (void)snprintf(error, error_size, "%s", result == CLIENT_OK ? "" : one);
            return result;
        }
        if (!stands_by)
            add_error(error, error_size, one);
        else if (!any_waiting)
            waiting = at;
        any_waiting = any_waiting || stands_by;
    } while (next_address(&at, at.default_port));
    if (any_waiting) /* none serves: what one of them says is better than nothing */
        return ask(&waiting, false, &query, text, length, &stands_by, error, error_size);
    return CLIENT_FAILED;
}
