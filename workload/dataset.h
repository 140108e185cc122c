/*
 * Making a data set of photograph-like JPEG files: DIR/class-NNN/image-NNNNNNNN.jpg. File number i
 * depends on the seed and i alone, so that a data set can be made by many threads, continued after
 * an interruption, extended, and made again elsewhere with the same bytes (by the same libjpeg).
 * DIR/dataset.json says what it holds.
 */
#ifndef ADLTRAIN_DATASET_H
#define ADLTRAIN_DATASET_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct dataset_config {
    const char *folder;
    uint32_t images;
    uint64_t seed;
    double mean_kb;   /* mean file size, 1000 bytes */
    unsigned classes; /* folders */
    unsigned jobs;    /* threads */
};

struct dataset_result {
    uint32_t made, kept; /* kept: were there already */
    uint64_t bytes;      /* of the files made */
};

/*
 * 0; 1 if it was stopped by *stop becoming nonzero (files made so far stay, it can be continued);
 * or -1 with the reason in the log.
 */
int dataset_make(const struct dataset_config *config, atomic_int *stop,
                 struct dataset_result *result);

/* One file's bytes in new memory; 0 or -1 with the reason in the log. */
int dataset_image(uint64_t seed, uint32_t number, double mean_kb, uint8_t **data, size_t *length);

#endif
