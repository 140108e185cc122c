/*
 * Several rows, or costs that are not whole: branch and bound over the linear relaxation.
 *
 * Jobs on blocks of consecutive nodes with alike curves make an interval matrix, whose relaxation
 * is whole already (totally unimodular), so that such problems end at the root. Otherwise what
 * the root's prices prove useless is dropped, and an item whose levels are mixed is split into
 * "at most this level" and "at least the next". When the budget of work is spent, the largest bound
 * of what was not explored is the stated bound.
 */
#include "config.h"

#include "alloc_choice.h"
#include "alloc_lp.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 400u

struct branch {
    struct choice *choice;
    struct lp *lp;
    unsigned *best;       /* an item: its level in the best answer so far */
    double value;         /* of that */
    double work;          /* arithmetic steps beside the relaxation's */
    double open;          /* largest bound of what was given up */
    double *left;         /* a row */
    unsigned *low, *high; /* [depth][item] */
};

static void remember(struct branch *b)
{
    double value = choice_value(b->choice);

    if (value <= b->value)
        return;
    b->value = value;
    for (size_t i = 0; i < b->choice->nitems; i++)
        b->best[i] = b->choice->items[i].level;
}

static bool fits(const struct branch *b)
{
    for (size_t r = 0; r < b->choice->nrows; r++)
        if (b->left[r] < 0)
            return false;
    return true;
}

/* Whole answers near the relaxation: all mixed items at their lowest level, or as many as fit at
 * their highest, and then whatever still fits. */
static void round_relaxation(struct branch *b)
{
    double mean;

    for (size_t i = 0; i < b->choice->nitems; i++) {
        unsigned high;

        lp_levels(b->lp, i, &b->choice->items[i].level, &high, &mean);
    }
    choice_room_left(b->choice, b->left);
    if (!fits(b)) {
        /* rounding errors of the relaxation: begin from what is certain to fit */
        for (size_t i = 0; i < b->choice->nitems; i++)
            b->choice->items[i].level = 0;
        choice_room_left(b->choice, b->left);
    }
    b->work += choice_fill(b->choice, lp_prices(b->lp), b->left);
    remember(b);
}

/* The item whose mixed levels are the furthest apart in value; false if none mixes. */
static bool choose_split(const struct branch *b, size_t *item, unsigned *level)
{
    double most = -1;

    for (size_t i = 0; i < b->choice->nitems; i++) {
        const struct choice_item *it = &b->choice->items[i];
        unsigned low, high, at;
        double mean, apart;

        lp_levels(b->lp, i, &low, &high, &mean);
        if (low >= high)
            continue;
        at = (unsigned)mean;
        at = at < low ? low : at >= high ? high - 1 : at;
        apart = (it->value[high] - it->value[low]) * fmin(mean - low, high - mean) /
                (double)(high - low);
        if (apart > most) {
            most = apart;
            *item = i;
            *level = at;
        }
    }
    return most >= 0;
}

/* Narrow the ranges to levels that can be part of an answer better than the best known. */
static void narrow(const struct branch *b, unsigned *low, unsigned *high)
{
    const double *prices = lp_prices(b->lp);
    double gap = lp_bound(b->lp) - b->value;

    for (size_t i = 0; i < b->choice->nitems; i++) {
        const struct choice_item *item = &b->choice->items[i];
        double most = -INFINITY;
        unsigned from = low[i], to = high[i];

        for (int pass = 0; pass < 2; pass++) {
            bool any = false;

            for (unsigned l = from; l <= to; l++) {
                const double *cost = choice_cost(item, l);
                double v = item->value[l];

                for (unsigned r = 0; r < item->nrows; r++)
                    v -= prices[item->row[r]] * cost[r];
                if (pass == 0) {
                    most = fmax(most, v);
                } else if (most - v <= gap * (1 + 1e-9) + b->choice->epsilon) {
                    low[i] = any ? low[i] : l;
                    high[i] = l;
                    any = true;
                }
            }
        }
    }
}

static void explore(struct branch *b, unsigned depth)
{
    size_t n = b->choice->nitems, item = 0;
    unsigned *low = b->low + depth * n, *high = b->high + depth * n, level = 0;
    double tolerance = b->choice->epsilon / 2;

    if (!lp_solve(b->lp, low, high) || lp_bound(b->lp) <= b->value + tolerance)
        return;
    round_relaxation(b);
    if (lp_bound(b->lp) <= b->value + tolerance || !choose_split(b, &item, &level))
        return;
    if (depth + 1 >= DEPTH_MAX || lp_work(b->lp) + b->work > b->choice->effort) {
        b->open = fmax(b->open, lp_bound(b->lp));
        return;
    }
    narrow(b, low, high);
    if (level < low[item] || level >= high[item])
        level = (low[item] + high[item]) / 2;
    for (int side = 1; side >= 0; side--) {
        unsigned *below = low + n, *above = high + n;

        if (low[item] >= high[item] && side == 0)
            break;
        memcpy(below, low, n * sizeof(*low));
        memcpy(above, high, n * sizeof(*high));
        if (low[item] < high[item] && side == 1)
            below[item] = level + 1;
        else if (low[item] < high[item])
            above[item] = level;
        explore(b, depth + 1);
    }
}

static int run(struct branch *b, struct choice_answer *answer)
{
    size_t n = b->choice->nitems;

    b->lp = lp_new(b->choice);
    b->best = calloc(n, sizeof(*b->best));
    b->left = calloc(b->choice->nrows, sizeof(*b->left));
    b->low = calloc((size_t)(DEPTH_MAX + 1) * n, sizeof(*b->low));
    b->high = calloc((size_t)(DEPTH_MAX + 1) * n, sizeof(*b->high));
    if (b->lp == NULL || b->best == NULL || b->left == NULL || b->low == NULL || b->high == NULL)
        return -1;
    for (size_t i = 0; i < n; i++) {
        b->high[i] = b->choice->items[i].nlevels - 1;
        b->choice->items[i].level = 0;
    }
    memcpy(b->left, b->choice->room, b->choice->nrows * sizeof(*b->left));
    b->work += choice_fill(b->choice, NULL, b->left);
    remember(b);
    explore(b, 0);
    for (size_t i = 0; i < n; i++)
        b->choice->items[i].level = b->best[i];
    answer->value = b->value;
    answer->bound = fmax(b->open, b->value);
    return 0;
}

int choice_solve_branch(struct choice *choice, struct choice_answer *answer)
{
    struct branch b = {.choice = choice, .value = -INFINITY, .open = -INFINITY};
    int rc = run(&b, answer);

    lp_free(b.lp);
    free(b.best);
    free(b.left);
    free(b.low);
    free(b.high);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}
