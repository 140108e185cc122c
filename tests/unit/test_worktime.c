/* How long the agent's own work takes: the median of the last times, the longest of all. */
#include "config.h"

#include "worktime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MS 1000000u /* nanoseconds */

static void none_yet(void **state)
{
    struct worktime w = {.times = 0};
    (void)state;
    assert_true(worktime_median_ms(&w) == 0);
    assert_true(worktime_longest_ms(&w) == 0);
}

static void few(void **state)
{
    struct worktime w = {.times = 0};
    (void)state;
    worktime_add(&w, 9 * MS);
    worktime_add(&w, MS / 2);
    worktime_add(&w, 2 * MS);
    assert_true(worktime_median_ms(&w) == 2);
    assert_true(worktime_longest_ms(&w) == 9);
}

static void the_median_forgets_the_longest_does_not(void **state)
{
    struct worktime w = {.times = 0};
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        worktime_add(&w, 100 * MS);
    for (unsigned i = 0; i < WORKTIME_KEPT; i++)
        worktime_add(&w, (uint64_t)(1 + i % 3) * MS);
    assert_true(worktime_median_ms(&w) == 2);
    assert_true(worktime_longest_ms(&w) == 100);
}

static void what_is_too_long_is_cut(void **state)
{
    struct worktime w = {.times = 0};
    (void)state;
    worktime_add(&w, UINT64_MAX);
    assert_true(worktime_longest_ms(&w) == UINT32_MAX / 1000.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_yet),
        cmocka_unit_test(few),
        cmocka_unit_test(the_median_forgets_the_longest_does_not),
        cmocka_unit_test(what_is_too_long_is_cut),
    };
    return cmocka_run_group_tests_name("worktime", tests, NULL, NULL);
}
