/* The step's own socket: see clients.h. */
#include "config.h"

#include "clients.h"

#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define HEARINGS_MAX 64u /* of a client at a time */

/* ---- the socket's place ---- */

int clients_path(const char *rundir, const char *node, uint32_t job, uint32_t step, char *path,
                 size_t size)
{
    char name[MSG_NAME_MAX];
    if (msg_step_name(job, step, name, sizeof name) < 0)
        return -1;
    /* several nodes may live on one host; a name that is no file name is replaced by its hash */
    uint32_t hash = 2166136261u;
    bool plain = node[0] != '\0' && strlen(node) <= 32;
    for (const char *p = node; *p != '\0'; p++) {
        hash = (hash ^ (unsigned char)*p) * 16777619u;
        plain = plain && *p != '/';
    }
    int n = plain ? snprintf(path, size, "%s/step-%s-%s.sock", rundir, name, node)
                  : snprintf(path, size, "%s/step-%s-%08" PRIx32 ".sock", rundir, name, hash);
    if (n < 0 || (size_t)n >= size || n >= CLIENTS_PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return 0;
}

/* The directory of path: ours, and nobody else's to write in, or names in it could be swapped. */
static int check_directory(const char *path, char *error, size_t error_size)
{
    char directory[CLIENTS_PATH_MAX];
    struct stat st;
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash == NULL || slash == directory) {
        snprintf(error, error_size, "%s: not a path in a directory of its own", path);
        return -1;
    }
    *slash = '\0';
    if (mkdir(directory, 0755) < 0 && errno != EEXIST) {
        snprintf(error, error_size, "cannot create %s: %s", directory, strerror(errno));
        return -1;
    }
    if (lstat(directory, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        snprintf(error, error_size,
                 "%s must be a directory of uid %u that nobody else may write to", directory,
                 (unsigned)geteuid());
        return -1;
    }
    return 0;
}

static int drop_stale(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : -1;
    if (!S_ISSOCK(st.st_mode)) {
        errno = EEXIST;
        return -1;
    }
    return unlink(path);
}

int clients_listen(const char *path, uid_t uid, char *error, size_t error_size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (check_directory(path, error, error_size) < 0)
        return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /*
     * Not even the mode of the instant between bind and chmod matters: nobody is let in before
     * listen. The umask of the host program is left alone, since it is shared by all its threads.
     */
    if (fd < 0 || drop_stale(path) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) < 0)
        goto fail;
    if (chmod(path, 0600) < 0 || lchown(path, uid, (gid_t)-1) < 0 || listen(fd, 16) < 0) {
        int saved = errno;
        (void)unlink(path);
        errno = saved;
        goto fail;
    }
    return fd;
fail:
    snprintf(error, error_size, "no client socket at %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Does nobody listen there? Connecting to a Unix socket without waiting says so at once. */
static bool is_stale(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    if (strlen(path) >= sizeof address.sun_path || lstat(path, &st) < 0 || !S_ISSOCK(st.st_mode))
        return false;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool refused =
        connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

/* Count the stale sockets, those that could be removed if that is wanted. -1: cannot be read. */
static int walk(const char *rundir, bool remove_them)
{
    int found = 0;
    const struct dirent *entry;
    DIR *dir = opendir(rundir);
    if (dir == NULL)
        return -1;
    while ((entry = readdir(dir)) != NULL) {
        char path[PATH_MAX];
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, "step-", 5) != 0 || length < 5 ||
            strcmp(entry->d_name + length - 5, ".sock") != 0)
            continue;
        int n = snprintf(path, sizeof path, "%s/%s", rundir, entry->d_name);
        if (n > 0 && (size_t)n < sizeof path && is_stale(path) &&
            (!remove_them || unlink(path) == 0))
            found++;
    }
    closedir(dir);
    return found;
}

unsigned clients_sweep(const char *rundir)
{
    int removed = walk(rundir, true);
    return removed > 0 ? (unsigned)removed : 0;
}

int clients_leftovers(const char *rundir)
{
    return walk(rundir, false);
}

/* ---- life ---- */

void clients_init(struct clients *c, int listener, uid_t uid)
{
    memset(c, 0, sizeof *c);
    c->listener = listener;
    c->uid = uid;
}

/* What a leaving client did since the last report is not lost. */
static void drop_client(struct clients *c, unsigned i)
{
    struct client *client = c->list[i];
    if (client->told) {
        c->past.samples += client->now.samples - client->last.samples;
        c->past_told = true;
    }
    close(client->fd);
    free(client);
    c->list[i] = c->list[--c->n];
}

void clients_free(struct clients *c)
{
    while (c->n > 0)
        drop_client(c, c->n - 1);
    if (c->listener >= 0)
        close(c->listener);
    c->listener = -1;
}

/* ---- sending ---- */

/* The state is small and a client that does not read it is of no use: no queue, it may reconnect.
 */
static void tell(struct client *client, const struct wire_writer *frame)
{
    ssize_t n = send(client->fd, frame->data, frame->length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n != (ssize_t)frame->length)
        client->stale = true;
}

static void tell_some(struct clients *c, unsigned from, const struct msg_client_change *change)
{
    struct wire_writer frame = {0};
    if (from < c->n && msg_client_change_write(&frame, change) == 0)
        for (unsigned i = from; i < c->n; i++)
            tell(c->list[i], &frame);
    wire_writer_free(&frame);
}

static void sweep(struct clients *c)
{
    for (unsigned i = c->n; i-- > 0;)
        if (c->list[i]->stale)
            drop_client(c, i);
}

void clients_tell(struct clients *c, const struct msg_client_change *change)
{
    tell_some(c, 0, change);
    sweep(c);
}

/* ---- accepting ---- */

static bool admitted(const struct clients *c, int fd, const struct tasks *tasks, pid_t *pid)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return false;
    *pid = peer.pid;
    return (peer.uid == c->uid || peer.uid == 0) && tasks_belongs(tasks, peer.pid);
}

static void accept_clients(struct clients *c, const struct tasks *tasks)
{
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        int fd = accept4(c->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        pid_t pid = -1;
        struct client *client = NULL;
        if (c->n < CLIENTS_MAX && admitted(c, fd, tasks, &pid))
            client = calloc(1, sizeof *client);
        if (client == NULL) {
            log_debug("a client was turned away (process %d)", (int)pid);
            close(fd);
            continue;
        }
        client->fd = fd;
        client->pid = pid;
        c->list[c->n++] = client;
    }
}

/* ---- hearing ---- */

/* The thread may be younger than the last scan: it is noted down until the next one. */
static void hear_loader(struct clients *c, const struct client *client,
                        const struct msg_client_loader *m, const struct tasks *tasks,
                        bool *announced)
{
    if (m->tid <= 0 || m->tid > INT32_MAX)
        return;
    pid_t tid = procfs_tid_from_inner(&tasks->fs, client->pid, (pid_t)m->tid);
    if (tid < 0)
        return;
    struct announcement a = {client->pid, tid, m->on};
    if (c->npending < CLIENTS_PENDING_MAX)
        c->pending[c->npending++] = a;
    *announced = true;
}

void clients_announce(struct clients *c, struct tasks *tasks)
{
    for (unsigned i = 0; i < c->npending; i++) {
        const struct announcement *a = &c->pending[i];
        if (tasks_announce(tasks, a->pid, a->tid, a->on) < 0 && errno == EPERM)
            log_debug("task %d is the main thread of a rank and stays one", (int)a->tid);
    }
    c->npending = 0;
}

/* Totals only grow; a client that counts backwards has started anew. */
static void hear_progress(struct clients *c, struct client *client,
                          const struct msg_client_progress *m)
{
    if (m->samples < client->now.samples || m->wait_s < client->now.wait_s ||
        m->busy_s < client->now.busy_s)
        client->last = (struct msg_client_progress){0, 0, 0};
    client->now = *m;
    client->told = c->progressed = true;
}

static void hear_frame(struct clients *c, struct client *client, const struct wire_view *view,
                       const struct tasks *tasks, bool *announced)
{
    struct msg_client_loader loader;
    struct msg_client_progress progress;
    if (view->type == MSG_CLIENT_LOADER && msg_client_loader_read(view, &loader) == 0)
        hear_loader(c, client, &loader, tasks, announced);
    else if (view->type == MSG_CLIENT_PROGRESS && msg_client_progress_read(view, &progress) == 0)
        hear_progress(c, client, &progress);
    else
        client->stale = true;
}

/* One buffer's worth. Whether there may be more. */
static bool hear(struct clients *c, struct client *client, const struct tasks *tasks,
                 bool *announced)
{
    size_t room = sizeof client->in - client->in_length;
    ssize_t n = recv(client->fd, client->in + client->in_length, room, 0);
    if (n <= 0) {
        client->stale = n == 0 || (errno != EAGAIN && errno != EINTR);
        return false;
    }
    client->in_length += (size_t)n;
    size_t used = 0;
    while (!client->stale) {
        struct wire_view view;
        ssize_t length =
            wire_frame_length(client->in + used, client->in_length - used, CLIENTS_FRAME_MAX);
        if (length == 0)
            break;
        if (length < 0 || wire_open(&view, client->in + used, (size_t)length) < 0) {
            client->stale = true;
            break;
        }
        hear_frame(c, client, &view, tasks, announced);
        used += (size_t)length;
    }
    client->in_length -= used;
    memmove(client->in, client->in + used, client->in_length);
    return (size_t)n == room && !client->stale;
}

/* What has gathered since they were last heard, within bounds: the rest is heard next time. */
void clients_hear(struct clients *c, const struct tasks *tasks, bool *announced)
{
    for (unsigned i = 0; i < c->n; i++) {
        bool more = c->list[i]->told;
        for (unsigned reads = 0; more && reads < HEARINGS_MAX; reads++)
            more = hear(c, c->list[i], tasks, announced);
    }
    sweep(c);
}

unsigned clients_poll(const struct clients *c, bool chatty, struct pollfd *fds)
{
    unsigned n = 0;
    if (c->listener >= 0)
        fds[n++] = (struct pollfd){.fd = c->listener, .events = POLLIN};
    for (unsigned i = 0; i < c->n; i++)
        fds[n++] = (struct pollfd){.fd = chatty || !c->list[i]->told ? c->list[i]->fd : -1,
                                   .events = POLLIN};
    return n;
}

void clients_ready(struct clients *c, const struct pollfd *fds, unsigned n,
                   const struct tasks *tasks, const struct msg_client_change *greet,
                   bool *announced)
{
    unsigned first = c->listener >= 0 ? 1 : 0, before = c->n;
    for (unsigned i = first; i < n; i++)
        if (fds[i].revents != 0)
            (void)hear(c, c->list[i - first], tasks, announced);
    if (first == 1 && (fds[0].revents & POLLIN) != 0) {
        accept_clients(c, tasks);
        tell_some(c, before, greet);
    }
    sweep(c);
}

/* ---- progress ---- */

void clients_progress(struct clients *c, double *samples, double *wait_s, double *busy_s)
{
    unsigned told = 0;
    *samples = *wait_s = *busy_s = NAN;
    if (!c->progressed)
        return;
    *samples = c->past_told ? c->past.samples : 0;
    double wait = 0, busy = 0;
    for (unsigned i = 0; i < c->n; i++) {
        struct client *client = c->list[i];
        if (!client->told)
            continue;
        told++;
        *samples += client->now.samples - client->last.samples;
        wait += client->now.wait_s - client->last.wait_s;
        busy += client->now.busy_s - client->last.busy_s;
        client->last = client->now;
    }
    c->past = (struct msg_client_progress){0, 0, 0};
    c->past_told = false;
    if (told > 0) {
        *wait_s = wait / told;
        *busy_s = busy / told;
    }
}
