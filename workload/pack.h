/*
 * Packed samples: few big files, pack-NNNNN.bin, with the samples one after the other, each beside
 * an index, pack-NNNNN.idx: a header of 24 bytes ("ADLPACK1", format and version as 32-bit numbers,
 * the count as a 64-bit one) and for each sample its offset and length in 64 bits; little-endian.
 */
#ifndef ADLTRAIN_PACK_H
#define ADLTRAIN_PACK_H

#include "files.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* How a sample is written. The numbers are those in files. */
enum sample_format { SAMPLE_JPEG, SAMPLE_RAW, SAMPLE_TOKENS, SAMPLE_FORMATS };

struct pack_entry {
    uint64_t offset, length;
};

struct pack_index {
    enum sample_format format;
    uint32_t count;
    struct pack_entry *entries;
};

/*
 * An index, every entry of which lies within data_bytes and is no longer than a file may be. 0, or
 * -1 with a sentence in error (FILES_ERROR_MAX bytes).
 */
int pack_index_read(const char *path, uint64_t data_bytes, struct pack_index *index, char *error);
void pack_index_free(struct pack_index *index);

/* Writes an index in one piece; 0 or -1 as above. */
int pack_index_write(const char *path, const struct pack_index *index, char *error);

/* A pack being written: samples are added, then data and index are put in place together. */
struct pack_writer {
    char *path, *temporary; /* of the data */
    FILE *file;
    struct pack_index index;
    uint32_t capacity;
    uint64_t bytes;
};

int pack_writer_open(struct pack_writer *writer, const char *path, enum sample_format format,
                     uint32_t capacity, char *error);
int pack_writer_add(struct pack_writer *writer, const void *data, size_t length, char *error);
/* index_path: of the index. Whether it succeeds or not, the writer is closed. */
int pack_writer_finish(struct pack_writer *writer, const char *index_path, char *error);
/* Nothing of it stays. */
void pack_writer_abandon(struct pack_writer *writer);

#endif
