/*
 * Recorded machines and measured tables that are not part of the project: in $ADLOADER_SHARED or in
 * ../shared beside the source tree. Tests that need them skip where they are absent.
 */
#ifndef ADLOADER_TEST_SHARED_H
#define ADLOADER_TEST_SHARED_H

#include <stdbool.h>
#include <stddef.h>

/* The path of a file there; false, with a word on stdout, if it cannot be read. */
bool shared_path(char *path, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A whole file; NULL if it cannot be read. Free with free(). */
char *shared_read(const char *path, size_t *length);

#endif
