/* What nobody needs goes back to whom it belongs. */
#include "config.h"

#include "alloc_internal.h"

#include <math.h>
#include <stdlib.h>

/* Fewest cores with which member m is as fast as with count, and a margin for its uncertainty. */
static unsigned needed(const struct alloc_member *m, unsigned count)
{
    double rate = member_rate(m, count) * (1 - EQUAL);
    unsigned c = 0;

    while (c < count && member_rate(m, c) < rate)
        c++;
    return (unsigned)fmin(count, ceil(c * (1 + m->uncertainty)));
}

/* Take back useless borrowed cores (when an old answer was kept) as far as a lender misses any. */
static void strip_useless(const struct part *part, unsigned *cores, unsigned *room)
{
    for (size_t n = 0; n < part->nnodes; n++) {
        unsigned missed = 0;

        for (size_t i = 0; i < part->nmembers; i++) {
            const struct alloc_member *m = &part->problem->members[part->members[i]];

            if (part->node[i] == n && cores[part->members[i]] < m->own)
                missed += m->own - cores[part->members[i]];
        }
        for (size_t i = 0; i < part->nmembers && missed > room[n]; i++) {
            const struct alloc_member *m = &part->problem->members[part->members[i]];
            unsigned *c = &cores[part->members[i]], keep;

            if (part->node[i] != n || *c <= m->own)
                continue;
            keep = needed(m, *c);
            keep = keep > m->own ? keep : m->own;
            keep = keep > m->min ? keep : m->min;
            while (*c > keep && missed > room[n]) {
                (*c)--;
                room[n]++;
            }
        }
    }
}

/* Does the job read at all? Where bandwidth is short, more cores would only have it read more. */
static bool job_reads(const struct part *part, const struct part_job *job)
{
    for (unsigned k = 0; k < job->nmembers; k++)
        if (member_of(part, job, k)->sample_bytes > 0)
            return true;
    return false;
}

/* Free cores return to members that have fewer than their own, unless more make them slower. */
static void return_own(const struct part *part, const struct part_job *job, unsigned *cores,
                       unsigned *room)
{
    if (isfinite(part->io_limit) && job_reads(part, job))
        return;
    for (unsigned k = 0; k < job->nmembers; k++) {
        const struct alloc_member *m = member_of(part, job, k);
        unsigned *c = &cores[part->members[job->first + k]];
        unsigned *left = &room[part->node[job->first + k]];
        unsigned cap = m->max != 0 && m->max < m->own ? m->max : m->own;

        while (*c<cap && * left> 0 && member_rate(m, *c + 1) >= member_rate(m, *c)) {
            (*c)++;
            (*left)--;
        }
    }
}

int part_give_back(const struct part *part, unsigned *cores, bool kept)
{
    unsigned *room = calloc(part->nnodes, sizeof(*room));

    if (room == NULL)
        return -1;
    for (size_t n = 0; n < part->nnodes; n++)
        room[n] = part->problem->nodes[part->nodes[n]].pool;
    for (size_t i = 0; i < part->nmembers; i++)
        room[part->node[i]] -= cores[part->members[i]];
    if (kept)
        strip_useless(part, cores, room);
    for (size_t j = 0; j < part->njobs; j++)
        return_own(part, &part->jobs[j], cores, room);
    free(room);
    return 0;
}
