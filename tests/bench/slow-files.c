/*
 * For LD_PRELOAD: files whose names end in .jpg or .jpeg open slowly, as on a network file system
 * under load. SLOW_FILES_MS says how slowly, SLOW_FILES_AFTER_S from when on, after the first file.
 * The opening thread sleeps, it does not compute.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int (*open_call)(const char *, int, ...);

static int slow(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot != NULL && (strcmp(dot, ".jpg") == 0 || strcmp(dot, ".jpeg") == 0);
}

static long number_of(const char *variable)
{
    const char *told = getenv(variable);

    return told != NULL ? strtol(told, NULL, 10) : 0;
}

static void wait_a_little(void)
{
    static time_t first; /* threads may set it twice, to about the same */
    const long ms = number_of("SLOW_FILES_MS");
    struct timespec now = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (first == 0)
        first = now.tv_sec;
    if (now.tv_sec - first < number_of("SLOW_FILES_AFTER_S"))
        return;
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};

    if (ms > 0 && ms < 60000)
        (void)nanosleep(&pause, NULL);
}

static int open_really(const char *name, const char *path, int flags, mode_t mode)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    open_call call;

    memcpy(&call, &symbol, sizeof call);
    if (slow(path))
        wait_a_little();
    return call(path, flags, mode);
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...);                                                    \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list ap;                                                                                \
        mode_t mode = 0;                                                                           \
        va_start(ap, flags);                                                                       \
        if (flags & (O_CREAT | O_TMPFILE))                                                         \
            mode = va_arg(ap, mode_t);                                                             \
        va_end(ap);                                                                                \
        return open_really(#name, path, flags, mode);                                              \
    }

OPEN(open)
OPEN(open64)
