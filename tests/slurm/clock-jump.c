/*
 * Preloaded into a daemon: its wall clock differs from the host's by as many seconds as the file
 * ADL_CLOCK_JUMP.PROGRAM says, from the moment that this says so. The monotonic clock is the
 * host's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static char path[256];

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("ADL_CLOCK_JUMP");

    if (name != NULL)
        (void)snprintf(path, sizeof(path), "%s.%s", name, program_invocation_short_name);
}

static long jump(void)
{
    char text[32];
    int error = errno, fd = path[0] != '\0' ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

    if (fd >= 0)
        (void)close(fd);
    errno = error;
    if (length <= 0)
        return 0;
    text[length] = '\0';
    return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, now);

    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += jump();
    return rc;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    int rc = clock_gettime(CLOCK_REALTIME, &precise);

    (void)zone;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return rc;
}

time_t time(time_t *out)
{
    struct timespec precise;

    (void)clock_gettime(CLOCK_REALTIME, &precise);
    if (out != NULL)
        *out = precise.tv_sec;
    return precise.tv_sec;
}
