/*
 * adltrain's data: the data set it makes, the files it lists, the pictures it decodes and what it
 * makes of them.
 */
#include "config.h"

#include "augment.h"
#include "dataset.h"
#include "files.h"
#include "jpeg.h"
#include "log.h"
#include "picture.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- folders ----------------------------------------------------------------------------------
 */

static int set_up(void **state)
{
    char *folder = strdup("/tmp/test-adltrain-XXXXXX");

    assert_non_null(folder);
    assert_non_null(mkdtemp(folder));
    *state = folder;
    return 0;
}

static int tear_down(void **state)
{
    char command[128];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    assert_int_equal(system(command), 0);
    free(*state);
    return 0;
}

static void write_file(const char *folder, const char *name, const void *data, size_t length)
{
    char path[512], error[FILES_ERROR_MAX];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(file_write_atomically(path, data, length, error), 0);
}

static void make_folder(const char *folder, const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

/* ---- the data set ------------------------------------------------------------------------------
 */

struct bytes {
    uint8_t *data;
    size_t length;
};

static const struct files_kind jpegs = {{".jpg", ".jpeg"}, "make-data %s"};

static struct bytes image(uint64_t seed, uint32_t number)
{
    const struct dataset_config config = {.seed = seed, .mean_kb = 110.0};
    struct bytes bytes;

    assert_int_equal(dataset_picture(&config, number, &bytes.data, &bytes.length), 0);
    return bytes;
}

static bool same(struct bytes a, struct bytes b)
{
    return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

static void an_image_depends_on_seed_and_number_alone(void **state)
{
    struct bytes first = image(1, 5), other_number = image(1, 6), other_seed = image(2, 5),
                 again = image(1, 5);

    (void)state;
    assert_true(same(first, again));
    assert_false(same(first, other_number));
    assert_false(same(first, other_seed));
    free(first.data);
    free(other_number.data);
    free(other_seed.data);
    free(again.data);
}

/* What makes decoding as costly as ImageNet's: size of file, pixels, bits a pixel; all with spread.
 */
static void images_are_of_imagenet_like_sizes(void **state)
{
    enum { IMAGES = 150 };
    double bytes = 0.0, pixels = 0.0, squares = 0.0;
    struct jpeg_image decoded = {0};
    char error[JPEG_ERROR_MAX];

    (void)state;
    for (uint32_t i = 0; i < IMAGES; i++) {
        struct bytes file = image(7, i);

        assert_int_equal(jpeg_decode(file.data, file.length, 0, &decoded, error), 0);
        bytes += (double)file.length / IMAGES;
        squares += (double)file.length * (double)file.length / IMAGES;
        pixels += (double)decoded.width * decoded.height / IMAGES;
        free(file.data);
    }
    jpeg_image_free(&decoded);
    assert_true(bytes > 0.85 * 110e3 && bytes < 1.15 * 110e3);
    assert_true(pixels > 0.8 * 500 * 375 && pixels < 1.4 * 500 * 375);
    assert_true(sqrt(squares - bytes * bytes) > 0.3 * bytes);
}

/* Rows of one colour, or smooth to the eye, would decode for nothing: neighbours must differ. */
static void pictures_have_texture_and_edges(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        struct rng rng = rng_for(3, i);
        struct picture picture;
        size_t differing = 0, steep = 0, count;

        assert_int_equal(picture_paint(&rng, 320, 240, &picture), 0);
        count = (size_t)picture.width * picture.height - 1;
        for (size_t p = 0; p < count; p++) {
            int step = abs(picture.rgb[3 * p + 1] - picture.rgb[3 * p + 4]);

            differing += step > 0;
            steep += step > 40;
        }
        assert_true(differing > count / 2);
        assert_true(steep > count / 500);
        assert_true(steep < count / 5);
        picture_free(&picture);
    }
}

static struct dataset_result make(const char *folder, uint32_t images, uint64_t seed, int expected)
{
    struct dataset_config config = {
        .folder = folder, .images = images, .seed = seed, .mean_kb = 20.0, .classes = 3, .jobs = 3};
    struct dataset_result result = {0};
    atomic_int stop = 0;

    assert_int_equal(dataset_make(&config, &stop, &result), expected);
    return result;
}

/* The files' bytes in the order of their names, one after the other. */
static struct bytes read_all(const char *folder, uint32_t expected)
{
    struct bytes all = {NULL, 0};
    struct file_bytes file = {0};
    char error[FILES_ERROR_MAX];
    struct files files;

    assert_int_equal(files_list(folder, &jpegs, &files, error), 0);
    assert_int_equal(files.count, expected);
    for (uint32_t i = 0; i < files.count; i++) {
        assert_int_equal(file_read(files.paths[i], &file, error), 0);
        all.data = realloc(all.data, all.length + file.length);
        assert_non_null(all.data);
        memcpy(all.data + all.length, file.data, file.length);
        all.length += file.length;
    }
    file_bytes_free(&file);
    files_free(&files);
    return all;
}

static void a_data_set_is_continued_and_extended(void **state)
{
    const char *folder = *state;
    struct dataset_result result = make(folder, 12, 5, 0);
    struct bytes first = read_all(folder, 12), again;
    char path[512];

    assert_int_equal(result.made, 12);
    assert_true(result.bytes == first.length);

    /* an interruption left two files out and one empty */
    (void)snprintf(path, sizeof path, "%s/class-001/image-00000004.jpg", folder);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/class-002/image-00000011.jpg", folder);
    assert_int_equal(unlink(path), 0);
    write_file(folder, "class-000/image-00000003.jpg", "", 0);
    result = make(folder, 12, 5, 0);
    assert_int_equal(result.made, 3);
    assert_int_equal(result.kept, 9);
    again = read_all(folder, 12);
    assert_true(same(first, again));

    result = make(folder, 15, 5, 0);
    assert_int_equal(result.made, 3);
    assert_int_equal(result.kept, 12);
    free(first.data);
    free(again.data);
}

static void another_data_set_is_not_mixed_in(void **state)
{
    const char *folder = *state;
    struct bytes before, after;

    (void)make(folder, 4, 5, 0);
    before = read_all(folder, 4);
    (void)make(folder, 8, 6, -1);
    after = read_all(folder, 4);
    assert_true(same(before, after));
    free(before.data);
    free(after.data);
}

static void making_stops_when_asked(void **state)
{
    struct dataset_config config = {
        .folder = *state, .images = 50, .seed = 1, .mean_kb = 20.0, .classes = 1, .jobs = 2};
    struct dataset_result result = {0};
    atomic_int stop = 15;

    assert_int_equal(dataset_make(&config, &stop, &result), 1);
    assert_int_equal(result.made, 0);
}

/* ---- files -------------------------------------------------------------------------------------
 */

static void files_are_listed_sorted_and_only_pictures(void **state)
{
    const char *const wanted[] = {"a.jpeg", "b/c.JPG", "b/d.jpg", "e.jpg"};
    const char *folder = *state;
    char error[FILES_ERROR_MAX], loop[512];
    struct files files;

    make_folder(folder, "b");
    make_folder(folder, ".hidden");
    write_file(folder, "e.jpg", "x", 1);
    write_file(folder, "b/d.jpg", "x", 1);
    write_file(folder, "a.jpeg", "x", 1);
    write_file(folder, "b/c.JPG", "x", 1);
    write_file(folder, "b/readme.txt", "x", 1);
    write_file(folder, "jpg", "x", 1);
    write_file(folder, ".hidden/f.jpg", "x", 1);
    write_file(folder, ".g.jpg", "x", 1);
    assert_int_equal(files_list(folder, &jpegs, &files, error), 0);
    assert_int_equal(files.count, COUNT(wanted));
    for (size_t i = 0; i < COUNT(wanted); i++)
        assert_string_equal(files.paths[i] + strlen(folder) + 1, wanted[i]);
    files_free(&files);

    /* a folder inside itself ends at the depth that is allowed */
    (void)snprintf(loop, sizeof loop, "%s/b/loop", folder);
    assert_int_equal(symlink(".", loop), 0);
    assert_int_equal(files_list(folder, &jpegs, &files, error), 0);
    assert_true(files.count <= 2 + 2 * (FILES_DEPTH_MAX + 1));
    files_free(&files);
}

static void no_pictures_is_an_error_that_helps(void **state)
{
    char error[FILES_ERROR_MAX];
    struct files files;

    assert_int_equal(files_list(*state, &jpegs, &files, error), -1);
    assert_non_null(strstr(error, "make-data"));
    assert_int_equal(files_list("/nowhere/at/all", &jpegs, &files, error), -1);
    assert_non_null(strstr(error, "/nowhere/at/all"));
}

static void what_is_no_file_is_not_read(void **state)
{
    struct file_bytes bytes = {0};
    char path[512], error[FILES_ERROR_MAX];

    (void)snprintf(path, sizeof path, "%s/fifo", (char *)*state);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(file_read(path, &bytes, error), -1); /* and does not wait for a writer */
    assert_int_equal(file_read(*state, &bytes, error), -1);
    assert_int_equal(file_read("/dev/zero", &bytes, error), -1);
    file_bytes_free(&bytes);
}

/* ---- decoding ----------------------------------------------------------------------------------
 */

/* A JPEG file made by libjpeg itself, of any kind that it knows. */
static struct bytes encode(unsigned width, unsigned height, int components, J_COLOR_SPACE space,
                           bool progressive, uint8_t (*sample)(unsigned x, unsigned y, int c))
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr manager;
    unsigned char *data = NULL;
    unsigned long length = 0;
    uint8_t *row = malloc((size_t)width * (size_t)components);

    assert_non_null(row);
    info.err = jpeg_std_error(&manager);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, &length);
    info.image_width = width;
    info.image_height = height;
    info.input_components = components;
    info.in_color_space = space;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, 100, TRUE);
    if (progressive)
        jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    for (unsigned y = 0; y < height; y++) {
        JSAMPROW rows = row;

        for (unsigned x = 0; x < width; x++)
            for (int c = 0; c < components; c++)
                row[x * (unsigned)components + (unsigned)c] = sample(x, y, c);
        assert_int_equal(jpeg_write_scanlines(&info, &rows, 1), 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    free(row);
    return (struct bytes){data, length};
}

static uint8_t ramp(unsigned x, unsigned y, int c)
{
    return (uint8_t)(x + 2 * y + 20u * (unsigned)c);
}

/* C, M, Y, K with little key, as Adobe stores it: 255 is no ink. */
static uint8_t inks(unsigned x, unsigned y, int c)
{
    return c == 3 ? 255 : ramp(x, y, c);
}

static void assert_near(const struct jpeg_image *image, int components, int tolerance)
{
    for (unsigned y = 0; y < image->height; y++) {
        for (unsigned x = 0; x < image->width; x++) {
            for (int c = 0; c < 3; c++) {
                int wanted = ramp(x, y, components == 1 ? 0 : c);
                int found = image->rgb[((size_t)y * image->width + x) * 3 + (size_t)c];

                assert_true(abs(wanted - found) <= tolerance);
            }
        }
    }
}

static void every_kind_of_picture_becomes_rgb(void **state)
{
    const struct {
        int components;
        J_COLOR_SPACE space;
        bool progressive;
        uint8_t (*sample)(unsigned, unsigned, int);
    } cases[] = {{3, JCS_RGB, false, ramp},
                 {3, JCS_RGB, true, ramp},
                 {1, JCS_GRAYSCALE, false, ramp},
                 {4, JCS_CMYK, false, inks}};
    struct jpeg_image image = {0};
    char error[JPEG_ERROR_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bytes file = encode(40, 30, cases[i].components, cases[i].space,
                                   cases[i].progressive, cases[i].sample);

        assert_int_equal(jpeg_decode(file.data, file.length, 0, &image, error), 0);
        assert_int_equal(image.width, 40);
        assert_int_equal(image.height, 30);
        assert_near(&image, cases[i].components, 4);
        free(file.data);
    }
    jpeg_image_free(&image);
}

static void scaling_keeps_the_shorter_side(void **state)
{
    struct bytes file = encode(800, 600, 3, JCS_RGB, false, ramp);
    struct jpeg_image image = {0};
    char error[JPEG_ERROR_MAX];

    (void)state;
    for (unsigned side = 1; side <= 700; side += 13) {
        unsigned n = 8;

        assert_int_equal(jpeg_decode(file.data, file.length, side, &image, error), 0);
        while (n > 1 && (600 * (n - 1) + 7) / 8 >= side)
            n--;
        assert_int_equal(image.height, (600 * n + 7) / 8);
        assert_int_equal(image.width, (800 * n + 7) / 8);
    }
    free(file.data);
    jpeg_image_free(&image);
}

static void a_truncated_file_is_an_error(void **state)
{
    struct bytes file = encode(100, 80, 3, JCS_RGB, false, ramp);
    struct jpeg_image image = {0};
    char error[JPEG_ERROR_MAX];

    (void)state;
    for (size_t length = 0; length + 16 < file.length; length += 7) {
        error[0] = '\0';
        assert_int_equal(jpeg_decode(file.data, length, 0, &image, error), -1);
        assert_true(strlen(error) > 0);
    }
    assert_int_equal(jpeg_decode(file.data, file.length, 0, &image, error), 0);
    free(file.data);
    jpeg_image_free(&image);
}

/* Whatever stands in a file: an answer, no crash (which sanitizers look for more closely). */
static void damaged_files_do_no_harm(void **state)
{
    struct bytes kinds[] = {encode(64, 48, 3, JCS_RGB, false, ramp),
                            encode(64, 48, 3, JCS_RGB, true, ramp),
                            encode(64, 48, 4, JCS_CMYK, false, inks)};
    struct jpeg_image image = {0};
    char error[JPEG_ERROR_MAX];
    struct rng rng = rng_for(1, 1);
    unsigned refused = 0;

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        struct bytes kind = kinds[i % COUNT(kinds)];
        uint8_t *copy = malloc(kind.length);

        assert_non_null(copy);
        memcpy(copy, kind.data, kind.length);
        for (unsigned changes = 1 + rng_below(&rng, 4); changes > 0; changes--)
            copy[rng_below(&rng, (uint32_t)kind.length)] = (uint8_t)rng_u64(&rng);
        refused += jpeg_decode(copy, kind.length, i % 3 == 0 ? 20 : 0, &image, error) < 0;
        free(copy);
    }
    assert_true(refused > 300);
    for (size_t i = 0; i < COUNT(kinds); i++)
        free(kinds[i].data);
    jpeg_image_free(&image);
}

static void a_giant_picture_is_refused(void **state)
{
    struct bytes file = encode(16, 16, 3, JCS_RGB, false, ramp);
    struct jpeg_image image = {0};
    char error[JPEG_ERROR_MAX];

    (void)state;
    for (size_t i = 0; i + 9 < file.length; i++) {
        if (file.data[i] == 0xff && file.data[i + 1] == 0xc0) { /* start of frame: height, width */
            memset(file.data + i + 5, 0xf0, 4);
            break;
        }
    }
    assert_int_equal(jpeg_decode(file.data, file.length, 0, &image, error), -1);
    assert_non_null(strstr(error, "pixels"));
    assert_int_equal(image.capacity, 0);
    free(file.data);
}

/* ---- augmentation ------------------------------------------------------------------------------
 */

static struct jpeg_image noise_image(struct rng *rng, unsigned width, unsigned height)
{
    struct jpeg_image image = {.width = width, .height = height};

    image.rgb = malloc((size_t)width * height * 3);
    assert_non_null(image.rgb);
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        image.rgb[i] = (uint8_t)rng_u64(rng);
    return image;
}

static void crops_lie_inside_and_have_the_shape_asked_for(void **state)
{
    struct rng rng = rng_for(9, 9);
    unsigned flips = 0, usual = 0;
    enum { DRAWS = 20000 };

    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        unsigned width = 1 + rng_below(&rng, i % 2 == 0 ? 800 : 12);
        unsigned height = 1 + rng_below(&rng, i % 3 == 0 ? 800 : 12);
        struct augment_crop crop = augment_draw(&rng, width, height);
        double share = (double)crop.width * crop.height / ((double)width * height);
        double aspect = (double)crop.width / crop.height;

        assert_true(crop.width >= 1 && crop.height >= 1);
        assert_true(crop.x + crop.width <= width && crop.y + crop.height <= height);
        if (width > 300 && height > 300) {
            usual++;
            assert_true(share > 0.075 && share <= 1.0);
            assert_true(aspect > 0.72 && aspect < 1.39);
        }
        flips += crop.flip;
    }
    assert_true(usual > 1000);
    assert_true(flips > DRAWS / 2 - 500 && flips < DRAWS / 2 + 500);
}

/* Written again, in the plainest way and in double precision. */
static double expected_value(const struct jpeg_image *image, const struct augment_crop *crop,
                             unsigned side, unsigned c, unsigned y, unsigned x)
{
    static const double mean[3] = {0.485, 0.456, 0.406}, deviation[3] = {0.229, 0.224, 0.225};
    unsigned column = crop->flip ? side - 1 - x : x, x0, y0, x1, y1;
    double sx = (column + 0.5) * crop->width / side - 0.5,
           sy = (y + 0.5) * crop->height / side - 0.5;
    double fx, fy, sum = 0.0;

    sx = fmin(fmax(sx, 0.0), crop->width - 1.0);
    sy = fmin(fmax(sy, 0.0), crop->height - 1.0);
    x0 = (unsigned)sx;
    y0 = (unsigned)sy;
    x1 = x0 + 1 < crop->width ? x0 + 1 : x0;
    y1 = y0 + 1 < crop->height ? y0 + 1 : y0;
    fx = sx - x0;
    fy = sy - y0;
#define PIXEL(px, py)                                                                              \
    ((double)image->rgb[(((size_t)crop->y + (py)) * image->width + crop->x + (px)) * 3 + c])
    sum = (1 - fx) * (1 - fy) * PIXEL(x0, y0) + fx * (1 - fy) * PIXEL(x1, y0) +
          (1 - fx) * fy * PIXEL(x0, y1) + fx * fy * PIXEL(x1, y1);
#undef PIXEL
    return (sum / 255.0 - mean[c]) / deviation[c];
}

static void resizing_agrees_with_a_plain_computation(void **state)
{
    struct rng rng = rng_for(4, 4);

    (void)state;
    for (int i = 0; i < 60; i++) {
        unsigned side = 1 + rng_below(&rng, 40);
        struct jpeg_image image =
            noise_image(&rng, 1 + rng_below(&rng, 90), 1 + rng_below(&rng, 90));
        struct augment_crop crop = augment_draw(&rng, image.width, image.height);
        float *out = malloc(3 * (size_t)side * side * sizeof *out);

        assert_non_null(out);
        augment_apply(&image, &crop, side, out);
        for (unsigned c = 0; c < 3; c++)
            for (unsigned y = 0; y < side; y++)
                for (unsigned x = 0; x < side; x++)
                    assert_true(fabs((double)out[((size_t)c * side + y) * side + x] -
                                     expected_value(&image, &crop, side, c, y, x)) < 1e-3);
        free(out);
        jpeg_image_free(&image);
    }
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_depends_on_seed_and_number_alone),
        cmocka_unit_test(images_are_of_imagenet_like_sizes),
        cmocka_unit_test(pictures_have_texture_and_edges),
        IN_FOLDER(a_data_set_is_continued_and_extended),
        IN_FOLDER(another_data_set_is_not_mixed_in),
        IN_FOLDER(making_stops_when_asked),
        IN_FOLDER(files_are_listed_sorted_and_only_pictures),
        IN_FOLDER(no_pictures_is_an_error_that_helps),
        IN_FOLDER(what_is_no_file_is_not_read),
        cmocka_unit_test(every_kind_of_picture_becomes_rgb),
        cmocka_unit_test(scaling_keeps_the_shorter_side),
        cmocka_unit_test(a_truncated_file_is_an_error),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(a_giant_picture_is_refused),
        cmocka_unit_test(crops_lie_inside_and_have_the_shape_asked_for),
        cmocka_unit_test(resizing_agrees_with_a_plain_computation),
    };

    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("adltrain data", tests, NULL, NULL);
}
