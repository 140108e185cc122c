/* Reading JSON that is not trusted: see doc.h. */
#include "config.h"

#include "doc.h"

#include <json-c/json.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Could parsing make more objects than we want to hold? Each value but the first is announced by a
 * comma or bracket, so that an upper bound is known before anything is made. */
static bool has_too_many_values(const char *text, size_t length)
{
    size_t commas = 0, brackets = 0;

    for (size_t i = 0; i < length; i++) {
        commas += text[i] == ',';
        brackets += text[i] == '[' || text[i] == '{';
    }
    return commas + brackets >= DOC_VALUES_MAX || brackets > DOC_CONTAINERS_MAX;
}

static bool is_type(struct json_object *value, enum doc_type type)
{
    switch (type) {
    case DOC_NUMBER:
        return json_object_is_type(value, json_type_int) ||
               (json_object_is_type(value, json_type_double) &&
                isfinite(json_object_get_double(value)));
    case DOC_TEXT:
        /* an embedded NUL would make one text look like another */
        return json_object_is_type(value, json_type_string) &&
               strlen(json_object_get_string(value)) == (size_t)json_object_get_string_len(value);
    case DOC_FLAG:
        return json_object_is_type(value, json_type_boolean);
    case DOC_OBJECT:
        return json_object_is_type(value, json_type_object);
    case DOC_OBJECTS:
    case DOC_NUMBERS:
    case DOC_TEXTS:
        return json_object_is_type(value, json_type_array);
    }
    return false;
}

static const char *type_name(enum doc_type type)
{
    switch (type) {
    case DOC_NUMBER:
        return "a number";
    case DOC_TEXT:
        return "a string";
    case DOC_FLAG:
        return "true or false";
    case DOC_OBJECT:
        return "an object";
    case DOC_OBJECTS:
    case DOC_NUMBERS:
    case DOC_TEXTS:
        return "an array";
    }
    return "?";
}

static bool check_object(struct json_object *object, const struct doc_rule *rules, const char *path,
                         char *error, size_t size);

/* The entries of an array: objects are checked by the rules, others by their type (null allowed).
 */
static bool check_entries(struct json_object *array, const struct doc_rule *rule, const char *path,
                          char *error, size_t size)
{
    enum doc_type type = rule->type == DOC_OBJECTS   ? DOC_OBJECT
                         : rule->type == DOC_NUMBERS ? DOC_NUMBER
                                                     : DOC_TEXT;

    for (size_t i = 0; i < json_object_array_length(array); i++) {
        struct json_object *entry = json_object_array_get_idx(array, i);
        char here[256];
        int n = snprintf(here, sizeof(here), "%s%s[%zu]", path, rule->key, i);
        if (n < 0 || (size_t)n >= sizeof(here))
            here[0] = '\0';
        if (entry == NULL && type != DOC_OBJECT)
            continue;
        if (entry == NULL || !is_type(entry, type)) {
            snprintf(error, size, "%s is not %s", here, type_name(type));
            return false;
        }
        if (type == DOC_OBJECT) {
            size_t used = strlen(here);
            if (used + 1 < sizeof(here))
                memcpy(here + used, ".", 2);
            if (!check_object(entry, rule->rules, here, error, size))
                return false;
        }
    }
    return true;
}

static bool check_object(struct json_object *object, const struct doc_rule *rules, const char *path,
                         char *error, size_t size)
{
    for (const struct doc_rule *r = rules; r != NULL && r->key != NULL; r++) {
        struct json_object *value = NULL;
        (void)json_object_object_get_ex(object, r->key, &value);
        if (value == NULL) {
            if (!r->required)
                continue;
            snprintf(error, size, "%s%s is missing", path, r->key);
            return false;
        }
        if (!is_type(value, r->type)) {
            snprintf(error, size, "%s%s is not %s", path, r->key, type_name(r->type));
            return false;
        }
        if (r->type == DOC_OBJECT) {
            char here[256];
            int n = snprintf(here, sizeof(here), "%s%s.", path, r->key);
            if (n < 0 || (size_t)n >= sizeof(here))
                here[0] = '\0';
            if (!check_object(value, r->rules, here, error, size))
                return false;
        } else if (json_object_is_type(value, json_type_array) &&
                   !check_entries(value, r, path, error, size)) {
            return false;
        }
    }
    return true;
}

static struct json_object *parse(const char *text, size_t length, char *error, size_t size)
{
    if (length > INT_MAX || has_too_many_values(text, length)) {
        snprintf(error, size, "the document is too large (%zu bytes)", length);
        return NULL;
    }
    struct json_tokener *tokener = json_tokener_new_ex(DOC_DEPTH_MAX);
    if (tokener == NULL) {
        snprintf(error, size, "not enough memory");
        return NULL;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *document = json_tokener_parse_ex(tokener, text, (int)length);
    enum json_tokener_error status = json_tokener_get_error(tokener);
    if (status == json_tokener_continue) /* a final number, or a document that is cut off */
        snprintf(error, size, "the document ends too early");
    else if (status != json_tokener_success)
        snprintf(error, size, "%s at byte %zu", json_tokener_error_desc(status),
                 json_tokener_get_parse_end(tokener));
    json_tokener_free(tokener);
    if (status != json_tokener_success) {
        json_object_put(document);
        return NULL;
    }
    return document;
}

struct json_object *doc_parse(const char *text, size_t length, const struct doc_rule *rules,
                              char *error, size_t error_size)
{
    if (error_size > 0)
        snprintf(error, error_size, "the document is null"); /* unless parse() knows better */
    struct json_object *document = parse(text, length, error, error_size);
    if (document == NULL)
        return NULL;
    if (!json_object_is_type(document, json_type_object))
        snprintf(error, error_size, "the document is not an object");
    else if (check_object(document, rules, "", error, error_size))
        return document;
    json_object_put(document);
    return NULL;
}

struct json_object *doc_member(struct json_object *object, const char *key)
{
    struct json_object *value = NULL;

    if (object == NULL || !json_object_object_get_ex(object, key, &value))
        return NULL;
    return value;
}

static double number(struct json_object *value)
{
    if (value == NULL || !is_type(value, DOC_NUMBER))
        return NAN;
    return json_object_get_double(value);
}

double doc_number(struct json_object *object, const char *key)
{
    return number(doc_member(object, key));
}

const char *doc_text(struct json_object *object, const char *key)
{
    struct json_object *value = doc_member(object, key);

    return value != NULL && is_type(value, DOC_TEXT) ? json_object_get_string(value) : NULL;
}

bool doc_flag(struct json_object *object, const char *key)
{
    struct json_object *value = doc_member(object, key);

    return value != NULL && is_type(value, DOC_FLAG) && json_object_get_boolean(value);
}

size_t doc_count(struct json_object *array)
{
    return array != NULL && json_object_is_type(array, json_type_array)
               ? json_object_array_length(array)
               : 0;
}

struct json_object *doc_at(struct json_object *array, size_t index)
{
    return index < doc_count(array) ? json_object_array_get_idx(array, index) : NULL;
}

double doc_number_at(struct json_object *array, size_t index)
{
    return number(doc_at(array, index));
}

const char *doc_text_at(struct json_object *array, size_t index)
{
    struct json_object *value = doc_at(array, index);

    return value != NULL && is_type(value, DOC_TEXT) ? json_object_get_string(value) : NULL;
}
