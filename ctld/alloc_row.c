/*
 * One row of whole costs: the exact answer for values of any shape.
 *
 * First the relaxation in which levels may be mixed: each item's values are replaced by their
 * concave hull and the steepest steps are taken until the row is full (Fox 1966; Sinha and Zoltners
 * 1979 for the multiple-choice form). If the last step fits exactly, that is the optimum; concave
 * curves end here. Else its slope is a price that bounds what any level can still bring: levels
 * that cannot be part of a better answer are dropped, and dynamic programming chooses between the
 * few that are left.
 */
#include "config.h"

#include "alloc_choice.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

struct hull {
    unsigned *level; /* [n], levels on the concave hull, ascending */
    unsigned n, at;
};

struct row_work {
    struct hull *hull;
    unsigned *levels; /* memory of all hulls */
    unsigned *heap;   /* items whose next step may be taken, steepest first */
    size_t nheap;
    unsigned *best; /* an item: level of the best whole answer so far */
    double price;
    double bound;
};

static unsigned cost_of(const struct choice_item *item, unsigned level)
{
    return (unsigned)item->cost[level];
}

static double slope(const struct choice_item *item, unsigned from, unsigned to)
{
    return (item->value[to] - item->value[from]) / (item->cost[to] - item->cost[from]);
}

/* The upper concave hull of an item's levels, as far as it rises. */
static void build_hull(const struct choice_item *item, struct hull *hull)
{
    hull->n = hull->at = 0;
    for (unsigned l = 0; l < item->nlevels; l++) {
        if (hull->n > 0) {
            unsigned last = hull->level[hull->n - 1];

            if (item->value[l] <= item->value[last])
                continue;
            if (item->cost[l] <= item->cost[last])
                hull->n--; /* better at no price (level 0 stays as cost 0) */
        }
        while (hull->n >= 2 && slope(item, hull->level[hull->n - 2], l) >=
                                   slope(item, hull->level[hull->n - 2], hull->level[hull->n - 1]))
            hull->n--;
        hull->level[hull->n++] = l;
    }
}

static double next_slope(const struct choice *choice, const struct row_work *w, unsigned item)
{
    const struct hull *h = &w->hull[item];

    return slope(&choice->items[item], h->level[h->at], h->level[h->at + 1]);
}

/* Steeper first, then the lower number: the order must not depend on the heap's history. */
static bool before(const struct choice *choice, const struct row_work *w, unsigned a, unsigned b)
{
    double x = next_slope(choice, w, a), y = next_slope(choice, w, b);

    return x > y || (x >= y && a < b);
}

static void sift_down(const struct choice *choice, struct row_work *w, size_t i)
{
    for (;;) {
        size_t top = i;

        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < w->nheap; child++)
            if (before(choice, w, w->heap[child], w->heap[top]))
                top = child;
        if (top == i)
            return;
        unsigned swap = w->heap[i];
        w->heap[i] = w->heap[top];
        w->heap[top] = swap;
        i = top;
    }
}

static void heap_build(const struct choice *choice, struct row_work *w)
{
    w->nheap = 0;
    for (size_t i = 0; i < choice->nitems; i++)
        if (w->hull[i].n > 1)
            w->heap[w->nheap++] = (unsigned)i;
    for (size_t i = w->nheap / 2; i-- > 0;)
        sift_down(choice, w, i);
}

/* Take steps of the hulls; true if the first that did not fit was not needed or left no room. */
static bool take_steps(struct choice *choice, struct row_work *w)
{
    unsigned room = (unsigned)choice->room[0];
    double value = 0;
    bool whole = true;

    w->bound = INFINITY;
    for (size_t i = 0; i < choice->nitems; i++) {
        choice->items[i].level = w->hull[i].level[0];
        value += choice->items[i].value[choice->items[i].level];
    }
    while (w->nheap > 0) {
        unsigned i = w->heap[0];
        struct choice_item *item = &choice->items[i];
        struct hull *h = &w->hull[i];
        unsigned from = h->level[h->at], to = h->level[h->at + 1];
        unsigned step = cost_of(item, to) - cost_of(item, from);
        bool fits = step <= room;

        if (fits) {
            room -= step;
            value += item->value[to] - item->value[from];
            item->level = to;
            h->at++;
        } else if (whole) {
            /* the relaxation would take a part of this step */
            w->price = slope(item, from, to);
            w->bound = value + w->price * room;
            whole = room == 0;
            if (whole)
                break;
        }
        if (!fits || h->at + 1 >= h->n) /* nothing more of this one */
            w->heap[0] = w->heap[--w->nheap];
        sift_down(choice, w, 0);
        if (!whole && room == 0)
            break;
    }
    if (isinf(w->bound))
        w->bound = value;
    return whole;
}

/* What choosing this level loses against the relaxation at its price. */
static double best_reduced(const struct choice_item *item, double price)
{
    double best = -INFINITY;

    for (unsigned l = 0; l < item->nlevels; l++)
        best = fmax(best, item->value[l] - price * item->cost[l]);
    return best;
}

struct program {
    unsigned *keep;  /* levels worth considering, all items one after another */
    unsigned *start; /* an item: where its kept levels start; one more at the end */
    unsigned *pick;  /* [item][c]: index into keep */
    double *best;    /* [2][width] */
    size_t width;
};

static void keep_levels(const struct choice *choice, const struct row_work *w, double gap,
                        struct program *p)
{
    unsigned n = 0;

    for (size_t i = 0; i < choice->nitems; i++) {
        const struct choice_item *item = &choice->items[i];
        double most = best_reduced(item, w->price);

        p->start[i] = n;
        for (unsigned l = 0; l < item->nlevels; l++)
            if (most - (item->value[l] - w->price * item->cost[l]) <= gap || l == w->best[i])
                p->keep[n++] = l;
    }
    p->start[choice->nitems] = n;
}

/* One item more: best[c] is the best sum of the items so far whose costs sum to at most c. */
static void program_item(const struct choice *choice, size_t i, unsigned base, struct program *p)
{
    const struct choice_item *item = &choice->items[i];
    unsigned *pick = p->pick + i * p->width;
    double *old = p->best, *new = p->best + p->width;

    for (size_t c = 0; c < p->width; c++)
        new[c] = -INFINITY;
    for (unsigned k = p->start[i]; k < p->start[i + 1]; k++) {
        unsigned cost = cost_of(item, p->keep[k]) - base;
        double value = item->value[p->keep[k]];

        for (size_t c = cost; c < p->width; c++) {
            double sum = old[c - cost] + value;

            if (sum > new[c]) {
                new[c] = sum;
                pick[c] = k;
            }
        }
    }
    for (size_t c = 0; c < p->width; c++)
        old[c] = new[c];
}

static int run_program(struct choice *choice, struct program *p)
{
    size_t spare = (size_t)choice->room[0];

    for (size_t i = 0; i < choice->nitems; i++)
        spare -= cost_of(&choice->items[i], p->keep[p->start[i]]);
    p->width = spare + 1;
    free(p->best);
    free(p->pick);
    p->best = calloc(2 * p->width, sizeof(*p->best));
    p->pick = malloc(choice->nitems * p->width * sizeof(*p->pick));
    if (p->best == NULL || p->pick == NULL)
        return -1;
    for (size_t i = 0; i < choice->nitems; i++)
        program_item(choice, i, cost_of(&choice->items[i], p->keep[p->start[i]]), p);
    for (size_t i = choice->nitems; i-- > 0;) {
        struct choice_item *item = &choice->items[i];

        item->level = p->keep[p->pick[i * p->width + spare]];
        spare -= cost_of(item, item->level) - cost_of(item, p->keep[p->start[i]]);
    }
    return 0;
}

/*
 * The gap between relaxation and best answer decides how much must be considered, and a better
 * answer is nearly always close to the relaxation: so first only levels that lose a small part of
 * the gap, then more, until all that could still be better has been considered.
 */
static int finish_exactly(struct choice *choice, struct row_work *w)
{
    struct program p = {0};
    size_t total = 0;
    double value = choice_value(choice), slack, lose;
    int rc = 0;

    for (size_t i = 0; i < choice->nitems; i++) {
        total += choice->items[i].nlevels;
        w->best[i] = choice->items[i].level;
    }
    p.keep = malloc(total * sizeof(*p.keep));
    p.start = malloc((choice->nitems + 1) * sizeof(*p.start));
    slack = 1e-13 * (fabs(w->bound) + fabs(value) + w->price * choice->room[0]);
    if (p.keep == NULL || p.start == NULL)
        rc = -1;
    for (lose = fmax(slack, (w->bound - value) / 32); rc == 0; lose *= 4) {
        double gap = w->bound - value + slack;
        bool last = lose >= gap || !(lose > 0);

        keep_levels(choice, w, last ? gap : lose, &p);
        rc = run_program(choice, &p);
        if (rc == 0 && choice_value(choice) > value) {
            value = choice_value(choice);
            for (size_t i = 0; i < choice->nitems; i++)
                w->best[i] = choice->items[i].level;
        }
        if (last || lose >= w->bound - value + slack)
            break;
    }
    for (size_t i = 0; i < choice->nitems; i++)
        choice->items[i].level = w->best[i];
    free(p.keep);
    free(p.start);
    free(p.pick);
    free(p.best);
    return rc;
}

static int work_alloc(const struct choice *choice, struct row_work *w)
{
    size_t total = 0;

    for (size_t i = 0; i < choice->nitems; i++)
        total += choice->items[i].nlevels;
    w->hull = calloc(choice->nitems, sizeof(*w->hull));
    w->levels = malloc(total * sizeof(*w->levels));
    w->heap = malloc(choice->nitems * sizeof(*w->heap));
    w->best = malloc(choice->nitems * sizeof(*w->best));
    if (w->hull == NULL || w->levels == NULL || w->heap == NULL || w->best == NULL)
        return -1;
    total = 0;
    for (size_t i = 0; i < choice->nitems; i++) {
        w->hull[i].level = w->levels + total;
        total += choice->items[i].nlevels;
        build_hull(&choice->items[i], &w->hull[i]);
    }
    return 0;
}

int choice_solve_row(struct choice *choice, struct choice_answer *answer)
{
    struct row_work w = {0};
    int rc = work_alloc(choice, &w);

    if (rc == 0) {
        heap_build(choice, &w);
        if (!take_steps(choice, &w))
            rc = finish_exactly(choice, &w);
    }
    free(w.hull);
    free(w.levels);
    free(w.heap);
    free(w.best);
    if (rc < 0) {
        errno = ENOMEM;
        return -1;
    }
    answer->value = answer->bound = choice_value(choice);
    return 0;
}
