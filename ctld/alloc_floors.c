/* Guarantees: what is promised, and the fewest cores and the lowest level that keep the promise. */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

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
int part_promised(const struct part *part, unsigned *count)
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
    /* A curve of whole cores hides how much of its last core is needed. */
    if (m->demand > 0 && m->demand < need) {
        need = m->demand;
        margin = m->uncertainty * need;
    }
    guard = (unsigned)fmin(count, ceil(need + margin));
    keep = (unsigned)fmin(count, ceil(need + 2 * margin));
    keep = keep < m->now ? keep : m->now;
    return guard > keep ? guard : keep;
}

/* Minimum cores, reduced in proportion where a node cannot hold all of them. */
int part_minimums(const struct part *part, const unsigned *count, unsigned *min)
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

int part_floors(struct part *part, const unsigned *count)
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
