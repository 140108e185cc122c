/* Levels: from members' curves to the shares of full speed that a job can reach, and their price.
 */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* A rise smaller than this fraction of full speed is no rise: rounding, not a useful core. */
#define SHARE_STEP 1e-9
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

/* The share that a job would have with count[i] cores a member. */
static double job_share(const struct part *part, const struct part_job *job, const unsigned *count)
{
    double share = INFINITY;

    for (unsigned k = 0; k < job->nmembers; k++) {
        const struct alloc_member *m = &part->problem->members[part->members[job->first + k]];

        share = fmin(share, member_rate(m, count[job->first + k]) / m->gpu_rate);
    }
    return share;
}

/* The cores whose rate the guarantee promises. */
static int promised(const struct part *part, unsigned *count)
{
    const struct alloc_problem *p = part->problem;

    if (p->guarantee == ALLOC_GUARANTEE_EVEN)
        return part_even(part, count);
    for (size_t i = 0; i < part->nmembers; i++)
        count[i] = p->guarantee == ALLOC_GUARANTEE_OWN ? p->members[part->members[i]].own : 0;
    return 0;
}

/* The share that has to be reached for it. */
static double promised_share(const struct part *part, const struct part_job *job,
                             const unsigned *count)
{
    return job_share(part, job, count) * (1 - ALLOC_FLOOR_TOLERANCE);
}

/*
 * Fewest cores of a member under the guarantee as far as its curve is uncertain: what it needs for
 * the promised share and a standard deviation more, or two of what it has now (so that a curve
 * that wanders by its own uncertainty does not lend and take back in turns); never more than what
 * was promised. Where a curve is flat, this decides how many cores are lent on its word.
 */
static unsigned guarded(const struct alloc_member *m, unsigned count, double share)
{
    double rate = (share - SHARE_STEP) * m->gpu_rate, step, need, margin;
    unsigned c = 0, guard, keep;

    while (c < count && member_rate(m, c) < rate)
        c++;
    if (c == 0)
        return 0;
    /* in fractions of a core, by the slope before the curve goes flat */
    step = c >= 2 ? member_rate(m, c - 1) - member_rate(m, c - 2) : rate;
    if (!(step > rate / (4 * c)))
        step = rate / c;
    need = c - 1 + fmin(1, (rate - member_rate(m, c - 1)) / step);
    margin = m->uncertainty * rate / step;
    guard = (unsigned)fmin(count, ceil(need + margin));
    keep = (unsigned)fmin(count, ceil(need + 2 * margin));
    keep = keep < m->now ? keep : m->now;
    return guard > keep ? guard : keep;
}

/* Minimum cores, reduced in proportion where a node cannot hold all of them. */
static int minimums(const struct part *part, const unsigned *count, unsigned *min)
{
    unsigned long *want = calloc(part->nnodes, sizeof(*want));

    if (want == NULL)
        return -1;
    for (size_t j = 0; j < part->njobs; j++) {
        const struct part_job *job = &part->jobs[j];
        double share = promised_share(part, job, count);

        for (unsigned i = job->first; i < job->first + job->nmembers; i++) {
            const struct alloc_member *m = &part->problem->members[part->members[i]];

            min[i] = m->min;
            if (m->uncertainty > 0 && part->problem->guarantee != ALLOC_GUARANTEE_NONE) {
                unsigned guard = guarded(m, count[i], share);

                min[i] = min[i] > guard ? min[i] : guard;
            }
            want[part->node[i]] += min[i];
        }
    }
    for (size_t i = 0; i < part->nmembers; i++) {
        unsigned long pool = part->problem->nodes[part->nodes[part->node[i]]].pool;
        unsigned long sum = want[part->node[i]];

        if (sum > pool)
            min[i] = (unsigned)(min[i] * pool / sum);
    }
    free(want);
    return 0;
}

static unsigned level_reaching(const struct part_job *job, double share)
{
    unsigned low = 0, high = job->nlevels - 1;

    while (low < high) {
        unsigned mid = (low + high) / 2;

        if (job->share[mid] >= share - SHARE_STEP)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

static bool floors_fit(struct part *part, unsigned *used)
{
    double io;

    for (size_t j = 0; j < part->njobs; j++)
        part->jobs[j].level = part->jobs[j].floor;
    part_usage(part, used, &io);
    for (size_t n = 0; n < part->nnodes; n++)
        if (used[n] > part->problem->nodes[part->nodes[n]].pool)
            return false;
    return true;
}

/* The highest level whose every member needs at most fraction of what the full floor needs. */
static unsigned level_within(const struct part_job *job, unsigned floor, double fraction)
{
    unsigned level = floor;

    for (; level > 0; level--) {
        bool within = true;

        for (unsigned k = 0; within && k < job->nmembers; k++)
            within = job->cores[(size_t)level * job->nmembers + k] <=
                     fraction * job->cores[(size_t)floor * job->nmembers + k];
        if (within)
            break;
    }
    return level;
}

/* Own cores exceed a pool: lower all floors by the same fraction, as little as needed. */
static int floors_shrink(struct part *part, unsigned *used)
{
    unsigned *full = malloc(part->njobs * sizeof(*full));
    double low = 0, high = 1;

    if (full == NULL)
        return -1;
    for (size_t j = 0; j < part->njobs; j++)
        full[j] = part->jobs[j].floor;
    for (int i = 0; i < 24; i++) {
        double mid = i == 23 ? low : (low + high) / 2;

        for (size_t j = 0; j < part->njobs; j++)
            part->jobs[j].floor = level_within(&part->jobs[j], full[j], mid);
        if (floors_fit(part, used))
            low = mid;
        else
            high = mid;
    }
    free(full);
    return 0;
}

static int floors_build(struct part *part, const unsigned *count)
{
    unsigned *used = calloc(part->nnodes, sizeof(*used));
    int rc = 0;

    if (used == NULL)
        return -1;
    for (size_t j = 0; j < part->njobs; j++) {
        struct part_job *job = &part->jobs[j];

        job->floor = 0;
        if (part->problem->guarantee != ALLOC_GUARANTEE_NONE)
            job->floor = level_reaching(job, promised_share(part, job, count));
    }
    if (!floors_fit(part, used))
        rc = floors_shrink(part, used);
    free(used);
    return rc;
}

int part_build_levels(struct part *part)
{
    unsigned *min = calloc(part->nmembers, sizeof(*min));
    unsigned *count = calloc(part->nmembers, sizeof(*count));
    int rc = min == NULL || count == NULL ? -1 : promised(part, count);

    if (rc == 0)
        rc = minimums(part, count, min);
    for (size_t j = 0; rc == 0 && j < part->njobs; j++)
        rc = job_build(part, &part->jobs[j], min);
    if (rc == 0)
        rc = floors_build(part, count);
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
