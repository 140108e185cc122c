/*
 * Small dense linear algebra and least squares for the fits: symmetric matrices by rows, n x n.
 */
#ifndef ADLOADER_PREDICTOR_SOLVE_H
#define ADLOADER_PREDICTOR_SOLVE_H

#include <stdbool.h>
#include <stddef.h>

/* Cholesky: a = L L^T; L replaces the lower triangle (the upper is left alone). false: a is not
 * positive definite. */
bool pred_cholesky(double *a, size_t n);

/* With the factor L: solve L x = b (forward), L^T x = b (backward), in place. */
void pred_solve_lower(const double *l, size_t n, double *b);
void pred_solve_upper(const double *l, size_t n, double *b);

/* The inverse of L L^T, full symmetric, into inverse (n x n). */
void pred_cholesky_invert(const double *l, size_t n, double *inverse);

#define PRED_FIT_PARAMS_MAX 64

/*
 * Robust least squares with priors: Levenberg-Marquardt on sum 2 (sqrt(1 + r_i^2) - 1) over the
 * data, quadratic for small and linear for large residuals, plus sum ((x_j - mean_j) / sd_j)^2.
 *
 * residuals() fills nresiduals numbers for x, each in units of its noise; a residual that is not
 * finite makes the step be refused. x holds the start and receives the answer. Returns the cost, or
 * NAN where memory is lacking or the start has no finite cost.
 */
struct pred_fit {
    size_t nparams, nresiduals;
    const double *mean, *sd; /* of the priors */
    void (*residuals)(const double *x, double *r, const void *data);
    const void *data;
    unsigned iterations; /* at most */
};

double pred_fit_run(const struct pred_fit *fit, double *x);

#endif
