/*
 * What training does to a decoded image: random-resized crop, horizontal flip, normalisation to
 * floats in channel-height-width order; the usual recipe for ImageNet (crop area 8-100 %, aspect
 * 3/4 to 4/3, bilinear; mean and deviation per channel).
 */
#ifndef ADLTRAIN_AUGMENT_H
#define ADLTRAIN_AUGMENT_H

#include "jpeg.h"
#include "rng.h"

#include <stdbool.h>

#define AUGMENT_SIDE_MAX 1024u

struct augment_crop {
    unsigned x, y, width, height; /* inside the image, at least 1 x 1 */
    bool flip;
};

/* Draw the crop for an image of that size. */
struct augment_crop augment_draw(struct rng *rng, unsigned width, unsigned height);

/* Write 3 * side * side floats (side at most AUGMENT_SIDE_MAX). */
void augment_apply(const struct jpeg_image *image, const struct augment_crop *crop, unsigned side,
                   float *out);

#endif
