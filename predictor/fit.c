/*
 * Robust least squares with priors by Levenberg-Marquardt (Marquardt, J. SIAM 11(2), 1963), the
 * Jacobian by differences, outliers held down by the weights of the soft L1 loss.
 */
#include "solve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP 1e-5

struct work {
    double *r, *shifted, *jacobian; /* residuals; jacobian by columns */
    double normal[PRED_FIT_PARAMS_MAX * PRED_FIT_PARAMS_MAX];
    double gradient[PRED_FIT_PARAMS_MAX];
};

static double cost_of(const struct pred_fit *fit, const double *x, double *r)
{
    double cost = 0;

    fit->residuals(x, r, fit->data);
    for (size_t i = 0; i < fit->nresiduals; i++)
        cost += 2 * (sqrt(1 + r[i] * r[i]) - 1);
    for (size_t j = 0; j < fit->nparams; j++)
        cost += pow((x[j] - fit->mean[j]) / fit->sd[j], 2);
    return isfinite(cost) ? cost : INFINITY;
}

static void differentiate(const struct pred_fit *fit, double *x, struct work *w)
{
    size_t n = fit->nresiduals;

    for (size_t j = 0; j < fit->nparams; j++) {
        double at = x[j];

        x[j] = at + STEP;
        fit->residuals(x, w->shifted, fit->data);
        x[j] = at;
        for (size_t i = 0; i < n; i++) {
            double slope = (w->shifted[i] - w->r[i]) / STEP;

            w->jacobian[j * n + i] = isfinite(slope) ? slope : 0;
        }
    }
}

/* J^T W J + prior and its right-hand side; the weights are those of soft L1 at w->r. */
static void assemble(const struct pred_fit *fit, const double *x, struct work *w)
{
    size_t n = fit->nresiduals, p = fit->nparams;

    for (size_t i = 0; i < n; i++)
        w->shifted[i] = 1 / sqrt(1 + w->r[i] * w->r[i]);
    for (size_t j = 0; j < p; j++) {
        const double *a = w->jacobian + j * n;
        double prior = 1 / (fit->sd[j] * fit->sd[j]);

        w->gradient[j] = prior * (x[j] - fit->mean[j]);
        for (size_t i = 0; i < n; i++)
            w->gradient[j] += w->shifted[i] * a[i] * w->r[i];
        for (size_t k = 0; k <= j; k++) {
            const double *b = w->jacobian + k * n;
            double sum = j == k ? prior : 0;

            for (size_t i = 0; i < n; i++)
                sum += w->shifted[i] * a[i] * b[i];
            w->normal[j * p + k] = sum;
        }
    }
}

/* The damped step into `next`; false where the matrix is not to be factored. */
static bool step_to(const struct pred_fit *fit, const double *x, const struct work *w,
                    double damping, double *next)
{
    size_t p = fit->nparams;
    double factor[PRED_FIT_PARAMS_MAX * PRED_FIT_PARAMS_MAX];
    double step[PRED_FIT_PARAMS_MAX];

    memcpy(factor, w->normal, p * p * sizeof(double));
    for (size_t j = 0; j < p; j++) {
        factor[j * p + j] += damping * (w->normal[j * p + j] + 1e-9);
        step[j] = -w->gradient[j];
    }
    if (!pred_cholesky(factor, p))
        return false;
    pred_solve_lower(factor, p, step);
    pred_solve_upper(factor, p, step);
    for (size_t j = 0; j < p; j++)
        next[j] = x[j] + step[j];
    return true;
}

static double iterate(const struct pred_fit *fit, double *x, struct work *w)
{
    double cost = cost_of(fit, x, w->r), damping = 1e-2;
    double next[PRED_FIT_PARAMS_MAX];

    if (isinf(cost))
        return NAN;
    for (unsigned i = 0; i < fit->iterations && damping < 1e10; i++) {
        double before = cost;

        differentiate(fit, x, w);
        assemble(fit, x, w);
        for (; damping < 1e10; damping *= 6) {
            double trial =
                step_to(fit, x, w, damping, next) ? cost_of(fit, next, w->shifted) : INFINITY;

            if (trial < cost) {
                memcpy(x, next, fit->nparams * sizeof(double));
                memcpy(w->r, w->shifted, fit->nresiduals * sizeof(double));
                cost = trial;
                damping /= 8;
                break;
            }
        }
        if (before - cost < 1e-6 * cost)
            break;
    }
    return cost;
}

double pred_fit_run(const struct pred_fit *fit, double *x)
{
    struct work *w = calloc(1, sizeof(*w));
    double cost = NAN;

    if (w == NULL || fit->nparams > PRED_FIT_PARAMS_MAX || fit->nparams == 0)
        goto out;
    w->r = calloc(fit->nresiduals + 1, sizeof(double));
    w->shifted = calloc(fit->nresiduals + 1, sizeof(double));
    w->jacobian = calloc(fit->nresiduals * fit->nparams + 1, sizeof(double));
    if (w->r != NULL && w->shifted != NULL && w->jacobian != NULL)
        cost = iterate(fit, x, w);
    free(w->r);
    free(w->shifted);
    free(w->jacobian);
out:
    free(w);
    return cost;
}
