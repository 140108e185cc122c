/*
 * Messages for people: to stderr, to syslog (and so to the journal), or to a sink of the host
 * program (slurmstepd's own log in the plugin). One line a message; control characters are
 * replaced, so that hostile text cannot forge lines.
 */
#ifndef ADLOADER_LOG_H
#define ADLOADER_LOG_H

#include <stdarg.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

typedef void (*log_sink)(enum log_level level, const char *line);

/* Where messages go from now on. The default is stderr at LOG_LEVEL_INFO with no identity. */
void log_to_stderr(const char *ident);
void log_to_syslog(const char *ident);
void log_to_sink(log_sink sink);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* "error", "warning", "info", "debug" (any case) to a level, or -1. */
int log_level_parse(const char *name);
const char *log_level_name(enum log_level level);

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
