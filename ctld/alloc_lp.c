/* The linear relaxation: a simplex method with one basic column a row. See alloc_lp.h. */
#include "config.h"

#include "alloc_lp.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLACK     SIZE_MAX
#define TINY      1e-11
#define STEPS_MAX 2000
/* After so many steps without progress, choose by number alone, which cannot cycle (Bland). */
#define STALL_MAX 60

/* What stands in one row's place of the basis. */
struct column {
    size_t item;    /* or SLACK */
    unsigned level; /* or the row of the slack */
};

struct lp {
    const struct choice *choice;
    size_t n, m;
    const unsigned *low, *high;
    unsigned *key;        /* an item */
    double *left;         /* an item: how much of its key level is in use */
    struct column *base;  /* a row */
    double *x;            /* a row: value of base */
    double *inverse;      /* [m][m] */
    double *matrix;       /* [m][2m], for inverting */
    double *prices;       /* a row */
    double *mu;           /* an item: value of its key less the price */
    double *enter, *step; /* a row: entering column, and in terms of the basis */
    double *fall;         /* an item: how its key falls */
    double *right;        /* a row: room less all keys */
    double bound, work;
};

void lp_free(struct lp *lp)
{
    if (lp == NULL)
        return;
    free(lp->key);
    free(lp->left);
    free(lp->base);
    free(lp->x);
    free(lp->inverse);
    free(lp->matrix);
    free(lp->prices);
    free(lp->mu);
    free(lp->enter);
    free(lp->step);
    free(lp->fall);
    free(lp->right);
    free(lp);
}

struct lp *lp_new(const struct choice *choice)
{
    struct lp *lp = calloc(1, sizeof(*lp));
    size_t n = choice->nitems, m = choice->nrows;

    if (lp == NULL)
        return NULL;
    *lp = (struct lp){.choice = choice, .n = n, .m = m};
    lp->key = calloc(n, sizeof(*lp->key));
    lp->left = calloc(n, sizeof(*lp->left));
    lp->base = calloc(m, sizeof(*lp->base));
    lp->x = calloc(m, sizeof(*lp->x));
    lp->inverse = calloc(m * m, sizeof(*lp->inverse));
    lp->matrix = calloc(2 * m * m, sizeof(*lp->matrix));
    lp->prices = calloc(m, sizeof(*lp->prices));
    lp->mu = calloc(n, sizeof(*lp->mu));
    lp->enter = calloc(m, sizeof(*lp->enter));
    lp->step = calloc(m, sizeof(*lp->step));
    lp->fall = calloc(n, sizeof(*lp->fall));
    lp->right = calloc(m, sizeof(*lp->right));
    if (lp->key == NULL || lp->left == NULL || lp->base == NULL || lp->x == NULL ||
        lp->inverse == NULL || lp->matrix == NULL || lp->prices == NULL || lp->mu == NULL ||
        lp->enter == NULL || lp->step == NULL || lp->fall == NULL || lp->right == NULL) {
        lp_free(lp);
        return NULL;
    }
    return lp;
}

/* ---- columns ------------------------------------------------------------------------------- */

/* A basic column is the difference of its level to its item's key level. */
static void column_fill(const struct lp *lp, struct column c, double *out)
{
    memset(out, 0, lp->m * sizeof(*out));
    if (c.item == SLACK) {
        out[c.level] = 1;
        return;
    }
    const struct choice_item *item = &lp->choice->items[c.item];
    const double *level = choice_cost(item, c.level), *key = choice_cost(item, lp->key[c.item]);

    for (unsigned r = 0; r < item->nrows; r++)
        out[item->row[r]] = level[r] - key[r];
}

static double column_value(const struct lp *lp, struct column c)
{
    const struct choice_item *item;

    if (c.item == SLACK)
        return 0;
    item = &lp->choice->items[c.item];
    return item->value[c.level] - item->value[lp->key[c.item]];
}

/* inverse := basis^-1 by Gauss and Jordan with pivoting; false if singular. */
static bool invert(struct lp *lp)
{
    size_t m = lp->m, w = 2 * m;
    double *a = lp->matrix;

    memset(a, 0, 2 * m * m * sizeof(*a));
    for (size_t k = 0; k < m; k++) {
        column_fill(lp, lp->base[k], lp->enter);
        for (size_t r = 0; r < m; r++)
            a[r * w + k] = lp->enter[r];
        a[k * w + m + k] = 1;
    }
    for (size_t k = 0; k < m; k++) {
        size_t pivot = k;

        for (size_t r = k + 1; r < m; r++)
            if (fabs(a[r * w + k]) > fabs(a[pivot * w + k]))
                pivot = r;
        if (fabs(a[pivot * w + k]) < TINY)
            return false;
        for (size_t c = 0; pivot != k && c < w; c++) {
            double swap = a[k * w + c];

            a[k * w + c] = a[pivot * w + c];
            a[pivot * w + c] = swap;
        }
        double scale = 1 / a[k * w + k];
        for (size_t c = k; c < w; c++)
            a[k * w + c] *= scale;
        for (size_t r = 0; r < m; r++) {
            double f = a[r * w + k];

            if (r == k || f == 0)
                continue;
            for (size_t c = k; c < w; c++)
                a[r * w + c] -= f * a[k * w + c];
        }
    }
    for (size_t r = 0; r < m; r++)
        memcpy(lp->inverse + r * m, a + r * w + m, m * sizeof(*a));
    lp->work += 2.0 * (double)m * (double)m * (double)m;
    return true;
}

/* Everything that follows from the basis and the keys. */
static void recompute(struct lp *lp)
{
    size_t m = lp->m;

    memcpy(lp->right, lp->choice->room, m * sizeof(*lp->right));
    for (size_t i = 0; i < lp->n; i++) {
        const struct choice_item *item = &lp->choice->items[i];
        const double *key = choice_cost(item, lp->key[i]);

        for (unsigned r = 0; r < item->nrows; r++)
            lp->right[item->row[r]] -= key[r];
        lp->left[i] = 1;
    }
    memset(lp->prices, 0, m * sizeof(*lp->prices));
    for (size_t k = 0; k < m; k++) {
        double x = 0, value = column_value(lp, lp->base[k]);

        for (size_t r = 0; r < m; r++) {
            x += lp->inverse[k * m + r] * lp->right[r];
            lp->prices[r] += value * lp->inverse[k * m + r];
        }
        lp->x[k] = x > 0 ? x : 0;
        if (lp->base[k].item != SLACK)
            lp->left[lp->base[k].item] -= lp->x[k];
    }
    for (size_t i = 0; i < lp->n; i++) {
        const struct choice_item *item = &lp->choice->items[i];
        const double *key = choice_cost(item, lp->key[i]);

        lp->left[i] = lp->left[i] > 0 ? lp->left[i] : 0;
        lp->mu[i] = item->value[lp->key[i]];
        for (unsigned r = 0; r < item->nrows; r++)
            lp->mu[i] -= lp->prices[item->row[r]] * key[r];
    }
    lp->work += 3.0 * (double)m * (double)m + 4.0 * (double)lp->n;
}

/* ---- one step ------------------------------------------------------------------------------ */

/* The column with the largest reduced value (or, by number, the first with any). */
static bool price_out(struct lp *lp, bool by_number, struct column *enter)
{
    double best = lp->choice->epsilon * 1e-3 + 1e-13;
    bool found = false;

    for (size_t r = 0; r < lp->m; r++)
        if (-lp->prices[r] > best) {
            best = -lp->prices[r];
            *enter = (struct column){SLACK, (unsigned)r};
            found = true;
            if (by_number)
                return true;
        }
    for (size_t i = 0; i < lp->n; i++) {
        const struct choice_item *item = &lp->choice->items[i];

        for (unsigned l = lp->low[i]; l <= lp->high[i]; l++) {
            const double *cost = choice_cost(item, l);
            double v = item->value[l] - lp->mu[i];

            for (unsigned r = 0; r < item->nrows; r++)
                v -= lp->prices[item->row[r]] * cost[r];
            if (v <= best)
                continue;
            best = v;
            *enter = (struct column){i, l};
            found = true;
            if (by_number)
                return true;
        }
        lp->work += (lp->high[i] - lp->low[i] + 1.0) * (item->nrows + 1.0);
    }
    return found;
}

/* Which basic column or key falls to nothing first as the entering one grows. */
struct leaving {
    double ratio;
    size_t row;  /* basic column; SLACK: a key */
    size_t item; /* whose key */
};

static struct leaving ratio_test(struct lp *lp, struct column enter)
{
    struct leaving out = {INFINITY, SLACK, SLACK};

    column_fill(lp, enter, lp->enter);
    memset(lp->fall, 0, lp->n * sizeof(*lp->fall));
    if (enter.item != SLACK)
        lp->fall[enter.item] = 1;
    for (size_t k = 0; k < lp->m; k++) {
        double s = 0;

        for (size_t r = 0; r < lp->m; r++)
            s += lp->inverse[k * lp->m + r] * lp->enter[r];
        lp->step[k] = s;
        if (lp->base[k].item != SLACK)
            lp->fall[lp->base[k].item] -= s;
        if (s > TINY && lp->x[k] / s < out.ratio)
            out = (struct leaving){lp->x[k] / s, k, SLACK};
    }
    for (size_t i = 0; i < lp->n; i++)
        if (lp->fall[i] > TINY && lp->left[i] / lp->fall[i] < out.ratio)
            out = (struct leaving){lp->left[i] / lp->fall[i], SLACK, i};
    lp->work += (double)lp->m * (double)lp->m + (double)lp->n;
    return out;
}

/* Replace one basic column: update the inverse by elimination. */
static void pivot(struct lp *lp, size_t k, struct column enter)
{
    size_t m = lp->m;
    double scale = 1 / lp->step[k], *row = lp->inverse + k * m;

    for (size_t c = 0; c < m; c++)
        row[c] *= scale;
    for (size_t r = 0; r < m; r++) {
        double f = lp->step[r];

        if (r == k || f == 0)
            continue;
        for (size_t c = 0; c < m; c++)
            lp->inverse[r * m + c] -= f * row[c];
    }
    lp->base[k] = enter;
    lp->work += (double)m * (double)m;
}

static bool exchange(struct lp *lp, struct column enter, struct leaving out)
{
    if (out.row != SLACK) {
        pivot(lp, out.row, enter);
        return true;
    }
    if (enter.item == out.item) {
        /* the entering level takes the key's place; columns of that item are relative to it now */
        lp->key[enter.item] = enter.level;
        return invert(lp);
    }
    for (size_t k = 0; k < lp->m; k++)
        if (lp->base[k].item == out.item) {
            lp->key[out.item] = lp->base[k].level;
            lp->base[k] = enter;
            return invert(lp);
        }
    return false;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* From the prices alone: right whatever rounding did. */
static double bound_of_prices(struct lp *lp)
{
    double sum = 0;

    for (size_t r = 0; r < lp->m; r++) {
        lp->prices[r] = lp->prices[r] > 0 ? lp->prices[r] : 0;
        sum += lp->prices[r] * lp->choice->room[r];
    }
    for (size_t i = 0; i < lp->n; i++) {
        const struct choice_item *item = &lp->choice->items[i];
        double best = -INFINITY;

        for (unsigned l = lp->low[i]; l <= lp->high[i]; l++) {
            const double *cost = choice_cost(item, l);
            double v = item->value[l];

            for (unsigned r = 0; r < item->nrows; r++)
                v -= lp->prices[item->row[r]] * cost[r];
            best = fmax(best, v);
        }
        sum += best;
        lp->work += (lp->high[i] - lp->low[i] + 1.0) * (item->nrows + 1.0);
    }
    return sum;
}

static bool start_at_low(struct lp *lp)
{
    for (size_t i = 0; i < lp->n; i++)
        lp->key[i] = lp->low[i];
    memset(lp->inverse, 0, lp->m * lp->m * sizeof(*lp->inverse));
    for (size_t r = 0; r < lp->m; r++) {
        lp->base[r] = (struct column){SLACK, (unsigned)r};
        lp->inverse[r * lp->m + r] = 1;
    }
    recompute(lp);
    for (size_t r = 0; r < lp->m; r++)
        if (lp->right[r] < -1e-9 * (1 + lp->choice->room[r]))
            return false;
    return true;
}

bool lp_solve(struct lp *lp, const unsigned *low, const unsigned *high)
{
    unsigned stalled = 0;

    lp->low = low;
    lp->high = high;
    if (!start_at_low(lp))
        return false;
    for (unsigned n = 0; n < STEPS_MAX; n++) {
        struct column enter;
        struct leaving out;

        if (!price_out(lp, stalled > STALL_MAX, &enter))
            break;
        out = ratio_test(lp, enter);
        if (isinf(out.ratio) || !exchange(lp, enter, out))
            break;
        stalled = out.ratio > TINY ? 0 : stalled + 1;
        recompute(lp);
    }
    lp->bound = bound_of_prices(lp);
    return true;
}

double lp_bound(const struct lp *lp)
{
    return lp->bound;
}

const double *lp_prices(const struct lp *lp)
{
    return lp->prices;
}

void lp_levels(const struct lp *lp, size_t item, unsigned *low, unsigned *high, double *mean)
{
    unsigned key = lp->key[item];
    bool in_use = lp->left[item] > 1e-7;

    *low = in_use ? key : UINT32_MAX;
    *high = in_use ? key : 0;
    *mean = in_use ? lp->left[item] * key : 0;
    for (size_t k = 0; k < lp->m; k++) {
        if (lp->base[k].item != item || lp->x[k] <= 1e-7)
            continue;
        *low = lp->base[k].level < *low ? lp->base[k].level : *low;
        *high = lp->base[k].level > *high ? lp->base[k].level : *high;
        *mean += lp->x[k] * lp->base[k].level;
    }
    if (*low == UINT32_MAX) {
        *low = *high = key;
        *mean = key;
    }
}

double lp_work(const struct lp *lp)
{
    return lp->work;
}
