/*
 * Jobs on several nodes, or a shared I/O limit: the sum to maximise is coupled. From the floors,
 * the step with the best gain for the share of what is scarce is taken, whole bundles at a time.
 */
#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct room {
    unsigned *cpus; /* free, a local node */
    double io;
};

/* The price of raising job to level: its part of what is free, summed; INFINITY if it cannot. */
static double price(const struct part *part, const struct part_job *job, unsigned level,
                    const struct room *room)
{
    const unsigned *from = job->cores + (size_t)job->level * job->nmembers;
    const unsigned *to = job->cores + (size_t)level * job->nmembers;
    double sum = 0, io = job->io[level] - job->io[job->level];

    for (unsigned k = 0; k < job->nmembers; k++) {
        unsigned node = part->node[job->first + k], need = 0;

        for (unsigned o = 0; o < job->nmembers; o++)
            if (part->node[job->first + o] == node)
                need += to[o] - from[o];
        if (need > room->cpus[node])
            return INFINITY;
        if (to[k] != from[k])
            sum += (double)(to[k] - from[k]) / room->cpus[node];
    }
    if (io > 0 && io > room->io)
        return INFINITY;
    if (isfinite(room->io) && room->io > 0)
        sum += io / room->io;
    return sum;
}

static void take(const struct part *part, struct part_job *job, unsigned level, struct room *room)
{
    for (unsigned k = 0; k < job->nmembers; k++)
        room->cpus[part->node[job->first + k]] -=
            job->cores[(size_t)level * job->nmembers + k] -
            job->cores[(size_t)job->level * job->nmembers + k];
    room->io -= job->io[level] - job->io[job->level];
    job->level = level;
}

static bool best_step(struct part *part, struct room *room)
{
    double cost = part_move_cost(part), best = 0;
    struct part_job *job = NULL;
    unsigned level = 0;

    for (size_t j = 0; j < part->njobs; j++) {
        struct part_job *candidate = &part->jobs[j];
        unsigned moves = part_job_moves(part, candidate, candidate->level);

        for (unsigned l = candidate->level + 1; l < candidate->nlevels; l++) {
            double at = price(part, candidate, l, room);
            double gain = candidate->value[l] - candidate->value[candidate->level] -
                          cost * (part_job_moves(part, candidate, l) - moves);

            if (!isfinite(at))
                break;
            if (gain / at > best) {
                best = gain / at;
                job = candidate;
                level = l;
            }
        }
    }
    if (job == NULL)
        return false;
    take(part, job, level, room);
    return true;
}

int part_solve_sum_jobs(struct part *part)
{
    struct room room = {calloc(part->nnodes, sizeof(*room.cpus)), 0};

    if (room.cpus == NULL) {
        errno = ENOMEM;
        return -1;
    }
    for (size_t j = 0; j < part->njobs; j++)
        part->jobs[j].level = part->jobs[j].floor;
    part_usage(part, room.cpus, &room.io);
    for (size_t n = 0; n < part->nnodes; n++)
        room.cpus[n] = part->problem->nodes[part->nodes[n]].pool - room.cpus[n];
    room.io = part->io_limit - room.io;
    while (best_step(part, &room))
        ;
    part->bound = 0;
    for (size_t j = 0; j < part->njobs; j++)
        part->bound += part->jobs[j].value[part->jobs[j].nlevels - 1];
    free(room.cpus);
    return 0;
}
