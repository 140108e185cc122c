/*
 * Between the allocator's own files: one connected part of the problem ("component": jobs and
 * nodes that share no node with the rest), translated into jobs with levels.
 *
 * A job trains at the pace of its slowest member, so all that matters of a division of cores is
 * the job's share of its full speed, s = min over its members of T(c)/G. A level is one reachable
 * s with the fewest cores a member needs for it; a job's levels rise strictly, and so every core
 * of a level is useful. All solvers choose one level a job.
 */
#ifndef ADLOADER_ALLOC_INTERNAL_H
#define ADLOADER_ALLOC_INTERNAL_H

#include "alloc.h"

/* One job of a component. Level l gives member k (see first) cores[l * nmembers + k] cores. */
struct part_job {
    unsigned first, nmembers; /* its members: part.members[first .. first + nmembers) */
    unsigned nlevels;
    unsigned floor; /* lowest level that the guarantee allows */
    unsigned level; /* the answer */
    double *share;  /* s */
    double *value;  /* of the policy: a summand, or the key whose minimum is raised */
    double *io;     /* storage bytes/s */
    unsigned *cores;
};

struct part {
    const struct alloc_problem *problem;
    unsigned *members; /* indexes into problem->members, grouped by job */
    size_t nmembers;
    unsigned *node;  /* a member: local node index, parallel to members */
    unsigned *nodes; /* local node index -> problem->nodes */
    size_t nnodes;
    struct part_job *jobs;
    size_t njobs;
    double *work;      /* a member: samples left, guessed where unknown; NULL unless asked for */
    double io_limit;   /* INFINITY: none here */
    double move_price; /* what a moved core must bring at least, in value; 0: as good as nothing */
    double bound;      /* set by the solver: no feasible answer is better */
};

/* alloc_check.c: 0, or -1 with errno EINVAL and a sentence. */
int alloc_check(const struct alloc_problem *problem, char *error, size_t error_size);

/* ---- alloc_graph.c ---- */

/* Members by node and by job, and what has been visited. */
struct graph {
    unsigned *node_start,
        *node_members; /* node n: node_members[node_start[n] .. node_start[n + 1]) */
    unsigned *job_start, *job_members;
    unsigned *local; /* node -> its number inside the component */
    bool *node_seen, *job_seen;
    unsigned *queue; /* nodes of the component */
    unsigned *jobs;  /* jobs of the component */
};

/* How much an exploration found; the nodes are in queue, the jobs in jobs. */
struct reach {
    size_t nnodes, njobs, nmembers;
};

int graph_build(const struct alloc_problem *problem, struct graph *graph); /* -1: ENOMEM */
void graph_free(struct graph *graph);

/* All that hangs together with a node; with coupled, also all that reads from storage. */
struct reach graph_explore(const struct alloc_problem *problem, struct graph *graph, unsigned node,
                           bool coupled);
int part_build(const struct alloc_problem *problem, struct graph *graph, struct reach reach,
               struct part *part); /* -1: ENOMEM; free it in any case */
void part_free(struct part *part);

/* ---- alloc_worth.c ---- */

/* The value with these cores (a member of the whole problem), or with those in force when NULL. */
double part_value_with(const struct part *part, const unsigned *cores);

/* Is what is in force still allowed? -1: ENOMEM. */
int part_now_is_feasible(const struct part *part, bool *feasible);

/* Is the answer so much better than what is in force that cores should move? -1: ENOMEM. */
int part_is_worth_it(const struct part *part, const unsigned *cores, bool *worth);

/* alloc_back.c: free cores return to their owners, and, where an old answer was kept, useless
 * borrowed ones too. -1: ENOMEM. */
int part_give_back(const struct part *part, unsigned *cores, bool kept);

/* alloc_levels.c: fill in every job's levels, values and floors. -1: ENOMEM. */
int part_build_levels(struct part *part);

/* The value of job j at share s under the problem's policy. */
double part_value(const struct part *part, const struct part_job *job, double share);

/* The cores in use at the chosen levels on each local node, and the I/O; used has nnodes entries.
 */
void part_usage(const struct part *part, unsigned *used, double *io);

/* An even split of each node's pool between its members, within their bounds; count: a member. */
int part_even(const struct part *part, unsigned *count); /* alloc_even.c */

/* The cost of one moved core in a solver's objective: so small that it only decides between equals.
 */
double part_move_cost(const struct part *part);

/* Values of the component closer than this are equal. */
double part_epsilon(const struct part *part);

/* Cores that a job would gain over what is in force, at a level. */
unsigned part_job_moves(const struct part *part, const struct part_job *job, unsigned level);

/* The solvers set every job's level and part->bound. -1: ENOMEM. */
int part_solve_sum(struct part *part);    /* alloc_sum.c: policies that add up */
int part_solve_lowest(struct part *part); /* alloc_lowest.c: max-min and makespan; any */

/* alloc_tied.c: one node, given the lowest key of the best answer; sets levels, unless that is too
 * much work, when they stay as they are. */
int part_solve_tied(struct part *part, double lowest);

/* Is this a policy that adds up (else it raises the lowest)? */
static inline bool policy_adds(enum alloc_policy policy)
{
    return policy != ALLOC_MAX_MIN && policy != ALLOC_MAKESPAN;
}

/* A rise smaller than this fraction of full speed is no rise: rounding, not a useful core. */
#define SHARE_STEP 1e-9

/* alloc_floors.c, all a member: the cores whose rate is promised; the fewest cores, given these;
 * then, with levels built, every job's floor. -1: ENOMEM. */
int part_promised(const struct part *part, unsigned *count);
int part_minimums(const struct part *part, const unsigned *count, unsigned *min);
int part_floors(struct part *part, const unsigned *count);

/* Relative differences below this are rounding. */
#define EQUAL 1e-9

/* Member k of a job. */
static inline const struct alloc_member *member_of(const struct part *part,
                                                   const struct part_job *job, unsigned k)
{
    return &part->problem->members[part->members[job->first + k]];
}

/* T(c) of a member: flat beyond the known points. */
static inline double member_rate(const struct alloc_member *m, unsigned cores)
{
    return m->rate[cores < m->nrate ? cores : m->nrate - 1];
}

#endif
