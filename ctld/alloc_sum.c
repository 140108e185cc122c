/*
 * Policies that add up (gpu-busy, nash): a component as a choice problem. Items are jobs, levels
 * those from the guarantee's floor up, rows the nodes' pools and the shared I/O bandwidth.
 */
#include "config.h"

#include "alloc_choice.h"
#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define EFFORT_DEFAULT 1e6

static void choice_free(struct choice *choice)
{
    for (size_t i = 0; choice->items != NULL && i < choice->nitems; i++) {
        free(choice->items[i].value);
        free(choice->items[i].row);
        free(choice->items[i].cost);
    }
    free(choice->items);
    free(choice->room);
    free(choice->integer);
}

static unsigned row_index(struct choice_item *item, unsigned row)
{
    for (unsigned r = 0; r < item->nrows; r++)
        if (item->row[r] == row)
            return r;
    item->row[item->nrows] = row;
    return item->nrows++;
}

/* Rows of a job: its nodes, each once, and I/O as the last where it is limited. */
static int item_rows(const struct part *part, const struct part_job *job, bool io,
                     struct choice_item *item, unsigned *row_of_member)
{
    item->row = malloc((job->nmembers + 1u) * sizeof(*item->row));
    if (item->row == NULL)
        return -1;
    item->nrows = 0;
    for (unsigned k = 0; k < job->nmembers; k++) {
        if (k > 0 && part->node[job->first + k] == part->node[job->first + k - 1])
            row_of_member[k] = row_of_member[k - 1];
        else
            row_of_member[k] = row_index(item, part->node[job->first + k]);
    }
    if (io)
        item->row[item->nrows++] = (unsigned)part->nnodes;
    return 0;
}

static int item_build(const struct part *part, const struct part_job *job, bool io,
                      double move_cost, unsigned *row_of_member, struct choice_item *item)
{
    const unsigned *base = job->cores + (size_t)job->floor * job->nmembers;
    unsigned moves = part_job_moves(part, job, job->floor);

    if (item_rows(part, job, io, item, row_of_member) < 0)
        return -1;
    item->nlevels = job->nlevels - job->floor;
    item->value = malloc(item->nlevels * sizeof(*item->value));
    item->cost = calloc((size_t)item->nlevels * item->nrows, sizeof(*item->cost));
    if (item->value == NULL || item->cost == NULL)
        return -1;
    for (unsigned l = 0; l < item->nlevels; l++) {
        const unsigned *cores = base + (size_t)l * job->nmembers;
        double *cost = item->cost + (size_t)l * item->nrows;
        double moved = (double)part_job_moves(part, job, job->floor + l) - moves;

        item->value[l] = job->value[job->floor + l] - job->value[job->floor] - move_cost * moved;
        for (unsigned k = 0; k < job->nmembers; k++)
            cost[row_of_member[k]] += cores[k] - base[k];
        if (io)
            cost[item->nrows - 1] = job->io[job->floor + l] - job->io[job->floor];
    }
    return 0;
}

static int choice_build(struct part *part, struct choice *choice, unsigned *used)
{
    bool io = isfinite(part->io_limit);
    double io_used, move_cost = part_move_cost(part);
    unsigned *row_of_member = calloc(part->nmembers, sizeof(*row_of_member));
    int rc = row_of_member == NULL ? -1 : 0;

    choice->nitems = part->njobs;
    choice->nrows = part->nnodes + io;
    choice->epsilon = part_epsilon(part);
    choice->effort = part->problem->effort > 0 ? part->problem->effort : EFFORT_DEFAULT;
    choice->items = calloc(choice->nitems, sizeof(*choice->items));
    choice->room = calloc(choice->nrows, sizeof(*choice->room));
    choice->integer = calloc(choice->nrows, sizeof(*choice->integer));
    if (choice->items == NULL || choice->room == NULL || choice->integer == NULL)
        rc = -1;
    for (size_t j = 0; rc == 0 && j < part->njobs; j++) {
        part->jobs[j].level = part->jobs[j].floor;
        rc = item_build(part, &part->jobs[j], io, move_cost, row_of_member, &choice->items[j]);
    }
    free(row_of_member);
    if (rc < 0)
        return -1;
    part_usage(part, used, &io_used);
    for (size_t n = 0; n < part->nnodes; n++) {
        choice->room[n] = part->problem->nodes[part->nodes[n]].pool - used[n];
        choice->integer[n] = true;
    }
    if (io)
        choice->room[part->nnodes] = fmax(0, part->io_limit - io_used);
    return 0;
}

int part_solve_sum(struct part *part)
{
    struct choice choice = {0};
    struct choice_answer answer = {0, 0};
    unsigned *used = calloc(part->nnodes, sizeof(*used));
    int rc = used == NULL ? -1 : choice_build(part, &choice, used);

    if (rc == 0)
        rc = choice_solve(&choice, &answer);
    part->bound = 0;
    for (size_t j = 0; rc == 0 && j < part->njobs; j++) {
        struct part_job *job = &part->jobs[j];

        job->level = job->floor + choice.items[j].level;
        part->bound += job->value[job->level];
    }
    /* what the solver could not close, and all that moves could have cost */
    if (rc == 0 && answer.bound > answer.value + choice.epsilon) {
        double cores = 0;

        for (size_t n = 0; n < part->nnodes; n++)
            cores += choice.room[n];
        part->bound += answer.bound - answer.value + choice.epsilon * cores;
    }
    choice_free(&choice);
    free(used);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}
