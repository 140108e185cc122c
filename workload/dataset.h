/*
 * Making a data set of photograph-like pictures, as JPEG or raw (raw.h), or of texts
 * (tokens.h), one a file (DIR/class-NNN/image-NNNNNNNN.jpg, .raw or .tokens) or packed
 * (DIR/pack-NNNNN.bin and .idx, pack.h). Picture number i depends on the seed and i alone, so that
 * a data set can be made by many threads, continued after an interruption, extended, and made again
 * elsewhere with the same bytes (by the same libjpeg). DIR/dataset.json says what it holds.
 */
#ifndef ADLTRAIN_DATASET_H
#define ADLTRAIN_DATASET_H

#include "pack.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct dataset_config {
    const char *folder;
    uint32_t images;
    uint64_t seed;
    enum sample_format format;
    double mean_kb;   /* JPEG: mean size, 1000 bytes */
    unsigned side;    /* raw: pixels */
    unsigned length;  /* tokens of a sample */
    unsigned classes; /* folders */
    uint32_t pack;    /* pictures in a packed file; 0: one a file */
    unsigned jobs;    /* threads */
};

struct dataset_result {
    uint32_t made, kept; /* pictures; kept: were there already */
    uint64_t bytes;      /* of the pictures made */
};

/*
 * 0; 1 if it was stopped by *stop becoming nonzero (files made so far stay, it can be continued);
 * or -1 with the reason in the log.
 */
int dataset_make(const struct dataset_config *config, atomic_int *stop,
                 struct dataset_result *result);

/* One picture's bytes in new memory; 0 or -1 with the reason in the log. */
int dataset_picture(const struct dataset_config *config, uint32_t number, uint8_t **data,
                    size_t *length);

#endif
