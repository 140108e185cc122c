/*
 * The choice problem: what all its solvers share, and taking it apart. A row that could hold every
 * item's top level constrains nothing; without such rows a large machine room falls into small
 * independent groups, most of them with a single row.
 */
#include "config.h"

#include "alloc_choice.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

double choice_value(const struct choice *choice)
{
    double sum = 0;

    for (size_t i = 0; i < choice->nitems; i++)
        sum += choice->items[i].value[choice->items[i].level];
    return sum;
}

double choice_size(const struct choice *choice)
{
    double size = (double)choice->nrows;

    for (size_t i = 0; i < choice->nitems; i++)
        size += (double)choice->items[i].nlevels * (choice->items[i].nrows + 1.0);
    return size;
}

void choice_room_left(const struct choice *choice, double *room_left)
{
    memcpy(room_left, choice->room, choice->nrows * sizeof(*room_left));
    for (size_t i = 0; i < choice->nitems; i++) {
        const struct choice_item *item = &choice->items[i];
        const double *cost = choice_cost(item, item->level);

        for (unsigned r = 0; r < item->nrows; r++)
            room_left[item->row[r]] -= cost[r];
    }
}

double choice_dual_bound(const struct choice *choice, const double *prices)
{
    double sum = 0;

    for (size_t r = 0; r < choice->nrows; r++)
        sum += prices[r] * choice->room[r];
    for (size_t i = 0; i < choice->nitems; i++) {
        const struct choice_item *item = &choice->items[i];
        double best = -INFINITY;

        for (unsigned l = 0; l < item->nlevels; l++) {
            const double *cost = choice_cost(item, l);
            double v = item->value[l];

            for (unsigned r = 0; r < item->nrows; r++)
                v -= prices[item->row[r]] * cost[r];
            best = fmax(best, v);
        }
        sum += best;
    }
    return sum;
}

struct apart {
    bool *binds;       /* a row */
    unsigned *group;   /* a row: union-find parent */
    unsigned *of_item; /* an item: its group's root row, or UINT32_MAX when it touches none */
    unsigned *local;   /* a row: number inside its group */
};

static unsigned find(unsigned *group, unsigned r)
{
    while (group[r] != r) {
        group[r] = group[group[r]];
        r = group[r];
    }
    return r;
}

static void find_binding(const struct choice *choice, struct apart *a, double *full)
{
    for (size_t i = 0; i < choice->nitems; i++) {
        const struct choice_item *item = &choice->items[i];
        const double *cost = choice_cost(item, item->nlevels - 1);

        for (unsigned r = 0; r < item->nrows; r++)
            full[item->row[r]] += cost[r];
    }
    for (size_t r = 0; r < choice->nrows; r++) {
        a->binds[r] = full[r] > choice->room[r];
        a->group[r] = (unsigned)r;
    }
}

static void join_groups(const struct choice *choice, struct apart *a)
{
    for (size_t i = 0; i < choice->nitems; i++) {
        const struct choice_item *item = &choice->items[i];
        unsigned first = UINT32_MAX;

        for (unsigned r = 0; r < item->nrows; r++) {
            unsigned root;

            if (!a->binds[item->row[r]])
                continue;
            root = find(a->group, item->row[r]);
            if (first == UINT32_MAX)
                first = root;
            else if (root != first)
                a->group[root > first ? root : first] = root > first ? first : root;
            first = find(a->group, first);
        }
        a->of_item[i] = first;
    }
    for (size_t i = 0; i < choice->nitems; i++)
        if (a->of_item[i] != UINT32_MAX)
            a->of_item[i] = find(a->group, a->of_item[i]);
}

/* An item of a group, with the rows that bind only. Its arrays are new but for value. */
static int copy_item(const struct choice_item *from, const struct apart *a, struct choice_item *to)
{
    unsigned n = 0;

    *to = (struct choice_item){.nlevels = from->nlevels, .value = from->value};
    to->row = malloc((from->nrows + 1u) * sizeof(*to->row));
    if (to->row == NULL)
        return -1;
    for (unsigned r = 0; r < from->nrows; r++)
        if (a->binds[from->row[r]])
            to->row[to->nrows++] = a->local[from->row[r]];
    to->cost = malloc((size_t)from->nlevels * to->nrows * sizeof(*to->cost));
    if (to->cost == NULL)
        return -1;
    for (unsigned l = 0; l < from->nlevels; l++)
        for (unsigned r = 0; r < from->nrows; r++)
            if (a->binds[from->row[r]])
                to->cost[n++] = choice_cost(from, l)[r];
    return 0;
}

/* Roughly what the relaxation alone costs: about three pivots a row and item. */
static double relaxation_cost(const struct choice *group)
{
    double m = (double)group->nrows;

    return 3 * (m + (double)group->nitems) * (4 * m * m + choice_size(group));
}

static int solve_group(struct choice *group, struct choice_answer *answer)
{
    if (group->nrows == 1 && group->integer[0])
        return choice_solve_row(group, answer);
    if (relaxation_cost(group) <= group->effort)
        return choice_solve_branch(group, answer);
    return choice_solve_dual(group, answer);
}

static void group_free(struct choice *group)
{
    for (size_t i = 0; group->items != NULL && i < group->nitems; i++) {
        free(group->items[i].row);
        free(group->items[i].cost);
    }
    free(group->items);
    free(group->room);
    free(group->integer);
}

/* Items [members .. members + n) and rows of one group, as a problem of its own. */
static int run_group(struct choice *choice, const struct apart *a, const unsigned *items, size_t n,
                     const unsigned *rows, size_t nrows, struct choice_answer *total)
{
    struct choice group = {
        .nitems = n, .nrows = nrows, .epsilon = choice->epsilon, .effort = choice->effort};
    struct choice_answer answer = {0, 0};
    int rc = 0;

    group.items = calloc(n, sizeof(*group.items));
    group.room = calloc(nrows, sizeof(*group.room));
    group.integer = calloc(nrows, sizeof(*group.integer));
    if (group.items == NULL || group.room == NULL || group.integer == NULL)
        rc = -1;
    for (size_t r = 0; rc == 0 && r < nrows; r++) {
        group.room[r] = choice->room[rows[r]];
        group.integer[r] = choice->integer[rows[r]];
        a->local[rows[r]] = (unsigned)r;
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = copy_item(&choice->items[items[i]], a, &group.items[i]);
    if (rc == 0)
        rc = solve_group(&group, &answer);
    for (size_t i = 0; rc == 0 && i < n; i++)
        choice->items[items[i]].level = group.items[i].level;
    group_free(&group);
    total->value += answer.value;
    total->bound += answer.bound;
    return rc;
}

/* Sort numbers by group, groups in order of their root: counting sort, so that it is stable. */
static int sort_by_group(const unsigned *group_of, size_t n, size_t nrows, unsigned *sorted,
                         unsigned *start)
{
    memset(start, 0, (nrows + 2) * sizeof(*start));
    for (size_t i = 0; i < n; i++)
        if (group_of[i] != UINT32_MAX)
            start[group_of[i] + 2]++;
    for (size_t r = 0; r < nrows; r++)
        start[r + 2] += start[r + 1];
    for (size_t i = 0; i < n; i++)
        if (group_of[i] != UINT32_MAX)
            sorted[start[group_of[i] + 1]++] = (unsigned)i;
    return 0;
}

static int run_groups(struct choice *choice, struct apart *a, struct choice_answer *answer)
{
    unsigned *items = calloc(choice->nitems + 1, sizeof(*items));
    unsigned *item_start = calloc(choice->nrows + 2, sizeof(*item_start));
    unsigned *rows = calloc(choice->nrows + 1, sizeof(*rows));
    unsigned *row_start = calloc(choice->nrows + 2, sizeof(*row_start));
    unsigned *root = calloc(choice->nrows + 1, sizeof(*root));
    int rc = 0;

    if (items == NULL || item_start == NULL || rows == NULL || row_start == NULL || root == NULL)
        rc = -1;
    for (size_t r = 0; rc == 0 && r < choice->nrows; r++)
        root[r] = a->binds[r] ? find(a->group, (unsigned)r) : UINT32_MAX;
    if (rc == 0)
        rc = sort_by_group(a->of_item, choice->nitems, choice->nrows, items, item_start);
    if (rc == 0)
        rc = sort_by_group(root, choice->nrows, choice->nrows, rows, row_start);
    for (size_t r = 0; rc == 0 && r < choice->nrows; r++) {
        size_t n = item_start[r + 1] - item_start[r];

        if (n > 0)
            rc = run_group(choice, a, items + item_start[r], n, rows + row_start[r],
                           row_start[r + 1] - row_start[r], answer);
    }
    free(items);
    free(item_start);
    free(rows);
    free(row_start);
    free(root);
    return rc;
}

/* The level of an item that touches no binding row: its best. */
static void free_items(struct choice *choice, const struct apart *a, struct choice_answer *answer)
{
    for (size_t i = 0; i < choice->nitems; i++) {
        struct choice_item *item = &choice->items[i];

        if (a->of_item[i] != UINT32_MAX)
            continue;
        item->level = 0;
        for (unsigned l = 1; l < item->nlevels; l++)
            if (item->value[l] > item->value[item->level])
                item->level = l;
        answer->value += item->value[item->level];
        answer->bound += item->value[item->level];
    }
}

int choice_solve(struct choice *choice, struct choice_answer *answer)
{
    struct apart a = {0};
    double *full = calloc(choice->nrows + 1, sizeof(*full));
    int rc = 0;

    a.binds = calloc(choice->nrows + 1, sizeof(*a.binds));
    a.group = calloc(choice->nrows + 1, sizeof(*a.group));
    a.of_item = calloc(choice->nitems + 1, sizeof(*a.of_item));
    a.local = calloc(choice->nrows + 1, sizeof(*a.local));
    *answer = (struct choice_answer){0, 0};
    if (full == NULL || a.binds == NULL || a.group == NULL || a.of_item == NULL || a.local == NULL)
        rc = -1;
    if (rc == 0) {
        find_binding(choice, &a, full);
        join_groups(choice, &a);
        free_items(choice, &a, answer);
        rc = run_groups(choice, &a, answer);
    }
    free(full);
    free(a.binds);
    free(a.group);
    free(a.of_item);
    free(a.local);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}
