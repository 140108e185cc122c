/*
 * JPEG files to RGB pixels and back, by libjpeg(-turbo). Input is hostile: sizes and the number of
 * scans are bounded, a truncated file is an error and not a grey picture, and no error of the
 * library ends the process.
 */
#ifndef ADLTRAIN_JPEG_H
#define ADLTRAIN_JPEG_H

#include <stddef.h>
#include <stdint.h>

#define JPEG_ERROR_MAX  256
#define JPEG_PIXELS_MAX (64u * 1024u * 1024u)

/* A decoded image, whose memory serves the next one too. Zero-initialise it. */
struct jpeg_image {
    unsigned width, height;
    uint8_t *rgb; /* rows of width * 3 bytes */
    size_t capacity;
};

/*
 * Decode data. min_side 0: at full size; otherwise at the smallest size (by scaling inside the
 * inverse DCT, 1/8 to 8/8) of which the shorter side is at least min_side. 0, or -1 with a
 * sentence in error (JPEG_ERROR_MAX bytes).
 */
int jpeg_decode(const void *data, size_t length, unsigned min_side, struct jpeg_image *image,
                char *error);

void jpeg_image_free(struct jpeg_image *image);

/* Encode RGB rows with a quality of 1..100 into new memory (free()). 0 or -1 as above. */
int jpeg_encode(const uint8_t *rgb, unsigned width, unsigned height, int quality, uint8_t **data,
                size_t *length, char *error);

#endif
