/*
 * adltrain's samples in storage: raw ones, packed ones and their index, the page cache dropped and
 * warmed, and the emulated bandwidth and latency.
 */
#include "config.h"

#include "clock.h"
#include "dataset.h"
#include "log.h"
#include "pack.h"
#include "raw.h"
#include "store.h"
#include "throttle.h"
#include "tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

static const char *in(const char *folder, const char *name)
{
    static char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const void *data, size_t length)
{
    char error[FILES_ERROR_MAX];

    assert_int_equal(file_write_atomically(path, data, length, error), 0);
}

static struct dataset_config config_of(const char *folder, enum sample_format format, uint32_t pack,
                                       uint32_t images)
{
    return (struct dataset_config){.folder = folder,
                                   .images = images,
                                   .seed = 7,
                                   .format = format,
                                   .mean_kb = 15.0,
                                   .side = 64,
                                   .length = 50,
                                   .classes = 2,
                                   .pack = pack,
                                   .jobs = 2};
}

static struct dataset_result make(const struct dataset_config *config)
{
    struct dataset_result result = {0};
    atomic_int stop = 0;

    assert_int_equal(dataset_make(config, &stop, &result), 0);
    return result;
}

static void open_store(const char *folder, enum store_format format, enum store_cache cache,
                       struct store *store)
{
    struct store_config config = {.folder = folder, .format = format, .cache = cache};
    char error[FILES_ERROR_MAX] = "";

    if (store_open(&config, store, error) < 0)
        fail_msg("%s", error);
}

/* ---- raw samples ------------------------------------------------------------------------------
 */

static void raw_samples_keep_their_pixels(void **state)
{
    uint8_t pixels[5 * 3 * 3], *data;
    struct jpeg_image image = {0};
    char error[JPEG_ERROR_MAX];
    size_t length;

    (void)state;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * 37);
    assert_int_equal(raw_encode(pixels, 5, 3, &data, &length), 0);
    assert_int_equal(length, RAW_HEADER + sizeof pixels);
    assert_int_equal(raw_decode(data, length, &image, error), 0);
    assert_int_equal(image.width, 5);
    assert_int_equal(image.height, 3);
    assert_memory_equal(image.rgb, pixels, sizeof pixels);
    jpeg_image_free(&image);
    free(data);
}

static void bad_raw_samples_are_refused(void **state)
{
    uint8_t pixels[2 * 2 * 3] = {0}, *data, changed[RAW_HEADER + sizeof pixels + 1] = {0};
    struct jpeg_image image = {0};
    char error[JPEG_ERROR_MAX];
    size_t length;

    (void)state;
    assert_int_equal(raw_encode(pixels, 2, 2, &data, &length), 0);
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(raw_decode(data, cut, &image, error), -1);
    memcpy(changed, data, length);
    assert_int_equal(raw_decode(changed, length + 1, &image, error), -1);
    assert_int_equal(raw_decode(changed, length, &image, error), 0);
    changed[0] ^= 1;
    assert_int_equal(raw_decode(changed, length, &image, error), -1);
    changed[0] ^= 1;
    memset(changed + 8, 0xff, 8); /* a size whose product overflows */
    assert_int_equal(raw_decode(changed, length, &image, error), -1);
    memset(changed + 8, 0, 8);
    assert_int_equal(raw_decode(changed, RAW_HEADER, &image, error), -1);
    jpeg_image_free(&image);
    free(data);
}

/* ---- texts ------------------------------------------------------------------------------------
 */

/* A window lies within the text, and each place of it is met. */
static void windows_lie_within_the_text(void **state)
{
    enum { COUNT_OF_TOKENS = 9, WINDOW = 4 };
    uint32_t tokens[COUNT_OF_TOKENS];
    unsigned met[COUNT_OF_TOKENS - WINDOW + 1] = {0};
    char error[TOKENS_ERROR_MAX];
    uint8_t *data;
    size_t length;

    (void)state;
    for (uint32_t i = 0; i < COUNT_OF_TOKENS; i++)
        tokens[i] = 100000 + i;
    assert_int_equal(tokens_encode(tokens, COUNT_OF_TOKENS, &data, &length), 0);
    for (uint64_t i = 0; i < 300; i++) {
        struct rng rng = rng_for(1, i);
        float window[WINDOW];

        assert_int_equal(tokens_window(data, length, &rng, WINDOW, window, error), 0);
        for (int k = 1; k < WINDOW; k++)
            assert_int_equal((int)window[k], (int)window[0] + k);
        assert_in_range((int)window[0], 100000, 100000 + COUNT_OF_TOKENS - WINDOW);
        met[(int)window[0] - 100000]++;
    }
    for (size_t i = 0; i < COUNT(met); i++)
        assert_true(met[i] > 0);
    free(data);
}

static void bad_texts_are_refused(void **state)
{
    const uint32_t tokens[3] = {1, 2, 3};
    struct rng rng = rng_for(1, 1);
    char error[TOKENS_ERROR_MAX];
    float window[3];
    uint8_t *data;
    size_t length;

    (void)state;
    assert_int_equal(tokens_encode(tokens, 3, &data, &length), 0);
    assert_int_equal(tokens_window(data, length, &rng, 3, window, error), 0);
    assert_int_equal(tokens_window(data, length, &rng, 4, window, error), -1);
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(tokens_window(data, cut, &rng, 1, window, error), -1);
    for (size_t i = 0; i < 12; i++) { /* magic and count */
        data[i] ^= 0xff;
        assert_int_equal(tokens_window(data, length, &rng, 1, window, error), -1);
        data[i] ^= 0xff;
    }
    free(data);
}

/* ---- the index of a pack ----------------------------------------------------------------------
 */

static void an_index_that_lies_is_refused(void **state)
{
    const struct {
        struct pack_entry entry;
        int expected;
    } cases[] = {
        {{0, 100}, 0},
        {{99, 1}, 0},
        {{0, 101}, -1},
        {{100, 1}, -1},
        {{0, 0}, -1},
        {{UINT64_MAX, 2}, -1},
        {{50, UINT64_MAX - 40}, -1},
        {{0, FILES_BYTES_MAX + 1ull}, -1},
    };
    const char *path = in(*state, "x.idx");
    char error[FILES_ERROR_MAX];

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pack_entry entry = cases[i].entry;
        struct pack_index written = {SAMPLE_RAW, 1, &entry}, found;

        assert_int_equal(pack_index_write(path, &written, error), 0);
        assert_int_equal(pack_index_read(path, i == 7 ? UINT64_MAX : 100, &found, error),
                         cases[i].expected);
        if (cases[i].expected == 0) {
            assert_int_equal(found.format, SAMPLE_RAW);
            assert_int_equal(found.count, 1);
            assert_true(found.entries[0].offset == entry.offset);
            assert_true(found.entries[0].length == entry.length);
        }
        pack_index_free(&found);
    }
}

static void a_damaged_index_is_refused(void **state)
{
    struct pack_entry entries[2] = {{0, 10}, {10, 20}};
    struct pack_index written = {SAMPLE_JPEG, 2, entries}, found;
    struct file_bytes bytes = {0};
    const char *path = in(*state, "x.idx");
    char error[FILES_ERROR_MAX];

    assert_int_equal(pack_index_write(path, &written, error), 0);
    assert_int_equal(file_read(path, &bytes, error), 0);
    for (size_t cut = 0; cut < bytes.length; cut++) {
        write_file(path, bytes.data, cut);
        assert_int_equal(pack_index_read(path, 30, &found, error), -1);
    }
    for (size_t i = 0; i < 24; i++) { /* the header: magic, format, version, count */
        bytes.data[i] ^= 0x55;
        write_file(path, bytes.data, bytes.length);
        assert_int_equal(pack_index_read(path, 30, &found, error), -1);
        bytes.data[i] ^= 0x55;
    }
    write_file(path, bytes.data, bytes.length);
    assert_int_equal(pack_index_read(path, 30, &found, error), 0);
    pack_index_free(&found);
    file_bytes_free(&bytes);
}

/* ---- the store --------------------------------------------------------------------------------
 */

/* Whatever the form, sample i of a store is picture i of the data set (files are sorted by class).
 */
static void every_form_gives_the_pictures_that_were_made(void **state)
{
    enum { IMAGES = 11 };
    const struct {
        enum sample_format samples;
        uint32_t pack;
        enum store_format format;
        bool in_order;
    } cases[] = {
        {SAMPLE_JPEG, 0, STORE_JPEG, false},    {SAMPLE_RAW, 0, STORE_RAW, false},
        {SAMPLE_JPEG, 4, STORE_PACKED, true},   {SAMPLE_RAW, 4, STORE_PACKED, true},
        {SAMPLE_RAW, 100, STORE_PACKED, true},  {SAMPLE_TOKENS, 0, STORE_TOKENS, false},
        {SAMPLE_TOKENS, 3, STORE_PACKED, true},
    };

    for (size_t c = 0; c < COUNT(cases); c++) {
        char folder[64], error[FILES_ERROR_MAX];
        struct dataset_config config;
        struct file_bytes bytes = {0};
        struct store store;

        (void)snprintf(folder, sizeof folder, "%s/%zu", (char *)*state, c);
        config = config_of(folder, cases[c].samples, cases[c].pack, IMAGES);
        assert_int_equal(make(&config).made, IMAGES);
        open_store(folder, cases[c].format, STORE_KEEP, &store);
        assert_int_equal(store.count, IMAGES);
        assert_int_equal(store.samples, cases[c].samples);
        for (uint32_t i = 0; i < IMAGES; i++) {
            /* two classes: first the even numbers, then the odd ones */
            uint32_t evens = (IMAGES + 1) / 2, number = i < evens ? 2 * i : 2 * (i - evens) + 1;
            uint8_t *wanted;
            size_t length;

            if (cases[c].in_order)
                number = i;
            assert_int_equal(dataset_picture(&config, number, &wanted, &length), 0);
            assert_int_equal(store_read(&store, i, &bytes, error), 0);
            assert_int_equal(bytes.length, length);
            assert_memory_equal(bytes.data, wanted, length);
            free(wanted);
        }
        file_bytes_free(&bytes);
        store_close(&store);
    }
}

static void packs_are_continued_and_extended(void **state)
{
    struct dataset_config config = config_of(*state, SAMPLE_RAW, 4, 10);
    struct dataset_result result = make(&config);
    char name[600];
    struct store store;

    assert_int_equal(result.made, 10);
    result = make(&config);
    assert_int_equal(result.made, 0);
    assert_int_equal(result.kept, 10);
    assert_int_equal(unlink(in(*state, "pack-00001.idx")), 0); /* interrupted before the index */
    result = make(&config);
    assert_int_equal(result.made, 4);
    config.images = 11; /* the last pack grows */
    result = make(&config);
    assert_int_equal(result.made, 3);
    assert_int_equal(result.kept, 8);
    open_store(*state, STORE_PACKED, STORE_KEEP, &store);
    assert_int_equal(store.count, 11);
    store_name(&store, 10, name, sizeof name);
    assert_non_null(strstr(name, "sample 2 of "));
    assert_non_null(strstr(name, "pack-00002.bin"));
    store_close(&store);
}

static void what_makes_no_store_is_refused_with_help(void **state)
{
    const struct {
        enum store_format format;
        const char *help;
    } cases[] = {{STORE_JPEG, "make-data"}, {STORE_RAW, "--format raw"}, {STORE_PACKED, "--pack"}};
    struct store_config config = {.folder = *state};
    struct store store;
    char error[FILES_ERROR_MAX];

    for (size_t i = 0; i < COUNT(cases); i++) {
        config.format = cases[i].format;
        assert_int_equal(store_open(&config, &store, error), -1);
        assert_non_null(strstr(error, cases[i].help));
    }
    write_file(in(*state, "pack-00000.bin"), "data", 4);
    assert_int_equal(store_open(&config, &store, error), -1);
    assert_non_null(strstr(error, ".idx"));
}

/* A file that became shorter behind its index: what is missing is the decoder's to tell. */
static void a_pack_that_shrank_gives_short_samples(void **state)
{
    struct dataset_config config = config_of(*state, SAMPLE_RAW, 4, 4);
    struct file_bytes bytes = {0};
    struct jpeg_image image = {0};
    char error[FILES_ERROR_MAX];
    struct store store;

    (void)make(&config);
    open_store(*state, STORE_PACKED, STORE_KEEP, &store);
    assert_int_equal(truncate(in(*state, "pack-00000.bin"), 20000), 0);
    assert_int_equal(store_read(&store, 0, &bytes, error), 0);
    assert_int_equal(raw_decode(bytes.data, bytes.length, &image, error), 0);
    assert_int_equal(store_read(&store, 1, &bytes, error), 0);
    assert_int_equal(raw_decode(bytes.data, bytes.length, &image, error), -1);
    assert_int_equal(store_read(&store, 3, &bytes, error), 0);
    assert_int_equal(bytes.length, 0);
    jpeg_image_free(&image);
    file_bytes_free(&bytes);
    store_close(&store);
}

/* ---- the page cache ---------------------------------------------------------------------------
 */

/* Pages of the file that are in the cache. */
static size_t cached_pages(const char *path)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages, cached = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *map;
    struct stat status;
    void *memory;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    pages = ((size_t)status.st_size + page - 1) / page;
    memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(memory != MAP_FAILED);
    map = calloc(pages, 1);
    assert_non_null(map);
    assert_int_equal(mincore(memory, (size_t)status.st_size, map), 0);
    for (size_t i = 0; i < pages; i++)
        cached += map[i] & 1;
    free(map);
    assert_int_equal(munmap(memory, (size_t)status.st_size), 0);
    (void)close(fd);
    return cached;
}

static void the_cache_is_kept_dropped_or_warmed(void **state)
{
    struct dataset_config config = config_of(*state, SAMPLE_RAW, 0, 6);
    struct file_bytes bytes = {0};
    char error[FILES_ERROR_MAX];
    const atomic_int stop = 0;
    struct store store;

    (void)make(&config);
    open_store(*state, STORE_RAW, STORE_DROP, &store);
    assert_int_equal(store_prepare(&store, &stop, error), 0);
    for (uint32_t i = 0; i < store.count; i++)
        assert_int_equal(store_read(&store, i, &bytes, error), 0);
    if (cached_pages(store.files.paths[0]) > 0) {
        store_close(&store);
        file_bytes_free(&bytes);
        print_message("this file system drops no pages\n");
        skip();
    }
    for (uint32_t i = 0; i < store.count; i++)
        assert_int_equal(cached_pages(store.files.paths[i]), 0);

    store.config.cache = STORE_KEEP;
    assert_int_equal(store_prepare(&store, &stop, error), 0);
    assert_int_equal(cached_pages(store.files.paths[0]), 0);
    assert_int_equal(store_read(&store, 0, &bytes, error), 0);
    assert_true(cached_pages(store.files.paths[0]) > 0);
    assert_int_equal(cached_pages(store.files.paths[3]), 0);

    store.config.cache = STORE_WARM;
    assert_int_equal(store_prepare(&store, &stop, error), 0);
    for (uint32_t i = 0; i < store.count; i++)
        assert_true(cached_pages(store.files.paths[i]) > 0);
    file_bytes_free(&bytes);
    store_close(&store);
}

/* ---- emulated storage -------------------------------------------------------------------------
 */

#define MS 1000000ull

/* On a clock of the test's own: requests queue, latencies overlap, a pause earns little. */
static void requests_take_their_turn(void **state)
{
    const uint64_t now = 1000000 * MS;
    struct throttle throttle;

    (void)state;
    assert_int_equal(throttle_init(&throttle, 1e6, 0.005), 0);
    throttle.free_ns = now;
    assert_int_equal(throttle_book(&throttle, now, 10000), now + 15 * MS);
    assert_int_equal(throttle_book(&throttle, now, 10000), now + 25 * MS);
    assert_int_equal(throttle_book(&throttle, now + 3 * MS, 10000), now + 35 * MS);
    /* idle for long: a burst's worth at once, not more */
    assert_int_equal(throttle_book(&throttle, now + 900 * MS, 10000), now + 905 * MS);
    assert_int_equal(throttle_book(&throttle, now + 900 * MS, 10000), now + 905 * MS);
    assert_int_equal(throttle_book(&throttle, now + 900 * MS, 10000), now + 915 * MS);
    throttle_free(&throttle);

    assert_int_equal(throttle_init(&throttle, 0.0, 0.002), 0);
    assert_int_equal(throttle_book(&throttle, now, 1u << 30), now + 2 * MS);
    assert_int_equal(throttle_book(&throttle, now, 1u << 30), now + 2 * MS);
    throttle_free(&throttle);
}

/* Any pattern of requests: over any stretch no more bytes than the rate and one burst. */
static void no_pattern_is_faster_than_the_rate(void **state)
{
    const double rate = 5e6;
    uint64_t seed = 1, now = 1000 * MS, first = now;
    struct throttle throttle;
    double bytes = 0.0;

    (void)state;
    assert_int_equal(throttle_init(&throttle, rate, 0.0), 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t served;
        size_t length;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        length = (size_t)(seed >> 48);
        now += (seed >> 20) % (20 * MS);
        bytes += (double)length;
        served = throttle_book(&throttle, now, length);
        assert_true(served >= now);
        assert_true(bytes <= rate * (1e-9 * (double)(served - first) + THROTTLE_BURST_S) + 1.0);
    }
    throttle_free(&throttle);
}

/* With real sleep: never sooner than booked. */
static void reading_takes_as_long_as_the_storage_says(void **state)
{
    struct dataset_config config = config_of(*state, SAMPLE_RAW, 0, 4); /* 12304 bytes each */
    struct store_config slow = {
        .folder = *state, .format = STORE_RAW, .bytes_per_s = 500e3, .latency_s = 0.01};
    struct file_bytes bytes = {0};
    char error[FILES_ERROR_MAX];
    struct store store;
    uint64_t start;
    double seconds;

    (void)make(&config);
    assert_int_equal(store_open(&slow, &store, error), 0);
    start = clock_monotonic_ns();
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(store_read(&store, i % 4, &bytes, error), 0);
    seconds = 1e-9 * (double)(clock_monotonic_ns() - start);
    assert_true(seconds >= 8 * 12304 / 500e3 - THROTTLE_BURST_S);
    file_bytes_free(&bytes);
    store_close(&store);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_samples_keep_their_pixels),
        cmocka_unit_test(bad_raw_samples_are_refused),
        cmocka_unit_test(windows_lie_within_the_text),
        cmocka_unit_test(bad_texts_are_refused),
        IN_FOLDER(an_index_that_lies_is_refused),
        IN_FOLDER(a_damaged_index_is_refused),
        IN_FOLDER(every_form_gives_the_pictures_that_were_made),
        IN_FOLDER(packs_are_continued_and_extended),
        IN_FOLDER(what_makes_no_store_is_refused_with_help),
        IN_FOLDER(a_pack_that_shrank_gives_short_samples),
        IN_FOLDER(the_cache_is_kept_dropped_or_warmed),
        cmocka_unit_test(requests_take_their_turn),
        cmocka_unit_test(no_pattern_is_faster_than_the_rate),
        IN_FOLDER(reading_takes_as_long_as_the_storage_says),
    };

    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("adltrain store", tests, NULL, NULL);
}
