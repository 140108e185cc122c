/* Messages for people: level, target, one clean line each. */
#include "log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>
#include <unistd.h>

#define LINE_MAX_BYTES 1024 /* of a message with its NUL; longer ones end in "..." */
#define IDENT_MAX      64

enum target { TARGET_STDERR, TARGET_SYSLOG, TARGET_SINK };

/* Set by the main thread before others log; atomic so that a late change is no data race. */
static _Atomic(enum target) current_target = TARGET_STDERR;
static _Atomic(enum log_level) current_level = LOG_LEVEL_INFO;
static _Atomic(log_sink) current_sink;
static char current_ident[IDENT_MAX]; /* syslog keeps a pointer to it */

static const char *const level_names[] = {
    [LOG_LEVEL_ERROR] = "error",
    [LOG_LEVEL_WARNING] = "warning",
    [LOG_LEVEL_INFO] = "info",
    [LOG_LEVEL_DEBUG] = "debug",
};
#define NLEVELS (sizeof(level_names) / sizeof(level_names[0]))

static void keep_ident(const char *ident)
{
    (void)snprintf(current_ident, sizeof(current_ident), "%s", ident ? ident : "");
}

void log_to_stderr(const char *ident)
{
    keep_ident(ident);
    atomic_store(&current_target, TARGET_STDERR);
}

void log_to_syslog(const char *ident)
{
    keep_ident(ident);
    openlog(current_ident[0] ? current_ident : NULL, LOG_PID, LOG_DAEMON);
    atomic_store(&current_target, TARGET_SYSLOG);
}

void log_to_sink(log_sink sink)
{
    atomic_store(&current_sink, sink);
    atomic_store(&current_target, sink ? TARGET_SINK : TARGET_STDERR);
}

void log_set_level(enum log_level level)
{
    atomic_store(&current_level, level);
}

enum log_level log_get_level(void)
{
    return atomic_load(&current_level);
}

const char *log_level_name(enum log_level level)
{
    return (size_t)level < NLEVELS ? level_names[level] : "unknown";
}

int log_level_parse(const char *name)
{
    for (size_t i = 0; name && i < NLEVELS; i++)
        if (!strcasecmp(name, level_names[i]))
            return (int)i;
    return -1;
}

/* Control characters of ASCII and, in UTF-8 (C2 80..9F), of Latin-1: terminals obey both. */
static void replace_controls(char *line)
{
    for (unsigned char *c = (unsigned char *)line; *c; c++) {
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
        else if (*c == 0xc2 && c[1] >= 0x80 && c[1] <= 0x9f)
            c[0] = c[1] = '?';
    }
}

/* One write, so that lines of several threads and processes do not mix. */
static void write_stderr(enum log_level level, const char *message)
{
    char line[IDENT_MAX + 16 + LINE_MAX_BYTES];
    int length = snprintf(line, sizeof(line), "%s%s%s: %s\n", current_ident,
                          current_ident[0] ? ": " : "", level_names[level], message);
    if (length < 0)
        return;
    for (size_t done = 0; done < (size_t)length;) {
        ssize_t n = write(STDERR_FILENO, line + done, (size_t)length - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* nowhere left to complain */
        done += (size_t)n;
    }
}

static void deliver(enum log_level level, const char *message)
{
    static const int priorities[] = {
        [LOG_LEVEL_ERROR] = LOG_ERR,
        [LOG_LEVEL_WARNING] = LOG_WARNING,
        [LOG_LEVEL_INFO] = LOG_INFO,
        [LOG_LEVEL_DEBUG] = LOG_DEBUG,
    };
    switch (atomic_load(&current_target)) {
    case TARGET_STDERR:
        write_stderr(level, message);
        break;
    case TARGET_SYSLOG:
        syslog(priorities[level], "%s", message);
        break;
    case TARGET_SINK:
        atomic_load (&current_sink)(level, message);
        break;
    }
}

static void log_message(enum log_level level, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void log_message(enum log_level level, const char *format, va_list args)
{
    if (level > atomic_load(&current_level))
        return;
    int saved_errno = errno;
    char message[LINE_MAX_BYTES];
    int length = vsnprintf(message, sizeof(message), format, args);
    if (length < 0)
        (void)snprintf(message, sizeof(message), "a message that cannot be formatted");
    else if ((size_t)length >= sizeof(message))
        memcpy(message + sizeof(message) - sizeof("..."), "...", sizeof("..."));
    replace_controls(message);
    deliver(level, message);
    errno = saved_errno;
}

#define DEFINE_LOG(name, level)                                                                    \
    void name(const char *format, ...)                                                             \
    {                                                                                              \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        log_message(level, format, args);                                                          \
        va_end(args);                                                                              \
    }

DEFINE_LOG(log_error, LOG_LEVEL_ERROR)
DEFINE_LOG(log_warning, LOG_LEVEL_WARNING)
DEFINE_LOG(log_info, LOG_LEVEL_INFO)
DEFINE_LOG(log_debug, LOG_LEVEL_DEBUG)
