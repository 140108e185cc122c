/* The job's record: merging, the text's bounds, and what is made of texts from outside. */
#include "config.h"

#include "msg.h"
#include "record.h"
#include "rng.h"

#include <json-c/json.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- random records ------------------------------------------------------------------------ */

/* From nothing to absurd, on a logarithmic scale. */
static double random_amount(struct rng *rng, double max)
{
    return rng_chance(rng, 10) ? 0 : pow(10, rng_below(rng, 1000) / 1000.0 * log10(max) * 1.05);
}

static void random_use(struct rng *rng, struct record_use *use)
{
    memset(use, 0, sizeof(*use));
    use->members = rng_chance(rng, 60) ? 1 : (uint32_t)random_amount(rng, 4e9);
    if (use->members == 0)
        use->members = 1;
    use->moves = (uint32_t)(random_amount(rng, 4e9));
    use->drift = rng_chance(rng, 50) ? 0 : (uint32_t)random_amount(rng, 4e9);
    use->life_s = random_amount(rng, 1e9) * use->members;
    use->loader_core_s = random_amount(rng, 1e12);
    use->verdict_s[rng_below(rng, VERDICTS)] = (float)(1 + use->life_s);
    if (rng_chance(rng, 80)) {
        use->cores_min = (uint32_t)(random_amount(rng, 4096));
        use->cores_max = use->cores_min + (uint32_t)(random_amount(rng, 4096));
        use->cores_known_s = 1 + random_amount(rng, 1e9);
        use->cores_s =
            (use->cores_min + (use->cores_max - use->cores_min) * (rng_below(rng, 1001) / 1000.0)) *
            use->cores_known_s;
    }
    if (rng_chance(rng, 60)) {
        use->gpu_known_s = 1 + random_amount(rng, 1e9);
        use->gpu_busy_s = use->gpu_known_s * (rng_below(rng, 1001) / 1000.0);
    }
    if (rng_chance(rng, 60)) {
        use->loop_s = 0.01 + random_amount(rng, 1e9);
        use->wait_s = use->loop_s * (rng_below(rng, 10001) / 10000.0);
    }
    use->samples_known = rng_chance(rng, 60);
    if (use->samples_known)
        use->samples = floor(random_amount(rng, 1e15));
}

static uint32_t random_step(struct rng *rng, unsigned range)
{
    switch (rng_below(rng, 10)) {
    case 0:
        return MSG_STEP_BATCH;
    case 1:
        return MSG_STEP_INTERACTIVE;
    case 2:
        return 0xffffff00u + rng_below(rng, 200);
    default:
        return rng_below(rng, range);
    }
}

static void random_record(struct rng *rng, struct record *record, unsigned steps)
{
    struct record_use use;

    memset(record, 0, sizeof(*record));
    record->restart = rng_chance(rng, 50) ? 0 : rng_below(rng, 1u << 31);
    for (unsigned i = 0; i < steps; i++) {
        random_use(rng, &use);
        record_add_step(record, random_step(rng, 20), &use);
    }
}

/* ---- comparing ----------------------------------------------------------------------------- */

static bool near(double a, double b, double relative)
{
    return fabs(a - b) <= relative * fmax(fabs(a), fabs(b)) + 1e-6;
}

static void assert_near(double a, double b, double relative, const char *what)
{
    if (!near(a, b, relative))
        fail_msg("%s: %.9g and %.9g", what, a, b);
}

static void assert_same_use(const struct record_use *a, const struct record_use *b)
{
    assert_int_equal(a->members, b->members);
    assert_int_equal(a->moves, b->moves);
    assert_int_equal(a->drift, b->drift);
    assert_int_equal(a->cores_known_s > 0, b->cores_known_s > 0);
    if (a->cores_known_s > 0) {
        assert_int_equal(a->cores_min, b->cores_min);
        assert_int_equal(a->cores_max, b->cores_max);
    }
    assert_near(a->life_s, b->life_s, 1e-12, "life");
    assert_near(a->loader_core_s, b->loader_core_s, 1e-12, "loader seconds");
    assert_near(a->cores_s, b->cores_s, 1e-12, "cores");
    assert_near(a->wait_s, b->wait_s, 1e-12, "wait");
    assert_near(a->loop_s, b->loop_s, 1e-12, "loop");
    assert_near(a->gpu_busy_s, b->gpu_busy_s, 1e-12, "gpu");
    assert_near(a->samples, b->samples, 1e-12, "samples");
    assert_int_equal(a->samples_known, b->samples_known);
    for (int v = 0; v < VERDICTS; v++)
        assert_near((double)a->verdict_s[v], (double)b->verdict_s[v], 1e-5, "verdict");
}

static void assert_same(const struct record *a, const struct record *b)
{
    assert_int_equal(a->nsteps, b->nsteps);
    assert_int_equal(a->others, b->others);
    assert_same_use(&a->other, &b->other);
    for (unsigned i = 0; i < a->nsteps; i++) {
        assert_int_equal(a->steps[i].step, b->steps[i].step);
        assert_same_use(&a->steps[i].use, &b->steps[i].use);
    }
}

/* The sum over all entries, the folded ones too: what no order and no folding may change. */
static void total(const struct record *record, struct record_use *sum, uint64_t *steps)
{
    memset(sum, 0, sizeof(*sum));
    record_use_add(sum, &record->other);
    *steps = record->nsteps + (uint64_t)record->others;
    for (unsigned i = 0; i < record->nsteps; i++)
        record_use_add(sum, &record->steps[i].use);
}

/* ---- merging ------------------------------------------------------------------------------- */

static void merging_is_commutative(void **state)
{
    struct rng rng = {7};

    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct record a, b, ab, ba;

        random_record(&rng, &a, rng_below(&rng, 12));
        random_record(&rng, &b, rng_below(&rng, 12));
        a.restart = b.restart;
        record_merge(&ab, &a, &b);
        record_merge(&ba, &b, &a);
        assert_same(&ab, &ba);
        assert_int_equal(ab.restart, ba.restart);
    }
}

static void nothing_is_neutral(void **state)
{
    struct rng rng = {8};

    (void)state;
    for (int round = 0; round < 500; round++) {
        struct record a, none = {0}, sum;

        random_record(&rng, &a, rng_below(&rng, 12));
        record_merge(&sum, &a, &none);
        assert_same(&sum, &a);
        record_merge(&sum, &none, &a);
        assert_same(&sum, &a);
        assert_int_equal(record_is_empty(&a), a.nsteps == 0);
    }
}

/* Steps that end one after the other, in any order and in several lives of the controller. */
static void order_does_not_matter(void **state)
{
    struct rng rng = {9};

    (void)state;
    for (int round = 0; round < 500; round++) {
        struct record_step steps[10];
        struct record forward = {0}, backward = {0}, first = {0}, second = {0}, lives;
        struct record_use a, b;
        unsigned n = 1 + rng_below(&rng, COUNT(steps));
        uint64_t na, nb;

        for (unsigned i = 0; i < n; i++) {
            steps[i].step = i / 2; /* two members each */
            random_use(&rng, &steps[i].use);
        }
        for (unsigned i = 0; i < n; i++) {
            record_add_step(&forward, steps[i].step, &steps[i].use);
            record_add_step(&backward, steps[n - 1 - i].step, &steps[n - 1 - i].use);
            record_add_step(i % 3 == 0 ? &first : &second, steps[i].step, &steps[i].use);
        }
        record_merge(&lives, &first, &second);
        assert_same(&forward, &backward); /* at most 5 steps: nothing is folded */
        assert_same(&forward, &lives);
        total(&forward, &a, &na);
        total(&lives, &b, &nb);
        assert_same_use(&a, &b);
        assert_int_equal(na, nb);
    }
}

static void folding_loses_no_work(void **state)
{
    struct rng rng = {10};

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct record record = {0};
        struct record_use all = {0}, sum;
        unsigned n = 1 + rng_below(&rng, 300);
        uint64_t steps;
        double kept = INFINITY;

        for (unsigned i = 0; i < n; i++) {
            struct record_use use;

            random_use(&rng, &use);
            record_use_add(&all, &use);
            record_add_step(&record, i, &use);
        }
        total(&record, &sum, &steps);
        assert_int_equal(steps, n);
        assert_same_use(&sum, &all);
        assert_true(record.nsteps <= RECORD_STEPS_MAX);
        for (unsigned i = 0; i < record.nsteps; i++) {
            if (i > 0)
                assert_true(record.steps[i].step > record.steps[i - 1].step);
            kept = fmin(kept, record.steps[i].use.loader_core_s);
        }
        if (record.others == 1) /* then it was the smallest of all */
            assert_true(record.other.loader_core_s <= kept);
    }
}

static void shares_weigh_by_time(void **state)
{
    struct record_use sum = {0}, one = {0}, two = {0};

    (void)state;
    one.members = two.members = 1;
    one.wait_s = 9, one.loop_s = 10; /* 90 % of 10 s */
    two.wait_s = 0, two.loop_s = 90; /* none of 90 s */
    one.cores_min = 1, one.cores_max = 3, one.cores_s = 20, one.cores_known_s = 10;
    two.cores_min = 2, two.cores_max = 8, two.cores_s = 400, two.cores_known_s = 100;
    one.verdict_s[VERDICT_CPU_STARVED] = 8, one.verdict_s[VERDICT_UNKNOWN] = 5;
    two.verdict_s[VERDICT_GPU_BOUND] = 7, two.verdict_s[VERDICT_UNKNOWN] = 4;
    record_use_add(&sum, &one);
    record_use_add(&sum, &two);
    assert_near(sum.wait_s / sum.loop_s, 0.09, 1e-12, "stall share");
    assert_near(sum.cores_s / sum.cores_known_s, 420.0 / 110, 1e-12, "mean cores");
    assert_int_equal(sum.cores_min, 1);
    assert_int_equal(sum.cores_max, 8);
    assert_int_equal(record_use_verdict(&sum), VERDICT_CPU_STARVED); /* 9 s of nothing known */
    sum.verdict_s[VERDICT_GPU_BOUND] += 3;
    assert_int_equal(record_use_verdict(&sum), VERDICT_GPU_BOUND);
    sum.verdict_s[VERDICT_UNKNOWN] = 1000; /* it held for 1 % of the time */
    assert_int_equal(record_use_verdict(&sum), VERDICT_UNKNOWN);
}

static void counts_do_not_wrap(void **state)
{
    struct record_use a = {.members = UINT32_MAX, .moves = UINT32_MAX - 1, .drift = 5},
                      b = {.members = 1, .moves = 3, .drift = 6};

    (void)state;
    record_use_add(&a, &b);
    assert_int_equal(a.members, UINT32_MAX);
    assert_int_equal(a.moves, UINT32_MAX);
    assert_int_equal(a.drift, 11);
}

/* ---- the text ------------------------------------------------------------------------------ */

static void known_texts(void **state)
{
    struct record record = {0};
    struct record_use use = {.members = 1,
                             .moves = 3,
                             .cores_min = 1,
                             .cores_max = 4,
                             .life_s = 120.54,
                             .loader_core_s = 341.04,
                             .cores_s = 340,
                             .cores_known_s = 120,
                             .wait_s = 12.3456,
                             .loop_s = 100,
                             .samples = 12345,
                             .samples_known = true};
    char text[RECORD_TEXT_SIZE];

    (void)state;
    (void)record_format(&record, text);
    assert_string_equal(text, "ADL1:{\"s\":[]}");
    use.verdict_s[VERDICT_CPU_STARVED] = 120;
    record_add_step(&record, 0, &use);
    (void)record_format(&record, text);
    assert_string_equal(text,
                        "ADL1:{\"s\":[{\"i\":0,\"t\":120.5,\"c\":341,\"k\":[1,2.83,4],\"m\":3,"
                        "\"v\":\"cpu-starved\",\"w\":[0.1235,100],\"q\":12345}]}");
    record.restart = 2;
    record.steps[0].use.gpu_busy_s = 3;
    record.steps[0].use.gpu_known_s = 4;
    record.steps[0].use.drift = 7;
    record.steps[0].use.members = 2;
    record.steps[0].use.samples_known = false;
    record.steps[0].use.loop_s = 0;
    record.steps[0].use.cores_known_s = 0;
    record.steps[0].step = MSG_STEP_BATCH;
    (void)record_format(&record, text);
    assert_string_equal(text, "ADL1:{\"r\":2,\"s\":[{\"i\":\"batch\",\"n\":2,\"t\":60.27,\"c\":341,"
                              "\"m\":3,\"d\":7,\"v\":\"cpu-starved\",\"g\":0.75}]}");
}

/* Of one step less than 256 bytes, of any job bounded; Slurm and SQL take it as it is. */
static void texts_are_bounded_and_plain(void **state)
{
    struct rng rng = {11};
    size_t longest = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        struct record record;
        char text[RECORD_TEXT_SIZE];
        unsigned steps = round % 2 == 0 ? 1 : rng_below(&rng, 60);
        size_t length;

        random_record(&rng, &record, steps);
        length = record_format(&record, text);
        assert_int_equal(length, strlen(text));
        assert_true(length <= RECORD_TEXT_MAX);
        if (steps == 1) {
            assert_true(length <= RECORD_ONE_STEP_MAX);
            assert_int_equal(record.nsteps, 1);
            longest = length > longest ? length : longest;
        }
        assert_true(record_is_ours(text));
        for (const char *c = text; *c != '\0'; c++)
            assert_true(*c > ' ' && *c < 0x7f && strchr("'\\`|;%$", *c) == NULL);
    }
    assert_true(longest > 190); /* the bound was put to the test */
}

/* The longest that numbers allow, all at once. */
static void the_worst_single_step(void **state)
{
    struct record record = {.restart = UINT32_MAX};
    struct record_use use;
    char text[RECORD_TEXT_SIZE];
    static const double worst[] = {1e300, 9999999998.6, INFINITY};

    (void)state;
    for (size_t i = 0; i < COUNT(worst); i++) {
        memset(&use, 0, sizeof(use));
        use.members = use.moves = use.drift = UINT32_MAX;
        use.cores_min = use.cores_max = UINT32_MAX;
        use.cores_known_s = 3, use.cores_s = 3 * 4294967294.99;
        use.life_s = use.loader_core_s = use.samples = worst[i];
        use.samples_known = true;
        use.wait_s = 0.12344, use.loop_s = 1;
        use.gpu_busy_s = 0.1234, use.gpu_known_s = 1;
        use.verdict_s[VERDICT_MAIN_THREAD_BOUND] = 1;
        record.nsteps = 1;
        record.steps[0] = (struct record_step){MSG_STEP_INTERACTIVE, use};
        assert_true(record_format(&record, text) <= RECORD_ONE_STEP_MAX);
        record.steps[0].step = 4294967000u;
        use.loop_s = worst[i];
        assert_true(record_format(&record, text) <= RECORD_ONE_STEP_MAX);
    }
}

static void nan_and_negative_numbers_do_no_harm(void **state)
{
    struct record record = {.nsteps = 1};
    struct record_use *use = &record.steps[0].use;
    char text[RECORD_TEXT_SIZE], reason[RECORD_REASON_SIZE];

    (void)state;
    use->members = 1;
    use->life_s = NAN, use->loader_core_s = -5;
    use->cores_known_s = 1, use->cores_s = NAN;
    use->gpu_known_s = 1, use->gpu_busy_s = INFINITY;
    use->loop_s = INFINITY, use->wait_s = INFINITY;
    use->samples_known = true, use->samples = NAN;
    (void)record_format(&record, text);
    assert_int_equal(record_parse(text, &record, reason), 0);
}

/* json-c as an oracle: what stands in the text, within its rounding. */
static void the_text_says_what_the_record_holds(void **state)
{
    struct rng rng = {12};

    (void)state;
    for (int round = 0; round < 3000; round++) {
        struct record record = {0};
        struct record_use use;
        char text[RECORD_TEXT_SIZE];
        json_object *root, *steps, *step, *v;

        random_use(&rng, &use);
        use.life_s = fmin(use.life_s, 1e9);
        use.loader_core_s = fmin(use.loader_core_s, 1e9);
        use.samples = fmin(use.samples, 1e15);
        record_add_step(&record, 5, &use);
        (void)record_format(&record, text);
        root = json_tokener_parse(text + strlen(RECORD_PREFIX));
        assert_non_null(root);
        assert_true(json_object_object_get_ex(root, "s", &steps));
        step = json_object_array_get_idx(steps, 0);
        assert_true(json_object_object_get_ex(step, "c", &v));
        assert_true(fabs(json_object_get_double(v) - use.loader_core_s) <=
                    fmax(0.0051, use.loader_core_s * 6e-4));
        assert_true(json_object_object_get_ex(step, "t", &v));
        assert_true(fabs(json_object_get_double(v) * use.members - use.life_s) <=
                    fmax(0.0051 * use.members, use.life_s * 6e-4));
        if (use.loop_s > 0) {
            assert_true(json_object_object_get_ex(step, "w", &v));
            assert_true(fabs(json_object_get_double(json_object_array_get_idx(v, 0)) -
                             use.wait_s / use.loop_s) <= 0.000051);
        }
        assert_int_equal(json_object_object_get_ex(step, "q", &v), use.samples_known);
        if (use.samples_known)
            assert_true(fabs(json_object_get_double(v) - use.samples) <= 0.5);
        json_object_put(root);
    }
}

/* Read and written again it is the same text: nothing wears off over the controller's lives. */
static void texts_survive_the_round(void **state)
{
    struct rng rng = {13};

    (void)state;
    for (int round = 0; round < 5000; round++) {
        struct record record, again;
        char first[RECORD_TEXT_SIZE], second[RECORD_TEXT_SIZE], reason[RECORD_REASON_SIZE];

        random_record(&rng, &record, rng_below(&rng, 40));
        (void)record_format(&record, first);
        if (record_parse(first, &again, reason) < 0)
            fail_msg("%s: %s", reason, first);
        assert_int_equal(again.restart, record.restart);
        (void)record_format(&again, second);
        if (strcmp(first, second) != 0)
            fail_msg("%s\n%s", first, second);
    }
}

static void the_locale_changes_nothing(void **state)
{
    static const char *const with_comma[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8"};
    struct record record = {0};
    struct record_use use = {.members = 1, .life_s = 1.5, .loader_core_s = 2.25};
    char text[RECORD_TEXT_SIZE];
    bool set = false;

    (void)state;
    for (size_t i = 0; i < COUNT(with_comma) && !set; i++)
        set = setlocale(LC_ALL, with_comma[i]) != NULL;
    record_add_step(&record, 1, &use);
    (void)record_format(&record, text);
    assert_non_null(strstr(text, "\"t\":1.5,\"c\":2.25"));
    (void)setlocale(LC_ALL, "C");
}

/* ---- texts from outside -------------------------------------------------------------------- */

static void foreign_texts_are_told_apart(void **state)
{
    (void)state;
    assert_false(record_is_ours(NULL));
    assert_false(record_is_ours(""));
    assert_false(record_is_ours("JS1:H4sIA"));
    assert_false(record_is_ours("ADL"));
    assert_false(record_is_ours(" ADL1:{}"));
    assert_false(record_is_ours("adl1:{}"));
    assert_true(record_is_ours("ADL1:"));
}

static void what_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "note of the admin",
        "JS1:x",
        "ADL1:",
        "ADL1:{",
        "ADL1:[]",
        "ADL1:7",
        "ADL1:null",
        "ADL1:{}",
        "ADL1:{\"s\":{}}",
        "ADL1:{\"s\":[]} and a note",
        "ADL1:{\"s\":[7]}",
        "ADL1:{\"s\":[{}]}",
        "ADL1:{\"s\":[{\"i\":0}]}",
        "ADL1:{\"s\":[{\"i\":-1,\"v\":\"unknown\"}]}",
        "ADL1:{\"s\":[{\"i\":1.5,\"v\":\"unknown\"}]}",
        "ADL1:{\"s\":[{\"i\":\"extern\",\"v\":\"unknown\"}]}",
        "ADL1:{\"s\":[{\"i\":4294967296,\"v\":\"unknown\"}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":7}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"t\":-1}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"t\":1e999}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"t\":NaN}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"t\":\"1\"}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"c\":1e11}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"n\":true}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"k\":[1,2]}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"k\":[3,2,1]}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"k\":[1,9,3]}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"k\":{}}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"w\":[1.1,5]}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"w\":0.5}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"g\":2}]}",
        "ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"q\":1e16}]}",
        "ADL1:{\"s\":[],\"o\":[]}",
        "ADL1:{\"s\":[],\"o\":{\"j\":-2,\"v\":\"unknown\"}}",
        "ADL1:{\"s\":[],\"r\":\"x\"}",
        "ADL1:{\"s\":[],\"x\":[[[[[[[[1]]]]]]]]}",
        "ADL1:{\"s\":[],}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct record record;
        char reason[RECORD_REASON_SIZE] = "";

        memset(&record, 0x55, sizeof(record));
        if (record_parse(texts[i], &record, reason) == 0)
            fail_msg("taken: %s", texts[i]);
        assert_true(record_is_empty(&record));
        assert_true(strlen(reason) > 5);
    }
}

static void what_is_taken(void **state)
{
    struct record record;
    char reason[RECORD_REASON_SIZE];

    (void)state;
    assert_int_equal(record_parse("ADL1:{\"s\":[]}", &record, reason), 0);
    assert_true(record_is_empty(&record));
    /* of a later version: unknown keys and verdicts */
    assert_int_equal(record_parse("ADL1: {\"z\":[1,{\"y\":2}], \"r\":1, \"s\":[{\"i\":3,\"v\":"
                                  "\"bored\",\"zz\":\"x\",\"t\":2,\"n\":3}]}",
                                  &record, reason),
                     0);
    assert_int_equal(record.restart, 1);
    assert_int_equal(record.nsteps, 1);
    assert_int_equal(record.steps[0].step, 3);
    assert_int_equal(record.steps[0].use.members, 3);
    assert_true(record.steps[0].use.life_s == 6);
    assert_int_equal(record_use_verdict(&record.steps[0].use), VERDICT_UNKNOWN);
    /* twice the same step: both count */
    assert_int_equal(record_parse("ADL1:{\"s\":[{\"i\":0,\"v\":\"unknown\",\"c\":1},{\"i\":0,\"v\":"
                                  "\"unknown\",\"c\":2}]}",
                                  &record, reason),
                     0);
    assert_int_equal(record.nsteps, 1);
    assert_true(record.steps[0].use.loader_core_s == 3);
}

static void long_texts_are_refused(void **state)
{
    struct record record;
    char reason[RECORD_REASON_SIZE];
    char *text = malloc(2000000);

    (void)state;
    assert_non_null(text);
    memset(text, '[', 1999999);
    memcpy(text, RECORD_PREFIX, strlen(RECORD_PREFIX));
    text[1999999] = '\0';
    assert_int_equal(record_parse(text, &record, reason), -1);
    assert_non_null(strstr(reason, "longer"));
    text[3000] = '\0';
    assert_int_equal(record_parse(text, &record, reason), -1);
    free(text);
}

/* Texts with a few bytes changed: refused or taken, but never more than they may hold. */
static void damaged_texts_do_no_harm(void **state)
{
    struct rng rng = {14};
    unsigned taken = 0, refused = 0;

    (void)state;
    for (int round = 0; round < 30000; round++) {
        struct record record, again;
        char text[RECORD_TEXT_SIZE], out[RECORD_TEXT_SIZE], reason[RECORD_REASON_SIZE];
        size_t length;

        random_record(&rng, &record, rng_below(&rng, 8));
        length = record_format(&record, text);
        for (unsigned i = 1 + rng_below(&rng, 3); i > 0; i--)
            text[rng_below(&rng, (unsigned)length)] = (char)(1 + rng_below(&rng, 255));
        if (record_parse(text, &again, reason) < 0) {
            refused++;
            assert_true(record_is_empty(&again));
            continue;
        }
        taken++;
        assert_true(again.nsteps <= RECORD_STEPS_MAX);
        length = record_format(&again, out);
        assert_true(length <= RECORD_TEXT_MAX);
        assert_int_equal(record_parse(out, &record, reason), 0);
    }
    assert_true(taken > 1000 && refused > 1000);
}

static void verdicts_have_names(void **state)
{
    (void)state;
    for (int v = 0; v < VERDICTS; v++)
        assert_int_equal(record_verdict_by_name(verdict_name((enum verdict)v)), v);
    assert_string_equal(verdict_name((enum verdict)99), "unknown");
    assert_int_equal(record_verdict_by_name("no such"), VERDICT_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_is_commutative),
        cmocka_unit_test(nothing_is_neutral),
        cmocka_unit_test(order_does_not_matter),
        cmocka_unit_test(folding_loses_no_work),
        cmocka_unit_test(shares_weigh_by_time),
        cmocka_unit_test(counts_do_not_wrap),
        cmocka_unit_test(known_texts),
        cmocka_unit_test(texts_are_bounded_and_plain),
        cmocka_unit_test(the_worst_single_step),
        cmocka_unit_test(nan_and_negative_numbers_do_no_harm),
        cmocka_unit_test(the_text_says_what_the_record_holds),
        cmocka_unit_test(texts_survive_the_round),
        cmocka_unit_test(the_locale_changes_nothing),
        cmocka_unit_test(foreign_texts_are_told_apart),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(what_is_taken),
        cmocka_unit_test(long_texts_are_refused),
        cmocka_unit_test(damaged_texts_do_no_harm),
        cmocka_unit_test(verdicts_have_names),
    };

    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
