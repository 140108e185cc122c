/* Why GPUs wait: a table of situations, then that verdicts neither flicker nor stick. */
#include "config.h"

#include "rng.h"
#include "verdict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Each look names what differs from an ordinary one. */
#ifdef __clang__
#pragma GCC diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define UNKNOWN      (double)NAN

/* A look at a step about which nothing is known but what a program without our library shows. */
#define LOOK                                                                                       \
    .interval_s = 1, .gpus = true, .queue = 0, .io_wait = 0, .main_use = 0.2, .main_thread = 0.2,  \
    .busy = UNKNOWN, .rate = UNKNOWN, .read_bytes_per_s = 1e6, .cpu_limit = UNKNOWN

struct situation {
    const char *what;
    enum verdict verdict;
    const char *says, *advises; /* parts of the words; NULL none asked for */
    struct verdict_look look;
    double seconds; /* 0: 10 */
};

static const struct situation situations[] = {
    {"fed, by the GPU's counter",
     VERDICT_GPU_BOUND,
     "the GPU worked 97 %",
     "will not help",
     {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 1.2, .busy = 0.97}},
    {"fed, by the loop's clock",
     VERDICT_GPU_BOUND,
     "training loop worked",
     NULL,
     {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 3.9, .busy = 0.99, .clocked = true}},
    {"nothing known of the GPU, loaders idle",
     VERDICT_GPU_BOUND,
     "time to spare",
     NULL,
     {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 1}},
    {"loaders use all they have",
     VERDICT_CPU_STARVED,
     "loaders used 4 of 4 cores",
     "more loader cores",
     {LOOK, .tasks = 8, .workers = 8, .cores = 4, .use = 3.95, .queue = 3, .busy = 0.5}},
    {"one loader that mostly waits for a CPU that others use",
     VERDICT_CPU_STARVED,
     NULL,
     NULL,
     {LOOK, .tasks = 1, .workers = 1, .cores = 1, .use = 0.13, .queue = 0.66}},
    {"the same, nothing known of the GPU",
     VERDICT_CPU_STARVED,
     "waited for a CPU",
     "about 7 are wanted",
     {LOOK, .tasks = 8, .workers = 8, .cores = 4, .use = 3.95, .queue = 3}},
    {"crowded out by the main thread on one core",
     VERDICT_CPU_STARVED,
     NULL,
     NULL,
     {LOOK, .tasks = 2, .workers = 2, .cores = 1, .use = 0.5, .queue = 1.2, .main_use = 0.5,
      .main_thread = 0.5}},
    {"math threads: 8 workers of 4 threads (PyTorch-BigGraph#6)",
     VERDICT_CPU_STARVED,
     "each worker runs 4 threads",
     "OMP_NUM_THREADS",
     {LOOK, .tasks = 32, .workers = 8, .cores = 8, .use = 7.9, .queue = 20, .busy = 0.6}},
    {"a quota below the mask (inference-perf#722)",
     VERDICT_CPU_STARVED,
     "quota limits the step to 4.0",
     "larger CPU quota",
     {LOOK, .tasks = 8, .workers = 8, .cores = 8, .use = 3.7, .busy = 0.5, .cpu_limit = 4}},
    {"one busy worker on four cores (geti#5978)",
     VERDICT_WORKER_LIMITED,
     "its 1 worker had work",
     "num_workers=4",
     {LOOK, .tasks = 1, .workers = 1, .cores = 4, .use = 0.97, .busy = 0.3}},
    {"many cores, few workers (gnn_tracking#95)",
     VERDICT_WORKER_LIMITED,
     "its 6 workers",
     NULL,
     {LOOK, .tasks = 6, .workers = 6, .cores = 56, .use = 5.9, .busy = 0.33}},
    {"the same, nothing known of the GPU",
     VERDICT_WORKER_LIMITED,
     NULL,
     NULL,
     {LOOK, .tasks = 6, .workers = 6, .cores = 56, .use = 5.9}},
    {"workers wait for a disk",
     VERDICT_IO_BOUND,
     "waited for storage",
     "storage",
     {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 0.8, .io_wait = 2.5, .busy = 0.4}},
    {"workers wait for the network",
     VERDICT_IO_BOUND,
     "mostly slept",
     "storage",
     {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 0.4, .busy = 0.4}},
    {"no GPU, and nobody computes",
     VERDICT_IO_BOUND,
     "mostly slept",
     NULL,
     {LOOK, .gpus = false, .tasks = 4, .workers = 4, .cores = 4, .use = 0.2}},
    {"a disk, but the cores are the limit",
     VERDICT_CPU_STARVED,
     NULL,
     NULL,
     {LOOK, .tasks = 8, .workers = 8, .cores = 2, .use = 1.95, .io_wait = 3, .busy = 0.4}},
    {"a disk, but data is in time",
     VERDICT_GPU_BOUND,
     NULL,
     NULL,
     {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 0.8, .io_wait = 2.5, .busy = 0.98}},
    {"a slow main thread",
     VERDICT_MAIN_THREAD_BOUND,
     "main thread had work 97 %",
     "training loop",
     {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 1, .main_use = 1, .main_thread = 0.97,
      .busy = 0.7}},
    {"the main thread loads by itself (cruijff_kit#449)",
     VERDICT_MAIN_THREAD_BOUND,
     "no loader workers",
     "num_workers=2",
     {LOOK, .cores = 4, .main_use = 1, .main_thread = 0.97, .busy = 0.7}},
    {"the loop's clock knows that it computes (a CPU model)",
     VERDICT_GPU_BOUND,
     NULL,
     NULL,
     {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 1, .main_use = 1, .main_thread = 0.97,
      .busy = 0.99, .clocked = true}},
    {"an idle script around steps",
     VERDICT_UNKNOWN,
     "no loader",
     "",
     {LOOK, .cores = 4, .main_use = 0, .main_thread = 0, .read_bytes_per_s = 0},
     100},
    {"sleep in an allocation (ROCm/spur#803)",
     VERDICT_UNKNOWN,
     NULL,
     "",
     {LOOK, .cores = 4, .main_use = 0, .main_thread = 0, .read_bytes_per_s = 0, .busy = 0},
     100},
    {"late, and nothing tells why",
     VERDICT_UNKNOWN,
     "does not tell",
     "",
     {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 2.6, .busy = 0.6}},
    {"workers without a rank (pytorch#26072)",
     VERDICT_ORPHANED,
     "8 loader workers",
     "end the step",
     {LOOK, .tasks = 8, .workers = 8, .orphans = 8, .cores = 4, .use = 2}},
    {"some of them",
     VERDICT_CPU_STARVED,
     NULL,
     NULL,
     {LOOK, .tasks = 8, .workers = 8, .orphans = 2, .cores = 4, .use = 3.9}},
    {"a node without confinement",
     VERDICT_UNMANAGED,
     "not known",
     "task/affinity",
     {LOOK, .tasks = 8, .workers = 8, .unconfined = true, .cores = 4, .use = 3.9}},
    {"bound by the user",
     VERDICT_UNMANAGED,
     "bound by --cpu-bind",
     "leave out --cpu-bind",
     {LOOK, .tasks = 8, .workers = 8, .bound = true, .cores = 4, .use = 3.9}},
    {"masks of their own",
     VERDICT_UNMANAGED,
     "application manages affinity",
     NULL,
     {LOOK, .tasks = 8, .workers = 8, .left_alone = 8, .cores = 4, .use = 3.9}},
};

static void look_for(struct verdict_state *s, const struct verdict_look *look, double seconds)
{
    for (double t = 0; t < seconds; t += look->interval_s)
        (void)verdict_update(s, look);
}

static void table(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(situations); i++) {
        const struct situation *c = &situations[i];
        struct verdict_state s;
        char seen[VERDICT_TEXT_SIZE], advice[VERDICT_TEXT_SIZE];

        verdict_init(&s);
        look_for(&s, &c->look, c->seconds > 0 ? c->seconds : 10);
        assert_true(verdict_evidence(&s, seen, sizeof seen) < (int)sizeof seen);
        assert_true(verdict_advice(&s, 6.6, advice, sizeof advice) < (int)sizeof advice);
        if (verdict_kind(&s) != c->verdict)
            fail_msg("%s: %s (%s), not %s", c->what, verdict_name(verdict_kind(&s)), seen,
                     verdict_name(c->verdict));
        if (c->says != NULL && strstr(seen, c->says) == NULL)
            fail_msg("%s: \"%s\" lacks \"%s\"", c->what, seen, c->says);
        if (c->advises != NULL &&
            (strstr(advice, c->advises) == NULL || (c->advises[0] == '\0' && advice[0] != '\0')))
            fail_msg("%s: \"%s\" lacks \"%s\"", c->what, advice, c->advises);
    }
}

/* A step that loaded and then hangs; what the GPU's counter says does not count as progress. */
static void hanging(void **state)
{
    static const struct verdict_look works = {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 2};
    static const struct verdict_look hangs[] = {
        {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 0, .main_use = 0, .main_thread = 0,
         .read_bytes_per_s = 0},
        {LOOK, .tasks = 4, .workers = 4, .cores = 4, .use = 0, .main_use = 1, .main_thread = 1,
         .rate = 0, .busy = 1, .read_bytes_per_s = 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(hangs); i++) {
        struct verdict_state s;

        verdict_init(&s);
        look_for(&s, &works, 20);
        assert_int_equal(verdict_kind(&s), VERDICT_GPU_BOUND);
        look_for(&s, &hangs[i], VERDICT_STALL_S - 2);
        assert_int_not_equal(verdict_kind(&s), VERDICT_STALLED);
        look_for(&s, &hangs[i], 4);
        assert_int_equal(verdict_kind(&s), VERDICT_STALLED);
        look_for(&s, &works, 20);
        assert_int_equal(verdict_kind(&s), VERDICT_GPU_BOUND);
    }
}

/* Batches come in bursts: a second of computing by all, then a pause. */
static void bursts_do_not_flicker(void **state)
{
    const struct verdict_look busy = {LOOK,       .tasks = 4, .workers = 4,
                                      .cores = 4, .use = 4,   .busy = 0.9};
    const struct verdict_look idle = {LOOK,       .tasks = 4, .workers = 4,
                                      .cores = 4, .use = 0.1, .busy = 1};
    struct verdict_state s;
    unsigned changes = 0;

    (void)state;
    verdict_init(&s);
    for (int t = 0; t < 300; t++)
        changes += verdict_update(&s, t % 3 == 0 ? &busy : &idle);
    assert_true(changes <= 2);
    assert_int_equal(verdict_kind(&s), VERDICT_GPU_BOUND);
}

/* While the first batches are loaded all wait for data, which says nothing. */
static void the_start_does_not_count(void **state)
{
    const struct verdict_look starts = {LOOK,       .tasks = 4, .workers = 4,
                                        .cores = 4, .use = 0.1, .busy = 0};
    const struct verdict_look runs = {LOOK,       .tasks = 4, .workers = 4,
                                      .cores = 4, .use = 1,   .busy = 0.99};
    struct verdict_state s;

    (void)state;
    verdict_init(&s);
    look_for(&s, &starts, 2);
    for (int t = 0; t < 20; t++) {
        look_for(&s, &runs, 1);
        assert_true(verdict_kind(&s) == VERDICT_GPU_BOUND ||
                    (t < 5 && verdict_kind(&s) == VERDICT_UNKNOWN));
    }
}

/* A lasting change is told, but not at once. */
static void a_change_takes_its_time(void **state)
{
    const struct verdict_look fed = {LOOK,       .tasks = 4, .workers = 4,
                                     .cores = 4, .use = 1,   .busy = 0.99};
    const struct verdict_look starved = {LOOK,     .tasks = 4, .workers = 4, .cores = 2,
                                         .use = 2, .queue = 2, .busy = 0.5};
    struct verdict_state s;
    int seconds = 0;

    (void)state;
    verdict_init(&s);
    look_for(&s, &fed, 30);
    while (seconds < 60 && verdict_kind(&s) == VERDICT_GPU_BOUND) {
        look_for(&s, &starved, 1);
        seconds++;
    }
    assert_int_equal(verdict_kind(&s), VERDICT_CPU_STARVED);
    assert_in_range(seconds, 3, 10);
}

/* Whatever comes: a known verdict, and words that end within their room. */
static void anything(void **state)
{
    struct rng rng = {11};
    char buf[64];

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct verdict_state s;

        verdict_init(&s);
        for (int t = 0; t < 60; t++) {
            double numbers[9];
            for (size_t i = 0; i < COUNT(numbers); i++)
                numbers[i] = rng_below(&rng, 8) == 0 ? UNKNOWN
                                                     : (double)rng_below(&rng, 1000) /
                                                           (double)(1 + rng_below(&rng, 1000));
            const struct verdict_look look = {.interval_s = numbers[0],
                                              .tasks = (unsigned)rng_below(&rng, 70000),
                                              .workers = (unsigned)rng_below(&rng, 9),
                                              .orphans = (unsigned)rng_below(&rng, 3),
                                              .left_alone = (unsigned)rng_below(&rng, 3),
                                              .cores = numbers[1],
                                              .use = numbers[2],
                                              .queue = numbers[3],
                                              .io_wait = numbers[4],
                                              .main_use = numbers[5],
                                              .main_thread = numbers[6],
                                              .busy = fmin(1, numbers[7]),
                                              .rate = numbers[8],
                                              .read_bytes_per_s = UNKNOWN,
                                              .cpu_limit = numbers[8],
                                              .clocked = rng_below(&rng, 2)};
            (void)verdict_update(&s, &look);
        }
        assert_true(verdict_kind(&s) < VERDICTS);
        memset(buf, 'x', sizeof buf);
        (void)verdict_evidence(&s, buf, 20);
        assert_non_null(memchr(buf, '\0', 20));
        assert_int_equal(buf[20], 'x');
        (void)verdict_advice(&s, UNKNOWN, buf, 1);
        assert_int_equal(buf[0], '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(hanging),
        cmocka_unit_test(bursts_do_not_flicker),
        cmocka_unit_test(the_start_does_not_count),
        cmocka_unit_test(a_change_takes_its_time),
        cmocka_unit_test(anything),
    };
    return cmocka_run_group_tests_name("verdict", tests, NULL, NULL);
}
