/*
 * Raw samples: pixels without compression, behind a header of 16 bytes ("ADLRAW1" and a zero byte,
 * width and height as little-endian 32-bit numbers), so that loading one costs reading it.
 */
#ifndef ADLTRAIN_RAW_H
#define ADLTRAIN_RAW_H

#include "jpeg.h"

#define RAW_HEADER   16u
#define RAW_SIDE_MAX 4096u

/* RGB rows into new memory (free()). 0 or -1: out of memory. */
int raw_encode(const uint8_t *rgb, unsigned width, unsigned height, uint8_t **data, size_t *length);

/* Into an image, whose memory serves the next one too. 0, or -1 with a sentence in error
 * (JPEG_ERROR_MAX bytes). */
int raw_decode(const void *data, size_t length, struct jpeg_image *image, char *error);

#endif
