/*
 * Documents that users write, for `allocate` and `simulate`: where a controller's answer may hold
 * keys that we do not know yet, a key that a user misspelt must not be passed over in silence, nor
 * one that is said twice, of which json-c keeps the last.
 */
#ifndef ADLOADER_STRICT_H
#define ADLOADER_STRICT_H

#include "doc.h"

#define STRICT_BYTES_MAX (64u * 1024u * 1024u)

/* The file, or standard input for "-", as text of its own (free it). NULL after a sentence in
 * error. */
char *strict_read(const char *path, size_t *length, char *error, size_t error_size);

/* doc_parse(), and every key has to be in the rules, and once in its object. */
struct json_object *strict_parse(const char *text, size_t length, const struct doc_rule *rules,
                                 char *error, size_t error_size);

#endif
