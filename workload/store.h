/*
 * Where samples are and how they are read: one a file, or packed into few big files; through the
 * page cache or past it; as fast as storage is or slower.
 */
#ifndef ADLTRAIN_STORE_H
#define ADLTRAIN_STORE_H

#include "files.h"
#include "pack.h"
#include "throttle.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum store_format { STORE_JPEG, STORE_RAW, STORE_TOKENS, STORE_PACKED };
enum store_cache {
    STORE_KEEP, /* the page cache as it is */
    STORE_WARM, /* all samples are read once beforehand */
    STORE_DROP  /* a sample's pages are dropped before and after it is read */
};

struct store_config {
    const char *folder;
    enum store_format format;
    enum store_cache cache;
    double bytes_per_s, latency_s; /* emulated storage; 0: as it is */
};

struct store_pack; /* a packed file */

struct store {
    struct store_config config;
    enum sample_format samples;
    uint32_t count;
    struct files files; /* of samples, or of packs */
    struct store_pack *packs;
    struct throttle throttle;
};

/* 0, or -1 with a sentence in error (FILES_ERROR_MAX bytes). No sample at all is an error. */
int store_open(const struct store_config *config, struct store *store, char *error);
void store_close(struct store *store);

/*
 * What the cache is to be before training starts: nothing for STORE_KEEP; all samples read once for
 * STORE_WARM; what is unwritten is written for STORE_DROP (only clean pages can be dropped). Ends
 * early when *stop becomes nonzero. 0, or -1 with a sentence in error.
 */
int store_prepare(struct store *store, const atomic_int *stop, char *error);

/* Sample number index (below count). From any number of threads. 0, or -1 with a sentence in error.
 */
int store_read(struct store *store, uint32_t index, struct file_bytes *bytes, char *error);

/* A sample's file, and for a packed one its number in it; text has size bytes. */
void store_name(const struct store *store, uint32_t index, char *text, size_t size);

#endif
