/*
 * What a core does of a loader's work on pictures: decode a JPEG of ImageNet's usual size, crop,
 * scale to 224x224, normalise to floats. The pictures are made here, so that nothing is needed.
 */
#include "config.h"

#include "cal.h"

#include "loaderfit.h"

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h> /* jpeglib.h needs it first */
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#define WIDTH    500u
#define HEIGHT   375u
#define SIDE     224u
#define PICTURES 4u
#define QUALITY  92
#define COUNTS   64u

struct jpeg_error {
    struct jpeg_error_mgr manager;
    jmp_buf failed;
};

static void give_up(j_common_ptr info)
{
    struct jpeg_error *error = (struct jpeg_error *)info->err;

    longjmp(error->failed, 1);
}

static void be_silent(j_common_ptr info)
{
    (void)info;
}

struct picture {
    unsigned char *data;
    unsigned long length;
};

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Smooth noise of several scales with some grain: compresses about as a photograph does. */
static void paint(uint8_t *rgb, uint32_t seed)
{
    float grid[4][32][32];

    for (unsigned o = 0; o < 4; o++)
        for (unsigned i = 0; i < 32; i++)
            for (unsigned k = 0; k < 32; k++)
                grid[o][i][k] = (float)(next_random(&seed) % 256);
    for (unsigned y = 0; y < HEIGHT; y++)
        for (unsigned x = 0; x < WIDTH; x++) {
            float value = 0;

            for (unsigned o = 0; o < 4; o++) {
                unsigned cell = 128u >> o; /* 128, 64, 32, 16 pixels */
                float fx = (float)(x % cell) / (float)cell, fy = (float)(y % cell) / (float)cell;
                unsigned i = x / cell % 31, k = y / cell % 31;
                float top = grid[o][i][k] * (1 - fx) + grid[o][i + 1][k] * fx;
                float low = grid[o][i][k + 1] * (1 - fx) + grid[o][i + 1][k + 1] * fx;

                value += (top * (1 - fy) + low * fy) / (float)(2u << o);
            }
            for (unsigned c = 0; c < 3; c++)
                rgb[3 * (y * WIDTH + x) + c] = (uint8_t)fminf(
                    255, fmaxf(0, value + (float)c * 8 + (float)(next_random(&seed) % 56)));
        }
}

/* In a function of its own, so that longjmp loses nothing that is still needed. */
static bool compress(struct jpeg_compress_struct *jpeg, struct jpeg_error *error, uint8_t *rgb,
                     struct picture *picture)
{
    if (setjmp(error->failed) != 0)
        return false;
    jpeg_create_compress(jpeg);
    jpeg_mem_dest(jpeg, &picture->data, &picture->length);
    jpeg->image_width = WIDTH;
    jpeg->image_height = HEIGHT;
    jpeg->input_components = 3;
    jpeg->in_color_space = JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, QUALITY, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < HEIGHT) {
        JSAMPROW row = rgb + 3 * WIDTH * jpeg->next_scanline;

        (void)jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
    return true;
}

static bool make_picture(struct picture *picture, uint32_t seed)
{
    struct jpeg_compress_struct jpeg = {0};
    struct jpeg_error error;
    uint8_t *rgb = malloc(3 * WIDTH * HEIGHT);
    bool made;

    *picture = (struct picture){NULL, 0};
    if (rgb == NULL)
        return false;
    paint(rgb, seed);
    jpeg.err = jpeg_std_error(&error.manager);
    error.manager.error_exit = give_up;
    error.manager.output_message = be_silent;
    made = compress(&jpeg, &error, rgb, picture);
    jpeg_destroy_compress(&jpeg);
    free(rgb);
    return made;
}

struct loader {
    const struct picture *pictures;
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error error;
    uint8_t *rgb;
    float *out;
    uint32_t random;
};

/* In a function of its own for setjmp's sake, as compress(). */
static bool begin_decoding(struct loader *l)
{
    if (setjmp(l->error.failed) != 0)
        return false;
    jpeg_create_decompress(&l->jpeg);
    return true;
}

static void *start_loader(unsigned thread, void *data)
{
    struct loader *l = calloc(1, sizeof(*l));

    if (l == NULL)
        return NULL;
    l->pictures = data;
    l->random = thread * 977 + 1;
    l->rgb = malloc(3 * WIDTH * HEIGHT);
    l->out = malloc(3 * SIDE * SIDE * sizeof(*l->out));
    l->jpeg.err = jpeg_std_error(&l->error.manager);
    l->error.manager.error_exit = give_up;
    l->error.manager.output_message = be_silent;
    if (l->rgb == NULL || l->out == NULL || !begin_decoding(l)) {
        free(l->rgb);
        free(l->out);
        free(l);
        return NULL;
    }
    return l;
}

static bool decode(struct loader *l, const struct picture *picture)
{
    if (setjmp(l->error.failed) != 0)
        return false;
    jpeg_mem_src(&l->jpeg, picture->data, picture->length);
    if (jpeg_read_header(&l->jpeg, TRUE) != JPEG_HEADER_OK)
        return false;
    l->jpeg.out_color_space = JCS_RGB;
    jpeg_start_decompress(&l->jpeg);
    if (l->jpeg.output_width != WIDTH || l->jpeg.output_height != HEIGHT)
        return false;
    while (l->jpeg.output_scanline < HEIGHT) {
        JSAMPROW row = l->rgb + 3 * WIDTH * l->jpeg.output_scanline;

        (void)jpeg_read_scanlines(&l->jpeg, &row, 1);
    }
    return jpeg_finish_decompress(&l->jpeg);
}

/* A crop of random size and place, bilinear to SIDE, normalised, channel by channel. */
static void augment(struct loader *l)
{
    unsigned width = WIDTH * (50 + next_random(&l->random) % 50) / 100;
    unsigned height = HEIGHT * (50 + next_random(&l->random) % 50) / 100;
    unsigned left = next_random(&l->random) % (WIDTH - width + 1);
    unsigned top = next_random(&l->random) % (HEIGHT - height + 1);
    float sx = (float)(width - 1) / SIDE, sy = (float)(height - 1) / SIDE;

    for (unsigned y = 0; y < SIDE; y++) {
        float fy = (float)y * sy;
        unsigned iy = top + (unsigned)fy;

        fy -= floorf(fy);
        for (unsigned x = 0; x < SIDE; x++) {
            float fx = (float)x * sx;
            const uint8_t *p = l->rgb + 3 * (iy * WIDTH + left + (unsigned)fx);

            fx -= floorf(fx);
            for (unsigned c = 0; c < 3; c++) {
                float above = (float)p[c] * (1 - fx) + (float)p[3 + c] * fx;
                float below = (float)p[3 * WIDTH + c] * (1 - fx) + (float)p[3 * WIDTH + 3 + c] * fx;

                l->out[(c * SIDE + y) * SIDE + x] =
                    ((above * (1 - fy) + below * fy) / 255.0f - 0.45f) / 0.225f;
            }
        }
    }
}

static double load_one(void *state)
{
    struct loader *l = state;

    if (!decode(l, &l->pictures[next_random(&l->random) % PICTURES]))
        return -1;
    augment(l);
    return 1;
}

static void stop_loader(void *state)
{
    struct loader *l = state;

    jpeg_destroy_decompress(&l->jpeg);
    free(l->rgb);
    free(l->out);
    free(l);
}

static void fit(const struct cal_voice *voice, const struct pred_loader_point *points, unsigned n,
                struct pred_calibration *out)
{
    struct pred_loader_prior prior;
    struct pred_loader loader;
    double best = 0;

    pred_loader_prior_init(&prior);
    if (pred_loader_fit(points, n, &prior, &loader) != 0)
        return;
    for (unsigned i = 0; i < n; i++)
        best = fmax(best, points[i].rate);
    out->jpeg_rate = loader.core_rate;
    if (n > 1)
        out->jpeg_beta = loader.beta;
    if (n > 2 && loader.ceiling < 1.5 * best) /* it was met, not guessed */
        out->jpeg_ceiling = loader.ceiling;
    cal_say(voice, "  one core: %.0f images/s, contention beta %.3f", loader.core_rate,
            loader.beta);
}

void cal_jpeg(const struct cal_voice *voice, unsigned threads, double seconds,
              struct pred_calibration *out)
{
    struct picture pictures[PICTURES] = {{NULL, 0}};
    const struct cal_work work = {start_loader, load_one, stop_loader, pictures, true};
    struct pred_loader_point points[COUNTS];
    unsigned counts[COUNTS], ncounts = cal_thread_counts(threads, counts, COUNTS), n = 0;
    bool made = true;

    for (unsigned i = 0; i < PICTURES; i++)
        made = make_picture(&pictures[i], 7919 * (i + 1)) && made;
    cal_say(voice, "JPEG: %ux%u, %lu KB, to %ux%u floats", WIDTH, HEIGHT, pictures[0].length / 1000,
            SIDE, SIDE);
    for (unsigned i = 0; made && i < ncounts; i++) {
        double rate = cal_parallel(&work, counts[i], seconds / ncounts);

        cal_say(voice, "  %3u thread%s %9.0f images/s", counts[i], counts[i] == 1 ? " " : "s",
                rate);
        if (rate > 0)
            points[n++] = (struct pred_loader_point){counts[i], rate};
    }
    if (n > 0)
        fit(voice, points, n, out);
    else
        cal_missing("  could not be measured: no memory");
    for (unsigned i = 0; i < PICTURES; i++)
        free(pictures[i].data);
}
