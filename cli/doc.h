/*
 * Documents from the controller: JSON that is not trusted. doc_parse() bounds its size, depth and
 * number of values; doc_check() refuses what has the wrong type; after both, the readers below
 * cannot fail and give "unknown" (NAN, NULL) for what is absent or null.
 */
#ifndef ADLOADER_DOC_H
#define ADLOADER_DOC_H

#include <stdbool.h>
#include <stddef.h>

struct json_object;

#define DOC_DEPTH_MAX      16
#define DOC_VALUES_MAX     6000000u /* numbers, texts and so on; 100,000 members need 4 million */
#define DOC_CONTAINERS_MAX 1000000u /* objects and arrays, which cost most memory */

enum doc_type { DOC_NUMBER, DOC_TEXT, DOC_FLAG, DOC_OBJECT, DOC_OBJECTS, DOC_NUMBERS, DOC_TEXTS };

/* What a key must hold where it is there: the type, or null unless it is required. A table ends
 * with a NULL key. Keys not in the table may hold anything. */
struct doc_rule {
    const char *key;
    enum doc_type type;
    bool required;                /* must be there and not null */
    const struct doc_rule *rules; /* of the object, or of each object of the array */
};

/* Parse and check. Returns a new object (json_object_put() it), or NULL with a sentence in error.
 */
struct json_object *doc_parse(const char *text, size_t length, const struct doc_rule *rules,
                              char *error, size_t error_size);

/* Readers. Numbers: NAN when unknown. Texts: NULL when unknown; what they return belongs to the
 * document. Arrays: NULL when unknown, which doc_count() takes for empty. */
double doc_number(struct json_object *object, const char *key);
const char *doc_text(struct json_object *object, const char *key);
bool doc_flag(struct json_object *object, const char *key);
struct json_object *doc_member(struct json_object *object, const char *key);
size_t doc_count(struct json_object *array);
struct json_object *doc_at(struct json_object *array, size_t index);

/* The number at index of an array of numbers; NAN when there is none. */
double doc_number_at(struct json_object *array, size_t index);
const char *doc_text_at(struct json_object *array, size_t index);

#endif
