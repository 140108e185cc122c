/* The controller's end of adloader-slurmjob. See jobwriter.h. */
#include "config.h"

#include "jobwriter.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REAP_MS    20 /* between looks whether a dying helper is gone */
#define WORDS_SIZE 512
#define NO_PROCESS ((pid_t)-1)

extern char **environ;

struct jobwriter {
    struct event_base *base;
    char *program; /* NULL: look for it */
    unsigned timeout_ms;
    jobwriter_done done;
    void *arg;
    pid_t pid, dying; /* NO_PROCESS: none */
    int socket, words_fd;
    struct event *replies, *words_event, *deadline, *reap;
    uint32_t serial;
    bool busy;
    size_t words_length;
    char words[WORDS_SIZE]; /* the end of what the helper said on standard error */
    struct slurmjob_reply reply;
};

/* ---- its last words ------------------------------------------------------------------------ */

static void keep_words(struct jobwriter *w, const char *bytes, size_t count)
{
    if (count >= sizeof(w->words)) {
        bytes += count - (sizeof(w->words) - 1);
        count = sizeof(w->words) - 1;
    }
    if (w->words_length + count >= sizeof(w->words)) {
        size_t drop = w->words_length + count - (sizeof(w->words) - 1);

        memmove(w->words, w->words + drop, w->words_length - drop);
        w->words_length -= drop;
    }
    memcpy(w->words + w->words_length, bytes, count);
    w->words_length += count;
    w->words[w->words_length] = '\0';
}

static void hear_words(evutil_socket_t fd, short what, void *arg)
{
    struct jobwriter *w = arg;
    char bytes[1024];
    ssize_t n;

    (void)what;
    while ((n = read((int)fd, bytes, sizeof(bytes))) > 0)
        keep_words(w, bytes, (size_t)n);
    if (n == 0) /* the end; what died is told by the other socket */
        (void)event_del(w->words_event);
}

/* The last line, which with libslurm's fatal() is the cause. */
static const char *last_line(struct jobwriter *w)
{
    const char *line;

    while (w->words_length > 0 && w->words[w->words_length - 1] == '\n')
        w->words[--w->words_length] = '\0';
    line = strrchr(w->words, '\n');
    return line != NULL ? line + 1 : w->words;
}

/* ---- ending -------------------------------------------------------------------------------- */

static void reap(evutil_socket_t fd, short what, void *arg)
{
    struct jobwriter *w = arg;
    const struct timeval again = {0, REAP_MS * 1000};

    (void)fd;
    (void)what;
    if (w->dying != NO_PROCESS && waitpid(w->dying, NULL, WNOHANG) == 0) {
        (void)evtimer_add(w->reap, &again);
        return;
    }
    w->dying = NO_PROCESS;
}

static void drop_event(struct event **event)
{
    if (*event != NULL)
        event_free(*event);
    *event = NULL;
}

static void drop_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* The helper is killed, whatever it does; its process is waited for later. */
static void end_helper(struct jobwriter *w)
{
    drop_event(&w->replies);
    drop_event(&w->words_event);
    drop_fd(&w->socket);
    drop_fd(&w->words_fd);
    (void)evtimer_del(w->deadline);
    if (w->pid == NO_PROCESS)
        return;
    (void)kill(w->pid, SIGKILL);
    w->dying = w->pid;
    w->pid = NO_PROCESS;
    reap(-1, 0, w);
}

static void fail(struct jobwriter *w, const char *reason)
{
    bool was_busy = w->busy;

    w->busy = false;
    end_helper(w);
    if (was_busy)
        w->done(w->arg, NULL, reason);
}

static void too_late(evutil_socket_t fd, short what, void *arg)
{
    struct jobwriter *w = arg;
    char reason[160 + WORDS_SIZE];

    (void)fd;
    (void)what;
    hear_words(w->words_fd, 0, w);
    (void)snprintf(reason, sizeof(reason), "no answer within %u s%s%s", w->timeout_ms / 1000,
                   w->words_length > 0 ? "; its last words: " : "", last_line(w));
    fail(w, reason);
}

static void on_death(struct jobwriter *w)
{
    char reason[160 + WORDS_SIZE];

    if (!w->busy) { /* it was idle for long, and ended */
        end_helper(w);
        return;
    }
    hear_words(w->words_fd, 0, w);
    (void)snprintf(reason, sizeof(reason), SLURMJOB_PROGRAM " ended%s%s",
                   w->words_length > 0 ? ": " : " without a word", last_line(w));
    fail(w, reason);
}

/* ---- replies ------------------------------------------------------------------------------- */

static bool is_sound(const struct jobwriter *w, ssize_t length)
{
    const struct slurmjob_reply *r = &w->reply;

    return length == (ssize_t)sizeof(*r) && r->version == SLURMJOB_VERSION &&
           r->serial == w->serial && memchr(r->found, '\0', sizeof(r->found)) != NULL &&
           memchr(r->reason, '\0', sizeof(r->reason)) != NULL;
}

static void on_reply(evutil_socket_t fd, short what, void *arg)
{
    struct jobwriter *w = arg;
    ssize_t length = recv((int)fd, &w->reply, sizeof(w->reply), MSG_TRUNC | MSG_DONTWAIT);

    (void)what;
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (length <= 0) {
        on_death(w);
        return;
    }
    if (!w->busy || !is_sound(w, length)) {
        fail(w, SLURMJOB_PROGRAM " is of another version than the controller");
        return;
    }
    w->busy = false;
    w->words_length = 0;
    w->words[0] = '\0';
    (void)evtimer_del(w->deadline);
    w->done(w->arg, &w->reply, "");
}

/* ---- starting ------------------------------------------------------------------------------ */

/* Beside our own program, as in the build folder, or where it is installed. */
static int find_program(const struct jobwriter *w, char *path, size_t size)
{
    ssize_t length;
    char *slash;
    int n;

    if (w->program != NULL) {
        n = snprintf(path, size, "%s", w->program);
        return n >= 0 && (size_t)n < size && access(path, X_OK) == 0 ? 0 : -1;
    }
    length = readlink("/proc/self/exe", path, size - 1);
    if (length > 0) {
        path[length] = '\0';
        slash = strrchr(path, '/');
        if (slash != NULL && (size_t)(slash - path) + sizeof("/" SLURMJOB_PROGRAM) <= size) {
            memcpy(slash, "/" SLURMJOB_PROGRAM, sizeof("/" SLURMJOB_PROGRAM));
            if (access(path, X_OK) == 0)
                return 0;
        }
    }
    n = snprintf(path, size, "%s", ADL_PKGLIBEXECDIR "/" SLURMJOB_PROGRAM);
    return n >= 0 && (size_t)n < size && access(path, X_OK) == 0 ? 0 : -1;
}

/* Its signals as a new process expects them, its standard input our socket, no output. */
static int spawn(const char *path, int socket, int words, pid_t *pid)
{
    char *argv[] = {(char[]){SLURMJOB_PROGRAM}, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int rc;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return rc;
    rc = posix_spawnattr_init(&attributes);
    if (rc == 0) {
        rc = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        if (rc == 0)
            rc = posix_spawnattr_setsigmask(&attributes, &none);
        if (rc == 0)
            rc = posix_spawnattr_setsigdefault(&attributes, &all);
        if (rc == 0)
            rc = posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
        if (rc == 0)
            rc =
                posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
        if (rc == 0)
            rc = posix_spawn_file_actions_adddup2(&actions, words, STDERR_FILENO);
        if (rc == 0)
            rc = posix_spawn(pid, path, &actions, &attributes, argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return rc;
}

static int watch(struct jobwriter *w)
{
    w->replies = event_new(w->base, w->socket, EV_READ | EV_PERSIST, on_reply, w);
    w->words_event = event_new(w->base, w->words_fd, EV_READ | EV_PERSIST, hear_words, w);
    return w->replies != NULL && w->words_event != NULL && event_add(w->replies, NULL) == 0 &&
                   event_add(w->words_event, NULL) == 0
               ? 0
               : -1;
}

static int start_helper(struct jobwriter *w, char *reason, size_t reason_size)
{
    char path[PATH_MAX];
    int sockets[2] = {-1, -1}, words[2] = {-1, -1}, rc;

    reap(-1, 0, w);
    if (w->dying != NO_PROCESS) {
        (void)snprintf(reason, reason_size, "the last " SLURMJOB_PROGRAM " is not gone yet");
        return -1;
    }
    if (find_program(w, path, sizeof(path)) < 0) {
        (void)snprintf(reason, reason_size, "cannot run %s: %s", path, strerror(errno));
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0 ||
        pipe2(words, O_CLOEXEC) < 0 || fcntl(words[0], F_SETFL, O_NONBLOCK) < 0)
        rc = errno;
    else
        rc = spawn(path, sockets[1], words[1], &w->pid);
    drop_fd(&sockets[1]);
    drop_fd(&words[1]);
    if (rc != 0) {
        drop_fd(&sockets[0]);
        drop_fd(&words[0]);
        w->pid = NO_PROCESS;
        (void)snprintf(reason, reason_size, "cannot start %s: %s", path, strerror(rc));
        return -1;
    }
    w->socket = sockets[0];
    w->words_fd = words[0];
    w->words_length = 0;
    w->words[0] = '\0';
    if (watch(w) < 0) {
        end_helper(w);
        (void)snprintf(reason, reason_size, "out of memory");
        return -1;
    }
    return 0;
}

static bool hand_over(const struct jobwriter *w, const struct slurmjob_request *request)
{
    return send(w->socket, request, sizeof(*request), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)sizeof(*request);
}

int jobwriter_send(struct jobwriter *w, struct slurmjob_request *request, char *reason,
                   size_t reason_size)
{
    const struct timeval limit = {(time_t)(w->timeout_ms / 1000),
                                  (suseconds_t)(w->timeout_ms % 1000 * 1000)};
    bool sent;

    request->version = SLURMJOB_VERSION;
    request->serial = ++w->serial;
    sent = w->pid != NO_PROCESS && hand_over(w, request);
    if (!sent) { /* none, or it has ended in the meantime */
        end_helper(w);
        if (start_helper(w, reason, reason_size) < 0)
            return -1;
        sent = hand_over(w, request);
    }
    if (!sent || evtimer_add(w->deadline, &limit) < 0) {
        (void)snprintf(reason, reason_size, SLURMJOB_PROGRAM " does not listen: %s",
                       strerror(errno));
        end_helper(w);
        return -1;
    }
    w->busy = true;
    return 0;
}

bool jobwriter_busy(const struct jobwriter *w)
{
    return w->busy;
}

/* ---- init, fini ---------------------------------------------------------------------------- */

struct jobwriter *jobwriter_new(struct event_base *base, const char *program, unsigned timeout_ms,
                                jobwriter_done done, void *arg)
{
    struct jobwriter *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->base = base;
    w->timeout_ms = timeout_ms;
    w->done = done;
    w->arg = arg;
    w->pid = w->dying = NO_PROCESS;
    w->socket = w->words_fd = -1;
    w->program = program != NULL ? strdup(program) : NULL;
    w->deadline = evtimer_new(base, too_late, w);
    w->reap = evtimer_new(base, reap, w);
    if (w->deadline == NULL || w->reap == NULL || (program != NULL && w->program == NULL)) {
        jobwriter_free(w);
        return NULL;
    }
    return w;
}

void jobwriter_free(struct jobwriter *w)
{
    if (w == NULL)
        return;
    w->busy = false;
    if (w->deadline != NULL && w->reap != NULL)
        end_helper(w);
    drop_event(&w->deadline);
    drop_event(&w->reap);
    free(w->program);
    free(w);
}
