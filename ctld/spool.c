/* Records kept for the controller's next life. See spool.h. */
#include "config.h"

#include "spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME      "records"
#define JOBS_MAX  100000u
#define LINE_SIZE (3 * RECORD_TEXT_SIZE + 128)

struct spool {
    FILE *file;
    char path[PATH_MAX], fresh[PATH_MAX];
    size_t count;
    bool failed;
};

/* ---- writing ------------------------------------------------------------------------------- */

struct spool *spool_begin(const char *directory)
{
    struct spool *spool = calloc(1, sizeof(*spool));
    int fd;

    if (spool == NULL)
        return NULL;
    if ((size_t)snprintf(spool->path, sizeof(spool->path), "%s/" NAME, directory) >=
            sizeof(spool->path) ||
        (size_t)snprintf(spool->fresh, sizeof(spool->fresh), "%s/" NAME ".new", directory) >=
            sizeof(spool->fresh)) {
        free(spool);
        errno = ENAMETOOLONG;
        return NULL;
    }
    (void)unlink(spool->fresh);
    fd = open(spool->fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    spool->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (spool->file == NULL) {
        if (fd >= 0)
            (void)close(fd);
        free(spool);
        return NULL;
    }
    return spool;
}

/* Our texts have no spaces; nothing is "-". */
static const char *text_of(const struct record *record, char buf[RECORD_TEXT_SIZE])
{
    if (record_is_empty(record))
        return "-";
    (void)record_format(record, buf);
    return buf;
}

void spool_add(struct spool *spool, const struct spooled *s)
{
    char fresh[RECORD_TEXT_SIZE], asked[RECORD_TEXT_SIZE];
    int rc = fprintf(spool->file, "%" PRIu32 " %" PRIu32 " %" PRId64 " %s %s %s\n", s->job,
                     s->restart, s->moment_s, text_of(&s->fresh, fresh), text_of(&s->asked, asked),
                     s->text[0] != '\0' ? s->text : "-");

    spool->failed = spool->failed || rc < 0;
    spool->count++;
}

int spool_end(struct spool *spool)
{
    bool wanted = spool->count > 0 && !spool->failed;
    int rc = spool->failed ? -1 : 0, error;

    if (wanted && (fflush(spool->file) != 0 || fsync(fileno(spool->file)) < 0))
        rc = -1;
    error = errno;
    if (fclose(spool->file) != 0 && rc == 0) {
        rc = -1;
        error = errno;
    }
    if (rc == 0 && wanted && rename(spool->fresh, spool->path) < 0) {
        rc = -1;
        error = errno;
    }
    if (rc < 0 || !wanted)
        (void)unlink(spool->fresh);
    free(spool);
    errno = error;
    return rc;
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool parse_record(const char *text, struct record *record)
{
    char reason[RECORD_REASON_SIZE];

    memset(record, 0, sizeof(*record));
    return strcmp(text, "-") == 0 || record_parse(text, record, reason) == 0;
}

static bool parse_line(char *line, struct spooled *s)
{
    char *words[6], *state = NULL;
    struct record whole;

    line[strcspn(line, "\n")] = '\0';
    for (int i = 0; i < 6; i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " ", &state);
        if (words[i] == NULL)
            return false;
    }
    memset(s, 0, sizeof(*s));
    if (strtok_r(NULL, " ", &state) != NULL || sscanf(words[0], "%" SCNu32, &s->job) != 1 ||
        sscanf(words[1], "%" SCNu32, &s->restart) != 1 ||
        sscanf(words[2], "%" SCNd64, &s->moment_s) != 1 || s->job == 0 ||
        !parse_record(words[3], &s->fresh) || !parse_record(words[4], &s->asked) ||
        !parse_record(words[5], &whole) || strlen(words[5]) > RECORD_TEXT_MAX)
        return false;
    s->fresh.restart = s->asked.restart = s->restart;
    if (!record_is_empty(&whole))
        (void)snprintf(s->text, sizeof(s->text), "%s", words[5]);
    return !record_is_empty(&s->fresh) || !record_is_empty(&s->asked);
}

/* A file of ours: nobody else may have written it. */
static FILE *open_own(const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    FILE *file;

    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        (void)close(fd);
        return NULL;
    }
    file = fdopen(fd, "r");
    if (file == NULL)
        (void)close(fd);
    return file;
}

size_t spool_read(const char *directory, void (*take)(void *arg, const struct spooled *spooled),
                  void *arg, size_t *bad)
{
    char path[PATH_MAX], line[LINE_SIZE];
    size_t count = 0;
    struct spooled s;
    FILE *file;

    *bad = 0;
    if ((size_t)snprintf(path, sizeof(path), "%s/" NAME, directory) >= sizeof(path))
        return 0;
    file = open_own(path);
    if (file == NULL)
        return 0;
    while (count + *bad < JOBS_MAX && fgets(line, sizeof(line), file) != NULL) {
        if (!parse_line(line, &s)) {
            (*bad)++;
            continue;
        }
        take(arg, &s);
        count++;
    }
    (void)fclose(file);
    (void)unlink(path);
    return count;
}
