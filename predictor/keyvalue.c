/* See keyvalue.h. */
#include "config.h"

#include "keyvalue.h"
#include "replacefile.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void pred_kv_clear(const struct pred_kv_field *fields, void *object)
{
    for (const struct pred_kv_field *f = fields; f->key != NULL; f++) {
        char *at = (char *)object + f->offset;
        const double unknown = NAN;

        if (f->text_size > 0)
            *at = '\0';
        else
            memcpy(at, &unknown, sizeof(unknown));
    }
}

static char *trimmed(char *text)
{
    char *end;

    text += strspn(text, " \t");
    end = text + strlen(text);
    while (end > text && strchr(" \t\r", end[-1]) != NULL)
        *--end = '\0';
    return text;
}

static int complain(unsigned line, const char *what, const char *detail, char *error, size_t size)
{
    snprintf(error, size, "line %u: %s%s", line, what, detail);
    return -1;
}

static bool printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || (unsigned char)*text == 127)
            return false;
    return true;
}

static int store(const struct pred_kv_field *f, const char *value, void *object, unsigned line,
                 char *error, size_t size)
{
    char *at = (char *)object + f->offset, *end, bounds[96];
    double number;

    if (f->text_size > 0) {
        if (strlen(value) >= f->text_size || !printable(value))
            return complain(line, "too long or with odd characters: ", f->key, error, size);
        memcpy(at, value, strlen(value) + 1);
        return 0;
    }
    number = strtod(value, &end);
    if (end == value || *end != '\0' || !(number >= f->low && number <= f->high)) {
        snprintf(bounds, sizeof(bounds), "%s has to be a number from %g to %g", f->key, f->low,
                 f->high);
        return complain(line, bounds, "", error, size);
    }
    memcpy(at, &number, sizeof(number));
    return 0;
}

static int parse_line(char *line, unsigned number, const struct pred_kv_field *fields, bool *seen,
                      void *object, char *error, size_t size)
{
    char *comment = strchr(line, '#'), *equals, *key;

    if (comment != NULL)
        *comment = '\0';
    key = trimmed(line);
    if (*key == '\0')
        return 0;
    equals = strchr(key, '=');
    if (equals == NULL)
        return complain(number, "key=value is needed", "", error, size);
    *equals = '\0';
    key = trimmed(key);
    for (size_t i = 0; fields[i].key != NULL && i < PRED_KV_FIELDS_MAX; i++) {
        if (strcmp(fields[i].key, key) != 0)
            continue;
        if (seen[i])
            return complain(number, "a second time: ", fields[i].key, error, size);
        seen[i] = true;
        return store(&fields[i], trimmed(equals + 1), object, number, error, size);
    }
    return complain(number, "an unknown key", "", error, size);
}

int pred_kv_parse(const char *text, size_t length, const struct pred_kv_field *fields, void *object,
                  char *error, size_t size)
{
    bool seen[PRED_KV_FIELDS_MAX] = {false};
    char line[512];
    unsigned number = 0;

    pred_kv_clear(fields, object);
    if (length > PRED_KV_TEXT_MAX)
        return complain(1, "the file is too large", "", error, size);
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t n = end != NULL ? (size_t)(end - (text + at)) : length - at;

        number++;
        if (n >= sizeof(line) || memchr(text + at, '\0', n) != NULL)
            return complain(number, "too long, or not text", "", error, size);
        memcpy(line, text + at, n);
        line[n] = '\0';
        if (parse_line(line, number, fields, seen, object, error, size) != 0)
            return -1;
        at += n + 1;
    }
    return 0;
}

/* Appends as long as there is room; counts on. */
static void append(char *text, size_t size, size_t *used, const char *more)
{
    size_t n = strlen(more);

    if (*used < size)
        snprintf(text + *used, size - *used, "%s", more);
    *used += n;
}

int pred_kv_format(const struct pred_kv_field *fields, const void *object, const char *head,
                   char *text, size_t size)
{
    char line[512];
    size_t used = 0;

    append(text, size, &used, head);
    for (const struct pred_kv_field *f = fields; f->key != NULL; f++) {
        const char *at = (const char *)object + f->offset;
        double number = NAN;

        if (f->text_size > 0 && *at == '\0')
            continue;
        if (f->text_size == 0)
            memcpy(&number, at, sizeof(number));
        if (f->text_size > 0)
            snprintf(line, sizeof(line), "%s=%s\n", f->key, at);
        else if (isnan(number))
            continue;
        else
            snprintf(line, sizeof(line), "%s=%.10g%s%s\n", f->key, number,
                     f->comment != NULL ? "  # " : "", f->comment != NULL ? f->comment : "");
        append(text, size, &used, line);
    }
    return (int)used;
}

static long fail(const char *path, const char *what, char *error, size_t size)
{
    int saved = errno;

    snprintf(error, size, "%s %s: %s", path, what, strerror(saved));
    errno = saved;
    return -1;
}

long pred_kv_read_file(const char *path, char *text, char *error, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    long length = 0;

    if (fd < 0)
        return fail(path, "cannot be opened", error, size);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        errno = EINVAL;
        return fail(path, "is not a file", error, size);
    }
    while (length < PRED_KV_TEXT_MAX) {
        ssize_t n = read(fd, text + length, (size_t)(PRED_KV_TEXT_MAX - length));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            length = fail(path, "cannot be read", error, size);
            break;
        }
        if (n == 0)
            break;
        length += n;
    }
    close(fd);
    return length;
}

int pred_kv_write_file(const char *path, const char *text, bool sync, char *error, size_t size)
{
    if (replacefile(path, text, strlen(text), sync) == 0)
        return 0;
    int why = errno;

    snprintf(error, size, "%s cannot be written: %s", path, replacefile_error(why));
    errno = why;
    return -1;
}
