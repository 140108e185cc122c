/* Small dense linear algebra; see solve.h. */
#include "solve.h"

#include <math.h>

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

bool pred_cholesky(double *a, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++)
            a[i * n + j] = (a[i * n + j] - dot(a + i * n, a + j * n, j)) / a[j * n + j];
        a[i * n + i] -= dot(a + i * n, a + i * n, i);
        if (!(a[i * n + i] > 0) || !isfinite(a[i * n + i]))
            return false;
        a[i * n + i] = sqrt(a[i * n + i]);
    }
    return true;
}

void pred_solve_lower(const double *l, size_t n, double *b)
{
    for (size_t i = 0; i < n; i++)
        b[i] = (b[i] - dot(l + i * n, b, i)) / l[i * n + i];
}

void pred_solve_upper(const double *l, size_t n, double *b)
{
    for (size_t i = n; i-- > 0;) {
        b[i] /= l[i * n + i];
        for (size_t j = 0; j < i; j++)
            b[j] -= l[i * n + j] * b[i];
    }
}

void pred_cholesky_invert(const double *l, size_t n, double *inverse)
{
    /* column i of L^-1 as row i of `inverse` (its entries before i are zero), then M^T M */
    for (size_t i = 0; i < n; i++) {
        double *x = inverse + i * n;

        for (size_t k = 0; k < n; k++)
            x[k] = 0;
        x[i] = 1 / l[i * n + i];
        for (size_t k = i + 1; k < n; k++)
            x[k] = -dot(l + k * n + i, x + i, k - i) / l[k * n + k];
    }
    /* (L L^T)^-1 [i][j] = sum over k >= max(i,j) of x_i[k] x_j[k]; row i is used last by itself */
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++)
            inverse[i * n + j] = dot(inverse + i * n + j, inverse + j * n + j, n - j);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            inverse[i * n + j] = inverse[j * n + i];
}
