/*
 * Groups too large for the simplex: prices by subgradient steps (Held, Wolfe and Crowder 1974). Any
 * prices give a bound; the best ones found also guide a whole answer.
 */
#include "config.h"

#include "alloc_choice.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 200u

struct dual {
    double *prices, *best_prices; /* a row */
    double *slope;                /* a row: room less what is asked for at these prices */
    double *left;
    unsigned *best; /* an item */
    double value, bound;
};

/* Each item takes the level that is best at the prices; returns the bound, levels set. */
static double choose_at(struct choice *choice, const double *prices)
{
    double sum = 0;

    for (size_t r = 0; r < choice->nrows; r++)
        sum += prices[r] * choice->room[r];
    for (size_t i = 0; i < choice->nitems; i++) {
        struct choice_item *item = &choice->items[i];
        double best = -INFINITY;

        for (unsigned l = 0; l < item->nlevels; l++) {
            const double *cost = choice_cost(item, l);
            double v = item->value[l];

            for (unsigned r = 0; r < item->nrows; r++)
                v -= prices[item->row[r]] * cost[r];
            if (v > best) {
                best = v;
                item->level = l;
            }
        }
        sum += best;
    }
    return sum;
}

/* Lower levels until all rows fit (costliest per value at a full row first would be dearer to find:
 * items are visited in order and take the highest level up to their wish that still fits), then
 * pass over them again and raise whatever fits. */
static void make_feasible(struct choice *choice, double *left)
{
    bool rose = true;

    memcpy(left, choice->room, choice->nrows * sizeof(*left));
    for (size_t i = 0; i < choice->nitems; i++) {
        struct choice_item *item = &choice->items[i];
        bool fits = false;

        for (item->level++; !fits && item->level > 0;) {
            const double *cost = choice_cost(item, --item->level);

            fits = true;
            for (unsigned r = 0; fits && r < item->nrows; r++)
                fits = cost[r] <= left[item->row[r]];
        }
        for (unsigned r = 0; r < item->nrows; r++)
            left[item->row[r]] -= choice_cost(item, item->level)[r];
    }
    while (rose) {
        rose = false;
        for (size_t i = 0; i < choice->nitems; i++) {
            struct choice one = {.nitems = 1, .items = &choice->items[i], .nrows = choice->nrows};
            unsigned before = one.items[0].level;

            (void)choice_fill(&one, NULL, left);
            rose = rose || one.items[0].level != before;
        }
    }
}

static void keep_if_better(const struct choice *choice, struct dual *d)
{
    double value = choice_value(choice);

    if (value <= d->value)
        return;
    d->value = value;
    for (size_t i = 0; i < choice->nitems; i++)
        d->best[i] = choice->items[i].level;
}

/* Two ways to a whole answer: what is wished for at these prices, as far as it fits; and from the
 * floors up, best value for the price first. */
static void keep_best(struct choice *choice, struct dual *d)
{
    make_feasible(choice, d->left);
    keep_if_better(choice, d);
    for (size_t i = 0; i < choice->nitems; i++)
        choice->items[i].level = 0;
    memcpy(d->left, choice->room, choice->nrows * sizeof(*d->left));
    (void)choice_fill(choice, d->prices, d->left);
    keep_if_better(choice, d);
}

static void descend(struct choice *choice, struct dual *d)
{
    double patience = 1;
    unsigned steps = (unsigned)fmin(STEPS_MAX, fmax(8, choice->effort / choice_size(choice)));
    unsigned since = 0;

    for (unsigned n = 0; n < steps; n++) {
        double bound = choose_at(choice, d->prices), square = 0, step;

        choice_room_left(choice, d->slope);
        if (bound < d->bound - 1e-9 * fabs(bound)) {
            d->bound = bound;
            memcpy(d->best_prices, d->prices, choice->nrows * sizeof(*d->prices));
            since = 0;
        } else if (++since >= 5) {
            patience /= 2;
            since = 0;
        }
        if (n % 8 == 0)
            keep_best(choice, d);
        for (size_t r = 0; r < choice->nrows; r++)
            if (d->prices[r] > 0 || d->slope[r] < 0)
                square += d->slope[r] * d->slope[r];
        if (square <= 0 || d->bound - d->value <= choice->epsilon)
            break;
        step = patience * fmax(bound - d->value, choice->epsilon) / square;
        for (size_t r = 0; r < choice->nrows; r++)
            d->prices[r] = fmax(0, d->prices[r] - step * d->slope[r]);
    }
    memcpy(d->prices, d->best_prices, choice->nrows * sizeof(*d->prices));
    (void)choose_at(choice, d->prices);
    keep_best(choice, d);
}

int choice_solve_dual(struct choice *choice, struct choice_answer *answer)
{
    struct dual d = {.value = -INFINITY, .bound = INFINITY};
    int rc = -1;

    d.prices = calloc(choice->nrows, sizeof(*d.prices));
    d.best_prices = calloc(choice->nrows, sizeof(*d.best_prices));
    d.slope = calloc(choice->nrows, sizeof(*d.slope));
    d.left = calloc(choice->nrows, sizeof(*d.left));
    d.best = calloc(choice->nitems, sizeof(*d.best));
    if (d.prices != NULL && d.best_prices != NULL && d.slope != NULL && d.left != NULL &&
        d.best != NULL) {
        descend(choice, &d);
        for (size_t i = 0; i < choice->nitems; i++)
            choice->items[i].level = d.best[i];
        answer->value = d.value;
        answer->bound = d.bound;
        rc = 0;
    }
    free(d.prices);
    free(d.best_prices);
    free(d.slope);
    free(d.left);
    free(d.best);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}
