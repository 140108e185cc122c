/*
 * Random allocation problems for tests and benchmarks: curves of every shape that measurements have
 * shown (linear to a cap, contended, jumping, falling, flat), floors, caps, several nodes.
 * Deterministic: the same seed gives the same case.
 */
#ifndef ADLOADER_TEST_ALLOC_CASES_H
#define ADLOADER_TEST_ALLOC_CASES_H

#include "alloc.h"

#include <stdint.h>

struct dice {
    uint64_t state;
};
uint64_t dice_next(struct dice *dice);
unsigned dice_below(struct dice *dice, unsigned n); /* 0..n-1 */
double dice_share(struct dice *dice);               /* 0 <= x < 1 */

enum cases_spread {
    CASES_ONE_NODE, /* each job on one node */
    CASES_BLOCKS,   /* jobs on consecutive nodes, the same curve on each */
    CASES_ANY_NODES /* jobs on arbitrary nodes, curves differ */
};

struct cases_shape {
    unsigned nnodes, pool; /* pool: cores of each node, at most */
    unsigned njobs;
    unsigned span; /* nodes of a job, at most */
    enum cases_spread spread;
    bool concave; /* only curves without jumps */
    bool bounds;  /* random minimum and maximum cores */
    bool io;      /* a shared bandwidth that binds */
};

/* A problem with all it points to. */
struct cases {
    struct alloc_problem problem;
    struct alloc_member *members;
    struct alloc_node *nodes;
    double *rates;
};

int cases_make(struct cases *cases, struct dice *dice, const struct cases_shape *shape);
void cases_free(struct cases *cases);

/* One curve of npoints values; returns G. */
double cases_curve(struct dice *dice, double *rate, unsigned npoints, bool concave);

#endif
