/*
 * The allocator's front: checks the problem, takes it apart into components that share no node,
 * has each solved by its policy, and decides whether the answer is worth moving for.
 */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POOL_MAX 65536u
/* Relative differences below this are rounding. */
#define EQUAL 1e-9
/* However uncertain a curve is, what is in force may miss the floor by no more than this fraction.
 */
#define FLOOR_SLACK_MAX 0.1

static const char *const policy_names[] = {"gpu-busy", "nash", "max-min",
                                           "makespan", "even", "static"};
static const char *const guarantee_names[] = {"own", "even", "none"};

static int name_parse(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; name != NULL && i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

const char *alloc_policy_name(enum alloc_policy policy)
{
    size_t n = sizeof(policy_names) / sizeof(*policy_names);

    return (size_t)policy < n ? policy_names[policy] : "unknown";
}

int alloc_policy_parse(const char *name)
{
    return name_parse(policy_names, sizeof(policy_names) / sizeof(*policy_names), name);
}

const char *alloc_guarantee_name(enum alloc_guarantee guarantee)
{
    size_t n = sizeof(guarantee_names) / sizeof(*guarantee_names);

    return (size_t)guarantee < n ? guarantee_names[guarantee] : "unknown";
}

int alloc_guarantee_parse(const char *name)
{
    return name_parse(guarantee_names, sizeof(guarantee_names) / sizeof(*guarantee_names), name);
}

/* ---- checking ------------------------------------------------------------------------------ */

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

static int check(const struct alloc_problem *p, char *error, size_t size)
{
    if ((size_t)p->policy >= sizeof(policy_names) / sizeof(*policy_names))
        return refuse(error, size, "unknown policy %d", (int)p->policy);
    if ((size_t)p->guarantee >= sizeof(guarantee_names) / sizeof(*guarantee_names))
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

/* ---- components ---------------------------------------------------------------------------- */

/* Members by node and by job, and what has been visited. */
struct graph {
    unsigned *node_start,
        *node_members; /* node n: node_members[node_start[n] .. node_start[n + 1]) */
    unsigned *job_start, *job_members;
    unsigned *local; /* node -> its number inside the component */
    bool *node_seen, *job_seen;
    unsigned *queue; /* nodes of the component */
    unsigned *jobs;  /* jobs of the component */
};

static void graph_free(struct graph *g)
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

static int graph_build(const struct alloc_problem *p, struct graph *g)
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

struct reach {
    size_t nnodes, njobs, nmembers;
};

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
static struct reach explore(const struct alloc_problem *p, struct graph *g, unsigned node,
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

static void part_free(struct part *part)
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

static int part_build(const struct alloc_problem *p, struct graph *g, struct reach r,
                      struct part *part)
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

/* ---- worth moving? ------------------------------------------------------------------------- */

static const struct alloc_member *member_of(const struct part *part, const struct part_job *job,
                                            unsigned k)
{
    return &part->problem->members[part->members[job->first + k]];
}

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

static double value_with(const struct part *part, const unsigned *cores)
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
static int now_is_feasible(const struct part *part, bool *feasible)
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
            double scale = nash ? w : fmax(value_now, value_new);

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

/* ---- what nobody needs goes back to whom it belongs ---------------------------------------- */

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

static int give_back(const struct part *part, unsigned *cores, bool kept)
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

/* ---- solving ------------------------------------------------------------------------------- */

/* Everybody keeps the own cores; where a pool cannot hold them all, in proportion. */
static int solve_static(const struct part *part, unsigned *count)
{
    unsigned long *want = calloc(part->nnodes, sizeof(*want));

    if (want == NULL)
        return -1;
    for (size_t i = 0; i < part->nmembers; i++) {
        const struct alloc_member *m = &part->problem->members[part->members[i]];

        count[i] = m->own > m->min ? m->own : m->min;
        if (m->max != 0 && count[i] > m->max)
            count[i] = m->max;
        want[part->node[i]] += count[i];
    }
    for (size_t i = 0; i < part->nmembers; i++) {
        unsigned long pool = part->problem->nodes[part->nodes[part->node[i]]].pool;

        if (want[part->node[i]] > pool)
            count[i] = (unsigned)(count[i] * pool / want[part->node[i]]);
    }
    free(want);
    return 0;
}

static int solve_fixed_rule(struct part *part, struct alloc_result *result)
{
    unsigned *count = calloc(part->nmembers, sizeof(*count));
    int rc = -1;

    if (count == NULL)
        return -1;
    rc = part->problem->policy == ALLOC_EVEN ? part_even(part, count) : solve_static(part, count);
    for (size_t i = 0; rc == 0 && i < part->nmembers; i++)
        result->cores[part->members[i]] = count[i];
    part->bound = value_with(part, result->cores);
    free(count);
    return rc;
}

static int solve_levels(struct part *part)
{
    if (!policy_adds(part->problem->policy))
        return part_solve_lowest(part);
    return part_solve_sum(part);
}

static void write_levels(const struct part *part, unsigned *cores)
{
    for (size_t j = 0; j < part->njobs; j++) {
        const struct part_job *job = &part->jobs[j];

        for (unsigned k = 0; k < job->nmembers; k++)
            cores[part->members[job->first + k]] =
                job->cores[(size_t)job->level * job->nmembers + k];
    }
}

/*
 * Once something has to change, that is no reason to change everything: solve again, with a price
 * on each moved core of the wanted minimum gain times what a core brings on the average.
 */
static int solve_with_price(struct part *part, unsigned *cores)
{
    double value = 0, pool = 0, bound = part->bound;
    int rc;

    if (!policy_adds(part->problem->policy) || part->problem->min_gain <= 0)
        return 0;
    for (size_t n = 0; n < part->nnodes; n++)
        pool += part->problem->nodes[part->nodes[n]].pool;
    for (size_t j = 0; j < part->njobs; j++)
        for (unsigned k = 0; k < part->jobs[j].nmembers; k++) {
            const struct alloc_member *m = member_of(part, &part->jobs[j], k);

            /* under Nash welfare the unit is the logarithm of a rate */
            value += m->weight * (part->problem->policy == ALLOC_NASH
                                      ? 1
                                      : m->gpus * part->jobs[j].share[part->jobs[j].level]);
        }
    if (pool <= 0)
        return 0;
    part->move_price = part->problem->min_gain * value / pool;
    rc = part_solve_sum(part);
    if (rc == 0)
        write_levels(part, cores);
    part->bound = bound;
    return rc;
}

static int keep_or_move(struct part *part, struct alloc_result *result, double *value_now)
{
    bool feasible, worth = true;

    *value_now = NAN;
    if (now_is_feasible(part, &feasible) < 0)
        return -1;
    if (feasible) {
        *value_now = value_with(part, NULL);
        if (policy_adds(part->problem->policy))
            worth = sum_is_worth_it(part, result->cores);
        else if (lowest_is_worth_it(part, result->cores, &worth) < 0)
            return -1;
    }
    if (worth) {
        result->kept = false;
        if (solve_with_price(part, result->cores) < 0)
            return -1;
        return give_back(part, result->cores, false);
    }
    for (size_t i = 0; i < part->nmembers; i++)
        result->cores[part->members[i]] = part->problem->members[part->members[i]].now;
    return give_back(part, result->cores, true);
}

/* I/O matters only where all jobs at their best would ask for more than there is. */
static double io_wanted(const struct alloc_problem *p)
{
    double io = 0;

    for (size_t i = 0; i < p->nmembers; i++) {
        const struct alloc_member *m = &p->members[i];
        double best = 0;

        for (unsigned c = 0; m->sample_bytes > 0 && c < m->nrate; c++)
            best = fmax(best, m->rate[c]);
        io += m->sample_bytes * best;
    }
    return io;
}

static void account(const struct part *part, struct alloc_result *result, double value_now)
{
    double value = value_with(part, result->cores), bound = fmax(part->bound, value);

    if (policy_adds(part->problem->policy)) {
        result->value += value;
        result->upper_bound += bound;
        result->value_now += value_now;
    } else {
        result->value = fmin(result->value, value);
        result->upper_bound = fmin(result->upper_bound, bound);
        result->value_now =
            isnan(value_now) || isnan(result->value_now) ? NAN : fmin(result->value_now, value_now);
    }
    for (size_t i = 0; i < part->nmembers; i++) {
        unsigned now = part->problem->members[part->members[i]].now;
        unsigned cores = result->cores[part->members[i]];

        result->moves += cores > now ? cores - now : 0;
    }
}

/* What the jobs would read with their guaranteed cores is theirs, whatever the device can do. */
static void allow_io_of_floors(struct part *part)
{
    double io = 0;

    for (size_t j = 0; j < part->njobs; j++)
        io += part->jobs[j].io[part->jobs[j].floor];
    part->io_limit = fmax(part->io_limit, io);
}

static int solve_part(struct part *part, struct alloc_result *result)
{
    double value_now = NAN;
    int rc;

    if (part->problem->policy == ALLOC_EVEN || part->problem->policy == ALLOC_STATIC) {
        rc = solve_fixed_rule(part, result);
        result->kept = false;
        value_now = value_with(part, NULL);
    } else {
        rc = part_build_levels(part);
        if (rc == 0)
            allow_io_of_floors(part);
        if (rc == 0)
            rc = solve_levels(part);
        if (rc == 0) {
            write_levels(part, result->cores);
            rc = keep_or_move(part, result, &value_now);
        }
    }
    if (rc == 0)
        account(part, result, value_now);
    return rc;
}

static int solve_all(const struct alloc_problem *p, struct graph *g, struct alloc_result *result)
{
    bool coupled = !isnan(p->io_bytes_per_s) && io_wanted(p) > p->io_bytes_per_s;
    int rc = 0;

    for (size_t n = 0; rc == 0 && n < p->nnodes; n++) {
        struct part part;
        struct reach r;

        if (g->node_seen[n] || g->node_start[n] == g->node_start[n + 1])
            continue;
        r = explore(p, g, (unsigned)n, coupled);
        rc = part_build(p, g, r, &part);
        if (rc == 0) {
            for (size_t i = 0; coupled && i < part.nmembers; i++)
                if (p->members[part.members[i]].sample_bytes > 0)
                    part.io_limit = p->io_bytes_per_s;
            rc = solve_part(&part, result);
        }
        part_free(&part);
    }
    return rc;
}

int alloc_solve(const struct alloc_problem *problem, struct alloc_result *result, char *error,
                size_t error_size)
{
    struct graph g = {0};
    bool adds;
    int rc;

    if (check(problem, error, error_size) < 0)
        return -1;
    adds = policy_adds(problem->policy);
    result->value = result->upper_bound = result->value_now = adds ? 0 : INFINITY;
    result->moves = 0;
    result->kept = true;
    if (graph_build(problem, &g) < 0)
        return -1;
    rc = solve_all(problem, &g, result);
    graph_free(&g);
    if (!adds && problem->nmembers == 0)
        result->value = result->upper_bound = result->value_now = 0;
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}
