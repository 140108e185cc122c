/* Documents that users write: see strict.h. */
#include "config.h"

#include "strict.h"

#include "suggest.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULES_MAX 64

static char *read_all(FILE *file, size_t *length)
{
    size_t capacity = 65536, used = 0;
    char *text = malloc(capacity);

    while (text != NULL) {
        size_t n = fread(text + used, 1, capacity - used, file);

        used += n;
        if (n == 0)
            break;
        if (used == capacity) {
            char *more = capacity < STRICT_BYTES_MAX ? realloc(text, 2 * capacity) : NULL;

            if (more == NULL) {
                free(text);
                errno = EFBIG;
                return NULL;
            }
            text = more;
            capacity *= 2;
        }
    }
    if (text != NULL && ferror(file)) {
        free(text);
        return NULL;
    }
    *length = used;
    return text;
}

char *strict_read(const char *path, size_t *length, char *error, size_t error_size)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    char *text = file != NULL ? read_all(file, length) : NULL;

    if (text == NULL)
        snprintf(error, error_size, "%s: %s", standard ? "standard input" : path, strerror(errno));
    if (file != NULL && !standard)
        (void)fclose(file);
    return text;
}

static const struct doc_rule *find_rule(const struct doc_rule *rules, const char *key)
{
    for (; rules != NULL && rules->key != NULL; rules++)
        if (strcmp(rules->key, key) == 0)
            return rules;
    return NULL;
}

static void say_unknown(const char *path, const char *key, const struct doc_rule *rules,
                        char *error, size_t size)
{
    const char *names[RULES_MAX];
    char hint[256];
    size_t n = 0;

    for (; rules != NULL && rules->key != NULL && n < RULES_MAX; rules++)
        names[n++] = rules->key;
    suggest(key, "", names, n, hint, sizeof(hint));
    snprintf(error, size, "%s%.64s is not a known key.%s", path, key, hint);
}

static bool only_known(struct json_object *object, const struct doc_rule *rules, const char *path,
                       char *error, size_t size)
{
    json_object_object_foreach(object, key, value)
    {
        const struct doc_rule *rule = find_rule(rules, key);
        char here[256];

        if (rule == NULL) {
            say_unknown(path, key, rules, error, size);
            return false;
        }
        if (rule->type == DOC_OBJECT && value != NULL) {
            snprintf(here, sizeof(here), "%s%s.", path, key);
            if (!only_known(value, rule->rules, here, error, size))
                return false;
        }
        for (size_t i = 0; rule->type == DOC_OBJECTS && i < doc_count(value); i++) {
            snprintf(here, sizeof(here), "%s%s[%zu].", path, key, i);
            if (!only_known(doc_at(value, i), rule->rules, here, error, size))
                return false;
        }
    }
    return true;
}

/* ---- keys said twice, which the parsed document no longer shows ------------------------------ */

struct scan { /* of a text that json-c took, so that its grammar is known to be right */
    const char *at, *end;
    unsigned line;
    struct json_object *keys[DOC_DEPTH_MAX + 1]; /* of each open container, as an object's own */
    size_t depth;
    bool twice; /* said in error */
    char *error;
    size_t error_size;
};

/* The string whose opening quote is at scan->at, which goes behind it: its length with both quotes.
 */
static size_t pass_string(struct scan *s)
{
    const char *start = s->at++;

    while (s->at < s->end && *s->at != '"')
        s->at += *s->at == '\\' && s->at + 1 < s->end ? 2 : 1;
    if (s->at < s->end)
        s->at++;
    return (size_t)(s->at - start);
}

static bool is_colon_next(const struct scan *s)
{
    const char *at = s->at;

    while (at < s->end && strchr(" \t\r\n", *at) != NULL)
        at++;
    return at < s->end && *at == ':';
}

/* Adds it to the open object's keys; false: it is among them, or there is no memory. As an object's
 * only key, json-c reads it like the document's. */
static bool note_key(struct scan *s, const char *quoted, size_t length)
{
    struct json_object *keys = s->keys[s->depth], *one = NULL;
    size_t size = length + sizeof("{:0}");
    char *text = malloc(size);
    bool good = false;

    if (text != NULL && snprintf(text, size, "{%.*s:0}", (int)length, quoted) > 0)
        one = json_tokener_parse(text);
    free(text);
    if (one == NULL)
        return false;
    json_object_object_foreach(one, key, value)
    {
        (void)value;
        s->twice = json_object_object_get_ex(keys, key, NULL);
        if (s->twice)
            snprintf(s->error, s->error_size, "line %u: %.64s stands twice in one object", s->line,
                     key);
        else
            good = json_object_object_add(keys, key, NULL) == 0;
    }
    json_object_put(one);
    return good;
}

static bool open_container(struct scan *s)
{
    if (s->depth == DOC_DEPTH_MAX)
        return false;
    s->keys[++s->depth] = json_object_new_object();
    return s->keys[s->depth] != NULL;
}

static void close_container(struct scan *s)
{
    if (s->depth > 0)
        json_object_put(s->keys[s->depth--]);
}

static bool scan_next(struct scan *s)
{
    const char *start = s->at;
    size_t length;

    switch (*start) {
    case '"':
        length = pass_string(s);
        return !is_colon_next(s) || s->depth == 0 || note_key(s, start, length);
    case '{':
    case '[':
        s->at++;
        return open_container(s);
    case '}':
    case ']':
        close_container(s);
        break;
    case '\n':
        s->line++;
        break;
    default:
        break;
    }
    s->at++;
    return true;
}

static bool each_once(const char *text, size_t length, char *error, size_t size)
{
    struct scan s = {
        .at = text, .end = text + length, .line = 1, .error = error, .error_size = size};
    bool good = true;

    while (good && s.at < s.end && *s.at != '\0') /* where json-c ends, too */
        good = scan_next(&s);
    while (s.depth > 0)
        close_container(&s);
    if (!good && !s.twice)
        snprintf(error, size, "not enough memory");
    return good;
}

/* ---- the whole ------------------------------------------------------------------------------- */

struct json_object *strict_parse(const char *text, size_t length, const struct doc_rule *rules,
                                 char *error, size_t error_size)
{
    struct json_object *document = doc_parse(text, length, rules, error, error_size);

    if (document == NULL || (only_known(document, rules, "", error, error_size) &&
                             each_once(text, length, error, error_size)))
        return document;
    json_object_put(document);
    return NULL;
}
