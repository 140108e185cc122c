/*
 * The choice problem at the allocator's core, without any word of jobs, GPUs or policies: every
 * item has levels; each level has a value and a cost in some rows; choose one level an item so
 * that no row's room is exceeded and the sum of values is largest. Level 0 costs nothing and has
 * value 0, and costs never fall from one level to the next. (A multiple-choice knapsack problem
 * with several constraints.)
 */
#ifndef ADLOADER_ALLOC_CHOICE_H
#define ADLOADER_ALLOC_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

struct choice_item {
    unsigned nlevels;
    double *value; /* [nlevels] */
    unsigned nrows;
    unsigned *row;  /* [nrows], distinct */
    double *cost;   /* [nlevels * nrows] */
    unsigned level; /* the answer */
};

struct choice {
    size_t nitems;
    struct choice_item *items;
    size_t nrows;
    double *room;   /* a row, not negative */
    bool *integer;  /* a row: costs are whole numbers */
    double epsilon; /* values closer than this are equal */
    double effort;  /* arithmetic steps to spend where there are several rows */
};

/* What a solver says about its answer. */
struct choice_answer {
    double value; /* of the chosen levels */
    double bound; /* no choice has more */
};

/* Solve the whole: rows that never bind fall away, what then hangs together is solved together.
 * -1: ENOMEM. */
int choice_solve(struct choice *choice, struct choice_answer *answer);

/* alloc_row.c: one row of whole costs; exact. */
int choice_solve_row(struct choice *choice, struct choice_answer *answer);

/* alloc_branch.c: several rows or fractional costs; exact within its budget of work. */
int choice_solve_branch(struct choice *choice, struct choice_answer *answer);

/* alloc_dual.c: any size; a bound and a good answer. */
int choice_solve_dual(struct choice *choice, struct choice_answer *answer);

/* Raise levels while anything fits, best value for the price first; prices may be NULL (then by
 * the share of what is left). room_left is what the current levels leave and is kept up to date.
 * Returns the arithmetic steps that this took. */
double choice_fill(struct choice *choice, const double *prices, double *room_left);

/* Tools. */
static inline const double *choice_cost(const struct choice_item *item, unsigned level)
{
    return item->cost + (size_t)level * item->nrows;
}
double choice_size(const struct choice *choice);  /* arithmetic steps to look at every level */
double choice_value(const struct choice *choice); /* of the current levels */
void choice_room_left(const struct choice *choice, double *room_left); /* by the current levels */
/* sum of price x room + sum over items of the best value less price: an upper bound for any prices
 */
double choice_dual_bound(const struct choice *choice, const double *prices);

#endif
