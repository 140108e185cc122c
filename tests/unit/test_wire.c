/* The wire format: bytes as specified, limits, and frames that must be refused. */
#include "rng.h"
#include "wire.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A frame written out by hand from the description in wire.h. */
static const uint8_t golden[] = {
    0,    0,    0,    4 + 16 + 16 + 16 + 10 + 9,
    1,    7,    0,    0, /* head */
    0x01, 0x02, 0,    1,
    0,    0,    0,    8,
    0,    0,    0,    0,
    0xde, 0xad, 0xbe, 0xef, /* u64 */
    0,    3,    0,    2,
    0,    0,    0,    8,
    0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xfe, /* i64: -2 */
    0,    4,    0,    3,
    0,    0,    0,    8,
    0x3f, 0xf8, 0,    0,
    0,    0,    0,    0, /* 1.5 */
    0,    5,    0,    4,
    0,    0,    0,    2,
    'h',  'i', /* text */
    0,    6,    0,    5,
    0,    0,    0,    1,
    0, /* bytes */
};

static void write_golden(struct wire_writer *w)
{
    wire_begin(w, 7, WIRE_SMALL_FRAME);
    wire_put_u64(w, 0x0102, 0xdeadbeef);
    wire_put_i64(w, 3, -2);
    wire_put_f64(w, 4, 1.5);
    wire_put_str(w, 5, "hi");
    wire_put_str(w, 9, NULL);
    wire_put_bytes(w, 6, "", 1);
}

static void bytes_are_as_described(void **state)
{
    (void)state;
    struct wire_writer w = {0};
    write_golden(&w);
    assert_int_equal(wire_end(&w), 0);
    assert_int_equal(w.length, sizeof(golden));
    assert_memory_equal(w.data, golden, sizeof(golden));
    /* The same memory serves the next frame. */
    write_golden(&w);
    assert_int_equal(wire_end(&w), 0);
    assert_int_equal(w.length, sizeof(golden));
    wire_writer_free(&w);
}

static void values_are_found(void **state)
{
    (void)state;
    struct wire_view view;
    assert_int_equal(wire_open(&view, golden, sizeof(golden)), 0);
    assert_int_equal(view.type, 7);
    uint64_t u;
    int64_t i;
    double d;
    char text[3];
    const void *bytes;
    size_t length;
    assert_true(wire_get_u64(&view, 0x0102, &u) && u == 0xdeadbeef);
    assert_true(wire_get_i64(&view, 3, &i) && i == -2);
    assert_true(wire_get_f64(&view, 4, &d) && d == 1.5);
    assert_true(wire_get_str(&view, 5, text, sizeof(text)));
    assert_string_equal(text, "hi");
    assert_true(wire_get_bytes(&view, 6, &bytes, &length) && length == 1);
    /* absent, of another kind, or too long */
    assert_false(wire_get_u64(&view, 99, &u));
    assert_false(wire_get_u64(&view, 3, &u));
    assert_false(wire_get_i64(&view, 4, &i));
    assert_false(wire_get_f64(&view, 3, &d));
    assert_false(wire_get_str(&view, 6, text, sizeof(text)));
    assert_false(wire_get_bytes(&view, 5, &bytes, &length));
    assert_false(wire_get_str(&view, 5, text, 2));
    assert_false(wire_get_str(&view, 5, text, 0));

    size_t cursor = 0, fields = 0;
    struct wire_field field;
    while (wire_next(&view, &cursor, &field)) {
        fields++;
        assert_int_equal(wire_field_u64(&field, &u), field.tag == 0x0102);
        assert_int_equal(wire_field_i64(&field, &i), field.tag == 3);
        assert_int_equal(wire_field_f64(&field, &d), field.tag == 4);
        assert_int_equal(wire_field_str(&field, text, sizeof(text)), field.tag == 5);
    }
    assert_int_equal(fields, 5);
    assert_false(wire_next(&view, &cursor, &field));
}

static void texts_and_numbers_that_are_not(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        bool good;
    } texts[] = {
        {"", 0, true},      {"a b~", 4, true},    {"\xc3\xbc", 2, true}, {"a\0b", 3, false},
        {"a\nb", 3, false}, {"\x1b[m", 3, false}, {"a\x7f", 2, false},   {"\x01", 1, false},
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        uint8_t frame[32] = {0, 0, 0, (uint8_t)(12 + texts[i].length), 1, 1, 0, 0, 0, 5, 0, 4,
                             0, 0, 0, (uint8_t)texts[i].length};
        memcpy(frame + 16, texts[i].bytes, texts[i].length);
        struct wire_view view;
        char buf[16];
        assert_int_equal(wire_open(&view, frame, 16 + texts[i].length), 0);
        assert_int_equal(wire_get_str(&view, 5, buf, sizeof(buf)), texts[i].good);
    }
    static const double numbers[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -0.0, 1e300};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        struct wire_writer w = {0};
        struct wire_view view;
        double back;
        wire_begin(&w, 1, 100);
        wire_put_f64(&w, 5, numbers[i]);
        assert_int_equal(wire_end(&w), 0);
        assert_int_equal(wire_open(&view, w.data, w.length), 0);
        assert_int_equal(wire_get_f64(&view, 5, &back), isfinite(numbers[i]) != 0);
        wire_writer_free(&w);
    }
}

static void writers_keep_the_limit(void **state)
{
    (void)state;
    static const char text[100] = "0123456789012345678901234567890123456789";
    for (size_t limit = 0; limit < 70; limit++) {
        struct wire_writer w = {0};
        wire_begin(&w, 1, limit);
        wire_put_str(&w, 5, text); /* 8 + 8 + 40 bytes in all */
        bool fits = limit >= 56;
        wire_put_u64(&w, 6, 1); /* 16 more, never within 70 */
        assert_int_equal(wire_end(&w), -1);
        assert_int_equal(errno, EMSGSIZE);
        wire_begin(&w, 1, limit);
        wire_put_str(&w, 5, text);
        assert_int_equal(wire_end(&w), fits ? 0 : -1);
        if (fits)
            assert_int_equal(w.length, 56);
        wire_writer_free(&w);
    }
    struct wire_writer w = {0};
    wire_begin(&w, 1, SIZE_MAX);
    wire_put_bytes(&w, 5, text, SIZE_MAX - 4); /* refused on its length alone */
    assert_int_equal(wire_end(&w), -1);
    assert_int_equal(errno, EMSGSIZE);
    wire_begin(&w, 1, 100);
    wire_fail(&w, EINVAL);
    wire_fail(&w, ENOMEM); /* the first reason counts */
    wire_put_u64(&w, 1, 1);
    assert_int_equal(wire_end(&w), -1);
    assert_int_equal(errno, EINVAL);
    wire_writer_free(&w);
    assert_null(w.data);
}

static void frames_grow_to_megabytes(void **state)
{
    (void)state;
    struct wire_writer w = {0};
    size_t length = WIRE_LARGE_FRAME - 16;
    char *big = malloc(length);
    assert_non_null(big);
    memset(big, 'x', length);
    wire_begin(&w, 1, WIRE_LARGE_FRAME);
    wire_put_bytes(&w, 5, big, length);
    assert_int_equal(wire_end(&w), 0);
    assert_int_equal(wire_frame_length(w.data, w.length, WIRE_LARGE_FRAME), WIRE_LARGE_FRAME);
    assert_int_equal(wire_frame_length(w.data, 8, WIRE_LARGE_FRAME - 1), -1);
    struct wire_view view;
    const void *bytes;
    size_t found;
    assert_int_equal(wire_open(&view, w.data, w.length), 0);
    assert_true(wire_get_bytes(&view, 5, &bytes, &found));
    assert_int_equal(found, length);
    assert_memory_equal(bytes, big, length);
    wire_begin(&w, 1, WIRE_LARGE_FRAME);
    wire_put_bytes(&w, 5, big, length);
    wire_put_bytes(&w, 5, big, 0);
    assert_int_equal(wire_end(&w), -1);
    wire_writer_free(&w);
    free(big);
}

static void lengths_of_frames(void **state)
{
    (void)state;
    for (size_t have = 0; have < sizeof(golden); have++)
        assert_int_equal(wire_frame_length(golden, have, 1000), 0); /* more is needed */
    assert_int_equal(wire_frame_length(golden, sizeof(golden), 1000), (ssize_t)sizeof(golden));
    static const struct {
        uint8_t head[8];
        size_t available;
        ssize_t result;
        int error;
    } cases[] = {
        {{0, 0, 0, 4, 1, 9, 0, 0}, 8, 8, 0},
        {{0, 0, 0, 4, 1, 9, 0, 0}, 7, 0, 0},
        {{0, 0, 0, 3, 1, 9, 0, 0}, 4, -1, EBADMSG}, /* shorter than its head */
        {{0, 0, 0, 0, 1, 9, 0, 0}, 8, -1, EBADMSG},
        {{0, 0, 3, 229, 1, 9, 0, 0}, 8, -1, EBADMSG}, /* 1001 bytes */
        {{0, 0, 3, 228, 1, 9, 0, 0}, 8, 0, 0},        /* 1000 */
        {{0, 0, 3, 229, 1, 9, 0, 0}, 4, -1, EBADMSG}, /* as soon as it can be told */
        {{0xff, 0xff, 0xff, 0xff, 1, 9, 0, 0}, 8, -1, EBADMSG},
        {{0, 0, 0, 4, 2, 9, 0, 0}, 8, -1, EPROTONOSUPPORT},
        {{0, 0, 0, 4, 0, 9, 0, 0}, 5, -1, EPROTONOSUPPORT},
        {{0xff, 0xff, 0xff, 0xff, 2, 9, 0, 0}, 8, -1, EPROTONOSUPPORT},
        {{0, 0, 0, 4, 1, 9, 1, 0}, 8, -1, EBADMSG},
        {{0, 0, 0, 4, 1, 9, 1, 0}, 7, -1, EBADMSG},
        {{0, 0, 0, 4, 1, 9, 0, 1}, 8, -1, EBADMSG},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        errno = 0;
        assert_int_equal(wire_frame_length(cases[i].head, cases[i].available, 1000),
                         cases[i].result);
        assert_int_equal(errno, cases[i].error);
    }
}

/* A copy in memory of exactly its size, so that AddressSanitizer sees a step too far. */
static uint8_t *exact_copy(const uint8_t *data, size_t length)
{
    uint8_t *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, data, length);
    return copy;
}

static void set_length(uint8_t *frame, size_t total)
{
    frame[2] = (uint8_t)((total - 4) >> 8);
    frame[3] = (uint8_t)(total - 4);
}

static void cut_frames_are_refused(void **state)
{
    (void)state;
    static const size_t ends[] = {8, 24, 40, 56, 66, 75}; /* of the head and of each field */
    for (size_t length = 0; length <= sizeof(golden); length++) {
        uint8_t *frame = exact_copy(golden, length);
        struct wire_view view;
        if (length < sizeof(golden))
            assert_int_equal(wire_open(&view, frame, length), -1);
        bool at_end = false;
        for (size_t i = 0; i < COUNT(ends); i++)
            at_end = at_end || ends[i] == length;
        if (length >= 8) { /* now with a length word that agrees */
            set_length(frame, length);
            assert_int_equal(wire_open(&view, frame, length), at_end ? 0 : -1);
            if (!at_end)
                assert_int_equal(errno, EBADMSG);
        }
        free(frame);
    }
}

static void contradictory_frames_are_refused(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {
        {3, 70},                 /* shorter than what is there */
        {3, 72},                 /* longer */
        {4, 2},                  /* version */
        {6, 1},                  /* reserved */
        {8 + 4, 0x80},           /* a field far longer than the frame */
        {8 + 7, 7},              /* a number of 7 bytes */
        {8 + 7, 9},              /* of 9 */
        {8 + 7, 0},              /* of none */
        {24 + 7, 255},           /* a field that runs over the end */
        {sizeof(golden) - 2, 2}, /* the last field one too long */
        {sizeof(golden) - 2, 0}, /* and one too short: a byte is left over */
    };
    for (size_t i = 0; i < COUNT(changes); i++) {
        uint8_t *frame = exact_copy(golden, sizeof(golden));
        struct wire_view view;
        frame[changes[i].at] = changes[i].value;
        errno = 0;
        assert_int_equal(wire_open(&view, frame, sizeof(golden)), -1);
        assert_int_equal(errno, EBADMSG);
        free(frame);
    }
    /* Tags and kinds of later versions are walked over. */
    uint8_t *frame = exact_copy(golden, sizeof(golden));
    struct wire_view view;
    frame[8 + 3] = 200;
    assert_int_equal(wire_open(&view, frame, sizeof(golden)), 0);
    free(frame);
}

/* A field of each length up to 16 that fills its frame: only a number of 8 bytes is one. */
static void numbers_have_eight_bytes(void **state)
{
    (void)state;
    for (uint8_t kind = WIRE_U64; kind <= WIRE_BYTES; kind++)
        for (uint8_t length = 0; length <= 16; length++) {
            const uint8_t bytes[32] = {
                0, 0, 0, (uint8_t)(12 + length), 1, 1, 0, 0, 0, 5, 0, kind, 0, 0, 0, length};
            uint8_t *frame = exact_copy(bytes, 16u + length);
            struct wire_view view;
            bool good = kind >= WIRE_STR || length == 8;
            assert_int_equal(wire_open(&view, frame, 16u + length), good ? 0 : -1);
            free(frame);
        }
}

static void random_bytes_stay_inside(void **state)
{
    (void)state;
    struct rng rng = {99};
    unsigned opened = 0;
    for (int round = 0; round < 20000; round++) {
        size_t length = 8 + rng_below(&rng, 60);
        uint8_t bytes[80];
        for (size_t i = 0; i < length; i++)
            bytes[i] = rng_chance(&rng, 60) ? 0 : (uint8_t)rng_next(&rng);
        bytes[0] = bytes[1] = bytes[6] = bytes[7] = 0;
        bytes[4] = 1;
        set_length(bytes, length);
        uint8_t *frame = exact_copy(bytes, length);
        struct wire_view view;
        if (wire_open(&view, frame, length) == 0) {
            opened++;
            struct wire_field field;
            size_t cursor = 0;
            while (wire_next(&view, &cursor, &field)) {
                assert_true(field.value >= frame + 16);
                assert_true(field.value + field.length <= frame + length);
            }
            assert_int_equal(cursor, view.length);
        }
        free(frame);
    }
    assert_in_range(opened, 100, 19900); /* both ways were walked */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_as_described),
        cmocka_unit_test(values_are_found),
        cmocka_unit_test(texts_and_numbers_that_are_not),
        cmocka_unit_test(writers_keep_the_limit),
        cmocka_unit_test(frames_grow_to_megabytes),
        cmocka_unit_test(lengths_of_frames),
        cmocka_unit_test(cut_frames_are_refused),
        cmocka_unit_test(contradictory_frames_are_refused),
        cmocka_unit_test(numbers_have_eight_bytes),
        cmocka_unit_test(random_bytes_stay_inside),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
