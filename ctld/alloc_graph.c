/* What hangs together: a problem taken apart into components that share no node. */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

void graph_free(struct graph *g)
{
    free(g->node_start);
    free(g->node_members);
    free(g->job_start);
    free(g->job_members);
    free(g->local);
    free(g->node_seen);
    free(g->job_seen);
    free(g->queue);
    free(g->jobs);
}

static void group(const struct alloc_problem *p, bool by_node, size_t ngroups, unsigned *start,
                  unsigned *members)
{
    for (size_t i = 0; i < p->nmembers; i++)
        start[(by_node ? p->members[i].node : p->members[i].job) + 1]++;
    for (size_t k = 0; k < ngroups; k++)
        start[k + 1] += start[k];
    for (size_t i = p->nmembers; i-- > 0;) {
        unsigned k = by_node ? p->members[i].node : p->members[i].job;

        members[--start[k + 1]] = (unsigned)i;
    }
    /* start[k + 1] is now where group k begins */
    for (size_t k = 0; k < ngroups; k++)
        start[k] = start[k + 1];
    start[ngroups] = (unsigned)p->nmembers;
}

int graph_build(const struct alloc_problem *p, struct graph *g)
{
    g->node_start = calloc(p->nnodes + 1, sizeof(unsigned));
    g->node_members = calloc(p->nmembers + 1, sizeof(unsigned));
    g->job_start = calloc(p->njobs + 1, sizeof(unsigned));
    g->job_members = calloc(p->nmembers + 1, sizeof(unsigned));
    g->local = calloc(p->nnodes + 1, sizeof(unsigned));
    g->node_seen = calloc(p->nnodes + 1, sizeof(bool));
    g->job_seen = calloc(p->njobs + 1, sizeof(bool));
    g->queue = calloc(p->nnodes + 1, sizeof(unsigned));
    g->jobs = calloc(p->njobs + 1, sizeof(unsigned));
    if (g->node_start == NULL || g->node_members == NULL || g->job_start == NULL ||
        g->job_members == NULL || g->local == NULL || g->node_seen == NULL || g->job_seen == NULL ||
        g->queue == NULL || g->jobs == NULL) {
        graph_free(g);
        errno = ENOMEM;
        return -1;
    }
    group(p, true, p->nnodes, g->node_start, g->node_members);
    group(p, false, p->njobs, g->job_start, g->job_members);
    return 0;
}

static void visit_node(struct graph *g, struct reach *r, unsigned node)
{
    if (g->node_seen[node])
        return;
    g->node_seen[node] = true;
    g->local[node] = (unsigned)r->nnodes;
    g->queue[r->nnodes++] = node;
}

static void visit_job(const struct alloc_problem *p, struct graph *g, struct reach *r, unsigned job)
{
    if (g->job_seen[job])
        return;
    g->job_seen[job] = true;
    g->jobs[r->njobs++] = job;
    for (unsigned i = g->job_start[job]; i < g->job_start[job + 1]; i++) {
        visit_node(g, r, p->members[g->job_members[i]].node);
        r->nmembers++;
    }
}

/* All that hangs together with the given node; with coupled, also all that reads from storage. */
struct reach graph_explore(const struct alloc_problem *p, struct graph *g, unsigned node,
                           bool coupled)
{
    struct reach r = {0, 0, 0};
    bool all = false;

    visit_node(g, &r, node);
    for (size_t at = 0; at < r.nnodes; at++) {
        unsigned n = g->queue[at];

        for (unsigned i = g->node_start[n]; i < g->node_start[n + 1]; i++) {
            const struct alloc_member *m = &p->members[g->node_members[i]];

            visit_job(p, g, &r, m->job);
            if (coupled && m->sample_bytes > 0)
                all = true;
        }
        for (size_t i = 0; all && i < p->nmembers; i++)
            if (p->members[i].sample_bytes > 0)
                visit_node(g, &r, p->members[i].node);
        if (all)
            coupled = all = false;
    }
    return r;
}

void part_free(struct part *part)
{
    for (size_t j = 0; part->jobs != NULL && j < part->njobs; j++) {
        free(part->jobs[j].share);
        free(part->jobs[j].value);
        free(part->jobs[j].io);
        free(part->jobs[j].cores);
    }
    free(part->jobs);
    free(part->members);
    free(part->node);
    free(part->nodes);
    free(part->work);
}

/* Work that nobody declared counts as the mean of what the others need at full speed. */
static int part_guess_work(struct part *part)
{
    double sum = 0;
    size_t known = 0;

    part->work = calloc(part->nmembers, sizeof(double));
    if (part->work == NULL)
        return -1;
    for (size_t i = 0; i < part->nmembers; i++) {
        const struct alloc_member *m = &part->problem->members[part->members[i]];

        part->work[i] = m->work;
        if (!isnan(m->work)) {
            sum += m->work / m->gpu_rate;
            known++;
        }
    }
    for (size_t i = 0; i < part->nmembers; i++)
        if (isnan(part->work[i]))
            part->work[i] = (known > 0 && sum > 0 ? sum / (double)known : 1) *
                            part->problem->members[part->members[i]].gpu_rate;
    return 0;
}

static int compare_unsigned(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return (x > y) - (x < y);
}

int part_build(const struct alloc_problem *p, struct graph *g, struct reach r, struct part *part)
{
    *part = (struct part){.problem = p, .nnodes = r.nnodes, .njobs = r.njobs};
    part->io_limit = INFINITY;
    part->members = calloc(r.nmembers, sizeof(unsigned));
    part->node = calloc(r.nmembers, sizeof(unsigned));
    part->nodes = calloc(r.nnodes, sizeof(unsigned));
    part->jobs = calloc(r.njobs, sizeof(struct part_job));
    if (part->members == NULL || part->node == NULL || part->nodes == NULL || part->jobs == NULL)
        return -1;
    /* input order, wherever the exploration began: the answer must not depend on it */
    qsort(g->jobs, r.njobs, sizeof(unsigned), compare_unsigned);
    qsort(g->queue, r.nnodes, sizeof(unsigned), compare_unsigned);
    for (size_t n = 0; n < r.nnodes; n++) {
        part->nodes[n] = g->queue[n];
        g->local[g->queue[n]] = (unsigned)n;
    }
    for (size_t j = 0; j < r.njobs; j++) {
        unsigned job = g->jobs[j];

        part->jobs[j].first = (unsigned)part->nmembers;
        part->jobs[j].nmembers = g->job_start[job + 1] - g->job_start[job];
        for (unsigned i = g->job_start[job]; i < g->job_start[job + 1]; i++) {
            part->members[part->nmembers] = g->job_members[i];
            part->node[part->nmembers++] = g->local[p->members[g->job_members[i]].node];
        }
    }
    return p->policy == ALLOC_MAKESPAN ? part_guess_work(part) : 0;
}
