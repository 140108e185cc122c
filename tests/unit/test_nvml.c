/* GPU use by way of a management library that the test brings along, or does not. */
#include "config.h"

#include "nvml.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char library[512];

static int find_library(void **state)
{
    const char *build = getenv("ADL_BUILDDIR");
    (void)state;
    (void)snprintf(library, sizeof library, "%s/.libs/fake_nvml.so", build != NULL ? build : ".");
    return 0;
}

/* The share when it is there, or NAN if that does not come within the time. */
static double busy_within(const struct nvml *nvml, unsigned ms)
{
    const struct timespec pause = {0, 5000000};
    for (unsigned waited = 0; waited < ms && isnan(nvml_busy(nvml)); waited += 5)
        (void)nanosleep(&pause, NULL);
    return nvml_busy(nvml);
}

static double busy_of(const char *list, unsigned ms)
{
    char gpus[8][MSG_GPU_MAX], text[256], *saved = NULL;
    unsigned n = 0;
    (void)snprintf(text, sizeof text, "%s", list);
    for (char *gpu = strtok_r(text, ",", &saved); gpu != NULL && n < COUNT(gpus);
         gpu = strtok_r(NULL, ",", &saved))
        (void)snprintf(gpus[n++], MSG_GPU_MAX, "%s", gpu);
    struct nvml *nvml = nvml_start(library, (const char(*)[MSG_GPU_MAX])gpus, n);
    double busy = busy_within(nvml, ms);
    nvml_stop(nvml);
    return busy;
}

/* NVIDIA-NeMo/RL#2613: names are not the library's order. */
static void names(void **state)
{
    static const struct {
        const char *gpus;
        double busy; /* negative: unknown */
    } cases[] = {
        {"2", 0.8},
        {"0", 0.2},
        {"2,0", 0.5},
        {"GPU-bbbb", 0.2},
        {"0000:07:00.0", 0.8},
        {"GPU-aaaa,0000:0A:00.0", 0.5},
        {"1", -1},
        {"GPU-cccc", -1},
        {"MIG-1234", -1},
        {"1,2", 0.8},
        {"7", -1},
        {"GPU-dddd", -1},
        {"0x0", -1},
        {"-1", -1},
        {"tesla", -1},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        double busy = busy_of(cases[i].gpus, cases[i].busy < 0 ? 100 : 5000);
        if (cases[i].busy < 0 ? !isnan(busy) : !(fabs(busy - cases[i].busy) < 1e-9))
            fail_msg("\"%s\": %f", cases[i].gpus, busy);
    }
}

static void no_gpus_no_thread(void **state)
{
    (void)state;
    assert_null(nvml_start(library, NULL, 0));
    assert_true(isnan(nvml_busy(NULL)));
    nvml_stop(NULL);
}

static void no_library(void **state)
{
    char gpus[1][MSG_GPU_MAX] = {"0"};
    (void)state;
    struct nvml *nvml =
        nvml_start("libthat-is-not-there.so.1", (const char(*)[MSG_GPU_MAX])gpus, 1);
    assert_true(isnan(busy_within(nvml, 100)));
    nvml_stop(nvml);
}

static void a_library_that_does_not_work(void **state)
{
    static const char *const ways[] = {"FAKE_NVML_BROKEN", "FAKE_NVML_UNSUPPORTED"};
    (void)state;
    for (size_t i = 0; i < COUNT(ways); i++) {
        assert_int_equal(setenv(ways[i], "1", 1), 0);
        assert_true(isnan(busy_of("0", 100)));
        assert_int_equal(unsetenv(ways[i]), 0);
    }
    double busy = busy_of("0", 5000);
    assert_true(fabs(busy - 0.2) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(no_gpus_no_thread),
        cmocka_unit_test(no_library),
        cmocka_unit_test(a_library_that_does_not_work),
    };
    return cmocka_run_group_tests_name("nvml", tests, find_library, NULL);
}
