/*
 * What a decision costs: allocation and placement on one node against members and PUs, and one
 * event in a large machine room against the number of nodes. Prints tables; nothing passes or
 * fails.
 *
 *     tests/bench/allocate [REPEATS]
 */
#include "config.h"

#include "alloc.h"
#include "alloc_cases.h"
#include "place.h"
#include "topo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CURVE_MAX 33 /* points of a curve in the machine room */

/* CPU time of this thread: what a decision costs, whoever else the machine serves. */
static double now_us(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        return 0;
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(double *values, unsigned n, double q)
{
    qsort(values, n, sizeof(*values), compare_double);
    return values[(unsigned)(q * (n - 1))];
}

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "allocate: %s\n", what);
    exit(1);
}

/* ---- one node ------------------------------------------------------------------------------ */

struct bench_node {
    struct topo *topo;
    struct cpus pool;
    struct alloc_member *members;
    struct place_member *places;
    double *rates;
    unsigned *cores;
    unsigned nmembers, pus, npoints;
};

static struct topo *make_topo(unsigned pus)
{
    char text[128], error[256];
    unsigned cores = pus / 2, packages = cores >= 8 ? 2 : 1;
    unsigned l3 = cores / packages >= 8 ? cores / packages / 8 : 1;
    struct topo *topo;

    snprintf(text, sizeof(text), "pack:%u numa:1 l3:%u core:%u pu:2", packages, l3,
             cores / packages / l3);
    topo = topo_from_synthetic(text, error, sizeof(error));
    if (topo == NULL)
        die(error);
    return topo;
}

/* Members own equal blocks of PUs and want very different numbers. */
static void node_make(struct bench_node *b, struct dice *dice, unsigned members, unsigned pus)
{
    unsigned next = 0;

    *b = (struct bench_node){.topo = make_topo(pus), .nmembers = members};
    b->pus = (unsigned)b->topo->npus;
    b->npoints = b->pus + 1;
    b->members = calloc(members, sizeof(*b->members));
    b->places = calloc(members, sizeof(*b->places));
    b->rates = calloc((size_t)members * b->npoints, sizeof(*b->rates));
    b->cores = calloc(members, sizeof(*b->cores));
    if (b->members == NULL || b->places == NULL || b->rates == NULL || b->cores == NULL)
        die("out of memory");
    for (unsigned i = 0; i < members; i++) {
        struct place_member *p = &b->places[i];

        for (; next < (i + 1) * b->pus / members; next++)
            if (cpus_set(&p->claim, b->topo->pus[next].os) < 0 ||
                cpus_set(&b->pool, b->topo->pus[next].os) < 0)
                die("out of memory");
        if (cpus_copy(&p->held, &p->claim) < 0)
            die("out of memory");
        p->job = i;
        b->members[i] = (struct alloc_member){.job = i,
                                              .own = cpus_count(&p->claim),
                                              .weight = 1,
                                              .gpus = 1,
                                              .rate = b->rates + (size_t)i * b->npoints,
                                              .nrate = b->npoints,
                                              .work = NAN};
        b->members[i].now = b->members[i].own;
        b->members[i].gpu_rate =
            cases_curve(dice, b->rates + (size_t)i * b->npoints, b->npoints, false);
    }
}

static void node_free(struct bench_node *b)
{
    for (unsigned i = 0; i < b->nmembers; i++) {
        cpus_free(&b->places[i].claim);
        cpus_free(&b->places[i].held);
        cpus_free(&b->places[i].cpus);
    }
    cpus_free(&b->pool);
    topo_free(b->topo);
    free(b->members);
    free(b->places);
    free(b->rates);
    free(b->cores);
}

/* One decision after a member's curve has changed. */
static void node_decide(struct bench_node *b, double *alloc_us, double *place_us)
{
    const struct alloc_node node = {cpus_count(&b->pool)};
    const struct alloc_problem p = {.policy = ALLOC_GPU_BUSY,
                                    .guarantee = ALLOC_GUARANTEE_OWN,
                                    .members = b->members,
                                    .nmembers = b->nmembers,
                                    .nodes = &node,
                                    .nnodes = 1,
                                    .njobs = b->nmembers,
                                    .io_bytes_per_s = NAN};
    struct alloc_result r = {.cores = b->cores};
    char error[256];
    double start = now_us(), middle;

    if (alloc_solve(&p, &r, error, sizeof(error)) < 0)
        die(error);
    middle = now_us();
    for (unsigned i = 0; i < b->nmembers; i++)
        b->places[i].count = b->cores[i];
    if (place_loaders(b->topo, &b->pool, b->places, b->nmembers) < 0)
        die("cannot place");
    *alloc_us = middle - start;
    *place_us = now_us() - middle;
    for (unsigned i = 0; i < b->nmembers; i++) {
        cpus_move(&b->places[i].held, &b->places[i].cpus);
        b->members[i].now = b->cores[i];
    }
}

static void one_node(unsigned members, unsigned pus, unsigned repeats)
{
    double *alloc_us = calloc(3 * (size_t)repeats, sizeof(double));
    double *place_us = alloc_us + repeats, *both = place_us + repeats;
    struct dice dice = {members * 131u + pus};
    struct bench_node b;

    if (alloc_us == NULL)
        die("out of memory");
    node_make(&b, &dice, members, pus);
    node_decide(&b, &alloc_us[0], &place_us[0]);
    for (unsigned n = 0; n < repeats; n++) {
        unsigned i = dice_below(&dice, members);

        b.members[i].gpu_rate =
            cases_curve(&dice, b.rates + (size_t)i * b.npoints, b.npoints, false);
        node_decide(&b, &alloc_us[n], &place_us[n]);
        both[n] = alloc_us[n] + place_us[n];
    }
    printf("%8u %8u %12.1f %12.1f %12.1f %12.1f\n", b.pus, members,
           quantile(alloc_us, repeats, 0.5), quantile(place_us, repeats, 0.5),
           quantile(both, repeats, 0.5), quantile(both, repeats, 0.99));
    node_free(&b);
    free(alloc_us);
}

/* ---- a machine room ------------------------------------------------------------------------ */

struct room {
    unsigned nnodes, per_node, block;
    struct alloc_member *members;
    double *rates;
    unsigned *of_job; /* a job: its members follow each other from here */
    unsigned *job_size;
    unsigned *node_members; /* [node][per_node] */
    unsigned *filled;
    size_t nmembers, njobs;
    unsigned *node_visit, *job_visit, walk;
    unsigned *local;
};

static void room_add(struct room *r, struct dice *dice, unsigned first_node, unsigned nodes)
{
    double g = 0;

    r->of_job[r->njobs] = (unsigned)r->nmembers;
    r->job_size[r->njobs] = nodes;
    for (unsigned k = 0; k < nodes; k++) {
        struct alloc_member *m = &r->members[r->nmembers];
        double *rate = r->rates + r->nmembers * CURVE_MAX;
        unsigned node = first_node + k;

        if (k == 0)
            g = cases_curve(dice, rate, CURVE_MAX, false);
        else
            memcpy(rate, rate - CURVE_MAX, CURVE_MAX * sizeof(*rate));
        *m = (struct alloc_member){.job = (unsigned)r->njobs,
                                   .node = node,
                                   .own = 4,
                                   .now = 4,
                                   .weight = 1,
                                   .gpus = 1,
                                   .rate = rate,
                                   .nrate = CURVE_MAX,
                                   .gpu_rate = g,
                                   .work = NAN};
        r->node_members[(size_t)node * r->per_node + r->filled[node]++] = (unsigned)r->nmembers++;
    }
    r->njobs++;
}

/* Every node is full; in each block of nodes some jobs span two of them. */
static void room_make(struct room *r, struct dice *dice, unsigned nnodes, unsigned per_node,
                      unsigned block)
{
    size_t most = (size_t)nnodes * per_node;

    *r = (struct room){.nnodes = nnodes, .per_node = per_node, .block = block};
    r->members = calloc(most, sizeof(*r->members));
    r->rates = calloc(most * CURVE_MAX, sizeof(*r->rates));
    r->of_job = calloc(most, sizeof(unsigned));
    r->job_size = calloc(most, sizeof(unsigned));
    r->node_members = calloc(most, sizeof(unsigned));
    r->filled = calloc(nnodes, sizeof(unsigned));
    r->node_visit = calloc(nnodes, sizeof(unsigned));
    r->job_visit = calloc(most, sizeof(unsigned));
    r->local = calloc(nnodes, sizeof(unsigned));
    if (r->members == NULL || r->rates == NULL || r->of_job == NULL || r->job_size == NULL ||
        r->node_members == NULL || r->filled == NULL || r->node_visit == NULL ||
        r->job_visit == NULL || r->local == NULL)
        die("out of memory");
    for (unsigned n = 0; n < nnodes; n++)
        while (r->filled[n] < per_node) {
            bool two = n + 1 < nnodes && (n + 1) % block != 0 && r->filled[n + 1] < per_node &&
                       dice_below(dice, 5) == 0;

            room_add(r, dice, n, two ? 2 : 1);
        }
}

static void room_free(struct room *r)
{
    free(r->members);
    free(r->rates);
    free(r->of_job);
    free(r->job_size);
    free(r->node_members);
    free(r->filled);
    free(r->node_visit);
    free(r->job_visit);
    free(r->local);
}

/* What an event on a node touches, as a problem of its own; as a controller would gather it. */
static size_t room_gather(struct room *r, unsigned node, struct alloc_member *members,
                          unsigned *nodes, size_t *nnodes, size_t *njobs)
{
    size_t n = 0;

    r->walk++;
    *nnodes = *njobs = 0;
    r->node_visit[node] = r->walk;
    nodes[(*nnodes)++] = node;
    for (size_t i = 0; i < *nnodes; i++) {
        r->local[nodes[i]] = (unsigned)i;
        for (unsigned k = 0; k < r->filled[nodes[i]]; k++) {
            unsigned job = r->members[r->node_members[(size_t)nodes[i] * r->per_node + k]].job;

            if (r->job_visit[job] == r->walk)
                continue;
            r->job_visit[job] = r->walk;
            for (unsigned o = 0; o < r->job_size[job]; o++) {
                unsigned other = r->members[r->of_job[job] + o].node;

                members[n] = r->members[r->of_job[job] + o];
                members[n++].job = (unsigned)*njobs;
                if (r->node_visit[other] != r->walk) {
                    r->node_visit[other] = r->walk;
                    nodes[(*nnodes)++] = other;
                }
            }
            (*njobs)++;
        }
    }
    for (size_t i = 0; i < n; i++)
        members[i].node = r->local[members[i].node];
    return n;
}

static void machine_room(unsigned nnodes, unsigned per_node, unsigned block, unsigned repeats)
{
    struct dice dice = {nnodes + 7u * block};
    struct room r;
    double *us, members_sum = 0;
    struct alloc_member *members;
    struct alloc_node *pools;
    unsigned *nodes, *cores;

    room_make(&r, &dice, nnodes, per_node, block);
    us = calloc(repeats, sizeof(*us));
    members = calloc(r.nmembers, sizeof(*members));
    pools = calloc(nnodes, sizeof(*pools));
    nodes = calloc(nnodes, sizeof(*nodes));
    cores = calloc(r.nmembers, sizeof(*cores));
    if (us == NULL || members == NULL || pools == NULL || nodes == NULL || cores == NULL)
        die("out of memory");
    for (unsigned n = 0; n < nnodes; n++)
        pools[n].pool = 4 * per_node;
    for (unsigned n = 0; n < repeats; n++) {
        struct alloc_problem p = {.policy = ALLOC_GPU_BUSY,
                                  .guarantee = ALLOC_GUARANTEE_OWN,
                                  .members = members,
                                  .nodes = pools,
                                  .io_bytes_per_s = NAN};
        struct alloc_result result = {.cores = cores};
        char error[256];
        double start = now_us();

        p.nmembers =
            room_gather(&r, dice_below(&dice, nnodes), members, nodes, &p.nnodes, &p.njobs);
        if (alloc_solve(&p, &result, error, sizeof(error)) < 0)
            die(error);
        us[n] = now_us() - start;
        members_sum += (double)p.nmembers;
    }
    printf("%8u %8zu %8u %10.1f %12.1f %12.1f\n", nnodes, r.nmembers, block, members_sum / repeats,
           quantile(us, repeats, 0.5), quantile(us, repeats, 0.99));
    free(us);
    free(members);
    free(pools);
    free(nodes);
    free(cores);
    room_free(&r);
}

/* The time is about c x^e: e from the ends of a row of sizes would be read off the tables. */
int main(int argc, char **argv)
{
    static const unsigned pus[] = {8, 32, 96, 192, 384, 1024}, members[] = {1, 4, 8, 16, 32, 64};
    static const unsigned nodes[] = {1, 10, 100, 1000, 10000};
    unsigned repeats = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 200;

    if (repeats < 1 || repeats > 100000)
        die("REPEATS has to be from 1 to 100000");
    printf(
        "One node, one member's curve changes: microseconds of CPU\n%8s %8s %12s %12s %12s %12s\n",
        "PUs", "members", "allocate-p50", "place-p50", "both-p50", "both-p99");
    for (size_t p = 0; p < sizeof(pus) / sizeof(*pus); p++)
        for (size_t m = 0; m < sizeof(members) / sizeof(*members); m++)
            if (members[m] <= pus[p])
                one_node(members[m], pus[p], repeats);
    printf(
        "\nA machine room, 10 members a node, an event on one node: microseconds of CPU to gather "
        "and "
        "allocate\nthe connected part (jobs span two nodes inside blocks)\n%8s %8s %8s %10s %12s "
        "%12s\n",
        "nodes", "members", "block", "touched", "p50", "p99");
    for (size_t n = 0; n < sizeof(nodes) / sizeof(*nodes); n++)
        for (unsigned block = 1; block <= 8; block *= 2)
            if (block <= nodes[n])
                machine_room(nodes[n], 10, block, repeats);
    return 0;
}
