/*
 * The files of a data set: all files of a kind below a folder, in an order that is the same on
 * every node (sorted by path), and reading one of them, whole or in part.
 */
#ifndef ADLTRAIN_FILES_H
#define ADLTRAIN_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILES_ERROR_MAX 512
#define FILES_DEPTH_MAX 8u
#define FILES_COUNT_MAX 100000000u
#define FILES_BYTES_MAX (64u * 1024u * 1024u) /* of one file */

struct files {
    char **paths;
    uint32_t count;
};

struct files_kind {
    const char *endings[2];  /* of names, in whatever case; the second may be NULL */
    const char *how_to_make; /* arguments of adltrain, with %s for the folder */
};

/* 0, or -1 with a sentence in error (FILES_ERROR_MAX bytes). No file at all is an error. */
int files_list(const char *folder, const struct files_kind *kind, struct files *files, char *error);
void files_free(struct files *files);

/* A file's bytes, in memory that serves the next file too. Zero-initialise it. */
struct file_bytes {
    uint8_t *data;
    size_t length, capacity;
};

int file_read(const char *path, struct file_bytes *bytes, char *error);
/* cold: the pages that are read are dropped from the cache before and after, as far as the file
 * system does that. */
int file_read_whole(const char *path, bool cold, struct file_bytes *bytes, char *error);
/* A part of an open file, whose path is for messages. What lies behind its end is missing. */
int file_read_part(int fd, const char *path, uint64_t offset, uint64_t length, bool cold,
                   struct file_bytes *bytes, char *error);
void file_bytes_free(struct file_bytes *bytes);

/* Write a file so that it is there whole or not at all. */
int file_write_atomically(const char *path, const void *data, size_t length, char *error);

#endif
