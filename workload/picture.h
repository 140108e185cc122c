/*
 * Synthesis of photograph-like pictures: what makes a JPEG decoder work is the spectrum of the
 * content, so a picture is a smooth scene (gradients), textures with a natural 1/f spectrum,
 * objects with hard edges, and sensor noise. Deterministic from the generator handed in.
 */
#ifndef ADLTRAIN_PICTURE_H
#define ADLTRAIN_PICTURE_H

#include "rng.h"

#include <stddef.h>
#include <stdint.h>

#define PICTURE_SIDE_MIN 64u
#define PICTURE_SIDE_MAX 2048u

struct picture {
    unsigned width, height;
    uint8_t *rgb; /* width * height * 3, rows without padding */
};

/*
 * Width and height as they are spread in ImageNet: about two thirds have a long side of 500, the
 * rest is smaller or larger; the mean is near 500 x 375.
 */
void picture_draw_size(struct rng *rng, unsigned *width, unsigned *height);

/* Paint a picture of that size (within PICTURE_SIDE_*). 0, or -1 on lack of memory. */
int picture_paint(struct rng *rng, unsigned width, unsigned height, struct picture *picture);

void picture_free(struct picture *picture);

#endif
