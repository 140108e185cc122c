/* Warnings that are said once: the memory of what was said about what. */
#include "config.h"

#include "warnonce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void a_sentence_is_new_once(void **state)
{
    struct warnonce w = {0};

    (void)state;
    assert_true(warnonce_is_new(&w, "/a", "is no file"));
    assert_false(warnonce_is_new(&w, "/a", "is no file"));
    assert_true(warnonce_is_new(&w, "/b", "is no file")); /* of another thing */
    assert_true(warnonce_is_new(&w, "/a", "is too long"));
    assert_false(warnonce_is_new(&w, "/a", "is too long"));
    assert_false(warnonce_is_new(&w, "/b", "is no file"));
    assert_true(warnonce_is_new(&w, "/a", "is no file")); /* again, after something else */
    warnonce_forget(&w);
    assert_true(warnonce_is_new(&w, "/a", "is no file"));
    assert_true(warnonce_is_new(&w, "/b", "is no file"));
    assert_false(warnonce_is_new(&w, "/b", "is no file"));
}

static bool is_new(struct warnonce *w, unsigned thing)
{
    char about[32];

    (void)snprintf(about, sizeof(about), "thing %u", thing);
    return warnonce_is_new(w, about, "is bad");
}

/* Full, the thing not spoken of for the longest time goes; one spoken of stays, also if nothing was
 * written about it. */
static void the_longest_unused_makes_room(void **state)
{
    struct warnonce w = {0};

    (void)state;
    for (unsigned i = 0; i < WARNONCE_THINGS; i++)
        assert_true(is_new(&w, i));
    assert_false(is_new(&w, 0));
    assert_true(is_new(&w, WARNONCE_THINGS)); /* in the place of 1 */
    assert_false(is_new(&w, 0));
    for (unsigned i = 2; i <= WARNONCE_THINGS; i++)
        assert_false(is_new(&w, i));
    assert_true(is_new(&w, 1));
    assert_true(is_new(&w, 0)); /* which went for it */
    for (unsigned i = 0; i < 10 * WARNONCE_THINGS; i++)
        (void)is_new(&w, 1000 + i);
    assert_int_equal(w.n, WARNONCE_THINGS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sentence_is_new_once),
        cmocka_unit_test(the_longest_unused_makes_room),
    };

    return cmocka_run_group_tests_name("warnonce", tests, NULL, NULL);
}
