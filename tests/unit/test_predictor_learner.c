/* The learner: a simulated step (predictor_sim.h) reports, and its demand has to be found. */
#include "predictor.h"
#include "predictor_sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MACHINE 64u

static void assert_sane(const struct pred_curve *curve)
{
    assert_true(isfinite(curve->gpu_rate) && curve->gpu_rate > 0);
    assert_true(isfinite(curve->demand) && curve->demand >= 0);
    assert_true(isfinite(curve->demand_rel_sd) && curve->demand_rel_sd >= 0);
    for (unsigned c = 0; c <= curve->ncores; c++) {
        assert_true(isfinite(curve->rate[c]) && curve->rate[c] >= 0);
        assert_true(curve->rate[c] <= curve->gpu_rate * (1 + 1e-9));
        assert_true(isfinite(curve->low[c]) && curve->low[c] >= 0 &&
                    curve->low[c] <= curve->rate[c]);
        assert_true(isfinite(curve->high[c]) && curve->high[c] >= curve->rate[c]);
        assert_true(c == 0 || curve->rate[c] >= curve->rate[c - 1]);
    }
}

static double learned_demand(const struct pred_learner *l, const struct pred_job *job)
{
    struct pred_curve curve;
    double demand;

    assert_int_equal(pred_learner_curve(l, job, MACHINE, &curve), 0);
    assert_sane(&curve);
    demand = curve.demand;
    assert_true(demand <= MACHINE);
    pred_curve_free(&curve);
    return demand;
}

static double run(struct sim *s, struct pred_learner *l, const struct pred_job *job, unsigned cores,
                  unsigned reports)
{
    double demand = 0;

    for (unsigned i = 0; i < reports; i++) {
        struct pred_observation o = sim_report(s, cores);

        assert_int_equal(pred_learner_observe(l, job, &o), 1);
        demand = learned_demand(l, job);
    }
    return demand;
}

/* Each row: a member and what it reports; its demand has to be within `within` after 12 reports. */
static void finds_the_demand(void **state)
{
    static const struct {
        const char *what;
        struct sim sim;
        unsigned cores;
        double within;
    } rows[] = {
        {"nothing but CPU, unsaturated",
         {.core_rate = 100, .gpu_rate = 350, .io_rate = INFINITY, .workers = 16, .noise = 0.05},
         8,
         0.12},
        {"CPU and GPU, saturated",
         {.core_rate = 100,
          .gpu_rate = 1000,
          .io_rate = INFINITY,
          .workers = 16,
          .noise = 0.05,
          .gpu = true},
         4,
         0.15},
        {"samples and clock, saturated, contention",
         {.core_rate = 100,
          .beta = 0.05,
          .gpu_rate = 700,
          .io_rate = INFINITY,
          .workers = 32,
          .noise = 0.05,
          .samples = true,
          .clock = true},
         4,
         0.25},
        {"samples and clock, unsaturated",
         {.core_rate = 100,
          .beta = 0.05,
          .gpu_rate = 500,
          .io_rate = INFINITY,
          .workers = 32,
          .noise = 0.05,
          .samples = true,
          .clock = true},
         16,
         0.15},
        {"bursts of five seconds, unsaturated",
         {.core_rate = 100,
          .gpu_rate = 300,
          .io_rate = INFINITY,
          .workers = 16,
          .noise = 0.02,
          .burst_on = 2,
          .burst_off = 3},
         12,
         0.75},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct sim s = rows[i].sim;
            struct pred_learner l;
            struct pred_job job;
            double demand;

            s.random = seed;
            pred_job_init(&job);
            pred_learner_init(&l);
            demand = run(&s, &l, &job, rows[i].cores, 12);
            if (fabs(demand / sim_demand(&s) - 1) > rows[i].within)
                fail_msg("%s, seed %u: demand %.2f, true %.2f", rows[i].what, (unsigned)seed,
                         demand, sim_demand(&s));
        }
    }
}

/* Nothing but CPU use, and squeezed: the curve still rises beyond what it has, and with more cores
 * the demand is found. */
static void explores_upward(void **state)
{
    struct sim s = {.core_rate = 1,
                    .gpu_rate = 10,
                    .io_rate = INFINITY,
                    .workers = 32,
                    .noise = 0.03,
                    .random = 7};
    struct pred_learner l;
    struct pred_job job;
    struct pred_curve curve;
    unsigned cores = 2, given = 0;

    (void)state;
    pred_job_init(&job);
    pred_learner_init(&l);
    for (unsigned step = 0; step < 8; step++) {
        run(&s, &l, &job, cores, 6);
        assert_int_equal(pred_learner_curve(&l, &job, MACHINE, &curve), 0);
        given = pred_curve_knee(&curve, 0.02);
        if (cores < 10)
            assert_true(curve.rate[cores + 1] > curve.rate[cores] * 1.05);
        pred_curve_free(&curve);
        cores = given;
    }
    assert_in_range(cores, 10, 14);
    /* squeezed again: what was seen is remembered */
    run(&s, &l, &job, 4, 20);
    assert_true(fabs(learned_demand(&l, &job) / 10 - 1) < 0.15);
}

static void workers_cap_the_curve(void **state)
{
    struct sim s = {.core_rate = 1, .gpu_rate = 10, .io_rate = INFINITY, .workers = 3, .random = 7};
    struct pred_learner l;
    struct pred_job job;
    struct pred_curve curve;

    (void)state;
    pred_job_init(&job);
    pred_learner_init(&l);
    run(&s, &l, &job, 8, 10);
    assert_int_equal(pred_learner_curve(&l, &job, 16, &curve), 0);
    assert_true(curve.rate[16] == curve.rate[3]);
    assert_int_equal(curve.limit[8], PRED_LIMIT_WORKERS);
    assert_true(curve.demand <= 3);
    pred_curve_free(&curve);
}

/* A measured curve need not be concave: this loader gains nothing from 9 to 11 cores and much at
 * 12, as a real one did. What was measured is kept. */
static double staircase(unsigned cores)
{
    static const double rate[] = {0, 30, 66, 100, 125, 153, 175, 185, 195, 200, 200, 200, 289};

    return rate[cores < 12 ? cores : 12];
}

static void keeps_measured_points(void **state)
{
    static const unsigned VISITED[] = {3, 6, 9, 12, 9};
    struct pred_learner l;
    struct pred_job job;
    struct pred_curve curve;

    (void)state;
    pred_job_init(&job);
    pred_learner_init(&l);
    for (size_t i = 0; i < sizeof(VISITED) / sizeof(VISITED[0]); i++)
        for (unsigned k = 0; k < 30; k++) {
            struct pred_observation o = sim_report(
                &(struct sim){.core_rate = 30, .gpu_rate = 1e6, .io_rate = INFINITY, .workers = 32},
                VISITED[i]);

            o.samples = staircase(VISITED[i]);
            o.busy_s = o.samples / 294;
            o.wait_s = 1 - o.busy_s;
            assert_int_equal(pred_learner_observe(&l, &job, &o), 1);
        }
    assert_int_equal(pred_learner_curve(&l, &job, 14, &curve), 0);
    assert_sane(&curve);
    for (size_t i = 0; i < sizeof(VISITED) / sizeof(VISITED[0]); i++)
        if (fabs(curve.rate[VISITED[i]] / staircase(VISITED[i]) - 1) > 0.06)
            fail_msg("%u cores: %.1f, measured %.1f", VISITED[i], curve.rate[VISITED[i]],
                     staircase(VISITED[i]));
    pred_curve_free(&curve);
}

/* Points that were measured before the work changed say nothing of what comes after. */
static void forgets_points_of_other_work(void **state)
{
    struct sim s = {.core_rate = 100,
                    .gpu_rate = 1e6,
                    .io_rate = INFINITY,
                    .workers = 32,
                    .samples = true,
                    .clock = true,
                    .random = 2};
    struct pred_learner l;
    struct pred_job job;
    struct pred_curve curve;

    (void)state;
    pred_job_init(&job);
    pred_learner_init(&l);
    for (unsigned cores = 2; cores <= 8; cores += 2)
        run(&s, &l, &job, cores, 30);
    s.core_rate = 25;
    run(&s, &l, &job, 8, 30);
    assert_int_equal(pred_learner_curve(&l, &job, 10, &curve), 0);
    for (unsigned cores = 1; cores <= 10; cores++)
        if (fabs(curve.rate[cores] / (25 * cores) - 1) > 0.1)
            fail_msg("%u cores: %.1f, true %u", cores, curve.rate[cores], 25 * cores);
    pred_curve_free(&curve);
}

/* The work a sample triples: demand follows within a few reports, with and without samples. */
static void follows_a_change(void **state)
{
    (void)state;
    for (unsigned told = 0; told < 2; told++) {
        struct sim s = {.core_rate = 300,
                        .gpu_rate = 900,
                        .io_rate = INFINITY,
                        .workers = 32,
                        .noise = 0.05,
                        .samples = told == 1,
                        .clock = told == 1,
                        .random = 3};
        struct pred_learner l;
        struct pred_job job;
        double demand;

        pred_job_init(&job);
        pred_learner_init(&l);
        demand = run(&s, &l, &job, 16, 60);
        assert_true(fabs(demand / 3 - 1) < 0.15);
        s.core_rate = 100;
        demand = run(&s, &l, &job, 16, 6);
        if (fabs(demand / 9 - 1) > 0.2)
            fail_msg("told %u: demand %.2f six reports after it became 9", told, demand);
    }
}

static void without_loaders_lends_all(void **state)
{
    struct pred_learner l;
    struct pred_job job;
    struct pred_curve curve;
    struct pred_observation o = {.interval_s = 1,
                                 .cores = 6,
                                 .queue_s = NAN,
                                 .io_wait = NAN,
                                 .gpu_busy = NAN,
                                 .samples = NAN,
                                 .wait_s = NAN,
                                 .busy_s = NAN,
                                 .read_bytes = NAN};

    (void)state;
    pred_job_init(&job);
    pred_learner_init(&l);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(pred_learner_observe(&l, &job, &o), 1);
    assert_int_equal(pred_learner_curve(&l, &job, 8, &curve), 0);
    assert_sane(&curve);
    assert_true(curve.demand == 0);
    assert_true(curve.rate[0] == curve.gpu_rate);
    assert_int_equal(pred_curve_knee(&curve, 0.01), 0);
    pred_curve_free(&curve);
}

static void knows_nothing_at_first(void **state)
{
    struct pred_learner l;
    struct pred_job job;
    struct pred_curve curve;

    (void)state;
    pred_job_init(&job);
    pred_learner_init(&l);
    assert_int_equal(pred_learner_curve(&l, &job, 12, &curve), 0);
    assert_sane(&curve);
    assert_true(curve.relative);
    assert_int_equal(curve.source, PRED_UNKNOWN);
    for (unsigned c = 0; c <= 12; c++)
        assert_true(curve.rate[c] == c);
    assert_true(curve.demand == 12 && curve.gpu_rate == 12);
    pred_curve_free(&curve);
}

/* Random bytes of every field into observe: never accepted as nonsense, never a bad curve. */
static void survives_any_report(void **state)
{
    static const double odd[] = {0, -1, 1e-300, 1e300, INFINITY, -INFINITY, NAN, 0.5, 1, 3, 1e9};
    struct sim r = {.random = 99};
    struct pred_learner l;
    struct pred_job job;

    (void)state;
    pred_job_init(&job);
    pred_learner_init(&l);
    for (unsigned i = 0; i < 20000; i++) {
        struct pred_observation o = sim_report(
            &(struct sim){.core_rate = 1, .gpu_rate = 3, .io_rate = 1e9, .workers = 8}, 5);
        double *fields[] = {&o.interval_s, &o.loader_cpu_s, &o.queue_s, &o.io_wait,   &o.gpu_busy,
                            &o.samples,    &o.wait_s,       &o.busy_s,  &o.read_bytes};

        for (unsigned k = 0; k < 3; k++)
            *fields[(size_t)(sim_uniform(&r) * 9)] =
                odd[(size_t)(sim_uniform(&r) * 11)] * sim_uniform(&r);
        o.cores = (unsigned)(sim_uniform(&r) * 20);
        o.tasks = (unsigned)(sim_uniform(&r) * 20);
        o.workers = (unsigned)(sim_uniform(&r) * 20);
        pred_learner_observe(&l, &job, &o);
        if (i % 7 == 0) {
            struct pred_curve curve;

            assert_int_equal(pred_learner_curve(&l, &job, 24, &curve), 0);
            assert_sane(&curve);
            pred_curve_free(&curve);
        }
    }
}

static void refuses_contradictions(void **state)
{
    struct pred_learner l, before;
    struct pred_job job;
    struct pred_observation good =
        sim_report(&(struct sim){.core_rate = 1, .gpu_rate = 3, .io_rate = 1e9, .workers = 8}, 5);
    struct pred_observation o;

    (void)state;
    pred_job_init(&job);
    pred_learner_init(&l);
    before = l;
#define REFUSED(field, value)                                                                      \
    o = good;                                                                                      \
    o.field = value;                                                                               \
    assert_int_equal(pred_learner_observe(&l, &job, &o), 0);                                       \
    assert_memory_equal(&l, &before, sizeof(l))
    REFUSED(interval_s, 0);
    REFUSED(interval_s, NAN);
    REFUSED(loader_cpu_s, -1);
    REFUSED(loader_cpu_s, NAN);
    REFUSED(loader_cpu_s, 1000); /* more than the tasks can do */
    good.tasks = good.workers = 64;
    REFUSED(loader_cpu_s, 20); /* more than the cores can do, main threads' ones included */
    good.tasks = good.workers = 8;
    REFUSED(gpu_busy, 1.5);
    REFUSED(samples, INFINITY);
    REFUSED(workers, 9); /* more than tasks */
    REFUSED(cores, PRED_CORES_MAX + 1);
    assert_int_equal(pred_learner_observe(&l, &job, &good), 1);
}

/* A number that no learner can have is not taken back. */
static void refuses_out_of_bounds(const struct pred_learner *good)
{
    static const double BAD[] = {-1, 1.5, 1e30, INFINITY};
    uint8_t buf[PRED_STATE_MAX];

    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        struct pred_learner l = *good, back;

        l.busy = BAD[i];
        assert_int_equal(pred_learner_load(&back, buf, pred_learner_save(&l, buf, sizeof(buf))),
                         -1);
        l = *good;
        l.use_track.mean = (float)(BAD[i] == 1.5 ? -2 : BAD[i]);
        assert_int_equal(pred_learner_load(&back, buf, pred_learner_save(&l, buf, sizeof(buf))),
                         -1);
    }
}

static void saves_and_loads(void **state)
{
    struct sim s = {.core_rate = 100,
                    .beta = 0.05,
                    .gpu_rate = 700,
                    .io_rate = INFINITY,
                    .workers = 32,
                    .noise = 0.05,
                    .samples = true,
                    .clock = true,
                    .random = 5};
    struct pred_learner l, back;
    struct pred_job job;
    uint8_t buf[PRED_STATE_MAX + 1];
    size_t length;
    struct sim r = {.random = 1};

    (void)state;
    pred_job_init(&job);
    pred_learner_init(&l);
    run(&s, &l, &job, 4, 20);
    length = pred_learner_save(&l, buf, sizeof(buf));
    assert_in_range(length, 1, PRED_STATE_MAX);
    assert_int_equal(pred_learner_load(&back, buf, length), 0);
    assert_true(fabs(learned_demand(&back, &job) / learned_demand(&l, &job) - 1) < 1e-5);
    assert_int_equal(pred_learner_save(&l, buf, 10), 0);
    refuses_out_of_bounds(&l);
    for (size_t n = 0; n < length; n++)
        assert_int_equal(pred_learner_load(&back, buf, n), -1);
    assert_int_equal(pred_learner_load(&back, buf, length + 1), -1);
    /* whatever is accepted of damaged forms makes a sane curve */
    for (unsigned i = 0; i < 20000; i++) {
        uint8_t bad[PRED_STATE_MAX];

        memcpy(bad, buf, length);
        for (unsigned k = 0; k < 4; k++)
            bad[4 + (size_t)(sim_uniform(&r) * (double)(length - 4))] =
                (uint8_t)(sim_uniform(&r) * 256);
        if (pred_learner_load(&back, bad, length) == 0) {
            struct pred_curve curve;
            struct pred_observation o = sim_report(&s, 4);

            for (unsigned pass = 0; pass < 2; pass++) {
                if (pred_learner_curve(&back, &job, 24, &curve) == 0) {
                    assert_sane(&curve);
                    pred_curve_free(&curve);
                }
                pred_learner_observe(&back, &job, &o);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_demand),
        cmocka_unit_test(explores_upward),
        cmocka_unit_test(workers_cap_the_curve),
        cmocka_unit_test(keeps_measured_points),
        cmocka_unit_test(forgets_points_of_other_work),
        cmocka_unit_test(follows_a_change),
        cmocka_unit_test(without_loaders_lends_all),
        cmocka_unit_test(knows_nothing_at_first),
        cmocka_unit_test(survives_any_report),
        cmocka_unit_test(refuses_contradictions),
        cmocka_unit_test(saves_and_loads),
    };

    return cmocka_run_group_tests_name("predictor learner", tests, NULL, NULL);
}
