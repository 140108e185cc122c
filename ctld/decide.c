/* From claims and curves over allocation and placement to targets. See decide.h. */
#include "config.h"

#include "decide.h"

#include "alloc.h"
#include "claims.h"
#include "demand.h"
#include "log.h"
#include "place.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what belongs together ----------------------------------------------------------------- */

size_t decide_component(const struct decide *decide, struct node *node, struct node **nodes)
{
    size_t found = 0;

    if (node->visit == decide->walk)
        return 0;
    node->visit = decide->walk;
    nodes[found++] = node;
    for (size_t n = 0; n < found; n++) {
        for (size_t i = 0; i < nodes[n]->nmembers; i++) {
            struct job *job = nodes[n]->members[i]->job;

            if (job->visit == decide->walk)
                continue;
            job->visit = decide->walk;
            for (size_t k = 0; k < job->nmembers && found < DECIDE_NODES_MAX; k++) {
                struct node *other = job->members[k]->node;

                if (other->visit == decide->walk)
                    continue;
                other->visit = decide->walk;
                nodes[found++] = other;
            }
        }
    }
    return found;
}

/* ---- claims -------------------------------------------------------------------------------- */

int decide_near(const struct member *member, const struct topo *topo, struct cpus *near)
{
    cpus_clear_all(near);
    for (unsigned i = 0; i < member->ngpus; i++) {
        const struct topo_gpu *gpu = topo_gpu(topo, member->gpus[i]);

        if (gpu != NULL && cpus_or(near, &gpu->local) < 0)
            return -1;
    }
    return 0;
}

static unsigned main_cores(const struct member *member, const struct conf *conf,
                           const struct conf_node *node_conf)
{
    unsigned per_task = conf->main_cores_per_task;
    unsigned tasks = member->tasks > 0 ? member->tasks : 1;

    if (member->cpu_bind[0] != '\0')
        return CPUS_MAX; /* all that it has: nobody else's loaders go where its user put its tasks
                          */
    if (node_conf != NULL && node_conf->main_cores_per_task >= 0)
        per_task = (unsigned)node_conf->main_cores_per_task;
    if (per_task != 0 && tasks > CPUS_MAX / per_task)
        return CPUS_MAX;
    return per_task * tasks;
}

static bool special_step(uint32_t step)
{
    return step == MSG_STEP_BATCH || step == MSG_STEP_INTERACTIVE;
}

int decide_claims(const struct decide *decide, struct node *node)
{
    const struct conf_node *node_conf = registry_node_conf(decide->registry, node, decide->conf);
    const struct topo *topo;
    struct claims_member *c;
    struct cpus *near;
    size_t n = node->nmembers;
    int rc = 0;

    if (!node->claims_stale)
        return 0;
    topo = registry_node_topo(node, node_conf);
    c = calloc(n + 1, sizeof(*c));
    near = calloc(n + 1, sizeof(*near));
    if (topo == NULL || c == NULL || near == NULL)
        rc = -1;
    for (size_t i = 0; i < n && rc == 0; i++) {
        const struct member *m = node->members[i];

        c[i].job = m->job->id;
        c[i].step = m->step;
        c[i].special = special_step(m->step);
        c[i].bystander = m->unconfined;
        c[i].main_cores = main_cores(m, decide->conf, node_conf);
        c[i].own = &m->own;
        c[i].near = &near[i];
        rc = decide_near(m, topo, &near[i]);
    }
    if (rc == 0)
        rc = claims_divide(topo, c, n, node_conf != NULL ? &node_conf->pool : NULL,
                           node_conf != NULL ? &node_conf->reserved : NULL, &node->pool);
    for (size_t i = 0; i < n && rc == 0; i++) {
        cpus_move(&node->members[i]->claim, &c[i].claim);
        cpus_move(&node->members[i]->main, &c[i].main);
        cpus_move(&node->members[i]->place.loader, &c[i].loader);
    }
    for (size_t i = 0; i < n && c != NULL && near != NULL; i++) {
        claims_member_free(&c[i]);
        cpus_free(&near[i]);
    }
    free(c);
    free(near);
    if (rc == 0)
        node->claims_stale = false;
    return rc;
}

#define GUESS_UNCERTAINTY 0.5 /* of a curve that is a guess, and the largest of any */
#define NEWCOMER_REPORTS  3u  /* after which their demand is known well enough */

/* ---- one decision -------------------------------------------------------------------------- */

enum part {              /* that a member plays in a decision */
            PART_OWN,    /* keeps its own loader cores */
            PART_LENDER, /* needs none */
            PART_ACTIVE  /* gets what the allocator says */
};

/*
 * Members that may use each other's cores: all of a node, or with Scope=job those of one job there.
 */
struct site {
    struct node *node;
    size_t first, count; /* of the decision's entries */
    struct cpus pool;
};

struct entry {
    struct member *member;
    size_t site; /* index into the decision's sites */
    enum part part;
    unsigned count; /* allocated */
    struct pred_curve curve;
    struct cpus assigned;
};

struct decision {
    const struct decide *decide;
    struct node **nodes;
    size_t nnodes;
    struct entry *entries; /* grouped by node, in the nodes' order of members */
    size_t nentries;
    struct site *sites; /* in the nodes' order */
    size_t nsites;
    struct alloc_node *pools; /* one a site */
    bool kept;                /* the allocator held on to what is in force */
};

enum member_state decide_state(const struct member *member, const struct conf *conf,
                               uint64_t now_ms)
{
    const struct hints *h = member_hints(member);
    bool hinted = h->workers_min > 0 || h->workers_max > 0 || h->batch > 0 || h->flops > 0 ||
                  h->model[0] != '\0' || h->profile[0] != '\0';

    if (member_is_bystander(member))
        return MEMBER_BYSTANDER;
    if (hinted || member->learned || member->loaders_seen_ms != 0)
        return MEMBER_MANAGED;
    if (now_ms - member->started_ms < conf->learn_ms || member->report_ms == 0)
        return MEMBER_LEARNING;
    return MEMBER_MANAGED;
}

static enum part part_of(const struct member *member, const struct conf *conf, uint64_t now_ms)
{
    if (conf->policy == CONF_POLICY_STATIC)
        return PART_OWN;
    if (member->state == MEMBER_BYSTANDER || member->state == MEMBER_LEARNING)
        return PART_OWN;
    if (member_has_loaders(member, now_ms, conf))
        return PART_ACTIVE;
    /* Declared, and still young enough that its loaders may come. */
    if (!member->learned && now_ms - member->started_ms < conf->learn_ms)
        return PART_ACTIVE;
    return PART_LENDER;
}

/* Does the member begin a site of its own? Members of a node are ordered by job. */
static bool begins_site(const struct decision *d, const struct node *node, size_t k)
{
    return k == 0 || (d->decide->conf->scope == CONF_SCOPE_JOB &&
                      node->members[k]->job != node->members[k - 1]->job);
}

static int add_to_site(struct decision *d, struct node *node, struct entry *e)
{
    struct site *site = &d->sites[d->nsites - 1];

    e->site = d->nsites - 1;
    site->count++;
    if (d->decide->conf->scope == CONF_SCOPE_JOB)
        return cpus_or(&site->pool, &e->member->place.loader);
    return site->count == 1 ? cpus_copy(&site->pool, &node->pool) : 0;
}

static int collect_node(struct decision *d, struct node *node)
{
    const struct decide *decide = d->decide;

    if (decide_claims(decide, node) < 0)
        return -1;
    for (size_t k = 0; k < node->nmembers; k++) {
        struct entry *e = &d->entries[d->nentries];

        if (begins_site(d, node, k))
            d->sites[d->nsites++] = (struct site){node, d->nentries, 0, CPUS_EMPTY};
        d->nentries++;
        e->member = node->members[k];
        e->member->group = UINT_MAX;
        e->member->state = decide_state(e->member, decide->conf, decide->now_ms);
        e->part = part_of(e->member, decide->conf, decide->now_ms);
        if (add_to_site(d, node, e) < 0)
            return -1;
    }
    return 0;
}

static int collect(struct decision *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->nnodes; i++)
        n += d->nodes[i]->nmembers;
    d->entries = calloc(n + 1, sizeof(*d->entries));
    d->sites = calloc(n + 1, sizeof(*d->sites));
    d->pools = calloc(n + 1, sizeof(*d->pools));
    if (d->entries == NULL || d->sites == NULL || d->pools == NULL)
        return -1;
    for (size_t i = 0; i < d->nnodes; i++)
        if (collect_node(d, d->nodes[i]) < 0)
            return -1;
    for (size_t i = 0; i < d->nsites; i++)
        d->pools[i].pool = cpus_count(&d->sites[i].pool);
    for (size_t i = 0; i < d->nentries; i++)
        if (d->entries[i].part == PART_OWN)
            d->pools[d->entries[i].site].pool -= cpus_count(&d->entries[i].member->place.loader);
    return 0;
}

/* Fewer curves, fewer ways to fail: a member whose curve cannot be had keeps its own cores. */
static void make_curves(struct decision *d)
{
    for (size_t i = 0; i < d->nentries; i++) {
        struct entry *e = &d->entries[i];
        unsigned pool = d->pools[e->site].pool;

        if (e->part != PART_ACTIVE)
            continue;
        if (demand_curve(e->member, pool < PRED_CORES_MAX ? pool : PRED_CORES_MAX, &e->curve) < 0) {
            log_warning("job %u on %s: no curve (%s); it keeps its own cores", e->member->job->id,
                        e->member->node->name, strerror(errno));
            e->part = PART_OWN;
            d->pools[e->site].pool -= cpus_count(&e->member->place.loader);
        }
    }
}

/* Cores in force as far as the pool still has them. */
static int in_force(const struct entry *e, const struct cpus *pool, struct cpus *cpus)
{
    const struct recon_member *p = &e->member->place;

    if (cpus_copy(cpus, p->target.own ? &p->loader : &p->target.cpus) < 0)
        return -1;
    cpus_and(cpus, pool);
    return 0;
}

static enum alloc_policy alloc_policy_of(enum conf_policy policy)
{
    switch (policy) {
    case CONF_POLICY_GPU_BUSY:
        return ALLOC_GPU_BUSY;
    case CONF_POLICY_NASH:
        return ALLOC_NASH;
    case CONF_POLICY_MAX_MIN:
        return ALLOC_MAX_MIN;
    case CONF_POLICY_MAKESPAN:
        return ALLOC_MAKESPAN;
    case CONF_POLICY_EVEN:
        return ALLOC_EVEN;
    case CONF_POLICY_STATIC:
        break;
    }
    return ALLOC_STATIC;
}

static enum alloc_guarantee alloc_guarantee_of(enum conf_guarantee guarantee)
{
    switch (guarantee) {
    case CONF_GUARANTEE_OWN:
        return ALLOC_GUARANTEE_OWN;
    case CONF_GUARANTEE_EVEN:
        return ALLOC_GUARANTEE_EVEN;
    case CONF_GUARANTEE_NONE:
        break;
    }
    return ALLOC_GUARANTEE_NONE;
}

/*
 * Members that train together: those of one step, on all its nodes. Two steps of a Slurm job are
 * trainings of their own. The number is given at the first member met.
 */
static unsigned group_of(struct member *member, unsigned *ngroups)
{
    const struct job *job = member->job;

    if (member->group == UINT_MAX) {
        for (size_t i = 0; i < job->nmembers; i++)
            if (job->members[i]->step == member->step)
                job->members[i]->group = *ngroups;
        (*ngroups)++;
    }
    return member->group;
}

/* Its loaders have just started, and what was learned before says nothing about them. */
static bool newcomer(const struct member *m, const struct decide *decide)
{
    return m->loaders_new_ms != 0 && decide->now_ms - m->loaders_new_ms <
                                         (uint64_t)NEWCOMER_REPORTS * decide->conf->report_ms;
}

/* All that is known of its demand is that it is above what it uses, or not even that. */
static bool is_guess(const struct entry *e)
{
    return e->curve.source != PRED_MEASURED || e->member->learner.exploring;
}

/*
 * How uncertain its curve is. From where a verdict or a quota makes it flat, more cores are known
 * to bring nothing: no margin (the allocator takes up to two, part_minimums()) goes beyond.
 */
static double uncertainty(const struct entry *e)
{
    double sd = is_guess(e) ? GUESS_UNCERTAINTY : fmin(GUESS_UNCERTAINTY, e->curve.demand_rel_sd);
    enum pred_limit limit;
    unsigned cap;

    if (!(e->curve.demand > 0) || !demand_cap(e->member, &cap, &limit))
        return sd;
    return fmin(sd, fmax(0, (cap / e->curve.demand - 1) / 2));
}

static int alloc_member_of(const struct decision *d, const struct entry *e, unsigned *ngroups,
                           struct alloc_member *a)
{
    struct member *m = e->member;
    struct cpus now = CPUS_EMPTY;

    if (in_force(e, &d->sites[e->site].pool, &now) < 0)
        return -1;
    *a = (struct alloc_member){
        .job = group_of(m, ngroups),
        .node = (unsigned)e->site,
        .own = cpus_count(&m->place.loader),
        /* What a user says about a job claims no cores; its own are there for new loaders. */
        .min = newcomer(m, d->decide) ? cpus_count(&m->place.loader) : 0,
        .max = newcomer(m, d->decide) ? 0 : member_hints(m)->workers_max,
        .now = cpus_count(&now),
        .weight = 1,
        .gpus = m->ngpus > 0 ? m->ngpus : 1,
        .rate = e->curve.rate,
        .nrate = e->curve.ncores + 1,
        .gpu_rate = e->curve.gpu_rate,
        .demand = e->curve.demand,
        .uncertainty = uncertainty(e),
        .sample_bytes = 0,
        .work = NAN,
    };
    cpus_free(&now);
    return 0;
}

static int solve(struct decision *d, struct alloc_member *members, size_t n, unsigned ngroups,
                 unsigned *cores)
{
    const struct conf *conf = d->decide->conf;
    struct alloc_problem problem = {
        .policy = alloc_policy_of(conf->policy),
        .guarantee = alloc_guarantee_of(conf->guarantee),
        .members = members,
        .nmembers = n,
        .nodes = d->pools,
        .nnodes = d->nsites,
        .njobs = ngroups,
        .io_bytes_per_s = NAN,
        .min_gain = conf->min_gain,
    };
    struct alloc_result result = {.cores = cores};
    char error[256] = "";

    if (alloc_solve(&problem, &result, error, sizeof(error)) == 0) {
        d->kept = result.kept;
        return 0;
    }
    if (errno != EINVAL)
        return -1;
    log_error("the allocator refused its input (%s); everybody there keeps own cores", error);
    for (size_t i = 0; i < n; i++)
        cores[i] = members[i].own;
    return 0;
}

/*
 * Once more from the last answer, which is a floor now, and with no doubt, for members whose demand
 * is a guess, or for everybody.
 */
static int solve_again(struct decision *d, struct alloc_member *members, size_t n, unsigned ngroups,
                       unsigned *cores, bool everybody)
{
    bool any = false, kept = d->kept;
    int rc;

    for (size_t i = 0, k = 0; i < d->nentries; i++) {
        if (d->entries[i].part != PART_ACTIVE)
            continue;
        members[k].now = cores[k];
        if (everybody || is_guess(&d->entries[i])) {
            members[k].min = cores[k];
            members[k].uncertainty = 0;
            any = true;
        }
        k++;
    }
    if (!any)
        return 0;
    rc = solve(d, members, n, ngroups, cores);
    d->kept = d->kept && kept;
    return rc;
}

static bool cores_are_free(const struct decision *d, const struct alloc_member *members, size_t n,
                           const unsigned *cores)
{
    for (size_t s = 0; s < d->nsites; s++) {
        unsigned used = 0;

        for (size_t i = 0; i < n; i++)
            used += members[i].node == s ? cores[i] : 0;
        if (used < d->pools[s].pool)
            return true;
    }
    return false;
}

/*
 * Doubt keeps cores from going back and forth between members (two equal jobs would take one from
 * each other in turns), but it is no reason to leave cores idle: a guess may be tried with what
 * others surely do not need, and what nobody has goes to whoever gains.
 */
static int solve_in_steps(struct decision *d, struct alloc_member *members, size_t n,
                          unsigned ngroups, unsigned *cores)
{
    int rc = solve(d, members, n, ngroups, cores);

    if (d->decide->conf->policy == CONF_POLICY_EVEN)
        return rc;
    if (rc == 0)
        rc = solve_again(d, members, n, ngroups, cores, false);
    if (rc == 0 && cores_are_free(d, members, n, cores))
        rc = solve_again(d, members, n, ngroups, cores, true);
    return rc;
}

static int allocate(struct decision *d)
{
    struct alloc_member *members = calloc(d->nentries + 1, sizeof(*members));
    unsigned *cores = calloc(d->nentries + 1, sizeof(*cores));
    unsigned ngroups = 0;
    size_t n = 0;
    int rc = members != NULL && cores != NULL ? 0 : -1;

    d->decide->registry->problems++;
    for (size_t i = 0; i < d->nentries && rc == 0; i++)
        if (d->entries[i].part == PART_ACTIVE)
            rc = alloc_member_of(d, &d->entries[i], &ngroups, &members[n++]);
    if (rc == 0 && n > 0)
        rc = solve_in_steps(d, members, n, ngroups, cores);
    n = 0;
    for (size_t i = 0; i < d->nentries && rc == 0; i++)
        if (d->entries[i].part == PART_ACTIVE)
            d->entries[i].count = cores[n++];
    free(members);
    free(cores);
    return rc;
}

/* ---- which cores --------------------------------------------------------------------------- */

/* The pool without those who keep their own; these are assigned here. */
static int shared_pool(struct entry *entries, size_t n, const struct site *site, struct cpus *pool)
{
    if (cpus_copy(pool, &site->pool) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (entries[i].part != PART_OWN)
            continue;
        if (cpus_copy(&entries[i].assigned, &entries[i].member->place.loader) < 0)
            return -1;
        cpus_andnot(pool, &entries[i].assigned);
    }
    return 0;
}

static int fill_place_member(const struct entry *e, const struct topo *topo,
                             const struct cpus *pool, struct place_member *p)
{
    const struct member *m = e->member;

    p->job = m->job->id;
    p->count = e->count;
    if (cpus_copy(&p->claim, &m->place.loader) < 0 || in_force(e, pool, &p->held) < 0 ||
        decide_near(m, topo, &p->near) < 0)
        return -1;
    cpus_and(&p->claim, pool);
    return 0;
}

static int place_active(struct entry *entries, size_t n, const struct topo *topo,
                        const struct cpus *pool)
{
    struct place_member *p = calloc(n + 1, sizeof(*p));
    size_t np = 0;
    int rc = p != NULL ? 0 : -1;

    for (size_t i = 0; i < n && rc == 0; i++)
        if (entries[i].part == PART_ACTIVE)
            rc = fill_place_member(&entries[i], topo, pool, &p[np++]);
    if (rc == 0 && np > 0)
        rc = place_loaders(topo, pool, p, np);
    np = 0;
    for (size_t i = 0; i < n && p != NULL; i++) {
        if (entries[i].part != PART_ACTIVE)
            continue;
        if (rc == 0)
            cpus_move(&entries[i].assigned, &p[np].cpus);
        cpus_free(&p[np].cpus);
        cpus_free(&p[np].claim);
        cpus_free(&p[np].held);
        cpus_free(&p[np].near);
        np++;
    }
    free(p);
    return rc;
}

/*
 * Cores of its own that nobody was given stay with their owner: lent is only what somebody uses.
 * They replace borrowed ones first.
 */
static int keep_unused(struct entry *e, struct cpus *free_cpus)
{
    struct cpus back = CPUS_EMPTY, borrowed = CPUS_EMPTY;
    const struct cpus *loader = &e->member->place.loader;
    int rc = 0;

    if (!cpus_intersects(loader, free_cpus))
        return 0;
    rc = cpus_copy(&back, free_cpus);
    if (rc == 0)
        rc = cpus_copy(&borrowed, &e->assigned);
    if (rc == 0) {
        long b = -1;

        cpus_and(&back, loader);
        cpus_andnot(&borrowed, loader);
        for (unsigned k = cpus_count(&back); k > 0 && rc == 0; k--) {
            b = cpus_next(&borrowed, (unsigned long)(b + 1));
            if (b < 0)
                break;
            cpus_clear(&e->assigned, (unsigned)b);
            rc = cpus_set(free_cpus, (unsigned)b);
        }
    }
    if (rc == 0)
        rc = cpus_or(&e->assigned, &back);
    if (rc == 0)
        cpus_andnot(free_cpus, &back);
    cpus_free(&back);
    cpus_free(&borrowed);
    return rc;
}

static int place_site(struct decision *d, const struct site *site)
{
    struct node *node = site->node;
    struct entry *entries = &d->entries[site->first];
    const struct topo *topo = registry_node_topo(node, node->conf);
    struct cpus pool = CPUS_EMPTY;
    size_t n = site->count;
    int rc = topo != NULL ? shared_pool(entries, n, site, &pool) : -1;

    if (rc == 0 && place_active(entries, n, topo, &pool) < 0) {
        log_error("node %s: placement failed (%s)", node->name, strerror(errno));
        rc = -1;
    }
    for (size_t i = 0; i < n && rc == 0; i++)
        cpus_andnot(&pool, &entries[i].assigned);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (entries[i].part != PART_OWN)
            rc = keep_unused(&entries[i], &pool);
    cpus_free(&pool);
    return rc;
}

/* What of the node's pool is assigned to nobody. */
static int note_free(const struct entry *entries, size_t n, struct node *node)
{
    if (cpus_copy(&node->free, &node->pool) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        cpus_andnot(&node->free, &entries[i].assigned);
    return 0;
}

/* ---- targets ------------------------------------------------------------------------------- */

/* CPUs that are assigned to somebody who did not get them from Slurm. */
static int foreign_of(const struct entry *entries, size_t n, struct cpus *foreign)
{
    struct cpus some = CPUS_EMPTY;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = cpus_copy(&some, &entries[i].assigned);
        if (rc == 0) {
            cpus_andnot(&some, &entries[i].member->own);
            rc = cpus_or(foreign, &some);
        }
    }
    cpus_free(&some);
    return rc;
}

static void write_reason(const struct decision *d, const struct entry *e, char *buf, size_t size)
{
    const struct member *m = e->member;
    unsigned own = cpus_count(&m->place.loader), have = cpus_count(&e->assigned);
    struct cpus part = CPUS_EMPTY;
    unsigned borrowed = 0, lent = 0;
    char demand[48] = "unknown demand";

    if (cpus_copy(&part, &e->assigned) == 0) {
        cpus_andnot(&part, &m->place.loader);
        borrowed = cpus_count(&part);
        lent = own - (have - borrowed);
    }
    cpus_free(&part);
    if (e->part == PART_ACTIVE && e->curve.source != PRED_UNKNOWN)
        (void)snprintf(demand, sizeof(demand), "demand of about %.1f cores", e->curve.demand);

    if (d->decide->conf->policy == CONF_POLICY_STATIC)
        (void)snprintf(buf, size, "policy static: everybody keeps the own %u loader cores", own);
    else if (m->state == MEMBER_BYSTANDER && m->cpu_bind[0] != '\0')
        (void)snprintf(buf, size,
                       "its user has bound its tasks (--cpu-bind=%s): they stay as they are, "
                       "and nobody else gets their CPUs",
                       m->cpu_bind);
    else if (m->state == MEMBER_BYSTANDER)
        (void)snprintf(buf, size, "its CPUs are not known, so nothing is done to it");
    else if (m->state == MEMBER_LEARNING)
        (void)snprintf(buf, size, "keeps its own %u loader cores until its loaders have been seen",
                       own);
    else if (e->part == PART_LENDER && lent > 0)
        (void)snprintf(buf, size, "no loader tasks seen: lends %u of its %u loader cores", lent,
                       own);
    else if (e->part == PART_LENDER)
        (void)snprintf(buf, size, "no loader tasks seen, but nobody needs its %u loader cores",
                       own);
    else if (borrowed > 0 && lent > 0)
        (void)snprintf(buf, size, "%s: borrows %u and lends %u of its own %u", demand, borrowed,
                       lent, own);
    else if (borrowed > 0)
        (void)snprintf(buf, size, "%s: borrows %u beside its own %u", demand, borrowed, own);
    else if (lent > 0)
        (void)snprintf(buf, size, "%s: lends %u of its own %u", demand, lent, own);
    else if (d->kept)
        (void)snprintf(buf, size, "%s: its own %u; no change is worth its cost", demand, own);
    else
        (void)snprintf(buf, size, "%s: its own %u, nothing better to be had", demand, own);
}

static void log_change(const struct member *m, const struct cpus *before, const char *reason)
{
    char name[64];
    char *old = cpus_to_string(before), *new = cpus_to_string(&m->place.target.cpus);

    member_name(m, name, sizeof(name));
    log_info("%s on %s: cpus %s -> %s%s (%s)", name, m->node->name, old != NULL ? old : "?",
             new != NULL ? new : "?", m->place.target.own ? " (own placement)" : "", reason);
    free(old);
    free(new);
}

static void set_reason(struct member *m, const char *reason)
{
    char *copy;

    if (m->reason != NULL && strcmp(m->reason, reason) == 0)
        return;
    copy = strdup(reason);
    if (copy == NULL)
        return;
    free(m->reason);
    m->reason = copy;
}

static int set_target(const struct decision *d, struct entry *e, const struct cpus *foreign,
                      bool *changed)
{
    struct member *m = e->member;
    struct recon_place *target = &m->place.target;
    struct cpus before = CPUS_EMPTY;
    char reason[256];

    if (cpus_copy(&before, &target->cpus) < 0 || cpus_copy(&target->cpus, &e->assigned) < 0) {
        cpus_free(&before);
        return -1;
    }
    target->own = cpus_equal(&e->assigned, &m->place.loader) && !cpus_intersects(&m->own, foreign);
    write_reason(d, e, reason, sizeof(reason));
    *changed = !cpus_equal(&before, &target->cpus);
    if (*changed) {
        member_note(m, d->decide->now_ms, reason);
        log_change(m, &before, reason);
    }
    set_reason(m, reason);
    cpus_free(&before);
    return 0;
}

/* What status shows and what later reports are compared with. */
static void remember(const struct decision *d, struct entry *e)
{
    struct member *m = e->member;
    unsigned have = cpus_count(&e->assigned);

    demand_remember(m, member_has_loaders(m, d->decide->now_ms, d->decide->conf));
    if (m->state == MEMBER_MANAGED && e->part == PART_LENDER)
        m->learned = true;
    m->demand = e->part == PART_LENDER ? 0.0f : NAN;
    m->limit = PRED_LIMIT_UNKNOWN;
    if (e->curve.rate == NULL || e->curve.source == PRED_UNKNOWN)
        return;
    m->demand = (float)e->curve.demand;
    m->limit = (enum pred_limit)e->curve.limit[have < e->curve.ncores ? have : e->curve.ncores];
}

static int finish_node(struct decision *d, struct node *node, struct entry *entries, size_t n,
                       size_t *changed)
{
    struct cpus foreign = CPUS_EMPTY;
    int rc = foreign_of(entries, n, &foreign);

    if (rc == 0)
        rc = note_free(entries, n, node);

    for (size_t i = 0; i < n && rc == 0; i++) {
        bool moved = false;

        rc = set_target(d, &entries[i], &foreign, &moved);
        if (rc < 0)
            break;
        remember(d, &entries[i]);
        if (moved) {
            (*changed)++;
            node->changed_ms = d->decide->now_ms;
        }
    }
    cpus_free(&foreign);
    return rc;
}

static void decision_free(struct decision *d)
{
    for (size_t i = 0; i < d->nentries; i++) {
        pred_curve_free(&d->entries[i].curve);
        cpus_free(&d->entries[i].assigned);
    }
    for (size_t i = 0; i < d->nsites; i++)
        cpus_free(&d->sites[i].pool);
    free(d->entries);
    free(d->sites);
    free(d->pools);
}

int decide_targets(const struct decide *decide, struct node **nodes, size_t nnodes, size_t *changed)
{
    struct decision d = {.decide = decide, .nodes = nodes, .nnodes = nnodes};
    int rc = collect(&d);

    *changed = 0;
    if (rc == 0) {
        make_curves(&d);
        rc = allocate(&d);
    }
    /* Place everywhere before anything is set: all or nothing. */
    for (size_t i = 0; i < d.nsites && rc == 0; i++)
        rc = place_site(&d, &d.sites[i]);
    for (size_t i = 0, first = 0; i < nnodes && rc == 0; first += nodes[i++]->nmembers)
        rc = finish_node(&d, nodes[i], &d.entries[first], nodes[i]->nmembers, changed);
    decision_free(&d);
    return rc;
}
