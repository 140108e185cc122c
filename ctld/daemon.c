/* Being a daemon. See daemon.h. */
#include "config.h"

#include "daemon.h"

#include "clock.h"
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define READY_BYTE '\001'

/* ---- the parent that waits ----------------------------------------------------------------- */

/* Reads what the daemon has to say and ends the parent with it. */
static void wait_for_daemon(int from) __attribute__((noreturn));
static void wait_for_daemon(int from)
{
    char text[1024];
    size_t length = 0;

    while (length < sizeof(text) - 1) {
        ssize_t n = read(from, text + length, sizeof(text) - 1 - length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        if (text[length] == READY_BYTE)
            _exit(EXIT_SUCCESS);
        length += (size_t)n;
    }
    text[length] = '\0';
    (void)fprintf(stderr, "adloaderctld: %s\n",
                  length > 0 ? text : "the daemon died before it was ready; see its log");
    _exit(EXIT_FAILURE);
}

static int null_streams(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0)
        return -1;
    for (int fd = 0; fd <= 2; fd++)
        if (dup2(null, fd) < 0)
            return -1;
    return null > 2 ? close(null) : 0;
}

int daemon_detach(struct daemon *daemon)
{
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        (void)fprintf(stderr, "adloaderctld: cannot go into the background: %s\n", strerror(errno));
        return -1;
    }
    if (pid > 0) {
        (void)close(ends[1]);
        wait_for_daemon(ends[0]);
    }
    (void)close(ends[0]);
    daemon->starter = ends[1];
    /* A new session, and no leader of it, so that no terminal can ever be ours. */
    if (setsid() < 0 || (pid = fork()) < 0) {
        daemon_failed(daemon, "cannot go into the background");
        _exit(EXIT_FAILURE);
    }
    if (pid > 0)
        _exit(EXIT_SUCCESS);
    (void)umask(022); /* whatever the starter's was */
    if (chdir("/") < 0 || null_streams() < 0) {
        daemon_failed(daemon, "cannot leave the starter's folder and streams");
        _exit(EXIT_FAILURE);
    }
    return 0;
}

static void tell_starter(struct daemon *daemon, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(daemon->starter, text, length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* the starter is gone; so be it */
        text += n;
        length -= (size_t)n;
    }
    (void)close(daemon->starter);
    daemon->starter = -1;
}

void daemon_ready(struct daemon *daemon)
{
    const char byte = READY_BYTE;

    if (daemon->starter >= 0)
        tell_starter(daemon, &byte, 1);
    daemon_notify("READY=1\nSTATUS=Running");
}

void daemon_failed(struct daemon *daemon, const char *text)
{
    char status[600];

    if (daemon->starter >= 0)
        tell_starter(daemon, text, strlen(text));
    (void)snprintf(status, sizeof(status), "STATUS=%.512s", text);
    daemon_notify(status);
}

/* ---- systemd ------------------------------------------------------------------------------- */

void daemon_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length;
    int fd;

    if (path == NULL || (path[0] != '/' && path[0] != '@'))
        return;
    length = strlen(path);
    if (length >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, length);
    if (path[0] == '@') /* an abstract name */
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
        log_warning("cannot tell systemd: %s", strerror(errno));
    (void)close(fd);
}

void daemon_notify_reloading(void)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                   clock_monotonic_ns() / 1000);
    daemon_notify(text);
}

/* ---- pid file ------------------------------------------------------------------------------ */

static int fail(char *error, unsigned long size, const char *what, const char *path)
{
    (void)snprintf(error, size, "cannot %s the pid file %s: %s", what, path, strerror(errno));
    return -1;
}

/* Empty, or a number and nothing else: whatever else the path names is not overwritten. */
static bool is_pid_file(int fd)
{
    struct stat st;
    char text[32];
    ssize_t length;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size >= (off_t)sizeof(text))
        return false;
    length = pread(fd, text, sizeof(text) - 1, 0);
    if (length < 0)
        return false;
    text[length] = '\0';
    return strspn(text, "0123456789 \n") == (size_t)length;
}

const char *daemon_no_pid_file(const char *path)
{
    const char *trouble = NULL;
    struct stat st;
    int fd;

    if (lstat(path, &st) < 0)
        return NULL;
    if (!S_ISREG(st.st_mode))
        return S_ISDIR(st.st_mode) ? "is a folder" : "is no ordinary file";
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (!is_pid_file(fd))
        trouble = "holds something else than a process id";
    (void)close(fd);
    return trouble;
}

int daemon_pid_file(struct daemon *daemon, const char *path, char *error, unsigned long error_size)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char text[24];
    int length, fd;

    if (path[0] == '\0')
        return 0;
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return fail(error, error_size, "open", path);
    if (fcntl(fd, F_SETLK, &lock) < 0) {
        int taken = errno == EAGAIN || errno == EACCES;

        if (taken)
            (void)snprintf(error, error_size, "another controller holds the pid file %s", path);
        else
            (void)fail(error, error_size, "lock", path);
        (void)close(fd);
        return -1;
    }
    if (!is_pid_file(fd)) {
        (void)snprintf(error, error_size,
                       "PidFile %s holds something else than a process id: it is left alone; name "
                       "another file, or remove it",
                       path);
        (void)close(fd);
        return -1;
    }
    length = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) < 0 || write(fd, text, (size_t)length) != length) {
        (void)fail(error, error_size, "write", path);
        (void)close(fd);
        return -1;
    }
    daemon->pid_file = strdup(path); /* the configuration may be replaced */
    if (daemon->pid_file == NULL) {
        (void)fail(error, error_size, "remember", path);
        (void)close(fd);
        return -1;
    }
    daemon->pid_fd = fd;
    return 0;
}

/* Or has somebody put another file in its place? */
static bool is_pid_file_ours(const struct daemon *daemon)
{
    struct stat ours, there;

    return fstat(daemon->pid_fd, &ours) == 0 && lstat(daemon->pid_file, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

void daemon_fini(struct daemon *daemon)
{
    if (daemon->pid_fd >= 0) {
        if (!is_pid_file_ours(daemon))
            log_warning("%s is no longer the pid file that was written: it is left alone",
                        daemon->pid_file);
        else if (unlink(daemon->pid_file) < 0)
            log_warning("cannot remove the pid file %s: %s", daemon->pid_file, strerror(errno));
        (void)close(daemon->pid_fd);
        free(daemon->pid_file);
        daemon->pid_fd = -1;
    }
    if (daemon->starter >= 0)
        (void)close(daemon->starter);
    daemon->starter = -1;
}
