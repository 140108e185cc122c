/* What plugstack.conf, the command line and the environment may say, and what is made of it. */
#include "config.h"

#include "args.h"
#include "options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- plugstack.conf ---- */

static void endpoints(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name; /* NULL: refused */
    } cases[] = {
        {"unix:/run/adloader/ctld.sock", "unix:/run/adloader/ctld.sock"},
        {"ctl:6830", "ctl:6830"},
        {"10.0.0.1:1", "10.0.0.1:1"},
        {"[::1]:65535", "[::1]:65535"},
        {"", NULL},
        {"unix:", NULL},
        {"unix:relative", NULL},
        {"ctl", NULL},
        {"ctl:", NULL},
        {":6830", NULL},
        {"ctl:0", NULL},
        {"ctl:65536", NULL},
        {"ctl:068300", NULL},
        {"ctl:12x", NULL},
        {"999.1.1.1:1", NULL},
        {"[ctl]:1", NULL},
        {"[:::]:1", NULL},
        {"a..b:1", NULL},
        {"::1:6830", NULL},
        {"[]:1", NULL},
        {"unix:/0123456789012345678901234567890123456789012345678901234567890123456789"
         "012345678901234567890123456789012345678",
         NULL}, /* longer than a socket's address */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct endpoint e;
        char name[ARGS_TEXT_MAX + 16];
        int rc = args_parse_endpoint(cases[i].text, strlen(cases[i].text), &e);
        if (cases[i].name == NULL) {
            if (rc == 0)
                fail_msg("\"%s\" was taken", cases[i].text);
            continue;
        }
        assert_int_equal(rc, 0);
        assert_string_equal(args_endpoint_name(&e, name, sizeof name), cases[i].name);
    }
}

static void words_and_defaults(void **state)
{
    (void)state;
    struct args args;
    char error[512] = "";
    char *const words[] = {(char[]){"controller=unix:/a,ctl:1"},
                           (char[]){"rundir=/r"},
                           (char[]){"default=on"},
                           (char[]){"main_cores=0"},
                           (char[]){"munge_socket=/m"},
                           (char[]){"topology=none"},
                           (char[]){"log=debug"}};
    assert_int_equal(args_parse(&args, 0, NULL, error, sizeof error), 0);
    assert_int_equal(args.ncontrollers, 1);
    assert_true(args.controllers[0].local);
    assert_false(args.default_on);
    assert_int_equal(args.main_cores, 1);
    assert_int_equal(args_parse(&args, COUNT(words), words, error, sizeof error), 0);
    assert_int_equal(args.ncontrollers, 2);
    assert_string_equal(args.controllers[1].path, "ctl");
    assert_string_equal(args.rundir, "/r");
    assert_true(args.default_on);
    assert_int_equal(args.main_cores, 0);
    assert_string_equal(args.munge_socket, "/m");
    assert_string_equal(args.topology, "none");
    assert_int_equal(args.log_level, LOG_LEVEL_DEBUG);
}

static void bad_words_are_named_and_skipped(void **state)
{
    (void)state;
    static const char *const cases[] = {"nonsense",         "controller=",
                                        "controller=a:1,",  "rundir=here",
                                        "default=maybe",    "main_cores=-1",
                                        "main_cores=x",     "log=loud",
                                        "controllers=a:1",  "controller=a:1,b:1,c:1,d:1,e:1",
                                        "topology=adloader"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct args args, defaults;
        char error[512] = "", word[64];
        snprintf(word, sizeof word, "%s", cases[i]);
        char *const words[] = {word, (char[]){"default=on"}};
        assert_int_equal(args_parse(&defaults, 0, NULL, error, sizeof error), 0);
        assert_int_equal(args_parse(&args, 2, words, error, sizeof error), -1);
        assert_non_null(strstr(error, cases[i]));
        assert_true(args.default_on); /* what follows still counts */
        defaults.default_on = true;
        assert_memory_equal(&args, &defaults, sizeof args); /* nothing is half applied */
    }
}

/* ---- --adloader ---- */

static void a_bare_option_comes_in_many_forms(void **state)
{
    (void)state;
    static const char *const forms[] = {NULL, "", "(null)", "on", "ON", "1", "yes"};
    for (size_t i = 0; i < COUNT(forms); i++) {
        struct options options = {0};
        struct hints hints;
        char error[512];
        assert_int_equal(options_take(&options, forms[i], error, sizeof error), 0);
        assert_int_equal(options_resolve(&options, NULL, NULL, false, &hints, error, sizeof error),
                         0);
        assert_true(hints.on);
    }
}

static void nonsense_is_refused_with_what_is_allowed(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "nonsense",     "workers=", "workers=8-2",         "batch=-1",
        "on,workers=x", ",",        "workers=1,nonsense=2"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct options options = {0};
        char error[1024] = "";
        if (options_take(&options, cases[i], error, sizeof error) == 0)
            fail_msg("\"%s\" was taken", cases[i]);
        assert_false(options.given);
        assert_true(strlen(error) > 0);
    }
}

/* The remote callback comes twice, and the second time with less. */
static void the_callback_may_come_twice(void **state)
{
    (void)state;
    static const char *const seconds[] = {"", NULL, "(null)", "workers=4,model=resnet50"};
    for (size_t i = 0; i < COUNT(seconds); i++) {
        struct options options = {0};
        char error[512];
        assert_int_equal(options_take(&options, "workers=4,model=resnet50", error, sizeof error),
                         0);
        assert_int_equal(options_take(&options, seconds[i], error, sizeof error), 0);
        assert_true(options.hints.on);
        assert_int_equal(options.hints.workers_min, 4);
        assert_string_equal(options.hints.model, "resnet50");
    }
}

struct turn {
    const char *option[2]; /* taken in turn; NULL not given */
    const char *env_switch, *env_hints;
    bool default_on;
    int rc;
    bool on;
    unsigned workers; /* of the hints in force */
};

static void who_beats_whom(void **state)
{
    (void)state;
    static const struct turn turns[] = {
        /* nothing said: the site's default */
        {{NULL, NULL}, NULL, NULL, false, 0, false, 0},
        {{NULL, NULL}, NULL, NULL, true, 0, true, 0},
        /* the environment beats the default */
        {{NULL, NULL}, "on", NULL, false, 0, true, 0},
        {{NULL, NULL}, "off", NULL, true, 0, false, 0},
        {{NULL, NULL}, "workers=3", NULL, false, 0, true, 3},
        /* the option beats the environment */
        {{"off", NULL}, "on", "workers=2", true, 0, false, 0},
        {{"on", NULL}, "off", NULL, false, 0, true, 0},
        {{"workers=5", NULL}, "off", "workers=2", false, 0, true, 5},
        /* hints of the environment serve who gave none, and switch nothing on */
        {{NULL, NULL}, NULL, "workers=2", false, 0, false, 0},
        {{NULL, NULL}, NULL, "workers=2", true, 0, true, 2},
        {{"on", NULL}, NULL, "workers=2", false, 0, true, 2},
        {{NULL, NULL}, "on", "workers=2", false, 0, true, 2},
        {{"on", NULL}, NULL, "", false, 0, true, 0},
        {{"on", NULL}, NULL, "off", false, 0, true, 0},
        /* the last option counts, but "on" forgets no hints */
        {{"on", "off"}, NULL, NULL, false, 0, false, 0},
        {{"off", "on"}, NULL, NULL, false, 0, true, 0},
        {{"workers=5", "workers=7"}, NULL, NULL, false, 0, true, 7},
        {{"workers=5", "off"}, NULL, NULL, false, 0, false, 0},
        {{"off", "workers=7"}, NULL, NULL, false, 0, true, 7},
        /* nonsense in the environment: refused where it would count, else not looked at */
        {{NULL, NULL}, "maybe", NULL, true, -1, false, 0},
        {{"on", NULL}, "maybe", NULL, false, 0, true, 0},
        {{"on", NULL}, NULL, "maybe", false, -1, true, 0},
        {{"workers=5", NULL}, NULL, "maybe", false, 0, true, 5},
        {{"off", NULL}, "maybe", "maybe", false, 0, false, 0},
    };
    for (size_t i = 0; i < COUNT(turns); i++) {
        const struct turn *t = &turns[i];
        struct options options = {0};
        struct hints hints;
        char error[1024] = "";
        for (size_t k = 0; k < 2; k++)
            if (t->option[k] != NULL)
                assert_int_equal(options_take(&options, t->option[k], error, sizeof error), 0);
        int rc = options_resolve(&options, t->env_switch, t->env_hints, t->default_on, &hints,
                                 error, sizeof error);
        if (rc != t->rc || hints.on != t->on || (t->on && hints.workers_min != t->workers))
            fail_msg("turn %zu: rc %d on %d workers %u (%s)", i, rc, hints.on, hints.workers_min,
                     error);
        assert_int_equal(rc < 0, strstr(error, "ADLOADER") != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoints),
        cmocka_unit_test(words_and_defaults),
        cmocka_unit_test(bad_words_are_named_and_skipped),
        cmocka_unit_test(a_bare_option_comes_in_many_forms),
        cmocka_unit_test(nonsense_is_refused_with_what_is_allowed),
        cmocka_unit_test(the_callback_may_come_twice),
        cmocka_unit_test(who_beats_whom),
    };
    return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}
