/*
 * Small text files of key=value lines that people may read and edit: profiles and calibrations. One
 * table describes a struct's fields for both directions. Text from a file is hostile: bounded,
 * every number within its bounds, no unknown or repeated key, every complaint with its line.
 */
#ifndef ADLOADER_PREDICTOR_KEYVALUE_H
#define ADLOADER_PREDICTOR_KEYVALUE_H

#include <stdbool.h>
#include <stddef.h>

#define PRED_KV_FIELDS_MAX 64
#define PRED_KV_TEXT_MAX   16384 /* bytes of a whole file */

struct pred_kv_field {
    const char *key;     /* NULL ends a table */
    size_t offset;       /* of a double, or of char[text_size] */
    size_t text_size;    /* 0: a number */
    double low, high;    /* bounds of a number; unknown (NAN) is written as no line at all */
    const char *comment; /* after the value, for people */
};

/* Starts from all unknown (NAN, ""). 0, or -1 with a sentence in error. text need not end in NUL.
 */
int pred_kv_parse(const char *text, size_t length, const struct pred_kv_field *fields, void *object,
                  char *error, size_t size);

/* All fields unknown. */
void pred_kv_clear(const struct pred_kv_field *fields, void *object);

/* Writes at most size bytes with the final NUL; returns the length needed, like snprintf. */
int pred_kv_format(const struct pred_kv_field *fields, const void *object, const char *head,
                   char *text, size_t size);

/* A whole file, at most PRED_KV_TEXT_MAX bytes: its length, or -1 (errno, and a sentence in error).
 */
long pred_kv_read_file(const char *path, char *text, char *error, size_t size);

/* Whole or not at all: a new file beside it, renamed over it, mode 0644; sync: and on the disk,
 * which may take long. 0, or -1 with a sentence in error. */
int pred_kv_write_file(const char *path, const char *text, bool sync, char *error, size_t size);

#endif
