/* JPEG files to RGB pixels and back. */
#include "config.h"

#include "jpeg.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* A progressive file may ask for any number of passes over the whole picture; real ones have ten.
 */
#define SCANS_MAX 100

struct guard {
    struct jpeg_error_mgr manager; /* first: libjpeg hands its address back */
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char *text; /* JPEG_ERROR_MAX bytes */
    bool damaged;
};

static void fail(j_common_ptr info)
{
    struct guard *guard = (struct guard *)(void *)info->err;
    char message[JMSG_LENGTH_MAX];

    info->err->format_message(info, message);
    (void)snprintf(guard->text, JPEG_ERROR_MAX, "%s", message);
    longjmp(guard->escape, 1);
}

/* Warnings: data that ends early or is corrupt inside makes the file bad, the rest is harmless. */
static void note(j_common_ptr info, int level)
{
    struct guard *guard = (struct guard *)(void *)info->err;
    int code = info->err->msg_code;

    if (level >= 0 || guard->damaged)
        return;
    if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
        code == JWRN_NOT_SEQUENTIAL || code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION) {
        char message[JMSG_LENGTH_MAX];

        info->err->format_message(info, message);
        (void)snprintf(guard->text, JPEG_ERROR_MAX, "%s", message);
        guard->damaged = true;
    }
}

static void quiet(j_common_ptr info)
{
    (void)info;
}

static void limit_scans(j_common_ptr info)
{
    struct guard *guard = (struct guard *)(void *)info->err;

    if (info->is_decompressor && ((j_decompress_ptr)info)->input_scan_number > SCANS_MAX) {
        (void)snprintf(guard->text, JPEG_ERROR_MAX, "more than %d scans", SCANS_MAX);
        longjmp(guard->escape, 1);
    }
}

static void guard_init(struct guard *guard, char *error)
{
    memset(guard, 0, sizeof *guard);
    (void)jpeg_std_error(&guard->manager);
    guard->manager.error_exit = fail;
    guard->manager.emit_message = note;
    guard->manager.output_message = quiet;
    guard->progress.progress_monitor = limit_scans;
    guard->text = error;
    error[0] = '\0';
}

/* ---- decoding ---------------------------------------------------------------------------- */

static int image_reserve(struct jpeg_image *image, size_t need)
{
    uint8_t *grown;

    if (need <= image->capacity)
        return 0;
    grown = realloc(image->rgb, need);
    if (grown == NULL)
        return -1;
    image->rgb = grown;
    image->capacity = need;
    return 0;
}

void jpeg_image_free(struct jpeg_image *image)
{
    free(image->rgb);
    *image = (struct jpeg_image){0};
}

/* The smallest n of n/8 at which the shorter side keeps min_side pixels. */
static unsigned choose_scale(unsigned width, unsigned height, unsigned min_side)
{
    unsigned side = width < height ? width : height;

    if (min_side == 0)
        return 8;
    for (unsigned n = 1; n < 8; n++)
        if ((side * n + 7) / 8 >= min_side)
            return n;
    return 8;
}

/* Adobe's files store CMYK inverted: then 255 is no ink. */
static void cmyk_row_to_rgb(const uint8_t *cmyk, uint8_t *rgb, unsigned width, bool inverted)
{
    for (unsigned x = 0; x < width; x++, cmyk += 4, rgb += 3) {
        for (unsigned i = 0; i < 3; i++) {
            unsigned ink = inverted ? cmyk[i] : 255u - cmyk[i];
            unsigned key = inverted ? cmyk[3] : 255u - cmyk[3];
            rgb[i] = (uint8_t)(ink * key / 255u);
        }
    }
}

static void set_up_output(struct jpeg_decompress_struct *info, unsigned min_side)
{
    bool four = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;

    info->out_color_space = four ? JCS_CMYK : JCS_RGB;
    info->scale_num = choose_scale(info->image_width, info->image_height, min_side);
    info->scale_denom = 8;
    info->dct_method = JDCT_ISLOW;
}

static void read_rows(struct jpeg_decompress_struct *info, struct jpeg_image *image, uint8_t *cmyk)
{
    size_t stride = (size_t)image->width * 3;

    while (info->output_scanline < info->output_height) {
        uint8_t *row = image->rgb + info->output_scanline * stride;
        JSAMPROW target = cmyk != NULL ? cmyk : row;

        (void)jpeg_read_scanlines(info, &target, 1);
        if (cmyk != NULL)
            cmyk_row_to_rgb(cmyk, row, image->width, info->saw_Adobe_marker);
    }
}

/* Between jpeg_create_decompress and jpeg_destroy_decompress; may leave by longjmp. */
static int decode_guarded(struct jpeg_decompress_struct *info, struct guard *guard,
                          const void *data, size_t length, unsigned min_side,
                          struct jpeg_image *image)
{
    uint8_t *cmyk = NULL;

    jpeg_mem_src(info, data, (unsigned long)length);
    if (jpeg_read_header(info, TRUE) != JPEG_HEADER_OK)
        return -1;
    if ((uint64_t)info->image_width * info->image_height > JPEG_PIXELS_MAX) {
        (void)snprintf(guard->text, JPEG_ERROR_MAX, "%u x %u pixels are more than this reads",
                       info->image_width, info->image_height);
        return -1;
    }
    set_up_output(info, min_side);
    (void)jpeg_start_decompress(info);
    image->width = info->output_width;
    image->height = info->output_height;
    if (image_reserve(image, (size_t)image->width * image->height * 3) < 0) {
        (void)snprintf(guard->text, JPEG_ERROR_MAX, "out of memory");
        return -1;
    }
    if (info->out_color_space == JCS_CMYK)
        /* from the library's own pool, so that it goes with the decoder even after a longjmp */
        cmyk = info->mem->alloc_large((j_common_ptr)info, JPOOL_IMAGE, (size_t)image->width * 4);
    read_rows(info, image, cmyk);
    (void)jpeg_finish_decompress(info);
    return guard->damaged ? -1 : 0;
}

int jpeg_decode(const void *data, size_t length, unsigned min_side, struct jpeg_image *image,
                char *error)
{
    struct jpeg_decompress_struct info;
    struct guard guard;
    int rc;

    if (length == 0) {
        (void)snprintf(error, JPEG_ERROR_MAX, "the file is empty");
        return -1;
    }
    guard_init(&guard, error);
    memset(&info, 0, sizeof info);
    info.err = &guard.manager;
    if (setjmp(guard.escape) != 0) {
        jpeg_destroy_decompress(&info);
        return -1;
    }
    jpeg_create_decompress(&info);
    info.progress = &guard.progress;
    rc = decode_guarded(&info, &guard, data, length, min_side, image);
    jpeg_destroy_decompress(&info);
    return rc;
}

/* ---- encoding ---------------------------------------------------------------------------- */

struct encoder {
    struct jpeg_compress_struct info;
    struct guard guard;
    unsigned char *data; /* here, not in a local variable: it must survive the longjmp */
    unsigned long length;
};

static void encode_guarded(struct encoder *e, const uint8_t *rgb, unsigned width, unsigned height,
                           int quality)
{
    jpeg_mem_dest(&e->info, &e->data, &e->length);
    e->info.image_width = width;
    e->info.image_height = height;
    e->info.input_components = 3;
    e->info.in_color_space = JCS_RGB;
    jpeg_set_defaults(&e->info);
    jpeg_set_quality(&e->info, quality, TRUE);
    jpeg_start_compress(&e->info, TRUE);
    while (e->info.next_scanline < height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + (size_t)e->info.next_scanline * width * 3);
        (void)jpeg_write_scanlines(&e->info, &row, 1);
    }
    jpeg_finish_compress(&e->info);
}

int jpeg_encode(const uint8_t *rgb, unsigned width, unsigned height, int quality, uint8_t **data,
                size_t *length, char *error)
{
    struct encoder e = {0};

    guard_init(&e.guard, error);
    e.info.err = &e.guard.manager;
    if (setjmp(e.guard.escape) != 0) {
        jpeg_destroy_compress(&e.info);
        free(e.data);
        return -1;
    }
    jpeg_create_compress(&e.info);
    encode_guarded(&e, rgb, width, height, quality);
    jpeg_destroy_compress(&e.info);
    *data = e.data;
    *length = e.length;
    return 0;
}
