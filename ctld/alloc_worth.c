/*
 * Is an answer worth moving for? Hysteresis: what is in force stays unless the gain beats what is
 * asked for and what the curves do not know.
 */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* However uncertain a curve is, what is in force may miss the floor by no more than this fraction.
 */
#define FLOOR_SLACK_MAX 0.1

/* The job's share with the given cores (a member of the whole problem), or with those in force. */
static double share_with(const struct part *part, const struct part_job *job, const unsigned *cores)
{
    double share = INFINITY;

    for (unsigned k = 0; k < job->nmembers; k++) {
        const struct alloc_member *m = member_of(part, job, k);
        unsigned c = cores != NULL ? cores[part->members[job->first + k]] : m->now;

        share = fmin(share, member_rate(m, c) / m->gpu_rate);
    }
    return share;
}

double part_value_with(const struct part *part, const unsigned *cores)
{
    bool adds = policy_adds(part->problem->policy);
    double value = adds ? 0 : INFINITY;

    for (size_t j = 0; j < part->njobs; j++) {
        double v = part_value(part, &part->jobs[j], share_with(part, &part->jobs[j], cores));

        value = adds ? value + v : fmin(value, v);
    }
    return value;
}

static double job_uncertainty(const struct part *part, const struct part_job *job)
{
    double u = 0;

    for (unsigned k = 0; k < job->nmembers; k++)
        u = fmax(u, member_of(part, job, k)->uncertainty);
    return u;
}

/* Is what is in force still allowed? A floor may seem missed by what the curve does not know. */
int part_now_is_feasible(const struct part *part, bool *feasible)
{
    const struct alloc_problem *p = part->problem;
    unsigned long *used = calloc(part->nnodes, sizeof(*used));
    double io = 0;

    if (used == NULL)
        return -1;
    *feasible = true;
    for (size_t j = 0; j < part->njobs; j++) {
        const struct part_job *job = &part->jobs[j];
        double share = share_with(part, job, NULL);
        double slack = fmin(FLOOR_SLACK_MAX, job_uncertainty(part, job));

        if (share < job->share[job->floor] * (1 - slack) - EQUAL)
            *feasible = false;
        for (unsigned k = 0; k < job->nmembers; k++) {
            const struct alloc_member *m = member_of(part, job, k);

            used[part->node[job->first + k]] += m->now;
            io += m->sample_bytes * share * m->gpu_rate;
            if ((m->max != 0 && m->now > m->max) ||
                m->now < (m->min < job->cores[k] ? m->min : job->cores[k]))
                *feasible = false;
        }
    }
    for (size_t n = 0; n < part->nnodes; n++)
        if (used[n] > p->nodes[part->nodes[n]].pool)
            *feasible = false;
    if (io > part->io_limit * (1 + EQUAL))
        *feasible = false;
    free(used);
    return 0;
}

/* Sums: the gain must beat the wanted minimum and one standard deviation of what changes. */
static bool sum_is_worth_it(const struct part *part, const unsigned *cores)
{
    double gain = 0, now = 0, noise = 0, weight = 0, wanted;
    bool nash = part->problem->policy == ALLOC_NASH;

    for (size_t j = 0; j < part->njobs; j++) {
        const struct part_job *job = &part->jobs[j];
        double share_now = share_with(part, job, NULL), share_new = share_with(part, job, cores);
        double value_now = part_value(part, job, share_now);
        double value_new = part_value(part, job, share_new), w = 0;

        for (unsigned k = 0; k < job->nmembers; k++)
            w += member_of(part, job, k)->weight;
        gain += value_new - value_now;
        now += value_now;
        weight += w;
        if (fabs(share_new - share_now) > EQUAL) {
            /*
             * Of a gain, only its size may be wrong, since what is in force is known. A loss must
             * be surely worth it: its whole value counts, so that two equal jobs whose estimates
             * wander do not take a core from each other in turns.
             */
            double lost = nash ? w : fmax(value_now, value_new);
            double scale = value_new > value_now ? value_new - value_now : lost;

            noise += pow(job_uncertainty(part, job) * scale, 2);
        }
    }
    wanted = nash ? weight * log1p(part->problem->min_gain) : part->problem->min_gain * now;
    return gain > fmax(wanted, sqrt(noise)) + EQUAL * fmax(fabs(now), weight);
}

struct key {
    double value, uncertainty;
};

static int compare_key(const void *a, const void *b)
{
    double x = ((const struct key *)a)->value, y = ((const struct key *)b)->value;

    return (x > y) - (x < y);
}

/* Lowest first: the first rank at which the two answers differ enough decides. */
static int lowest_is_worth_it(const struct part *part, const unsigned *cores, bool *worth)
{
    struct key *now = calloc(part->njobs, sizeof(*now));
    struct key *new = calloc(part->njobs, sizeof(*new));

    *worth = false;
    if (now == NULL || new == NULL) {
        free(now);
        free(new);
        return -1;
    }
    for (size_t j = 0; j < part->njobs; j++) {
        const struct part_job *job = &part->jobs[j];
        double u = job_uncertainty(part, job);

        now[j] = (struct key){part_value(part, job, share_with(part, job, NULL)), u};
        new[j] = (struct key){part_value(part, job, share_with(part, job, cores)), u};
    }
    qsort(now, part->njobs, sizeof(*now), compare_key);
    qsort(new, part->njobs, sizeof(*new), compare_key);
    for (size_t j = 0; j < part->njobs; j++) {
        double wanted = fmax(part->problem->min_gain, now[j].uncertainty) + EQUAL;

        if (new[j].value > now[j].value *(1 + wanted) && new[j].value > now[j].value) {
            *worth = true;
            break;
        }
        if (new[j].value < now[j].value *(1 - wanted))
            break;
    }
    free(now);
    free(new);
    return 0;
}

int part_is_worth_it(const struct part *part, const unsigned *cores, bool *worth)
{
    if (!policy_adds(part->problem->policy))
        return lowest_is_worth_it(part, cores, worth);
    *worth = sum_is_worth_it(part, cores);
    return 0;
}
