/*
 * From verdicts to curves: what a verdict says about further cores, and what becomes of a curve. A
 * table of situations, each given to the verdict as reports; then the shapes.
 */
#include "config.h"

#include "curvecap.h"

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
#define NCORES       8u

#define LOOK                                                                                       \
    .interval_s = 1, .gpus = true, .tasks = 4, .workers = 4, .cores = 8, .queue = 0, .io_wait = 0, \
    .main_use = 0.2, .main_thread = 0.2, .busy = NAN, .rate = NAN, .read_bytes_per_s = 1e6,        \
    .cpu_limit = NAN

static void see(struct verdict_state *v, const struct verdict_look *look, unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++)
        (void)verdict_update(v, look);
}

/* ---- from a verdict to a cap ---- */

static const struct situation {
    const char *what;
    enum verdict verdict;
    enum pred_limit limit; /* UNKNOWN: none */
    unsigned cores;
    double rate; /* 0: not known */
    struct verdict_look look;
} situations[] = {
    {"two workers on eight cores",
     VERDICT_WORKER_LIMITED,
     PRED_LIMIT_WORKERS,
     2,
     0,
     {LOOK, .tasks = 2, .workers = 2, .use = 1.98, .busy = 0.5}},
    {"one worker, samples counted: the rate is no limit of its own",
     VERDICT_WORKER_LIMITED,
     PRED_LIMIT_WORKERS,
     1,
     0,
     {LOOK, .tasks = 1, .workers = 1, .use = 0.97, .busy = 0.2, .rate = 300}},
    {"two workers that compute with three threads each",
     VERDICT_WORKER_LIMITED,
     PRED_LIMIT_WORKERS,
     6,
     0,
     {LOOK, .tasks = 6, .workers = 2, .use = 5.9, .busy = 0.5}},
    {"workers that wait for storage",
     VERDICT_IO_BOUND,
     PRED_LIMIT_IO,
     2,
     0,
     {LOOK, .use = 0.8, .io_wait = 3, .busy = 0.5}},
    {"... whose samples are counted",
     VERDICT_IO_BOUND,
     PRED_LIMIT_IO,
     1,
     120,
     {LOOK, .use = 0.4, .io_wait = 3, .busy = 0.5, .rate = 120}},
    {"... that have few cores",
     VERDICT_IO_BOUND,
     PRED_LIMIT_IO,
     2,
     0,
     {LOOK, .cores = 2, .use = 1.1, .io_wait = 3, .busy = 0.5}},
    {"workers asleep while the GPU waits",
     VERDICT_IO_BOUND,
     PRED_LIMIT_IO,
     3,
     0,
     {LOOK, .use = 1.3, .busy = 0.3}},
    {"a main thread that has no time",
     VERDICT_MAIN_THREAD_BOUND,
     PRED_LIMIT_MAIN_THREAD,
     3,
     0,
     {LOOK, .use = 1.3, .busy = 0.3, .main_thread = 0.99}},
    {"... without workers",
     VERDICT_MAIN_THREAD_BOUND,
     PRED_LIMIT_MAIN_THREAD,
     1,
     0,
     {LOOK, .tasks = 0, .workers = 0, .use = 0, .busy = 0.3, .main_thread = 0.99}},
    {"loaders that use all they have",
     VERDICT_CPU_STARVED,
     PRED_LIMIT_UNKNOWN,
     0,
     0,
     {LOOK, .tasks = 16, .workers = 16, .use = 7.9, .busy = 0.5}},
    {"data in time", VERDICT_GPU_BOUND, PRED_LIMIT_UNKNOWN, 0, 0, {LOOK, .use = 1, .busy = 0.99}},
    {"the CPUs are not known",
     VERDICT_UNMANAGED,
     PRED_LIMIT_UNKNOWN,
     0,
     0,
     {LOOK, .use = 1, .unconfined = true}},
};

static void verdicts_give_caps(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(situations); i++) {
        const struct situation *s = &situations[i];
        struct verdict_state v;
        struct curvecap cap;
        verdict_init(&v);
        see(&v, &s->look, 12);
        if (verdict_kind(&v) != s->verdict)
            fail_msg("%s: %s", s->what, verdict_name(verdict_kind(&v)));
        curvecap_of_verdict(&v, &cap);
        if (cap.limit != s->limit)
            fail_msg("%s: limited by %s", s->what, pred_limit_name(cap.limit));
        if (s->limit != PRED_LIMIT_UNKNOWN && cap.cores != s->cores)
            fail_msg("%s: flat from %u cores, not %u", s->what, cap.cores, s->cores);
        if (s->rate > 0 ? fabs(cap.rate - s->rate) > 1 : !isnan(cap.rate))
            fail_msg("%s: at most %g samples/s", s->what, cap.rate);
    }
}

static void quotas_give_caps(void **state)
{
    static const struct {
        double quota;
        enum pred_limit limit;
        unsigned cores;
    } cases[] = {{4, PRED_LIMIT_QUOTA, 4},
                 {2.7, PRED_LIMIT_QUOTA, 2},
                 {0.5, PRED_LIMIT_QUOTA, 1},
                 {1e9, PRED_LIMIT_QUOTA, PRED_CORES_MAX},
                 {0, PRED_LIMIT_UNKNOWN, PRED_CORES_MAX},
                 {(double)NAN, PRED_LIMIT_UNKNOWN, PRED_CORES_MAX}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct curvecap cap;
        curvecap_of_quota(cases[i].quota, &cap);
        assert_int_equal(cap.limit, cases[i].limit);
        assert_int_equal(cap.cores, cases[i].cores);
    }
}

/* ---- from a cap to a curve ---- */

/* 100 samples/s a core, up to 600: the GPU's. */
static void make_curve(struct pred_curve *curve)
{
    struct pred_job job;
    pred_job_init(&job);
    job.core_rate = (struct pred_value){100, 0.05, PRED_STATIC};
    job.beta = (struct pred_value){0, 0.05, PRED_STATIC};
    job.gpu_rate = (struct pred_value){600, 0.05, PRED_STATIC};
    assert_int_equal(pred_curve_static(&job, NCORES, curve), 0);
}

static void caps_flatten_curves(void **state)
{
    static const struct {
        const char *what;
        struct curvecap cap;
        bool relative;
        unsigned flat; /* from so many cores on */
        double level;  /* 0: that of the curve there */
    } cases[] = {
        {"none", {PRED_LIMIT_UNKNOWN, PRED_CORES_MAX, NAN}, false, NCORES, 0},
        {"workers", {PRED_LIMIT_WORKERS, 2, NAN}, false, 2, 0},
        {"storage, no rate", {PRED_LIMIT_IO, 3, NAN}, false, 3, 0},
        {"storage, measured below", {PRED_LIMIT_IO, 3, 150}, false, 2, 150},
        {"storage, measured above what is predicted", {PRED_LIMIT_IO, 3, 900}, false, 3, 0},
        {"samples do not fit a curve in cores", {PRED_LIMIT_IO, 3, 150}, true, 3, 0},
        {"a main thread", {PRED_LIMIT_MAIN_THREAD, 1, NAN}, false, 1, 0},
        {"more than the curve is long", {PRED_LIMIT_QUOTA, 64, NAN}, false, NCORES, 0},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pred_curve before, after;
        make_curve(&before);
        make_curve(&after);
        after.relative = cases[i].relative;
        curvecap_apply(&cases[i].cap, &after);
        double level = cases[i].level > 0 ? cases[i].level : before.rate[cases[i].flat];
        for (unsigned c = 0; c <= NCORES; c++) {
            double want = fmin(before.rate[c], level);
            if (fabs(after.rate[c] - want) > 1e-9)
                fail_msg("%s: %g with %u cores, not %g", cases[i].what, after.rate[c], c, want);
            if (!(after.low[c] <= after.rate[c] && after.rate[c] <= after.high[c]))
                fail_msg("%s: the band with %u cores", cases[i].what, c);
            if (c > 0 && (after.high[c] < after.high[c - 1] - 1e-9))
                fail_msg("%s: the band falls at %u cores", cases[i].what, c);
            if (c >= cases[i].cap.cores && after.limit[c] != cases[i].cap.limit)
                fail_msg("%s: %u cores are limited by %s", cases[i].what, c,
                         pred_limit_name((enum pred_limit)after.limit[c]));
        }
        assert_true(after.demand <= cases[i].cap.cores);
        assert_true(pred_curve_knee(&after, 0) <= cases[i].flat);
        pred_curve_free(&before);
        pred_curve_free(&after);
    }
}

/*
 * When the cores that bring nothing have been taken away, the verdict is what it was, and with it
 * the curve: else they would come and go.
 */
static void it_stays_when_cores_have_gone(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(situations); i++) {
        const struct situation *s = &situations[i];
        struct verdict_look look = s->look;
        struct verdict_state v;
        struct curvecap cap;
        if (s->limit == PRED_LIMIT_UNKNOWN)
            continue;
        verdict_init(&v);
        see(&v, &look, 12);
        look.cores = s->cores;
        see(&v, &look, 30);
        if (verdict_kind(&v) != s->verdict)
            fail_msg("%s, on %u cores: %s", s->what, s->cores, verdict_name(verdict_kind(&v)));
        curvecap_of_verdict(&v, &cap);
        if (cap.cores != s->cores)
            fail_msg("%s, on %u cores: flat from %u", s->what, s->cores, cap.cores);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts_give_caps),
        cmocka_unit_test(quotas_give_caps),
        cmocka_unit_test(caps_flatten_curves),
        cmocka_unit_test(it_stays_when_cores_have_gone),
    };
    return cmocka_run_group_tests_name("curvecap", tests, NULL, NULL);
}
