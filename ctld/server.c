/* Where connections come from. See server.h. */
#include "config.h"

#include "server.h"

#include "clock.h"
#include "ctld.h"
#include "log.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <libgen.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG         4096
#define SPARE_FILES     1024u /* beyond the agents: queries, state files, munge */
#define PAUSE_MS        100
#define COMPLAIN_MS     60000u
#define TCP_SOCKETS_MAX 16u

static int fail(char *error, size_t size, const char *what, const char *on, const char *hint)
{
    (void)snprintf(error, size, "cannot %s %s: %s%s", what, on, strerror(errno), hint);
    return -1;
}

/* ---- connections --------------------------------------------------------------------------- */

static void accept_unix(struct evconnlistener *listener, evutil_socket_t fd,
                        struct sockaddr *address, int length, void *arg)
{
    (void)listener;
    (void)address;
    (void)length;
    session_open(arg, (int)fd, false);
}

static void accept_tcp(struct evconnlistener *listener, evutil_socket_t fd,
                       struct sockaddr *address, int length, void *arg)
{
    (void)listener;
    (void)address;
    (void)length;
    session_open(arg, (int)fd, true);
}

static void set_listening(struct server *server, bool on)
{
    int (*set)(struct evconnlistener *) = on ? evconnlistener_enable : evconnlistener_disable;

    if (server->unix_listener != NULL)
        (void)set(server->unix_listener);
    for (size_t i = 0; i < server->ntcp_listeners; i++)
        (void)set(server->tcp_listeners[i]);
}

static void resume(evutil_socket_t fd, short what, void *arg)
{
    struct ctld *ctld = arg;

    (void)fd;
    (void)what;
    set_listening(ctld->server, true);
}

/* Out of descriptors, most likely: do not spin, try again in a moment. */
static void accept_failed(struct evconnlistener *listener, void *arg)
{
    struct ctld *ctld = arg;
    const struct timeval pause = {0, PAUSE_MS * 1000};

    uint64_t now = clock_monotonic_ms();
    int error = errno;

    (void)listener;
    if (ctld->server->complained_ms == 0 || now - ctld->server->complained_ms >= COMPLAIN_MS) {
        log_warning("cannot accept connections: %s; tried every %d ms (raise LimitNOFILE, or look "
                    "who holds so many)",
                    strerror(error), PAUSE_MS);
        ctld->server->complained_ms = now;
    }
    set_listening(ctld->server, false);
    (void)evtimer_add(ctld->server->resume, &pause);
}

static struct evconnlistener *listen_on(struct ctld *ctld, int fd, evconnlistener_cb accepted)
{
    struct evconnlistener *listener = evconnlistener_new(
        ctld->base, accepted, ctld, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG, fd);

    if (listener != NULL)
        evconnlistener_set_error_cb(listener, accept_failed);
    return listener;
}

static void reap(evutil_socket_t fd, short what, void *arg)
{
    struct ctld *ctld = arg;
    struct server *server = ctld->server;
    struct session *session;

    (void)fd;
    (void)what;
    while ((session = TAILQ_FIRST(&server->dead)) != NULL) {
        TAILQ_REMOVE(&server->dead, session, link);
        server->nsessions--;
        bufferevent_free(session->bev);
        free(session);
    }
}

/* ---- the Unix socket ----------------------------------------------------------------------- */

/* Make the last folder of the path; its parents must exist. Returns it opened and locked. */
static int lock_folder(const char *path, char *error, size_t size)
{
    char *copy = strdup(path);
    const char *folder;
    int fd;

    if (copy == NULL)
        return fail(error, size, "listen on", path, "");
    folder = dirname(copy);
    if (mkdir(folder, 0755) < 0 && errno != EEXIST) {
        (void)fail(error, size, "make the folder", folder, "; make it or set ControllerSocket");
        free(copy);
        return -1;
    }
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) < 0) {
        (void)fail(error, size, "lock the folder", folder, "");
        if (fd >= 0)
            (void)close(fd);
        fd = -1;
    }
    free(copy);
    return fd;
}

/* A left-over socket goes, one that somebody listens on stays. */
static int clear_stale(const struct sockaddr_un *address, char *error, size_t size)
{
    struct stat st;
    int fd, rc;

    if (lstat(address->sun_path, &st) < 0)
        return errno == ENOENT ? 0 : fail(error, size, "look at", address->sun_path, "");
    if (!S_ISSOCK(st.st_mode)) {
        (void)snprintf(error, size, "%s exists and is no socket; remove it or set ControllerSocket",
                       address->sun_path);
        return -1;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail(error, size, "make a socket for", address->sun_path, "");
    rc = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    if (rc == 0 || errno == EAGAIN || errno == EINPROGRESS) {
        (void)snprintf(error, size, "another controller listens on %s; stop it first",
                       address->sun_path);
        rc = -1;
    } else if (errno != ECONNREFUSED) {
        rc = fail(error, size, "find out whether somebody listens on", address->sun_path, "");
    } else if (unlink(address->sun_path) < 0) {
        rc = fail(error, size, "remove the left-over socket", address->sun_path, "");
    } else {
        log_info("removed the left-over socket %s", address->sun_path);
        rc = 0;
    }
    (void)close(fd);
    return rc;
}

static int bind_unix(struct server *server, const struct sockaddr_un *address, char *error,
                     size_t size)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct stat st;

    if (fd < 0)
        return fail(error, size, "make a socket for", address->sun_path, "");
    if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ||
        stat(address->sun_path, &st) < 0) {
        (void)fail(error, size, "bind", address->sun_path, "");
        (void)close(fd);
        return -1;
    }
    server->device = st.st_dev;
    server->inode = st.st_ino;
    if (chmod(address->sun_path, 0666) < 0 || listen(fd, BACKLOG) < 0) {
        (void)fail(error, size, "listen on", address->sun_path, "");
        (void)unlink(address->sun_path);
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int open_unix(struct ctld *ctld, char *error, size_t size)
{
    struct server *server = ctld->server;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int folder, fd = -1;

    if (strlen(ctld->conf->socket) >= sizeof(address.sun_path)) {
        (void)snprintf(error, size, "ControllerSocket %s is longer than %zu bytes",
                       ctld->conf->socket, sizeof(address.sun_path) - 1);
        return -1;
    }
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", ctld->conf->socket);
    folder = lock_folder(address.sun_path, error, size);
    if (folder < 0)
        return -1;
    if (clear_stale(&address, error, size) == 0)
        fd = bind_unix(server, &address, error, size);
    (void)close(folder); /* and so unlocked */
    if (fd < 0)
        return -1;
    server->path = strdup(address.sun_path);
    server->unix_listener = server->path != NULL ? listen_on(ctld, fd, accept_unix) : NULL;
    if (server->unix_listener == NULL) {
        (void)snprintf(error, size, "cannot listen on %s: out of memory", address.sun_path);
        (void)unlink(address.sun_path);
        (void)close(fd);
        return -1;
    }
    return 0;
}

/* ---- TCP ----------------------------------------------------------------------------------- */

static int bind_tcp(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    int on = 1;

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        int saved = errno;

        (void)close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static int add_tcp(struct ctld *ctld, const struct addrinfo *a)
{
    struct server *server = ctld->server;
    int fd = bind_tcp(a);
    struct evconnlistener *listener;

    if (fd < 0)
        return -1;
    listener = listen_on(ctld, fd, accept_tcp);
    if (listener == NULL) {
        (void)close(fd);
        errno = ENOMEM;
        return -1;
    }
    server->tcp_listeners[server->ntcp_listeners++] = listener;
    return 0;
}

static int open_tcp(struct ctld *ctld, char *error, size_t size)
{
    struct server *server = ctld->server;
    const char *where = ctld->conf->listen_address;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    char port[16];
    int rc, saved = 0;

    if (strcmp(where, "none") == 0)
        return 0;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    (void)snprintf(port, sizeof(port), "%u", ctld->self.port);
    rc = getaddrinfo(where[0] != '\0' ? where : NULL, port, &hints, &list);
    if (rc != 0) {
        (void)snprintf(error, size, "ListenAddress %s is not usable: %s", where, gai_strerror(rc));
        return -1;
    }
    server->tcp_listeners = calloc(TCP_SOCKETS_MAX, sizeof(struct evconnlistener *));
    for (const struct addrinfo *a = list;
         a != NULL && server->tcp_listeners != NULL && server->ntcp_listeners < TCP_SOCKETS_MAX;
         a = a->ai_next)
        if (add_tcp(ctld, a) < 0)
            saved = errno;
    freeaddrinfo(list);
    if (server->ntcp_listeners > 0)
        return 0; /* a machine without IPv6 has the IPv4 one at least */
    (void)snprintf(error, size,
                   "cannot listen on TCP port %u of %s: %s; set ControllerPort, or "
                   "ListenAddress=none",
                   ctld->self.port, where[0] != '\0' ? where : "this host",
                   strerror(saved != 0 ? saved : ENOMEM));
    return -1;
}

/* ---- init, fini ---------------------------------------------------------------------------- */

static void raise_file_limit(unsigned agents)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)agents + SPARE_FILES;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
        return;
    if (limit.rlim_max < wanted) {
        struct rlimit higher = {wanted, wanted};

        if (setrlimit(RLIMIT_NOFILE, &higher) == 0)
            return;
        log_warning("only %ju file descriptors are allowed, MaxAgents=%u needs %ju: agents beyond "
                    "that wait; raise LimitNOFILE",
                    (uintmax_t)limit.rlim_max, agents, (uintmax_t)wanted);
        wanted = limit.rlim_max;
    }
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_warning("cannot raise the limit of file descriptors: %s", strerror(errno));
}

int server_init(struct ctld *ctld, char *error, size_t error_size)
{
    struct server *server = calloc(1, sizeof(*server));

    ctld->server = server;
    if (server == NULL) {
        (void)snprintf(error, error_size, "out of memory");
        return -1;
    }
    TAILQ_INIT(&server->hello);
    TAILQ_INIT(&server->agents);
    TAILQ_INIT(&server->closing);
    TAILQ_INIT(&server->dead);
    raise_file_limit(ctld->conf->max_agents);
    server->reap = evtimer_new(ctld->base, reap, ctld);
    server->resume = evtimer_new(ctld->base, resume, ctld);
    if (server->reap == NULL || server->resume == NULL) {
        (void)snprintf(error, error_size, "out of memory");
        return -1;
    }
    if (open_unix(ctld, error, error_size) < 0)
        return -1;
    return open_tcp(ctld, error, error_size);
}

static void remove_socket(const struct server *server)
{
    struct stat st;

    if (server->path == NULL || lstat(server->path, &st) < 0)
        return;
    if (st.st_dev == server->device && st.st_ino == server->inode)
        (void)unlink(server->path);
}

/* The members go with the registry; agents notice the end and keep their cores for the lease. */
static void free_list(struct session_list *list)
{
    struct session *session;

    while ((session = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, session, link);
        bufferevent_free(session->bev);
        free(session);
    }
}

void server_fini(struct ctld *ctld)
{
    struct server *server = ctld->server;

    if (server == NULL)
        return;
    if (server->unix_listener != NULL) {
        remove_socket(server);
        evconnlistener_free(server->unix_listener);
    }
    for (size_t i = 0; i < server->ntcp_listeners; i++)
        evconnlistener_free(server->tcp_listeners[i]);
    free(server->tcp_listeners);
    free_list(&server->hello);
    free_list(&server->agents);
    free_list(&server->closing);
    free_list(&server->dead);
    if (server->reap != NULL)
        event_free(server->reap);
    if (server->resume != NULL)
        event_free(server->resume);
    free(server->path);
    free(server);
    ctld->server = NULL;
}
