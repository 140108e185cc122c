/* Levels: from members' curves to the shares of full speed that a job can reach, and their price.
 */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* Under Nash welfare a member at a standstill counts as this share instead of log 0. */
#define SHARE_ZERO 1e-9
/* Most core counts kept for one job; beyond it, levels are thinned. */
#define CORES_MAX ((size_t)1 << 22)

struct point {
    unsigned cores;
    double share;
};

/* The points of one member's curve that are worth having. */
struct points {
    struct point *at;
    unsigned n;
    unsigned pos;
};

/*
 * The undominated points of a member's curve between its bounds: more cores, strictly more speed.
 * Points where more cores are slower (contention) fall out.
 */
static int points_build(const struct alloc_member *m, unsigned min, unsigned pool,
                        struct points *points)
{
    unsigned cap = pool;
    unsigned last;
    double best;

    if (m->max != 0 && m->max < cap)
        cap = m->max;
    min = min < cap ? min : cap;
    last = cap < m->nrate - 1 ? cap : m->nrate - 1;
    if (last < min)
        last = min;
    points->at = malloc((last - min + 1) * sizeof(*points->at));
    if (points->at == NULL)
        return -1;
    best = member_rate(m, min) / m->gpu_rate;
    points->at[0] = (struct point){min, best};
    points->n = 1;
    points->pos = 0;
    for (unsigned c = min + 1; c <= last; c++) {
        double share = m->rate[c] / m->gpu_rate;

        if (share <= best + SHARE_STEP)
            continue;
        best = share;
        points->at[points->n++] = (struct point){c, share};
    }
    return 0;
}

static double lowest_share(const struct points *points, unsigned n)
{
    double low = INFINITY;

    for (unsigned k = 0; k < n; k++)
        low = fmin(low, points[k].at[points[k].pos].share);
    return low;
}

/* Raise every member that holds the job at share low; false when one of them cannot rise. */
static bool raise_lowest(struct points *points, unsigned n, double low)
{
    for (unsigned k = 0; k < n; k++) {
        if (points[k].at[points[k].pos].share > low + SHARE_STEP)
            continue;
        if (points[k].pos + 1 >= points[k].n)
            return false;
        points[k].pos++;
    }
    return true;
}

/* Storage bytes/s of a job at a share: its members train in step. */
static double job_io(const struct part *part, const struct part_job *job, double share)
{
    double io = 0;

    for (unsigned k = 0; k < job->nmembers; k++) {
        const struct alloc_member *m = &part->problem->members[part->members[job->first + k]];

        io += m->sample_bytes * share * m->gpu_rate;
    }
    return io;
}

static int job_reserve(struct part_job *job, size_t nlevels)
{
    job->share = malloc(nlevels * sizeof(*job->share));
    job->value = malloc(nlevels * sizeof(*job->value));
    job->io = malloc(nlevels * sizeof(*job->io));
    job->cores = malloc(nlevels * job->nmembers * sizeof(*job->cores));
    if (job->share == NULL || job->value == NULL || job->io == NULL || job->cores == NULL)
        return -1;
    return 0;
}

/* Merge the members' points: each step raises exactly those members that hold the others back. */
static int job_merge(struct part *part, struct part_job *job, struct points *points)
{
    size_t total = 0, stride, most, step = 0;
    bool more = true;

    for (unsigned k = 0; k < job->nmembers; k++)
        total += points[k].n;
    most = CORES_MAX / job->nmembers;
    stride = most < 2 ? total : (total + most - 1) / most;
    if (job_reserve(job, total / stride + 2) < 0)
        return -1;
    job->nlevels = 0;
    while (more) {
        double low = lowest_share(points, job->nmembers);

        if (step++ % stride == 0 && job->nlevels < total / stride + 2) {
            unsigned *cores = job->cores + (size_t)job->nlevels * job->nmembers;

            for (unsigned k = 0; k < job->nmembers; k++)
                cores[k] = points[k].at[points[k].pos].cores;
            job->share[job->nlevels] = low;
            job->value[job->nlevels] = part_value(part, job, low);
            job->io[job->nlevels] = job_io(part, job, low);
            job->nlevels++;
        }
        more = raise_lowest(points, job->nmembers, low);
    }
    return 0;
}

static int job_build(struct part *part, struct part_job *job, const unsigned *min)
{
    struct points *points = calloc(job->nmembers, sizeof(*points));
    int rc = points == NULL ? -1 : 0;

    for (unsigned k = 0; rc == 0 && k < job->nmembers; k++) {
        unsigned i = job->first + k;
        const struct alloc_member *m = &part->problem->members[part->members[i]];

        rc = points_build(m, min[i], part->problem->nodes[part->nodes[part->node[i]]].pool,
                          &points[k]);
    }
    if (rc == 0)
        rc = job_merge(part, job, points);
    for (unsigned k = 0; points != NULL && k < job->nmembers; k++)
        free(points[k].at);
    free(points);
    return rc;
}

double part_value(const struct part *part, const struct part_job *job, double share)
{
    double sum = 0, key = INFINITY;

    for (unsigned k = 0; k < job->nmembers; k++) {
        const struct alloc_member *m = &part->problem->members[part->members[job->first + k]];

        switch (part->problem->policy) {
        case ALLOC_NASH:
            sum += m->weight * log(fmax(share, SHARE_ZERO) * m->gpu_rate);
            break;
        case ALLOC_MAX_MIN:
            key = share;
            break;
        case ALLOC_MAKESPAN:
            key = fmin(key, share * m->gpu_rate / part->work[job->first + k]);
            break;
        case ALLOC_GPU_BUSY:
        case ALLOC_EVEN:
        case ALLOC_STATIC:
            sum += m->weight * m->gpus * share;
            break;
        }
    }
    return policy_adds(part->problem->policy) ? sum : key;
}

int part_build_levels(struct part *part)
{
    unsigned *min = calloc(part->nmembers, sizeof(*min));
    unsigned *count = calloc(part->nmembers, sizeof(*count));
    int rc = min == NULL || count == NULL ? -1 : part_promised(part, count);

    if (rc == 0)
        rc = part_minimums(part, count, min);
    for (size_t j = 0; rc == 0 && j < part->njobs; j++)
        rc = job_build(part, &part->jobs[j], min);
    if (rc == 0)
        rc = part_floors(part, count);
    free(min);
    free(count);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}

void part_usage(const struct part *part, unsigned *used, double *io)
{
    *io = 0;
    for (size_t n = 0; n < part->nnodes; n++)
        used[n] = 0;
    for (size_t j = 0; j < part->njobs; j++) {
        const struct part_job *job = &part->jobs[j];

        *io += job->io[job->level];
        for (unsigned k = 0; k < job->nmembers; k++)
            used[part->node[job->first + k]] += job->cores[(size_t)job->level * job->nmembers + k];
    }
}

unsigned part_job_moves(const struct part *part, const struct part_job *job, unsigned level)
{
    unsigned moves = 0;

    for (unsigned k = 0; k < job->nmembers; k++) {
        unsigned now = part->problem->members[part->members[job->first + k]].now;
        unsigned cores = job->cores[(size_t)level * job->nmembers + k];

        moves += cores > now ? cores - now : 0;
    }
    return moves;
}

double part_epsilon(const struct part *part)
{
    double scale = 0, cores = 1;

    for (size_t j = 0; j < part->njobs; j++) {
        const struct part_job *job = &part->jobs[j];

        scale += fabs(job->value[job->nlevels - 1] - job->value[job->floor]);
    }
    for (size_t n = 0; n < part->nnodes; n++)
        cores += part->problem->nodes[part->nodes[n]].pool;
    return 1e-9 * scale / cores;
}

double part_move_cost(const struct part *part)
{
    return fmax(part_epsilon(part), part->move_price);
}
