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

struct json_object *strict_parse(const char *text, size_t length, const struct doc_rule *rules,
                                 char *error, size_t error_size)
{
    struct json_object *document = doc_parse(text, length, rules, error, error_size);

    if (document == NULL || only_known(document, rules, "", error, error_size))
        return document;
    json_object_put(document);
    return NULL;
}
