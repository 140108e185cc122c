/*
 * The terms of the model and the static curve: what every one of them must do whatever the numbers,
 * shown on random ones. Units are checked by dimension: a time scales with seconds, a rate with
 * samples, bytes and bandwidth only as their quotient.
 */
#include "predictor.h"
#include "rng.h"
#include "terms.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ROUNDS 2000

static double between(struct rng *r, double low, double high) /* evenly in the logarithm */
{
    double u = (double)(rng_next(r) >> 11) * 0x1p-53;

    return low * pow(high / low, u);
}

static void assert_close(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)) + 1e-300))
        fail_msg("%.17g is not %.17g", a, b);
}

/* Seconds: twice the work or half the speed is twice the time. */
static void times_have_dimension(void **state)
{
    struct rng r = {1};

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        double a = between(&r, 1e-6, 1), b = floor(between(&r, 1, 1e4)), f = between(&r, 1e6, 1e13);
        double p = between(&r, 1e10, 1e15), m = between(&r, 1e-9, 1e-2),
               n = floor(between(&r, 2, 4096));
        double bytes = between(&r, 1e3, 1e11), s = between(&r, 0.01, 100);
        struct pred_link link = {between(&r, 1e-7, 1e-2), between(&r, 1e6, 1e12)};
        struct pred_link slow = {link.alpha_s * s, link.bus_bytes_per_s / s};
        double g = 1 + 9 * (double)i / ROUNDS;

        assert_close(pred_compute_s(s * a, b, f, p / s, s * m), s * pred_compute_s(a, b, f, p, m));
        assert_close(pred_compute_s(0, b * s, f, p, m), s * pred_compute_s(0, b, f, p, m));
        assert_close(pred_compute_s(a, b, f * s, p * s, m), pred_compute_s(a, b, f, p, m));
        assert_close(pred_ring_s(n, bytes, &slow), s * pred_ring_s(n, bytes, &link));
        assert_close(pred_tree_s(n, bytes, &slow), s * pred_tree_s(n, bytes, &link));
        assert_close(pred_overlap_s(s * a, s * m, g), s * pred_overlap_s(a, m, g));
    }
}

static void rates_have_dimension(void **state)
{
    struct rng r = {2};

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        double k = between(&r, 1e-3, 1e6), beta = between(&r, 1e-4, 0.9), c = between(&r, 0.1, 500);
        double s = between(&r, 0.01, 100), bw = between(&r, 1e3, 1e12), bytes = between(&r, 1, 1e9);
        double hit = between(&r, 1e-3, 1), rate = pred_loader_rate(k, beta, c);

        assert_close(pred_loader_rate(s * k, beta, c), s * rate);
        assert_close(pred_loader_cores(s * k, beta, s * rate), pred_loader_cores(k, beta, rate));
        assert_close(pred_io_rate(s * bw, s * bytes, hit), pred_io_rate(bw, bytes, hit));
        assert_close(pred_memory_rate(s * bw, bytes), s * pred_memory_rate(bw, bytes));
        assert_close(pred_knee(s * k, s * rate, 20), s * pred_knee(k, rate, 20));
        assert_close(pred_cache_hit(s * bw, s * bytes), pred_cache_hit(bw, bytes));
    }
}

static void exchange_is_bounded(void **state)
{
    struct rng r = {3};

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct pred_link link = {between(&r, 1e-7, 1e-3), between(&r, 1e6, 1e12)};
        double bytes = between(&r, 1, 1e11), n = floor(between(&r, 1, 512)),
               nodes = floor(between(&r, 1, 64));
        double t = pred_sync_s(n, nodes, bytes, &link, &link);

        assert_true(isfinite(t) && t >= 0);
        assert_true((n == 1 && nodes == 1) == (t == 0));
        assert_true(pred_sync_s(n + 1, nodes, bytes, &link, &link) >= t);
        assert_true(pred_sync_s(n, nodes + 1, bytes, &link, &link) >= t);
        assert_true(t <= pred_ring_s(n, bytes, &link) + pred_ring_s(nodes, bytes, &link) + 1e-12);
    }
    /* small messages by tree, large ones either way: the ring's latency grows with n */
    assert_true(pred_tree_s(64, 8, &(struct pred_link){1e-5, 1e10}) <
                pred_ring_s(64, 8, &(struct pred_link){1e-5, 1e10}));
}

static void overlap_lies_between_sum_and_maximum(void **state)
{
    struct rng r = {4};

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        double a = between(&r, 1e-6, 100), b = between(&r, 1e-6, 100), g = between(&r, 1, 10);
        double t = pred_overlap_s(a, b, g);

        assert_true(t >= fmax(a, b) * (1 - 1e-12) && t <= (a + b) * (1 + 1e-12));
        assert_close(pred_overlap_s(a, b, g), pred_overlap_s(b, a, g));
        assert_true(pred_overlap_s(a, b, 10) <= t + 1e-12);
    }
    assert_close(pred_overlap_s(1, 2, 1), 3);
    assert_close(pred_overlap_s(1, 2, NAN), 3);
    assert_true(pred_overlap_s(0, 0, 2) == 0);
}

static void loader_inverts(void **state)
{
    struct rng r = {5};

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        double k = between(&r, 1e-3, 1e6), beta = between(&r, 1e-4, 0.9), c = between(&r, 0.1, 500);
        double rate = pred_loader_rate(k, beta, c);

        assert_true(pred_loader_rate(k, beta, c * 1.01) > rate);
        assert_true(fabs(pred_loader_cores(k, beta, rate) / c - 1) < 1e-6);
        assert_true(isinf(pred_loader_cores(k, beta, k / beta * 1.01)));
    }
    assert_close(pred_loader_rate(100, 0.1, 1), 100); /* k is the rate of one core, whatever beta */
    assert_close(pred_loader_rate(100, 0, 7), 700);
    assert_true(pred_loader_rate(100, 0.1, 0) == 0);
}

static void knee_is_below_both_and_inverts(void **state)
{
    struct rng r = {6};

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        double demand = between(&r, 1e-3, 1e6), ratio = between(&r, 1e-3, 1e3),
               depth = between(&r, 1, 200);
        double rate = pred_knee(demand, ratio * demand, depth);
        double busy = pred_knee_busy(ratio, depth);

        assert_true(isfinite(rate) && rate >= 0 && rate <= demand &&
                    rate <= ratio * demand * (1 + 1e-12));
        assert_true(pred_knee(demand, 1.01 * ratio * demand, depth) >= rate * (1 - 1e-12));
        assert_true(busy > 0 && busy <= 1);
        if (busy < 0.9999)
            assert_true(fabs(pred_knee_ratio(busy, depth) / ratio - 1) < 1e-4);
    }
    assert_close(pred_knee(1, 1, 19), 0.95);                /* n/(n+1) */
    assert_close(pred_knee(1, 0.5, 2), 0.5 * 0.75 / 0.875); /* r (1 - r^2) / (1 - r^3) */
    assert_close(pred_knee(1, 2, 2), 2 * 3 / 7.0);
    assert_close(pred_knee(1, 1 + 1e-9, 19), 0.95 + 0.5e-9 * 0.95);
    assert_true(pred_knee(5, INFINITY, 20) == 5);
}

static void cache_hits_grow_to_one(void **state)
{
    double last = 0;

    (void)state;
    for (double x = 0.01; x < 1.2; x += 0.01) {
        double hit = pred_cache_hit(x, 1);

        assert_true(hit >= last && hit <= fmin(1, x) + 1e-12); /* never better than a fixed part */
        last = hit;
    }
    assert_true(last == 1);
    assert_true(isinf(pred_io_rate(1e6, 1e3, 1)));
    assert_true(isinf(pred_io_rate(NAN, 1e3, 0)));
    assert_close(pred_io_rate(1e6, 1e3, 0.5), 2000);
}

/* The expected largest of n normal numbers, against simulation. */
static void stragglers_as_simulated(void **state)
{
    struct rng r = {7};

    (void)state;
    for (unsigned n = 2; n <= 64; n *= 2) {
        double sum = 0;

        for (unsigned round = 0; round < 20000; round++) {
            double most = -INFINITY;

            for (unsigned i = 0; i < n; i++) {
                double u = 1 - (double)(rng_next(&r) >> 11) * 0x1p-53,
                       v = (double)(rng_next(&r) >> 11) * 0x1p-53;

                most = fmax(most, sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
            }
            sum += most;
        }
        if (fabs(sum / 20000 - pred_straggler(n)) > 0.05)
            fail_msg("%u: %.4f, simulated %.4f", n, pred_straggler(n), sum / 20000);
    }
    assert_true(pred_straggler(1) == 0);
}

/* ---- the static curve --------------------------------------------------------------------------
 */

static double odd(struct rng *r)
{
    static const double ODD[] = {0,         -0.0,   -1,    1,   NAN, INFINITY,
                                 -INFINITY, 1e-308, 1e308, 0.5, 10,  1e9};
    uint64_t pick = rng_next(r) % 20;

    return pick < 12 ? ODD[pick] : between(r, 1e-6, 1e13);
}

static void assert_sane(const struct pred_curve *c)
{
    assert_true(isfinite(c->gpu_rate) && c->gpu_rate > 0);
    assert_true(isfinite(c->demand) && c->demand >= 0);
    for (unsigned i = 0; i <= c->ncores; i++) {
        assert_true(isfinite(c->rate[i]) && c->rate[i] >= 0 &&
                    c->rate[i] <= c->gpu_rate * (1 + 1e-9));
        assert_true(isfinite(c->low[i]) && c->low[i] >= 0 && c->low[i] <= c->rate[i]);
        assert_true(isfinite(c->high[i]) && c->high[i] >= c->rate[i]);
        assert_true(i == 0 || c->rate[i] >= c->rate[i - 1]);
        assert_true(c->limit[i] <= PRED_LIMIT_IO);
    }
}

static void any_job_is_refused_or_sane(void **state)
{
    struct rng r = {8};
    unsigned accepted = 0;

    (void)state;
    for (unsigned i = 0; i < 100000; i++) {
        struct pred_job job;
        struct pred_curve curve;
        double *fields[] = {&job.flops_forward,
                            &job.gradient_bytes,
                            &job.sample_bytes,
                            &job.gpu_flops_per_s,
                            &job.sample_gpu_s,
                            &job.step_overhead_s,
                            &job.overlap,
                            &job.in_node.alpha_s,
                            &job.in_node.bus_bytes_per_s,
                            &job.between_nodes.alpha_s,
                            &job.between_nodes.bus_bytes_per_s,
                            &job.core_rate.value,
                            &job.core_rate.rel_sd,
                            &job.beta.value,
                            &job.beta.rel_sd,
                            &job.gpu_rate.value,
                            &job.gpu_rate.rel_sd,
                            &job.demand.value,
                            &job.demand.rel_sd,
                            &job.io_bytes_per_s,
                            &job.cache_hit,
                            &job.memory_bytes_per_s,
                            &job.sample_memory_bytes};
        unsigned *counts[] = {&job.batch, &job.gpus,        &job.gpus_total,
                              &job.nodes, &job.workers_min, &job.workers_max};

        pred_job_init(&job);
        for (unsigned k = rng_next(&r) % 8; k > 0; k--)
            *fields[rng_next(&r) % (sizeof(fields) / sizeof(fields[0]))] = odd(&r);
        for (unsigned k = rng_next(&r) % 4; k > 0; k--)
            *counts[rng_next(&r) % 6] =
                rng_next(&r) % 3 == 0 ? (unsigned)rng_next(&r) : (unsigned)(rng_next(&r) % 64);
        if (pred_curve_static(&job, (unsigned)(rng_next(&r) % 40), &curve) != 0) {
            assert_int_equal(errno, EINVAL);
            continue;
        }
        accepted++;
        assert_sane(&curve);
        pred_curve_free(&curve);
    }
    assert_true(accepted > 10000);
}

static void known_numbers_give_the_known_curve(void **state)
{
    struct pred_job job;
    struct pred_curve c;

    (void)state;
    pred_job_init(&job);
    job.core_rate = (struct pred_value){262, 0.1, PRED_MEASURED};
    job.beta = (struct pred_value){0.1, 0.1, PRED_MEASURED};
    job.gpu_rate = (struct pred_value){755, 0.1, PRED_STATIC};
    assert_int_equal(pred_curve_static(&job, 12, &c), 0);
    assert_sane(&c);
    /* 755 = 262 c / (1 + 0.1 (c - 1)): c = 755 * 0.9 / (262 - 75.5) */
    assert_close(c.demand, 755 * 0.9 / (262 - 75.5));
    assert_true(fabs(c.rate[1] / 262 - 1) < 1e-6);
    assert_true(c.rate[12] > 0.99 * 755);
    assert_int_equal(c.limit[2], PRED_LIMIT_LOADER);
    assert_int_equal(c.limit[8], PRED_LIMIT_GPU);
    assert_in_range(pred_curve_knee(&c, 0.02), 4, 6);
    assert_int_equal(c.source, PRED_STATIC);
    assert_false(c.relative);
    pred_curve_free(&c);

    job.io_bytes_per_s = 33e6; /* 300 samples/s of 110 kB */
    job.sample_bytes = 110e3;
    assert_int_equal(pred_curve_static(&job, 12, &c), 0);
    assert_int_equal(c.limit[8], PRED_LIMIT_IO);
    assert_true(c.rate[12] <= 300 && c.rate[12] > 290);
    pred_curve_free(&c);

    job.io_bytes_per_s = NAN;
    job.workers_max = 2;
    assert_int_equal(pred_curve_static(&job, 12, &c), 0);
    assert_int_equal(c.limit[3], PRED_LIMIT_WORKERS);
    assert_true(c.rate[12] == c.rate[2]);
    pred_curve_free(&c);
}

/* ResNet-50 at 256 a GPU on four V100: computed by hand from the formulas. */
static void step_time_by_hand(void **state)
{
    struct pred_job job;
    struct pred_curve c;
    double compute, sync, step;

    (void)state;
    pred_job_init(&job);
    job.flops_forward = 8.178e9;
    job.gradient_bytes = 102.2e6;
    job.batch = 256;
    job.gpus = job.gpus_total = 4;
    job.nodes = 1;
    job.gpu_flops_per_s = 9.0e12;
    job.in_node = (struct pred_link){5e-6, 130e9};
    job.overlap = 2;
    compute = 256 * 3 * 8.178e9 / 9.0e12;
    sync = 2 * 2 * 5e-6 + 2 * 0.75 * 102.2e6 / 130e9; /* tree: 2 log2(4) steps */
    step = sqrt(compute * compute + sync * sync);
    assert_int_equal(pred_curve_static(&job, 4, &c), 0);
    assert_close(c.gpu_rate, 256 * 4 / step);
    pred_curve_free(&c);
}

static void refuses_contradictions(void **state)
{
    struct pred_job job;
    struct pred_curve c;

    (void)state;
#define REFUSED(field, number)                                                                     \
    pred_job_init(&job);                                                                           \
    job.field = number;                                                                            \
    assert_int_equal(pred_curve_static(&job, 4, &c), -1);                                          \
    assert_int_equal(errno, EINVAL)
    REFUSED(flops_forward, -1);
    REFUSED(core_rate.value, INFINITY);
    REFUSED(cache_hit, 1.5);
    REFUSED(overlap, 0.5);
    REFUSED(sample_gpu_s, -1);
    REFUSED(demand.value, -2);
    pred_job_init(&job);
    job.workers_min = 5;
    job.workers_max = 4;
    assert_int_equal(pred_curve_static(&job, 4, &c), -1);
    pred_job_init(&job);
    job.gpus = 8;
    job.gpus_total = 4;
    assert_int_equal(pred_curve_static(&job, 4, &c), -1);
    pred_job_init(&job);
    assert_int_equal(pred_curve_static(&job, PRED_CORES_MAX + 1, &c), -1);
}

/* The knee looks past a flat step: curves need not be concave. */
static void knee_of_a_staircase(void **state)
{
    double rate[] = {0, 1, 2, 2, 2, 4, 4, 4};
    struct pred_curve c = {.ncores = 7, .rate = rate, .gpu_rate = 4};

    (void)state;
    assert_int_equal(pred_curve_knee(&c, 0.01), 5);
    assert_int_equal(pred_curve_knee(&c, 0), 5);
    assert_int_equal(pred_curve_knee(&c, 0.6), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_dimension),
        cmocka_unit_test(rates_have_dimension),
        cmocka_unit_test(exchange_is_bounded),
        cmocka_unit_test(overlap_lies_between_sum_and_maximum),
        cmocka_unit_test(loader_inverts),
        cmocka_unit_test(knee_is_below_both_and_inverts),
        cmocka_unit_test(cache_hits_grow_to_one),
        cmocka_unit_test(stragglers_as_simulated),
        cmocka_unit_test(any_job_is_refused_or_sane),
        cmocka_unit_test(known_numbers_give_the_known_curve),
        cmocka_unit_test(step_time_by_hand),
        cmocka_unit_test(refuses_contradictions),
        cmocka_unit_test(knee_of_a_staircase),
    };

    return cmocka_run_group_tests_name("predictor terms", tests, NULL, NULL);
}
