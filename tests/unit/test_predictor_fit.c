/*
 * The fits: the solver against linear algebra by hand, step times and loaders against data made
 * from known laws, with noise and outliers.
 */
#include "loaderfit.h"
#include "rng.h"
#include "solve.h"
#include "steptime.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double uniform(struct rng *r)
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

static double normal(struct rng *r)
{
    double u = 1 - uniform(r);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * uniform(r));
}

#define N 12

static void factor_and_inverse(void **state)
{
    struct rng r = {1};
    double a[N * N], l[N * N], inverse[N * N], b[N], x[N];

    (void)state;
    for (size_t i = 0; i < N * N; i++)
        l[i] = normal(&r);
    for (size_t i = 0; i < N; i++) /* a = l l^T + 1 */
        for (size_t j = 0; j < N; j++) {
            a[i * N + j] = i == j;
            for (size_t k = 0; k < N; k++)
                a[i * N + j] += l[i * N + k] * l[j * N + k];
        }
    memcpy(l, a, sizeof(a));
    assert_true(pred_cholesky(l, N));
    pred_cholesky_invert(l, N, inverse);
    for (size_t i = 0; i < N; i++)
        b[i] = x[i] = normal(&r);
    pred_solve_lower(l, N, x);
    pred_solve_upper(l, N, x);
    for (size_t i = 0; i < N; i++) {
        double ax = 0, ib = 0;

        for (size_t j = 0; j < N; j++) {
            double unit = 0;

            ax += a[i * N + j] * x[j];
            ib += inverse[i * N + j] * b[j];
            for (size_t k = 0; k < N; k++)
                unit += a[i * N + k] * inverse[k * N + j];
            assert_true(fabs(unit - (i == j)) < 1e-9);
        }
        assert_true(fabs(ax - b[i]) < 1e-9 && fabs(ib - x[i]) < 1e-9);
    }
    a[0] = -1;
    assert_false(pred_cholesky(a, N));
}

/* y = 2 + 3 t with one in six points far off: the line stands. */
static void line_residuals(const double *x, double *r, const void *data)
{
    const double *y = data;

    for (unsigned i = 0; i < 60; i++)
        r[i] = (x[0] + x[1] * i - y[i]) / 0.1;
}

static void outliers_do_not_bend_it(void **state)
{
    static const double mean[2] = {0, 0}, sd[2] = {100, 100}, held[2] = {100, 1e-6};
    struct rng r = {2};
    double y[60], x[2] = {0, 0};
    struct pred_fit fit = {2, 60, mean, sd, line_residuals, y, 100};

    (void)state;
    for (unsigned i = 0; i < 60; i++)
        y[i] = 2 + 3.0 * i + 0.1 * normal(&r) + (i % 6 == 0 ? 50 : 0);
    assert_true(isfinite(pred_fit_run(&fit, x)));
    assert_true(fabs(x[0] - 2) < 0.2 && fabs(x[1] - 3) < 0.01);
    fit.sd = held; /* a strong prior holds */
    x[0] = x[1] = 0;
    assert_true(isfinite(pred_fit_run(&fit, x)));
    assert_true(fabs(x[1]) < 1e-3);
}

static double true_step(double batch, unsigned replicas, unsigned nodes)
{
    double compute = 0.05 + 0.002 * batch, exchange = 0;

    if (replicas > 1)
        exchange = (nodes > 1 ? 0.15 : 0.02) * 2 * (replicas - 1) / replicas;
    return sqrt(compute * compute + exchange * exchange);
}

static struct pred_step point(struct rng *r, const char *placement, double batch, double noise)
{
    struct pred_step s = {.batch = batch};

    assert_int_equal(pred_step_placement(&s, placement), 0);
    s.step_s = true_step(batch, s.replicas, s.nodes) * exp(noise * normal(r));
    return s;
}

static const char *const PLACEMENTS[] = {"1",   "2",   "3",    "4",  "11",  "12",   "22",
                                         "111", "112", "1111", "44", "244", "1234", "4444"};
#define NPLACEMENTS (sizeof(PLACEMENTS) / sizeof(PLACEMENTS[0]))

static double error_on_truth(const struct pred_step_model *m, double *worst_sd)
{
    struct rng r = {9};
    double sum = 0;
    unsigned n = 0;

    *worst_sd = 0;
    for (size_t p = 0; p < NPLACEMENTS; p++)
        for (double batch = 12; batch < 300; batch *= 1.7, n++) {
            struct pred_step q = point(&r, PLACEMENTS[p], batch, 0);
            struct pred_step_time t;

            assert_int_equal(pred_step_predict(m, &q, &t), 0);
            assert_true(isfinite(t.step_s) && t.step_s > 0 && isfinite(t.rel_sd) && t.rel_sd > 0);
            assert_true(isfinite(t.compute_s) && t.compute_s > 0 && isfinite(t.exchange_s) &&
                        t.exchange_s >= 0);
            assert_true((q.replicas == 1) == (t.exchange_s == 0));
            sum += fabs(t.step_s / q.step_s - 1);
            *worst_sd = fmax(*worst_sd, t.rel_sd);
        }
    return sum / n;
}

static void finds_a_known_law(void **state)
{
    struct pred_step points[400];
    struct pred_step_model *m;
    struct rng r = {3};
    double sd;
    size_t n = 0;

    (void)state;
    for (size_t p = 0; p < NPLACEMENTS; p++)
        for (double batch = 10; batch < 400; batch *= 1.5)
            points[n++] = point(&r, PLACEMENTS[p], batch, 0.03);
    for (size_t i = 0; i < n; i += 17) /* outliers */
        points[i].step_s *= 3;
    m = pred_step_fit(points, n);
    assert_non_null(m);
    assert_true(error_on_truth(m, &sd) < 0.025);
    pred_step_model_free(m);
    /* only few GPUs measured: worse, but no nonsense where it was not */
    m = pred_step_fit(points, 10 * 10);
    assert_non_null(m);
    assert_true(error_on_truth(m, &sd) < 0.12);
    pred_step_model_free(m);
}

static void few_points_are_enough_for_physics(void **state)
{
    struct rng r = {4};
    struct pred_step points[5] = {point(&r, "1", 32, 0), point(&r, "1", 128, 0),
                                  point(&r, "2", 32, 0), point(&r, "11", 64, 0),
                                  point(&r, "44", 64, 0)};
    struct pred_step_model *m = pred_step_fit(points, 5);
    double sd;

    (void)state;
    assert_non_null(m);
    assert_true(error_on_truth(m, &sd) < 0.25);
    pred_step_model_free(m);
    assert_null(pred_step_fit(points, 3));
    assert_int_equal(errno, EINVAL);
}

static void any_table_is_refused_or_fitted(void **state)
{
    static const double ODD[] = {0, -1, NAN, INFINITY, 1e-300, 1e300, 1, 1e-9, 1e6};
    struct rng r = {5};

    (void)state;
    for (unsigned round = 0; round < 60; round++) {
        struct pred_step points[30];
        struct pred_step_model *m;

        for (unsigned i = 0; i < 30; i++) {
            points[i] =
                point(&r, PLACEMENTS[rng_below(&r, NPLACEMENTS)], 8 + rng_below(&r, 100), 1);
            if (rng_chance(&r, 20))
                points[i].step_s = ODD[rng_below(&r, 9)];
            if (rng_chance(&r, 10))
                points[i].batch = ODD[rng_below(&r, 9)];
            if (rng_chance(&r, 10))
                points[i].nodes = rng_below(&r, 1000);
        }
        m = pred_step_fit(points, 30);
        for (unsigned i = 0; m != NULL && i < 30; i++) {
            struct pred_step_time t;

            if (pred_step_predict(m, &points[i], &t) == 0)
                assert_true(isfinite(t.step_s) && t.step_s > 0);
        }
        pred_step_model_free(m);
    }
}

static void placements_are_read(void **state)
{
    static const char *const BAD[] = {"", "0", "1a", "10", "-1", "1 1"};
    struct pred_step a, b;

    (void)state;
    assert_int_equal(pred_step_placement(&a, "1322"), 0);
    assert_true(a.replicas == 8 && a.nodes == 4 && a.most == 3 && a.least == 1);
    assert_int_equal(pred_step_placement(&b, "2213"), 0);
    assert_true(a.shape == b.shape && a.layout != b.layout);
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++)
        assert_int_equal(pred_step_placement(&a, BAD[i]), -1);
}

static void loaders_from_their_points(void **state)
{
    struct pred_loader_prior prior;
    struct pred_loader l;
    struct pred_loader_point p[] = {
        {1, 100}, {2, 190.476}, {4, 347.826}, {8, 592.593}}; /* beta 0.05 */

    (void)state;
    pred_loader_prior_init(&prior);
    assert_int_equal(pred_loader_fit(p, 4, &prior, &l), 0);
    assert_true(fabs(l.core_rate / 100 - 1) < 0.03 && fabs(l.beta - 0.05) < 0.02);
    assert_true(fabs(pred_loader_at(&l, 16) / 914 - 1) < 0.1);
    assert_int_equal(pred_loader_fit(p, 1, &prior, &l),
                     0); /* one point: the prior's curve through it */
    assert_true(fabs(pred_loader_at(&l, 1) / 100 - 1) < 0.05);
    assert_true(pred_loader_at(&l, 8) < 800 && pred_loader_at(&l, 8) > 400);
    p[0].rate = NAN;
    assert_int_equal(pred_loader_fit(p, 2, &prior, &l), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(pred_loader_fit(p, 0, &prior, &l), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factor_and_inverse),
        cmocka_unit_test(outliers_do_not_bend_it),
        cmocka_unit_test(finds_a_known_law),
        cmocka_unit_test(few_points_are_enough_for_physics),
        cmocka_unit_test(any_table_is_refused_or_fitted),
        cmocka_unit_test(placements_are_read),
        cmocka_unit_test(loaders_from_their_points),
    };

    return cmocka_run_group_tests_name("predictor fits", tests, NULL, NULL);
}
