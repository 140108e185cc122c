/* The Slurm release that a plugin was built for, read from its file: the real plugin's, and from
 * files that are damaged in every way. */
#include "config.h"

#include "elfword.h"

#include "rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <slurm/slurm_version.h>

#include <cmocka.h>

#define DAMAGES 400
#define HEAD    4096u /* bytes at the beginning, where the tables' places stand */

static char plugin[512], damaged[64];

static unsigned char *read_plugin(size_t *size)
{
    FILE *f = fopen(plugin, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    long length = ftell(f);
    assert_true(length > 0);
    rewind(f);
    unsigned char *data = malloc((size_t)length);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)length, f), length);
    assert_int_equal(fclose(f), 0);
    *size = (size_t)length;
    return data;
}

static void write_damaged(const unsigned char *data, size_t size)
{
    FILE *f = fopen(damaged, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void the_plugin_s_own_version(void **state)
{
    char error[256];
    uint32_t version = 0;
    (void)state;
    assert_int_equal(elfword_read(plugin, "plugin_version", &version, error, sizeof error), 0);
    assert_int_equal(version, SLURM_VERSION_NUMBER);
    assert_int_equal(elfword_read(plugin, "no_such_symbol", &version, error, sizeof error), -1);
    assert_non_null(strstr(error, "no plugin"));
    assert_int_equal(elfword_read("/nowhere", "x", &version, error, sizeof error), -1);
    assert_non_null(strstr(error, "cannot be read"));
    assert_int_equal(elfword_read("/", "x", &version, error, sizeof error), -1);
}

/* Whatever is changed in it: an answer or a refusal, and never a look outside. */
static void damage_is_survived(void **state)
{
    struct rng rng = {7};
    size_t size;
    unsigned char *data = read_plugin(&size), *copy = malloc(size);
    unsigned refused = 0;
    (void)state;
    assert_non_null(copy);
    for (unsigned i = 0; i < DAMAGES; i++) {
        char error[256] = "";
        uint32_t version;
        size_t length = i % 4 == 0 ? rng_below(&rng, (unsigned)size) + 1 : size;
        memcpy(copy, data, size);
        for (unsigned n = rng_below(&rng, 8) + 1; n > 0; n--) {
            /* the head, the section table at the end, or anywhere */
            size_t at = i % 3 == 0   ? rng_below(&rng, 64)
                        : i % 3 == 1 ? size - 1 - rng_below(&rng, HEAD)
                                     : rng_below(&rng, (unsigned)size);
            copy[at] = (unsigned char)rng_below(&rng, 256);
        }
        write_damaged(copy, length);
        if (elfword_read(damaged, "plugin_version", &version, error, sizeof error) < 0) {
            refused++;
            assert_true(error[0] != '\0');
        }
    }
    assert_true(refused > DAMAGES / 8); /* the damage reached what is looked at */
    free(copy);
    free(data);
}

static int set_up(void **state)
{
    const char *build = getenv("ADL_BUILDDIR");
    (void)state;
    snprintf(plugin, sizeof plugin, "%s/.libs/spank_adloader.so", build != NULL ? build : ".");
    snprintf(damaged, sizeof damaged, "/tmp/adl-test-elfword-XXXXXX");
    int fd = mkstemp(damaged);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(damaged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_plugin_s_own_version),
        cmocka_unit_test(damage_is_survived),
    };
    return cmocka_run_group_tests_name("elfword", tests, set_up, tear_down);
}
