/* The controller's explanation of one job or step: checked and printed. */
#ifndef ADLOADER_EXPLAIN_H
#define ADLOADER_EXPLAIN_H

#include <stddef.h>
#include <stdio.h>

struct json_object;

/* Parse and check an answer. A new document, or NULL with a sentence in error. */
struct json_object *explain_parse(const char *text, size_t length, char *error, size_t error_size);

/* All of it in words, for people; 0 or -1 (no memory). */
int explain_print(struct json_object *document, FILE *out);

#endif
