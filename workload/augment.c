/* Random-resized crop, flip, normalisation. */
#include "augment.h"

#include <math.h>

#define CROP_TRIES 10

struct augment_crop augment_draw(struct rng *rng, unsigned width, unsigned height)
{
    struct augment_crop crop;
    double area = (double)width * height;

    for (int i = 0; i < CROP_TRIES; i++) {
        double target = area * rng_range(rng, 0.08, 1.0);
        double aspect = exp(rng_range(rng, log(3.0 / 4.0), log(4.0 / 3.0)));
        unsigned w = (unsigned)lround(sqrt(target * aspect));
        unsigned h = (unsigned)lround(sqrt(target / aspect));

        if (w >= 1 && h >= 1 && w <= width && h <= height) {
            crop.width = w;
            crop.height = h;
            crop.x = rng_below(rng, width - w + 1);
            crop.y = rng_below(rng, height - h + 1);
            crop.flip = rng_unit(rng) < 0.5;
            return crop;
        }
    }
    /* a very long or very small image: the largest square in its middle */
    crop.width = crop.height = width < height ? width : height;
    crop.x = (width - crop.width) / 2;
    crop.y = (height - crop.height) / 2;
    crop.flip = rng_unit(rng) < 0.5;
    return crop;
}

/* Where the samples of one output line lie in the source: two neighbours and the weight of the
 * second. */
struct axis {
    unsigned first[AUGMENT_SIDE_MAX], second[AUGMENT_SIDE_MAX];
    float weight[AUGMENT_SIDE_MAX];
};

static void axis_fill(struct axis *axis, unsigned start, unsigned length, unsigned side, bool flip)
{
    float step = (float)length / (float)side, last = (float)(length - 1);

    for (unsigned i = 0; i < side; i++) {
        float at = ((float)i + 0.5f) * step - 0.5f;
        unsigned slot = flip ? side - 1 - i : i, low;

        at = fminf(fmaxf(at, 0.0f), last);
        low = (unsigned)at;
        axis->first[slot] = start + low;
        axis->second[slot] = start + (low + 1 < length ? low + 1 : low);
        axis->weight[slot] = at - (float)low;
    }
}

void augment_apply(const struct jpeg_image *image, const struct augment_crop *crop, unsigned side,
                   float *out)
{
    static const float mean[3] = {0.485f * 255.0f, 0.456f * 255.0f, 0.406f * 255.0f};
    static const float scale[3] = {1.0f / (0.229f * 255.0f), 1.0f / (0.224f * 255.0f),
                                   1.0f / (0.225f * 255.0f)};
    struct axis xs, ys;
    size_t stride = (size_t)image->width * 3, plane = (size_t)side * side;

    axis_fill(&xs, crop->x, crop->width, side, crop->flip);
    axis_fill(&ys, crop->y, crop->height, side, false);
    for (unsigned y = 0; y < side; y++) {
        const uint8_t *upper = image->rgb + ys.first[y] * stride;
        const uint8_t *lower = image->rgb + ys.second[y] * stride;
        float wy = ys.weight[y];
        float *row = out + (size_t)y * side;

        for (unsigned x = 0; x < side; x++) {
            size_t left = (size_t)xs.first[x] * 3, right = (size_t)xs.second[x] * 3;
            float wx = xs.weight[x];

            for (unsigned c = 0; c < 3; c++) {
                float a = (float)upper[left + c], b = (float)lower[left + c];
                float top = a + wx * ((float)upper[right + c] - a);
                float bottom = b + wx * ((float)lower[right + c] - b);
                row[c * plane + x] = (top + wy * (bottom - top) - mean[c]) * scale[c];
            }
        }
    }
}
