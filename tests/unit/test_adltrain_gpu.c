/*
 * adltrain's GPUs: how FLOPs become products, what the tables say of named models, the timeline of
 * the emulated GPU, and batches that are sent ahead.
 */
#include "config.h"

#include "clock.h"
#include "feed.h"
#include "gpu.h"
#include "gpu_plan.h"
#include "log.h"
#include "named.h"

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

/* ---- the plan of a real step ------------------------------------------------------------------
 */

/* From a toy to the largest: FLOPs as asked for, and each gradient in one bucket. */
static void plans_do_the_work_that_was_asked_for(void **state)
{
    const double flops[] = {1e6, 3e8, 8.2e9, 3.1e10, 4e12};
    const unsigned batches[] = {1, 7, 64, 256};
    const size_t gradients[] = {4, 4096, 14u << 20, 102228128u, (size_t)3 << 30};

    (void)state;
    for (size_t f = 0; f < COUNT(flops); f++)
        for (size_t b = 0; b < COUNT(batches); b++)
            for (size_t g = 0; g < COUNT(gradients); g++) {
                struct gpu_work work = {.batch = batches[b],
                                        .sample_floats = 1,
                                        .forward_flops = flops[f],
                                        .gradient_bytes = gradients[g]};
                struct gpu_plan plan = gpu_plan_make(&work);
                double wanted = 3 * flops[f] * batches[b];
                size_t floats = 0;

                for (unsigned i = 0; i < plan.buckets; i++)
                    floats += gpu_plan_floats(&plan, i);
                assert_int_equal(floats, gradients[g] / 4);
                assert_in_range(plan.buckets, 1, GPU_BUCKETS_MAX);
                assert_true(fabs(gpu_plan_flops(&plan) - wanted) <=
                            3.0 * plan.buckets * 12 * 2.0 * plan.side * plan.side);
                if (wanted > 1e11)
                    assert_true(fabs(gpu_plan_flops(&plan) / wanted - 1.0) < 0.02);
            }
}

static void activations_are_moved_once_forward_and_twice_backward(void **state)
{
    struct gpu_work work = {.batch = 10,
                            .sample_floats = 1,
                            .forward_flops = 1e9,
                            .traffic_bytes = 3e6,
                            .gradient_bytes = 60u << 20};
    struct gpu_plan plan = gpu_plan_make(&work);

    (void)state;
    assert_int_equal(plan.buckets, 3);
    assert_true(fabs(3.0 * plan.buckets * (double)plan.forward_traffic - 3e7) < 10);
}

/* ---- named models -----------------------------------------------------------------------------
 */

static const char *tables(void)
{
    static char folder[4096];

    (void)snprintf(folder, sizeof folder, "%s/predictor", getenv("ADL_SRCDIR"));
    return folder;
}

static void names_are_found_or_refused_with_help(void **state)
{
    const struct {
        const char *model, *gpu;
        int precision, expected;
        const char *words;
    } cases[] = {
        {"resnet50", "v100", -1, 0, ""},
        {"ResNet-50", "V100", -1, 0, ""},
        {"resnet50", NULL, -1, 0, ""},
        {"resnet55", "v100", -1, -1, "resnet50"},
        {"resnet50", "v1000", -1, -1, "v100"},
        {"resnet50", "p100", PRED_TF32, -1, "does not compute in tf32"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char error[NAMED_ERROR_MAX] = "";
        struct named named;

        assert_int_equal(
            named_find(tables(), cases[i].model, cases[i].gpu, cases[i].precision, &named, error),
            cases[i].expected);
        assert_non_null(strstr(error, cases[i].words));
        named_free(&named);
    }
}

static void pictures_and_batches_are_the_models(void **state)
{
    const struct {
        const char *model;
        unsigned side, tokens, batch;
    } cases[] = {
        {"resnet50", 224, 0, 128},     {"inception-v3", 299, 0, 128},
        {"mobilenet-v2", 224, 0, 128}, {"efficientnet-b7", 600, 0, 4},
        {"alexnet", 224, 0, 256},      {"bert-base", 0, 512, 16},
        {"gpt2", 0, 1024, 4},
    };
    char error[NAMED_ERROR_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct named named;

        assert_int_equal(named_find(tables(), cases[i].model, NULL, -1, &named, error), 0);
        assert_int_equal(named_side(named.model), cases[i].side);
        assert_int_equal(named_tokens(named.model), cases[i].tokens);
        assert_int_equal(named_batch(named.model), cases[i].batch);
        named_free(&named);
    }
}

static struct named_step predict(const struct named *named, unsigned ranks, unsigned nodes,
                                 double overlap)
{
    const struct named_setting setting = {.batch = 64,
                                          .ranks = ranks,
                                          .nodes = nodes,
                                          .batch_bytes = 38e6,
                                          .host_bytes_per_s = 10e9,
                                          .between_nodes = {2e-5, 1e9},
                                          .overlap = overlap};
    struct named_step step;

    assert_int_equal(named_predict(named, &setting, &step), 0);
    return step;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* The formulas, computed here once more from the tables' numbers. */
static void steps_follow_the_formulas(void **state)
{
    struct named named;
    struct named_step alone, four, eight, none, full;
    char error[NAMED_ERROR_MAX];
    double bytes, ring_s, compute_s;

    (void)state;
    assert_int_equal(named_find(tables(), "vgg16", "v100-pcie", -1, &named, error), 0);
    alone = predict(&named, 1, 1, 2.0);
    four = predict(&named, 4, 1, 2.0);
    eight = predict(&named, 8, 2, 2.0);
    none = predict(&named, 4, 1, 1.0);
    full = predict(&named, 4, 1, 10.0);

    compute_s = alone.parts.compute_s;
    assert_true(compute_s >
                64 * 3 * named.model->flops_forward / named.gpu->flops_per_s[PRED_FP32]);
    assert_true(alone.parts.exchange_s <= 0.0 && near(alone.step_s, compute_s));
    assert_true(near(alone.parts.copy_s, 3.8e-3));

    /* ring or tree: the bandwidth term is the same, latency differs by microseconds */
    bytes = 4 * named.model->params;
    ring_s = 2 * 3.0 / 4 * bytes / named.gpu->link.bus_bytes_per_s;
    assert_true(fabs(four.sync_s - ring_s) < 1e-3);
    assert_true(near(four.step_s, sqrt(compute_s * compute_s + four.sync_s * four.sync_s)));
    assert_true(near(four.parts.compute_s, compute_s));
    assert_true(near(four.parts.exchange_s, four.step_s - compute_s));
    assert_true(near(none.step_s, compute_s + none.sync_s));
    assert_true(full.step_s < four.step_s && full.step_s >= fmax(compute_s, full.sync_s));
    /* two nodes: one more exchange of 2 (N-1)/N of the gradients, over the network */
    assert_true(fabs(eight.sync_s - four.sync_s - bytes / 1e9) < 1e-3);
    named_free(&named);
}

static void a_copy_that_takes_longer_is_the_step(void **state)
{
    struct named named;
    const struct named_setting setting = {.batch = 64,
                                          .ranks = 1,
                                          .nodes = 1,
                                          .batch_bytes = 38e6,
                                          .host_bytes_per_s = 1e6,
                                          .overlap = (double)NAN};
    struct named_step step;
    char error[NAMED_ERROR_MAX];

    (void)state;
    assert_int_equal(named_find(tables(), "resnet18", "v100", -1, &named, error), 0);
    assert_int_equal(named_predict(&named, &setting, &step), 0);
    assert_true(near(step.step_s, 38.0));
    named.gpu = NULL;
    assert_int_equal(named_predict(&named, &setting, &step), -1);
    named_free(&named);
}

/* ---- the emulated GPU -------------------------------------------------------------------------
 */

static void complain(const char *sentence)
{
    fail_msg("%s", sentence);
}

static struct gpu *emulated(double compute_s, double exchange_s, double copy_s,
                            const atomic_int *stop)
{
    const struct gpu_timeline timeline = {compute_s, exchange_s, copy_s};
    const struct gpu_owner owner = {.ranks = 1, .stop = stop, .complain = complain};
    struct gpu *gpu = gpu_emulated_open(&timeline, &owner);

    assert_non_null(gpu);
    return gpu;
}

static double since(uint64_t start)
{
    return 1e-9 * (double)(clock_monotonic_ns() - start);
}

/* Never sooner than the timeline says; what other work takes meanwhile counts in. */
static void parts_last_as_long_as_the_timeline_says(void **state)
{
    const atomic_int stop = 0;
    struct gpu *gpu = emulated(0.02, 0.01, 0.0, &stop);
    uint64_t start = clock_monotonic_ns();

    (void)state;
    assert_string_equal(gpu->ops->kind, "emulated");
    assert_int_equal(gpu->ops->begin(gpu, 0), 0);
    assert_int_equal(gpu->ops->compute(gpu), 0);
    assert_true(since(start) >= 0.02);
    assert_int_equal(gpu->ops->exchange(gpu), 0);
    assert_true(since(start) >= 0.03);
    gpu->ops->close(gpu);
}

static void step_on(struct gpu *gpu, unsigned slot)
{
    assert_int_equal(gpu->ops->begin(gpu, slot), 0);
    assert_int_equal(gpu->ops->compute(gpu), 0);
    assert_int_equal(gpu->ops->exchange(gpu), 0);
}

static void lose(double seconds)
{
    uint64_t start = clock_monotonic_ns();

    while (since(start) < seconds)
        continue;
}

/*
 * Batches that were there in time are trained on back to back though the loop is late after each
 * step. Other work on the machine only makes it later: one good attempt of five shows it.
 */
static void a_late_loop_costs_the_device_nothing(void **state)
{
    enum { STEPS = 20 };
    const double step_s = 0.02, late_s = 0.01;
    const atomic_int stop = 0;
    struct gpu *gpu = emulated(step_s, 0.0, 0.0, &stop);
    double best = 1e9;

    (void)state;
    for (int attempt = 0; attempt < 5 && best >= STEPS * (step_s + late_s); attempt++) {
        uint64_t start = clock_monotonic_ns();

        assert_int_equal(gpu->ops->copy(gpu, 0, NULL), 0);
        for (unsigned i = 0; i < STEPS; i++) {
            assert_int_equal(gpu->ops->copy(gpu, (i + 1) % GPU_SLOTS, NULL), 0);
            step_on(gpu, i % GPU_SLOTS);
            lose(late_s);
        }
        assert_true(since(start) >= STEPS * step_s);
        best = since(start) < best ? since(start) : best;
    }
    assert_true(best < STEPS * (step_s + late_s));
    gpu->ops->close(gpu);
}

static void a_late_batch_is_waited_for(void **state)
{
    const atomic_int stop = 0;
    struct gpu *gpu = emulated(0.02, 0.0, 0.0, &stop);
    uint64_t arrival;

    (void)state;
    assert_int_equal(gpu->ops->copy(gpu, 0, NULL), 0);
    step_on(gpu, 0);
    lose(0.05);
    arrival = clock_monotonic_ns();
    assert_int_equal(gpu->ops->copy(gpu, 1, NULL), 0);
    step_on(gpu, 1);
    assert_true(since(arrival) >= 0.02);
    gpu->ops->close(gpu);
}

static void a_stop_ends_a_long_step(void **state)
{
    const atomic_int stop = 15;
    struct gpu *gpu = emulated(1e6, 1e6, 1e6, &stop);

    (void)state;
    assert_int_equal(gpu->ops->begin(gpu, 0), 0);
    assert_int_equal(gpu->ops->compute(gpu), 0);
    assert_int_equal(gpu->ops->exchange(gpu), 0);
    assert_int_equal(gpu->ops->copy(gpu, 0, NULL), 0);
    gpu->ops->close(gpu);
}

/* ---- batches sent ahead -----------------------------------------------------------------------
 */

enum { SIZE = 2, DEPTH = 3 };

/* A GPU that remembers what was copied to its slots. */
struct recorder {
    struct gpu gpu;
    float slots[GPU_SLOTS];
    int fail_at, copies;
};

static int record(struct gpu *gpu, unsigned slot, const float *samples)
{
    struct recorder *recorder = (struct recorder *)(void *)gpu;

    if (++recorder->copies == recorder->fail_at)
        return -1;
    recorder->slots[slot] = samples[0];
    return 0;
}

static const struct gpu_ops RECORDER = {.kind = "recorder", .copy = record};

static void load(struct batches *queue, unsigned first, unsigned batches)
{
    for (unsigned i = 0; i < batches * SIZE; i++) {
        struct batch_place place;

        assert_true(batches_claim(queue, 0, &place));
        *place.sample = (float)(first + i / SIZE);
        batches_fill(queue, &place);
    }
}

static void batches_reach_the_gpu_in_order(void **state)
{
    struct recorder recorder = {.gpu.ops = &RECORDER};
    struct batches queue;
    struct feed *feed;
    unsigned loaded = DEPTH;

    (void)state;
    assert_int_equal(batches_init(&queue, DEPTH, SIZE, 1, NULL), 0);
    batches_allow(&queue, 1);
    load(&queue, 0, DEPTH);
    feed = feed_start(&queue, &recorder.gpu, false);
    assert_non_null(feed);
    for (unsigned i = 0; i < 50; i++) {
        int slot = feed_take(feed);

        assert_int_equal(slot, i % GPU_SLOTS);
        assert_true(fabsf(recorder.slots[slot] - (float)i) < 0.5f);
        feed_release(feed, (unsigned)slot);
        load(&queue, loaded++, 1);
    }
    batches_stop(&queue);
    for (int slot; (slot = feed_take(feed)) >= 0;) /* what is on the GPU already still comes */
        feed_release(feed, (unsigned)slot);
    assert_false(feed_failed(feed));
    feed_stop(feed);
    batches_free(&queue);
}

static void a_failed_copy_ends_the_feed(void **state)
{
    struct recorder recorder = {.gpu.ops = &RECORDER, .fail_at = 2};
    struct batches queue;
    struct feed *feed;

    (void)state;
    assert_int_equal(batches_init(&queue, DEPTH, SIZE, 1, NULL), 0);
    batches_allow(&queue, 1);
    load(&queue, 0, DEPTH);
    feed = feed_start(&queue, &recorder.gpu, false);
    assert_non_null(feed);
    assert_int_equal(feed_take(feed), 0);
    assert_int_equal(feed_take(feed), -1);
    assert_true(feed_failed(feed));
    feed_stop(feed);
    batches_free(&queue);
}

static void without_a_gpu_batches_are_taken_directly(void **state)
{
    struct batches queue;
    struct feed *feed;

    (void)state;
    assert_int_equal(batches_init(&queue, DEPTH, SIZE, 1, NULL), 0);
    batches_allow(&queue, 1);
    load(&queue, 0, DEPTH);
    feed = feed_start(&queue, NULL, false);
    assert_non_null(feed);
    for (int i = 0; i < DEPTH; i++)
        assert_int_equal(feed_take(feed), 0);
    load(&queue, DEPTH, DEPTH); /* its places in memory are free at once */
    batches_stop(&queue);
    assert_int_equal(feed_take(feed), -1);
    feed_stop(feed);
    batches_free(&queue);
}

/* With a GPU and without: no second batch is needed. */
static void the_first_batch_is_repeated(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        struct recorder recorder = {.gpu.ops = &RECORDER};
        struct batches queue;
        struct feed *feed;

        assert_int_equal(batches_init(&queue, DEPTH, SIZE, 1, NULL), 0);
        batches_allow(&queue, 1);
        load(&queue, 7, 1);
        feed = feed_start(&queue, with ? &recorder.gpu : NULL, true);
        assert_non_null(feed);
        for (unsigned i = 0; i < 50; i++) {
            int slot = feed_take(feed);

            assert_true(slot >= 0);
            if (with)
                assert_true(fabsf(recorder.slots[slot] - 7.0f) < 0.5f);
            feed_release(feed, (unsigned)slot);
        }
        feed_stop(feed);
        batches_free(&queue);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_do_the_work_that_was_asked_for),
        cmocka_unit_test(activations_are_moved_once_forward_and_twice_backward),
        cmocka_unit_test(names_are_found_or_refused_with_help),
        cmocka_unit_test(pictures_and_batches_are_the_models),
        cmocka_unit_test(steps_follow_the_formulas),
        cmocka_unit_test(a_copy_that_takes_longer_is_the_step),
        cmocka_unit_test(parts_last_as_long_as_the_timeline_says),
        cmocka_unit_test(a_late_loop_costs_the_device_nothing),
        cmocka_unit_test(a_late_batch_is_waited_for),
        cmocka_unit_test(a_stop_ends_a_long_step),
        cmocka_unit_test(batches_reach_the_gpu_in_order),
        cmocka_unit_test(a_failed_copy_ends_the_feed),
        cmocka_unit_test(without_a_gpu_batches_are_taken_directly),
        cmocka_unit_test(the_first_batch_is_repeated),
    };

    log_set_level(LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("adltrain GPU", tests, NULL, NULL);
}
