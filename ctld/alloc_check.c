/* Is a problem consistent? What it cannot be is refused with a sentence. */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define POOL_MAX 65536u

__attribute__((format(printf, 3, 4))) static int refuse(char *error, size_t size,
                                                        const char *format, ...)
{
    va_list ap;

    if (error != NULL && size > 0) {
        va_start(ap, format);
        if (vsnprintf(error, size, format, ap) < 0)
            error[0] = '\0';
        va_end(ap);
    }
    errno = EINVAL;
    return -1;
}

static bool positive(double x)
{
    return isfinite(x) && x > 0;
}

static bool not_negative(double x)
{
    return isfinite(x) && x >= 0;
}

static int check_member(const struct alloc_problem *p, size_t i, char *error, size_t size)
{
    const struct alloc_member *m = &p->members[i];

    if (m->job >= p->njobs)
        return refuse(error, size, "member %zu: job %u, but there are %zu", i, m->job, p->njobs);
    if (m->node >= p->nnodes)
        return refuse(error, size, "member %zu: node %u, but there are %zu", i, m->node, p->nnodes);
    if (m->rate == NULL || m->nrate == 0)
        return refuse(error, size, "member %zu has no curve", i);
    for (unsigned c = 0; c < m->nrate; c++)
        if (!not_negative(m->rate[c]))
            return refuse(error, size, "member %zu: its rate with %u cores is %g", i, c,
                          m->rate[c]);
    if (!positive(m->gpu_rate))
        return refuse(error, size, "member %zu: GPU rate %g must be above 0", i, m->gpu_rate);
    if (!positive(m->weight))
        return refuse(error, size, "member %zu: weight %g must be above 0", i, m->weight);
    if (!positive(m->gpus))
        return refuse(error, size, "member %zu: %g GPUs must be above 0", i, m->gpus);
    if (m->max != 0 && m->max < m->min)
        return refuse(error, size, "member %zu: at most %u cores is less than at least %u", i,
                      m->max, m->min);
    if (!not_negative(m->uncertainty))
        return refuse(error, size, "member %zu: uncertainty %g must be 0 or more", i,
                      m->uncertainty);
    if (!not_negative(m->sample_bytes))
        return refuse(error, size, "member %zu: %g bytes a sample must be 0 or more", i,
                      m->sample_bytes);
    if (!isnan(m->work) && !not_negative(m->work))
        return refuse(error, size, "member %zu: %g samples left must be 0 or more", i, m->work);
    return 0;
}

int alloc_check(const struct alloc_problem *p, char *error, size_t size)
{
    if ((size_t)p->policy > ALLOC_STATIC)
        return refuse(error, size, "unknown policy %d", (int)p->policy);
    if ((size_t)p->guarantee > ALLOC_GUARANTEE_NONE)
        return refuse(error, size, "unknown guarantee %d", (int)p->guarantee);
    if (!isnan(p->io_bytes_per_s) && !not_negative(p->io_bytes_per_s))
        return refuse(error, size, "I/O bandwidth %g must be 0 or more", p->io_bytes_per_s);
    if (!not_negative(p->effort))
        return refuse(error, size, "effort %g must be 0 or more", p->effort);
    if (!not_negative(p->min_gain))
        return refuse(error, size, "minimum gain %g must be 0 or more", p->min_gain);
    if (p->nmembers > UINT32_MAX || p->nnodes > UINT32_MAX || p->njobs > UINT32_MAX)
        return refuse(error, size, "too many members, nodes or jobs");
    for (size_t n = 0; n < p->nnodes; n++)
        if (p->nodes[n].pool > POOL_MAX)
            return refuse(error, size, "node %zu: a pool of %u cores is above %u", n,
                          p->nodes[n].pool, POOL_MAX);
    for (size_t i = 0; i < p->nmembers; i++)
        if (check_member(p, i, error, size) < 0)
            return -1;
    return 0;
}
