/*
 * The allocator as a pure function: members, their curves and the nodes' pools in, a number of
 * loader cores for each member out. Which cores those are is placement's business (place.h).
 *
 * It maximises the policy's value under the guarantee, with integer cores, each node's pool and
 * the shared I/O bandwidth. Deterministic: equal input in equal order gives equal output; among
 * equal answers the one that changes the fewest cores wins.
 *
 * Members of one job train in step, at the pace of the slowest: what counts is the job's share
 * s = min T(c)/G over its members, and each gets the fewest cores with which it reaches s. A core
 * that raises no job's s is not given to anybody, except back to whom it belongs: members with
 * fewer than their own cores get free ones back, up to their own, unless more make them slower.
 * (So steps that do not train together must not share a job number.)
 *
 * How: a component (jobs and nodes that hang together through pools that cannot serve everybody)
 * with one node is solved exactly whatever the shape of the curves; several nodes, or a shared
 * bandwidth, by branch and bound over the linear relaxation, exact unless a fixed budget of work
 * runs out; upper_bound says what could still be missing. A component alone gives the same answer
 * as inside a larger problem, so a caller may pass only what an event touches.
 *
 * Uncertain curves: under a guarantee, a member lends only what it does not need even if its curve
 * is wrong by one standard deviation (two to lend more than it does now); and nothing moves for a
 * gain within the standard deviation of what would change.
 */
#ifndef ADLOADER_ALLOC_H
#define ADLOADER_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

enum alloc_policy {
    ALLOC_GPU_BUSY, /* max sum of weight x gpus x T(c)/G */
    ALLOC_NASH,     /* max sum of weight x log T(c) */
    ALLOC_MAX_MIN,  /* raise the lowest T(c)/G first */
    ALLOC_MAKESPAN, /* all remaining work done soonest */
    ALLOC_EVEN,     /* equal cores, capped by nothing but what a member can use at most */
    ALLOC_STATIC    /* everybody keeps the own cores */
};

/*
 * What a guarantee promises is kept to within this fraction of the promised rate: no prediction is
 * better, and a soft knee would otherwise keep a member from lending cores that bring next to
 * nothing.
 */
#define ALLOC_FLOOR_TOLERANCE 0.005

enum alloc_guarantee {
    ALLOC_GUARANTEE_OWN,  /* T(c) at least that with the own loader cores */
    ALLOC_GUARANTEE_EVEN, /* T(c) at least that with an even split of the pool */
    ALLOC_GUARANTEE_NONE
};

struct alloc_member {
    unsigned job;       /* index of the job: members of one job move together */
    unsigned node;      /* index into nodes */
    unsigned own;       /* own loader cores: claimed cores less main cores */
    unsigned min, max;  /* bounds on cores whatever the policy; max 0: none */
    unsigned now;       /* cores in force */
    double weight;      /* > 0 */
    double gpus;        /* > 0; 1 if unknown */
    const double *rate; /* T(c), c = 0..nrate-1, flat beyond; not negative; not owned */
    unsigned nrate;     /* >= 1 */
    double gpu_rate;    /* G > 0, unit of rate */
    double demand;      /* cores, in fractions, beyond which the rate is flat; 0 or NAN: see rate */
    double uncertainty; /* relative sd of the curve: gains inside it move nothing */
    double sample_bytes; /* storage bytes a sample that the cache does not serve; 0: no I/O */
    double work;         /* samples left, for makespan; NAN unknown */
};

struct alloc_node {
    unsigned pool; /* loader cores to divide here */
};

struct alloc_problem {
    enum alloc_policy policy;
    enum alloc_guarantee guarantee;
    const struct alloc_member *members;
    size_t nmembers;
    const struct alloc_node *nodes;
    size_t nnodes;
    size_t njobs;
    double io_bytes_per_s; /* shared by all members; NAN: no limit */
    double effort;         /* arithmetic steps to spend on jobs that couple nodes; 0: 1e6, which is
                              about a millisecond. One node alone is exact whatever this says */
    double min_gain;       /* hysteresis: a smaller relative gain in value moves nothing; 0 off */
};

struct alloc_result {
    unsigned *cores;    /* a member; the caller's array of nmembers */
    double value;       /* of the policy's objective; for MAX_MIN the lowest T/G */
    double upper_bound; /* no feasible answer is better; equals value where exact */
    double value_now;   /* of what is in force, NAN if that is not feasible */
    unsigned moves;     /* cores that change hands: sum of max(0, cores - now) */
    bool kept;          /* hysteresis kept what is in force */
};

/*
 * Solve. result->cores is the caller's; all else is filled. Returns 0, or -1 with errno EINVAL
 * (and a sentence in error) for inconsistent input, ENOMEM otherwise.
 * Pools are never exceeded. A member's cores never fall below what its guarantee needs while its
 * node's pool can hold all guarantees; where it cannot (own cores exceed the pool), floors shrink
 * in proportion.
 */
int alloc_solve(const struct alloc_problem *problem, struct alloc_result *result, char *error,
                size_t error_size);

const char *alloc_policy_name(enum alloc_policy policy);
int alloc_policy_parse(const char *name); /* -1: unknown */
const char *alloc_guarantee_name(enum alloc_guarantee guarantee);
int alloc_guarantee_parse(const char *name);

#endif
