/*
 * Max-min and makespan on one node when jobs are tied: of several with the same lowest key not all
 * can be raised, and which of them are decides about the ranks above. Dynamic programming over the
 * cores, where what a state is worth is the whole ascending list of keys, compared from the
 * lowest on. (That order is kept when the same key is added to both lists, so the method is exact.)
 */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORK_MAX                                                                                   \
    2e7 /* list entries looked at, some tens of milliseconds; beyond, ties stay as they are */

/* A list to which one key is yet to be added, without doing so. */
struct pending {
    const double *keys; /* ascending */
    size_t n;
    double add;
    unsigned moves;
};

/* Is a better than b? Both have n keys and one to add. */
static bool better(const struct pending *a, const struct pending *b)
{
    size_t ia = 0, ib = 0;
    bool added_a = false, added_b = false;

    for (size_t i = 0; i <= a->n; i++) {
        double x, y;

        if (!added_a && (ia >= a->n || a->add <= a->keys[ia])) {
            x = a->add;
            added_a = true;
        } else {
            x = a->keys[ia++];
        }
        if (!added_b && (ib >= b->n || b->add <= b->keys[ib])) {
            y = b->add;
            added_b = true;
        } else {
            y = b->keys[ib++];
        }
        if (x > y || x < y)
            return x > y;
    }
    return a->moves < b->moves;
}

static void settle(const struct pending *p, double *out)
{
    size_t i = 0;

    while (i < p->n && p->keys[i] < p->add) {
        out[i] = p->keys[i];
        i++;
    }
    out[i] = p->add;
    for (; i < p->n; i++)
        out[i + 1] = p->keys[i];
}

struct table {
    struct part *part;
    unsigned *from;    /* a job: lowest level considered */
    size_t width;      /* spare cores and one */
    double *old, *new; /* [width][njobs], ascending keys */
    unsigned *old_moves, *new_moves;
    unsigned *pick; /* [job][width]: level */
};

static unsigned level_cores(const struct part_job *job, unsigned level)
{
    unsigned sum = 0;

    for (unsigned k = 0; k < job->nmembers; k++)
        sum += job->cores[(size_t)level * job->nmembers + k];
    return sum;
}

static void add_job(struct table *t, size_t j)
{
    struct part_job *job = &t->part->jobs[j];
    unsigned base = level_cores(job, t->from[j]);
    size_t n = t->part->njobs;

    for (size_t c = 0; c < t->width; c++) {
        struct pending best = {NULL, j, 0, 0};

        for (unsigned l = t->from[j]; l < job->nlevels; l++) {
            size_t cost = level_cores(job, l) - base;
            struct pending p;

            if (cost > c)
                break;
            p = (struct pending){t->old + (c - cost) * n, j, job->value[l],
                                 t->old_moves[c - cost] + part_job_moves(t->part, job, l)};
            if (best.keys == NULL || better(&p, &best)) {
                best = p;
                t->pick[j * t->width + c] = l;
            }
        }
        settle(&best, t->new + c *n);
        t->new_moves[c] = best.moves;
    }
}

static void run(struct table *t)
{
    size_t left = t->width - 1;

    for (size_t j = 0; j < t->part->njobs; j++) {
        double *keys = t->old;
        unsigned *moves = t->old_moves;

        add_job(t, j);
        t->old = t->new;
        t->new = keys;
        t->old_moves = t->new_moves;
        t->new_moves = moves;
    }
    for (size_t j = t->part->njobs; j-- > 0;) {
        struct part_job *job = &t->part->jobs[j];

        job->level = t->pick[j * t->width + left];
        left -= level_cores(job, job->level) - level_cores(job, t->from[j]);
    }
}

int part_solve_tied(struct part *part, double lowest)
{
    struct table t = {.part = part};
    size_t n = part->njobs, spare = part->problem->nodes[part->nodes[0]].pool;
    double work = 0;
    int rc = 0;

    t.from = calloc(n, sizeof(*t.from));
    if (t.from == NULL)
        return -1;
    for (size_t j = 0; j < n; j++) {
        const struct part_job *job = &part->jobs[j];

        /* nobody need be below what all can reach */
        t.from[j] = job->floor;
        while (t.from[j] + 1 < job->nlevels && job->value[t.from[j]] < lowest)
            t.from[j]++;
        spare -= level_cores(job, t.from[j]);
        work += job->nlevels - t.from[j];
    }
    t.width = spare + 1;
    if (work * (double)t.width * 4 + (double)n * (double)n * (double)t.width > WORK_MAX) {
        free(t.from);
        return 0;
    }
    t.old = calloc(t.width * n, sizeof(double));
    t.new = calloc(t.width * n, sizeof(double));
    t.old_moves = calloc(t.width, sizeof(unsigned));
    t.new_moves = calloc(t.width, sizeof(unsigned));
    t.pick = calloc(t.width * n, sizeof(unsigned));
    if (t.old == NULL || t.new == NULL || t.old_moves == NULL || t.new_moves == NULL ||
        t.pick == NULL)
        rc = -1;
    else
        run(&t);
    free(t.from);
    free(t.old);
    free(t.new);
    free(t.old_moves);
    free(t.new_moves);
    free(t.pick);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}
