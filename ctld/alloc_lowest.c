/*
 * Max-min and makespan: raise the lowest key first, for any set of nodes. Whoever is lowest is
 * raised if that fits; if not, nobody can help it and it stays. The lowest key of the answer is the
 * highest possible; so are the ranks above, unless jobs are tied and not all of them fit.
 */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static bool next_fits(const struct part *part, const struct part_job *job,
                      const unsigned *free_cpus, double free_io)
{
    const unsigned *from = job->cores + (size_t)job->level * job->nmembers;
    const unsigned *to = from + job->nmembers;
    double io;

    for (unsigned k = 0; k < job->nmembers; k++) {
        unsigned need = 0;

        /* several members of the job may be on one node */
        for (unsigned o = 0; o < job->nmembers; o++)
            if (part->node[job->first + o] == part->node[job->first + k])
                need += to[o] - from[o];
        if (need > free_cpus[part->node[job->first + k]])
            return false;
    }
    io = job->io[job->level + 1] - job->io[job->level];
    return !(io > 0 && io > free_io);
}

static void raise_job(const struct part *part, struct part_job *job, unsigned *free_cpus,
                      double *free_io)
{
    const unsigned *from = job->cores + (size_t)job->level * job->nmembers;
    const unsigned *to = from + job->nmembers;

    for (unsigned k = 0; k < job->nmembers; k++)
        free_cpus[part->node[job->first + k]] -= to[k] - from[k];
    *free_io -= job->io[job->level + 1] - job->io[job->level];
    job->level++;
}

/* Of two jobs with the same key: the one whose next step costs fewer cores (so that the fewest stay
 * behind), then leads higher, then moves fewer. */
static bool cheaper(const struct part *part, const struct part_job *a, const struct part_job *b)
{
    unsigned cost_a = 0, cost_b = 0;

    for (unsigned k = 0; k < a->nmembers; k++)
        cost_a += a->cores[(size_t)(a->level + 1) * a->nmembers + k] -
                  a->cores[(size_t)a->level * a->nmembers + k];
    for (unsigned k = 0; k < b->nmembers; k++)
        cost_b += b->cores[(size_t)(b->level + 1) * b->nmembers + k] -
                  b->cores[(size_t)b->level * b->nmembers + k];
    if (cost_a != cost_b)
        return cost_a < cost_b;
    if (a->value[a->level + 1] < b->value[b->level + 1] ||
        a->value[a->level + 1] > b->value[b->level + 1])
        return a->value[a->level + 1] > b->value[b->level + 1];
    return part_job_moves(part, a, a->level + 1) - part_job_moves(part, a, a->level) <
           part_job_moves(part, b, b->level + 1) - part_job_moves(part, b, b->level);
}

static struct part_job *lowest(struct part *part, const bool *fixed)
{
    struct part_job *low = NULL;

    for (size_t j = 0; j < part->njobs; j++) {
        struct part_job *job = &part->jobs[j];

        if (fixed[j])
            continue;
        if (low == NULL || job->value[job->level] < low->value[low->level] ||
            (job->value[job->level] <= low->value[low->level] && cheaper(part, job, low)))
            low = job;
    }
    return low;
}

int part_solve_lowest(struct part *part)
{
    unsigned *free_cpus = calloc(part->nnodes, sizeof(*free_cpus));
    bool *fixed = calloc(part->njobs, sizeof(*fixed));
    double free_io = 0, raised_from = -INFINITY;
    bool tied = false;
    int rc = 0;

    if (free_cpus == NULL || fixed == NULL) {
        free(free_cpus);
        free(fixed);
        errno = ENOMEM;
        return -1;
    }
    for (size_t j = 0; j < part->njobs; j++) {
        part->jobs[j].level = part->jobs[j].floor;
        fixed[j] = part->jobs[j].level + 1 >= part->jobs[j].nlevels;
    }
    part_usage(part, free_cpus, &free_io);
    for (size_t n = 0; n < part->nnodes; n++)
        free_cpus[n] = part->problem->nodes[part->nodes[n]].pool - free_cpus[n];
    free_io = part->io_limit - free_io;
    for (struct part_job *job; (job = lowest(part, fixed)) != NULL;) {
        double key = job->value[job->level];

        if (next_fits(part, job, free_cpus, free_io)) {
            raise_job(part, job, free_cpus, &free_io);
            raised_from = key;
        } else {
            fixed[job - part->jobs] = true;
            tied = tied || key <= raised_from;
        }
        if (job->level + 1 >= job->nlevels)
            fixed[job - part->jobs] = true;
    }
    part->bound = INFINITY;
    for (size_t j = 0; j < part->njobs; j++)
        part->bound = fmin(part->bound, part->jobs[j].value[part->jobs[j].level]);
    free(free_cpus);
    free(fixed);
    if (tied && part->nnodes == 1 && isinf(part->io_limit))
        rc = part_solve_tied(part, part->bound);
    return rc;
}
