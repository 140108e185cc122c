/*
 * The allocator's front: checks the problem, takes it apart into components that share no node,
 * has each solved by its policy, and decides whether the answer is worth moving for.
 */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Everybody keeps the own cores; where a pool cannot hold them all, in proportion. */
static int solve_static(const struct part *part, unsigned *count)
{
    unsigned long *want = calloc(part->nnodes, sizeof(*want));

    if (want == NULL)
        return -1;
    for (size_t i = 0; i < part->nmembers; i++) {
        const struct alloc_member *m = &part->problem->members[part->members[i]];

        count[i] = m->own > m->min ? m->own : m->min;
        if (m->max != 0 && count[i] > m->max)
            count[i] = m->max;
        want[part->node[i]] += count[i];
    }
    for (size_t i = 0; i < part->nmembers; i++) {
        unsigned long pool = part->problem->nodes[part->nodes[part->node[i]]].pool;

        if (want[part->node[i]] > pool)
            count[i] = (unsigned)(count[i] * pool / want[part->node[i]]);
    }
    free(want);
    return 0;
}

static int solve_fixed_rule(struct part *part, struct alloc_result *result)
{
    unsigned *count = calloc(part->nmembers, sizeof(*count));
    int rc = -1;

    if (count == NULL)
        return -1;
    rc = part->problem->policy == ALLOC_EVEN ? part_even(part, count) : solve_static(part, count);
    for (size_t i = 0; rc == 0 && i < part->nmembers; i++)
        result->cores[part->members[i]] = count[i];
    part->bound = part_value_with(part, result->cores);
    free(count);
    return rc;
}

static int solve_levels(struct part *part)
{
    if (!policy_adds(part->problem->policy))
        return part_solve_lowest(part);
    return part_solve_sum(part);
}

static void write_levels(const struct part *part, unsigned *cores)
{
    for (size_t j = 0; j < part->njobs; j++) {
        const struct part_job *job = &part->jobs[j];

        for (unsigned k = 0; k < job->nmembers; k++)
            cores[part->members[job->first + k]] =
                job->cores[(size_t)job->level * job->nmembers + k];
    }
}

/*
 * Once something has to change, that is no reason to change everything: solve again, with a price
 * on each moved core of the wanted minimum gain times what a core brings on the average.
 */
static int solve_with_price(struct part *part, unsigned *cores)
{
    double value = 0, pool = 0, bound = part->bound;
    int rc;

    if (!policy_adds(part->problem->policy) || part->problem->min_gain <= 0)
        return 0;
    for (size_t n = 0; n < part->nnodes; n++)
        pool += part->problem->nodes[part->nodes[n]].pool;
    for (size_t j = 0; j < part->njobs; j++)
        for (unsigned k = 0; k < part->jobs[j].nmembers; k++) {
            const struct alloc_member *m = member_of(part, &part->jobs[j], k);

            /* under Nash welfare the unit is the logarithm of a rate */
            value += m->weight * (part->problem->policy == ALLOC_NASH
                                      ? 1
                                      : m->gpus * part->jobs[j].share[part->jobs[j].level]);
        }
    if (pool <= 0)
        return 0;
    part->move_price = part->problem->min_gain * value / pool;
    rc = part_solve_sum(part);
    if (rc == 0)
        write_levels(part, cores);
    part->bound = bound;
    return rc;
}

static int keep_or_move(struct part *part, struct alloc_result *result, double *value_now)
{
    bool feasible, worth = true;

    *value_now = NAN;
    if (part_now_is_feasible(part, &feasible) < 0)
        return -1;
    if (feasible) {
        *value_now = part_value_with(part, NULL);
        if (part_is_worth_it(part, result->cores, &worth) < 0)
            return -1;
    }
    if (worth) {
        result->kept = false;
        if (solve_with_price(part, result->cores) < 0)
            return -1;
        return part_give_back(part, result->cores, false);
    }
    for (size_t i = 0; i < part->nmembers; i++)
        result->cores[part->members[i]] = part->problem->members[part->members[i]].now;
    return part_give_back(part, result->cores, true);
}

/* I/O matters only where all jobs at their best would ask for more than there is. */
static double io_wanted(const struct alloc_problem *p)
{
    double io = 0;

    for (size_t i = 0; i < p->nmembers; i++) {
        const struct alloc_member *m = &p->members[i];
        double best = 0;

        for (unsigned c = 0; m->sample_bytes > 0 && c < m->nrate; c++)
            best = fmax(best, m->rate[c]);
        io += m->sample_bytes * best;
    }
    return io;
}

static void account(const struct part *part, struct alloc_result *result, double value_now)
{
    double value = part_value_with(part, result->cores), bound = fmax(part->bound, value);

    if (policy_adds(part->problem->policy)) {
        result->value += value;
        result->upper_bound += bound;
        result->value_now += value_now;
    } else {
        result->value = fmin(result->value, value);
        result->upper_bound = fmin(result->upper_bound, bound);
        result->value_now =
            isnan(value_now) || isnan(result->value_now) ? NAN : fmin(result->value_now, value_now);
    }
    for (size_t i = 0; i < part->nmembers; i++) {
        unsigned now = part->problem->members[part->members[i]].now;
        unsigned cores = result->cores[part->members[i]];

        result->moves += cores > now ? cores - now : 0;
    }
}

/* What the jobs would read with their guaranteed cores is theirs, whatever the device can do. */
static void allow_io_of_floors(struct part *part)
{
    double io = 0;

    for (size_t j = 0; j < part->njobs; j++)
        io += part->jobs[j].io[part->jobs[j].floor];
    part->io_limit = fmax(part->io_limit, io);
}

static int solve_part(struct part *part, struct alloc_result *result)
{
    double value_now = NAN;
    int rc;

    if (part->problem->policy == ALLOC_EVEN || part->problem->policy == ALLOC_STATIC) {
        rc = solve_fixed_rule(part, result);
        result->kept = false;
        value_now = part_value_with(part, NULL);
    } else {
        rc = part_build_levels(part);
        if (rc == 0)
            allow_io_of_floors(part);
        if (rc == 0)
            rc = solve_levels(part);
        if (rc == 0) {
            write_levels(part, result->cores);
            rc = keep_or_move(part, result, &value_now);
        }
    }
    if (rc == 0)
        account(part, result, value_now);
    return rc;
}

static int solve_all(const struct alloc_problem *p, struct graph *g, struct alloc_result *result)
{
    bool coupled = !isnan(p->io_bytes_per_s) && io_wanted(p) > p->io_bytes_per_s;
    int rc = 0;

    for (size_t n = 0; rc == 0 && n < p->nnodes; n++) {
        struct part part;
        struct reach r;

        if (g->node_seen[n] || g->node_start[n] == g->node_start[n + 1])
            continue;
        r = graph_explore(p, g, (unsigned)n, coupled);
        rc = part_build(p, g, r, &part);
        if (rc == 0) {
            for (size_t i = 0; coupled && i < part.nmembers; i++)
                if (p->members[part.members[i]].sample_bytes > 0)
                    part.io_limit = p->io_bytes_per_s;
            rc = solve_part(&part, result);
        }
        part_free(&part);
    }
    return rc;
}

int alloc_solve(const struct alloc_problem *problem, struct alloc_result *result, char *error,
                size_t error_size)
{
    struct graph g = {0};
    bool adds;
    int rc;

    if (alloc_check(problem, error, error_size) < 0)
        return -1;
    adds = policy_adds(problem->policy);
    result->value = result->upper_bound = result->value_now = adds ? 0 : INFINITY;
    result->moves = 0;
    result->kept = true;
    if (graph_build(problem, &g) < 0)
        return -1;
    rc = solve_all(problem, &g, result);
    graph_free(&g);
    if (!adds && problem->nmembers == 0)
        result->value = result->upper_bound = result->value_now = 0;
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}
