/*
 * One node, a sum to maximise: choose one level a job so that the cores fit into the pool. A
 * multiple-choice knapsack, solved exactly by dynamic programming over the cores above the floors,
 * whatever the shape of the curves.
 */
#include "alloc_internal.h"

#include <errno.h>
#include <stdlib.h>

/* All members of a job are on this one node. */
static unsigned level_cores(const struct part_job *job, unsigned level)
{
    unsigned sum = 0;

    for (unsigned k = 0; k < job->nmembers; k++)
        sum += job->cores[(size_t)level * job->nmembers + k];
    return sum;
}

/* best[c]: the best sum of the jobs so far with c cores above their floors; pick: the level. */
static void add_job(const struct part *part, const struct part_job *job, unsigned spare,
                    double *best, unsigned *pick, double *next)
{
    double cost = part_move_cost(part);
    unsigned base = level_cores(job, job->floor);

    for (unsigned c = 0; c <= spare; c++)
        next[c] = -1e300;
    for (unsigned l = job->floor; l < job->nlevels; l++) {
        unsigned step = level_cores(job, l) - base;
        double value = job->value[l] - job->value[job->floor] - cost * part_job_moves(part, job, l);

        for (unsigned c = step; c <= spare; c++) {
            double sum = best[c - step] + value;

            if (sum > next[c]) {
                next[c] = sum;
                pick[c] = l;
            }
        }
    }
    for (unsigned c = 0; c <= spare; c++)
        best[c] = next[c];
}

int part_solve_sum_node(struct part *part)
{
    unsigned spare = part->problem->nodes[part->nodes[0]].pool;
    unsigned *pick;
    double *best;
    size_t width;

    for (size_t j = 0; j < part->njobs; j++)
        spare -= level_cores(&part->jobs[j], part->jobs[j].floor);
    width = (size_t)spare + 1;
    best = calloc(2 * width, sizeof(*best));
    pick = malloc(part->njobs * width * sizeof(*pick));
    if (best == NULL || pick == NULL) {
        free(best);
        free(pick);
        errno = ENOMEM;
        return -1;
    }
    for (size_t j = 0; j < part->njobs; j++)
        add_job(part, &part->jobs[j], spare, best, pick + j * width, best + width);
    part->bound = 0;
    for (size_t j = part->njobs; j-- > 0;) {
        struct part_job *job = &part->jobs[j];

        job->level = pick[j * width + spare];
        spare -= level_cores(job, job->level) - level_cores(job, job->floor);
        part->bound += job->value[job->level];
    }
    free(best);
    free(pick);
    return 0;
}
