/* Hints of users: what is read, what is refused and with which words, and the way back to text. */
#include "hints.h"
#include "rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void texts_and_their_canonical_form(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {NULL, "on"},
        {"", "on"},
        {"(null)", "on"},
        {"on", "on"},
        {"ON", "on"},
        {"1", "on"},
        {"yes", "on"},
        {"off", "off"},
        {"Off", "off"},
        {"0", "off"},
        {"no", "off"},
        {"report", "report"},
        {"workers=4", "workers=4"},
        {"workers=2-16", "workers=2-16"},
        {"workers=3-3", "workers=3-3"},
        {"workers=4096", "workers=4096"},
        {"WORKERS=1", "workers=1"},
        {"batch=256", "batch=256"},
        {"data=JPEG", "data=jpeg"},
        {"data=raw", "data=raw"},
        {"data=Packed", "data=packed"},
        {"model=ResNet-50_v1.5+x/y", "model=ResNet-50_v1.5+x/y"},
        {"flops=4.1G", "flops=4100000000"},
        {"flops=4.1e9", "flops=4100000000"},
        {"flops=4100E+6", "flops=4100000000"},
        {"flops=1", "flops=1"},
        {"flops=1k", "flops=1000"},
        {"flops=1P", "flops=1000000000000000"},
        {"flops=1000P", "flops=1000000000000000000"},
        {"flops=1e18", "flops=1000000000000000000"},
        {"flops=.5k", "flops=500"},
        {"flops=1.", "flops=1"},
        {"flops=0.5", "flops=1"},
        {"flops=1.49", "flops=1"},
        {"flops=1.5", "flops=2"},
        {"flops=25e-1", "flops=3"},
        {"params=25.6M", "params=25600000"},
        {"report,params=1T,flops=2t,data=raw,profile=p,model=m,batch=3,workers=1-2",
         "workers=1-2,batch=3,model=m,profile=p,data=raw,flops=2000000000000,"
         "params=1000000000000,report"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hints hints;
        char error[1024], text[HINTS_TEXT_MAX];
        assert_int_equal(hints_parse(cases[i].text, &hints, error, sizeof(error)), 0);
        assert_string_equal(error, "");
        assert_int_equal(hints_format(&hints, text, sizeof(text)), strlen(cases[i].canonical));
        assert_string_equal(text, cases[i].canonical);
    }
}

static void fields_get_their_values(void **state)
{
    (void)state;
    struct hints h;
    char error[256];
    assert_int_equal(hints_parse("workers=2-8,batch=64,model=m,profile=q,data=jpeg,flops=4G,"
                                 "params=25M,report",
                                 &h, error, sizeof(error)),
                     0);
    assert_true(h.on && h.report);
    assert_int_equal(h.workers_min, 2);
    assert_int_equal(h.workers_max, 8);
    assert_int_equal(h.batch, 64);
    assert_string_equal(h.model, "m");
    assert_string_equal(h.profile, "q");
    assert_int_equal(h.data, HINTS_DATA_JPEG);
    assert_true(h.flops == 4e9 && h.params == 25e6);
    assert_int_equal(hints_parse("workers=5", &h, error, sizeof(error)), 0);
    assert_int_equal(h.workers_min, 5);
    assert_int_equal(h.workers_max, 0);
    assert_false(h.report);
    assert_int_equal(h.batch, 0);
    assert_int_equal(h.data, HINTS_DATA_UNKNOWN);
}

static void refusals_say_what_and_what_is_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *names, *allows;
    } cases[] = {
        {"workres=4", "\"workres\"", "workers=MIN[-MAX]"},
        {"of", "\"of\"", "on, off"},
        {"on,report", "\"on\"", "on, off"},
        {"off,workers=4", "\"off\"", "on, off"},
        {" workers=4", "\" workers\"", "workers=MIN[-MAX]"},
        {"=4", "\"\"", "workers=MIN[-MAX]"},
        {"workers", "\"workers\"", "workers=VALUE"},
        {"workers=", "workers=\"\"", "MIN-MAX"},
        {"workers=0", "workers=\"0\"", "from 1 to 4096"},
        {"workers=4097", "workers=\"4097\"", "from 1 to 4096"},
        {"workers=8-2", "workers=\"8-2\"", "MIN not above MAX"},
        {"workers=-3", "workers=\"-3\"", "MIN-MAX"},
        {"workers=2-", "workers=\"2-\"", "MIN-MAX"},
        {"workers=2-4-8", "workers=\"2-4-8\"", "MIN-MAX"},
        {"workers=0-4", "workers=\"0-4\"", "MIN-MAX"},
        {"workers=4x", "workers=\"4x\"", "MIN-MAX"},
        {"workers=99999999999999999999", "workers=\"9999", "MIN-MAX"},
        {"batch=0", "batch=\"0\"", "whole number"},
        {"batch=1.5", "batch=\"1.5\"", "whole number"},
        {"batch=16777217", "batch=\"16777217\"", "16777216"},
        {"data=png", "data=\"png\"", "jpeg, raw or packed"},
        {"data=", "data=\"\"", "jpeg, raw or packed"},
        {"model=", "model=\"\"", "1 to 63"},
        {"model=a b", "model=\"a b\"", "letters, digits"},
        {"model=a;b", "model=\"a;b\"", "letters, digits"},
        {"model=.m", "model=\".m\"", "beginning with a ."},
        {"profile=../x", "profile=\"../x\"", "beginning with a ."},
        {"profile=.x", "profile=\".x\"", "beginning with a ."},
        {"profile=", "profile=\"\"", "1 to 51"},
        {"profile=a=b", "profile=\"a=b\"", "letters, digits"},
        {"profile=a\nb", "profile=\"a?b\"", "letters, digits"},
        {"profile=\xc3\xbc", "profile=\"??\"", "letters, digits"},
        {"flops=", "flops=\"\"", "K, M, G, T or P"},
        {"flops=.", "flops=\".\"", "K, M, G, T or P"},
        {"flops=-1", "flops=\"-1\"", "from 1 to 1e18"},
        {"flops=0", "flops=\"0\"", "from 1 to 1e18"},
        {"flops=0.4", "flops=\"0.4\"", "from 1 to 1e18"},
        {"flops=1e-9", "flops=\"1e-9\"", "from 1 to 1e18"},
        {"flops=1e19", "flops=\"1e19\"", "from 1 to 1e18"},
        {"flops=1001P", "flops=\"1001P\"", "from 1 to 1e18"},
        {"flops=99999999999999999999", "flops=\"9999", "from 1 to 1e18"},
        {"flops=1e", "flops=\"1e\"", "from 1 to 1e18"},
        {"flops=1e999", "flops=\"1e999\"", "from 1 to 1e18"},
        {"flops=1GG", "flops=\"1GG\"", "K, M, G, T or P"},
        {"flops=1Q", "flops=\"1Q\"", "K, M, G, T or P"},
        {"flops=1.2.3", "flops=\"1.2.3\"", "K, M, G, T or P"},
        {"flops=nan", "flops=\"nan\"", "K, M, G, T or P"},
        {"params=inf", "params=\"inf\"", "K, M, G, T or P"},
        {"params=0x10", "params=\"0x10\"", "K, M, G, T or P"},
        {"report=yes", "\"report\"", "alone"},
        {"report,report", "\"report\"", "once"},
        {"workers=4,Workers=4", "\"workers\"", "once"},
        {"workers=4,", "empty", "on, off"},
        {",", "empty", "on, off"},
        {"workers=4,,batch=2", "empty", "on, off"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct hints hints = {.batch = 77};
        char error[2048];
        if (hints_parse(cases[i].text, &hints, error, sizeof(error)) == 0)
            fail_msg("accepted: %s", cases[i].text);
        if (!strstr(error, cases[i].names) || !strstr(error, cases[i].allows))
            fail_msg("%s: \"%s\" lacks %s or %s", cases[i].text, error, cases[i].names,
                     cases[i].allows);
        assert_int_equal(hints.batch, 77); /* nothing half read */
    }
}

static void lengths_are_bounded(void **state)
{
    (void)state;
    struct hints hints;
    char text[2 * HINTS_TEXT_MAX], error[64];
    (void)snprintf(text, sizeof(text), "model=%0*d", HINTS_NAME_MAX - 1, 7);
    assert_int_equal(hints_parse(text, &hints, error, sizeof(error)), 0);
    (void)snprintf(text, sizeof(text), "model=%0*d", HINTS_NAME_MAX, 7);
    assert_int_equal(hints_parse(text, &hints, error, sizeof(error)), -1);
    (void)snprintf(text, sizeof(text), "profile=%0*d", HINTS_PROFILE_MAX - 1, 7);
    assert_int_equal(hints_parse(text, &hints, error, sizeof(error)), 0);
    (void)snprintf(text, sizeof(text), "profile=%0*d", HINTS_PROFILE_MAX, 7);
    assert_int_equal(hints_parse(text, &hints, error, sizeof(error)), -1);
    (void)snprintf(text, sizeof(text), "flops=%0*d", HINTS_TEXT_MAX - 7, 7);
    assert_int_equal(hints_parse(text, &hints, error, sizeof(error)), 0);
    assert_true(hints.flops == 7);
    (void)snprintf(text, sizeof(text), "flops=%0*d", HINTS_TEXT_MAX - 6, 7);
    assert_int_equal(hints_parse(text, &hints, error, sizeof(error)), -1);
    assert_non_null(strstr(error, "longer"));
    /* A complaint that does not fit is cut, and none at all is fine too. */
    char small[8] = "#######";
    assert_int_equal(hints_parse("nonsense=1", &hints, small, 4), -1);
    assert_string_equal(small, "\"no");
    assert_string_equal(small + 4, "###");
    assert_int_equal(hints_parse("nonsense=1", &hints, NULL, 0), -1);
}

static void random_name(struct rng *rng, char *name, unsigned size)
{
    static const char letters[] = "abcXYZ019._+-/";
    unsigned length = rng_below(rng, size);
    for (unsigned i = 0; i < length; i++)
        name[i] = letters[rng_below(rng, sizeof(letters) - 1)];
    if (name[0] == '.')
        name[0] = 'a';
    name[length] = '\0';
}

static struct hints random_hints(struct rng *rng)
{
    struct hints h = {.on = true, .report = rng_chance(rng, 50)};
    if (rng_chance(rng, 50))
        h.workers_min = 1 + rng_below(rng, HINTS_WORKERS_MAX);
    if (h.workers_min && rng_chance(rng, 50))
        h.workers_max = h.workers_min + rng_below(rng, HINTS_WORKERS_MAX - h.workers_min + 1);
    if (rng_chance(rng, 50))
        h.batch = 1 + rng_below(rng, 16777216);
    if (rng_chance(rng, 50))
        h.flops = (double)(1 + rng_next(rng) % UINT64_C(1000000000000000000));
    if (rng_chance(rng, 50))
        h.params = (double)(1 + rng_next(rng) % 100000000000);
    h.data = (enum hints_data)rng_below(rng, 4);
    random_name(rng, h.model, sizeof(h.model));
    random_name(rng, h.profile, sizeof(h.profile));
    return h;
}

static void assert_same_hints(const struct hints *a, const struct hints *b)
{
    assert_int_equal(a->on, b->on);
    assert_int_equal(a->report, b->report);
    assert_int_equal(a->workers_min, b->workers_min);
    assert_int_equal(a->workers_max, b->workers_max);
    assert_int_equal(a->batch, b->batch);
    assert_int_equal(a->data, b->data);
    assert_true(a->flops == b->flops && a->params == b->params);
    assert_string_equal(a->model, b->model);
    assert_string_equal(a->profile, b->profile);
}

static void canonical_text_reads_back(void **state)
{
    (void)state;
    struct rng rng = {11};
    for (int round = 0; round < 5000; round++) {
        struct hints h = random_hints(&rng), back;
        char text[HINTS_TEXT_MAX], error[256];
        int length = hints_format(&h, text, sizeof(text));
        assert_true(length > 0 && (size_t)length < sizeof(text));
        assert_int_equal(hints_parse(text, &back, error, sizeof(error)), 0);
        assert_same_hints(&h, &back);
        /* A smaller buffer gets the head of the same text. */
        char cut[16];
        assert_int_equal(hints_format(&h, cut, sizeof(cut)), length);
        assert_int_equal(strncmp(cut, text, sizeof(cut) - 1), 0);
    }
}

static void usage_names_every_key(void **state)
{
    (void)state;
    static const char *const words[] = {"on",       "off",   "workers=", "batch=",  "model=",
                                        "profile=", "data=", "flops=",   "params=", "report"};
    for (size_t i = 0; i < COUNT(words); i++)
        assert_non_null(strstr(hints_usage(), words[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_and_their_canonical_form),
        cmocka_unit_test(fields_get_their_values),
        cmocka_unit_test(refusals_say_what_and_what_is_allowed),
        cmocka_unit_test(lengths_are_bounded),
        cmocka_unit_test(canonical_text_reads_back),
        cmocka_unit_test(usage_names_every_key),
    };
    return cmocka_run_group_tests_name("hints", tests, NULL, NULL);
}
