/*
 * Samples of text: the numbers of its tokens, behind a header of 12 bytes ("ADLTOK1" and a zero
 * byte, and their count), all little-endian 32-bit numbers. A sample for training is a window of
 * some length at a random place of it.
 */
#ifndef ADLTRAIN_TOKENS_H
#define ADLTRAIN_TOKENS_H

#include "rng.h"

#include <stddef.h>
#include <stdint.h>

#define TOKENS_MAX       (1u << 20) /* of one sample */
#define TOKENS_ERROR_MAX 256

/* New memory (free()). 0 or -1: out of memory. */
int tokens_encode(const uint32_t *tokens, uint32_t count, uint8_t **data, size_t *length);

/* Writes wanted (at least 1) of them as floats. 0, or -1 with a sentence in error
 * (TOKENS_ERROR_MAX bytes). */
int tokens_window(const void *data, size_t length, struct rng *rng, uint32_t wanted, float *out,
                  char *error);

#endif
