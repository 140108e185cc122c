/*
 * What the allocator promises, case by case: policies, guarantees, bounds, useless cores, storage
 * bandwidth, stability, refusals, and that a connected part alone gives the same answer as all.
 */
#include "alloc_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define POINTS 33

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

/* Rate k a core up to g. */
static double *linear(double *rate, double k, double g)
{
    for (unsigned c = 0; c < POINTS; c++)
        rate[c] = fmin(k * c, g);
    return rate;
}

static struct alloc_member member(unsigned job, unsigned node, unsigned own, const double *rate,
                                  double g)
{
    return (struct alloc_member){.job = job,
                                 .node = node,
                                 .own = own,
                                 .now = own,
                                 .weight = 1,
                                 .gpus = 1,
                                 .rate = rate,
                                 .nrate = POINTS,
                                 .gpu_rate = g,
                                 .work = NAN};
}

static struct alloc_result solve(const struct alloc_problem *p, unsigned *cores)
{
    struct alloc_result r = {.cores = cores};
    char error[256] = "";

    if (alloc_solve(p, &r, error, sizeof(error)) < 0)
        fail_msg("refused: %s", error);
    return r;
}

static struct alloc_problem problem(enum alloc_policy policy, enum alloc_guarantee guarantee,
                                    const struct alloc_member *m, size_t n,
                                    const struct alloc_node *nodes, size_t nnodes)
{
    struct alloc_problem p = {.policy = policy,
                              .guarantee = guarantee,
                              .members = m,
                              .nmembers = n,
                              .nodes = nodes,
                              .nnodes = nnodes,
                              .io_bytes_per_s = NAN};

    for (size_t i = 0; i < n; i++)
        p.njobs = p.njobs > m[i].job + 1u ? p.njobs : m[i].job + 1u;
    return p;
}

/* A modest job (demand 3) and two hungry ones (8 and 12) that own 6 cores each. */
static void policies(void **state)
{
    static const struct {
        const char *policy, *guarantee;
        unsigned cores[3];
    } table[] = {
        /* the modest job keeps what it needs; of the hungry ones the smaller demand pays more a
           core */
        {"gpu-busy", "own", {3, 8, 7}},
        {"gpu-busy", "none", {3, 8, 7}},
        {"gpu-busy", "even", {3, 8, 7}},
        /* capped even split: the surplus of 3 goes to both */
        {"nash", "own", {3, 8, 7}},
        /* theta = 18 / 23 in fractions; in whole cores 6 / 8 and 9 / 12, and what is left */
        {"max-min", "none", {3, 6, 9}},
        {"max-min", "own", {3, 6, 9}},
        {"even", "own", {6, 6, 6}},
        {"static", "own", {6, 6, 6}},
    };
    double a[POINTS], b[POINTS], c[POINTS];
    const struct alloc_member m[] = {member(0, 0, 6, linear(a, 100, 300), 300),
                                     member(1, 0, 6, linear(b, 100, 800), 800),
                                     member(2, 0, 6, linear(c, 100, 1200), 1200)};
    const struct alloc_node node = {18};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        unsigned cores[3];
        struct alloc_problem p = problem(
            (enum alloc_policy)alloc_policy_parse(table[i].policy),
            (enum alloc_guarantee)alloc_guarantee_parse(table[i].guarantee), m, 3, &node, 1);

        (void)solve(&p, cores);
        if (memcmp(cores, table[i].cores, sizeof(cores)) != 0)
            fail_msg("%s, %s: %u %u %u", table[i].policy, table[i].guarantee, cores[0], cores[1],
                     cores[2]);
    }
}

/* Without a guarantee the hungriest may starve; with it, it keeps the rate of its own cores. */
static void guarantee_protects_the_hungry(void **state)
{
    double a[POINTS], b[POINTS];
    const struct alloc_member m[] = {member(0, 0, 4, linear(a, 100, 800), 800),
                                     member(1, 0, 4, linear(b, 10, 320), 320)};
    const struct alloc_node node = {8};
    unsigned cores[2];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_NONE, m, 2, &node, 1);

    (void)state;
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 8);
    assert_int_equal(cores[1], 0);
    p.guarantee = ALLOC_GUARANTEE_OWN;
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 4);
    assert_int_equal(cores[1], 4);
}

/* A soft knee: the last of its cores brings less than any prediction knows, and is lent. */
static void soft_knee_lends(void **state)
{
    double a[POINTS], b[POINTS];
    struct alloc_member m[] = {member(0, 0, 8, a, 1000),
                               member(1, 0, 8, linear(b, 100, 3000), 3000)};
    const struct alloc_node node = {16};
    unsigned cores[2];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, m, 2, &node, 1);

    (void)state;
    for (unsigned c = 0; c < POINTS; c++)
        a[c] = 1000 * (1 - exp2(-(double)c)); /* 984 with 6, 992 with 7, 996 with 8 */
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 7);
    assert_int_equal(cores[1], 9);
}

/*
 * Two that need half a core and own two each, beside two that are starved: although all curves are
 * uncertain, the second core of the modest is lent, since half a core and its error are still one.
 */
static void a_core_that_is_hardly_used_is_lent(void **state)
{
    double modest[POINTS], starved[POINTS];
    struct alloc_member m[] = {
        member(0, 0, 2, linear(modest, 18, 8), 8), member(1, 0, 2, modest, 8),
        member(2, 0, 2, linear(starved, 25, 90), 90), member(3, 0, 2, starved, 90)};
    const struct alloc_node node = {8};
    unsigned cores[4];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, m, 4, &node, 1);

    (void)state;
    p.min_gain = 0.02;
    for (unsigned i = 0; i < 4; i++) {
        m[i].demand = i < 2 ? 0.45 : 3.6;
        m[i].uncertainty = i < 2 ? 0.05 : 0.4;
    }
    (void)solve(&p, cores);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(cores[i], i < 2 ? 1 : 3);
}

/* A makespan needs cores where work is left: critical ratio c_i ~ work_i / k_i. */
static void makespan_follows_work(void **state)
{
    double a[POINTS], b[POINTS];
    struct alloc_member m[] = {member(0, 0, 6, linear(a, 100, 1200), 1200),
                               member(1, 0, 6, linear(b, 100, 1200), 1200)};
    const struct alloc_node node = {12};
    unsigned cores[2];
    struct alloc_problem p = problem(ALLOC_MAKESPAN, ALLOC_GUARANTEE_NONE, m, 2, &node, 1);
    struct alloc_result r;

    (void)state;
    m[0].work = 10000;
    m[1].work = 50000;
    r = solve(&p, cores);
    assert_int_equal(cores[0], 2);
    assert_int_equal(cores[1], 10);
    assert_near(r.value, 100 * 2 / 10000.0, 1e-9);
    /* unknown work counts as the mean: the same */
    m[0].work = m[1].work = NAN;
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 6);
    assert_int_equal(cores[1], 6);
}

/* Workers, a GPU, storage or contention limit: nothing beyond is given, and nothing while slower.
 */
static void no_useless_cores(void **state)
{
    double flat[POINTS], falling[POINTS], hungry[POINTS];
    struct alloc_member m[] = {member(0, 0, 2, linear(flat, 100, 400), 1000),
                               member(1, 0, 2, falling, 900),
                               member(2, 0, 2, linear(hungry, 100, 900), 900)};
    const struct alloc_node node = {32};
    unsigned cores[3];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, m, 3, &node, 1);

    (void)state;
    for (unsigned c = 0; c < POINTS; c++)
        falling[c] = c <= 5 ? 100.0 * c : 500 - 10.0 * (c - 5);
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 4);
    assert_int_equal(cores[1], 5);
    assert_int_equal(cores[2], 9);
    m[2].max = 6;
    (void)solve(&p, cores);
    assert_int_equal(cores[2], 6);
    /* a minimum holds even where it brings nothing */
    m[0].min = 7;
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 7);
}

/* What nobody borrows is not taken away: a modest owner keeps its own cores. */
static void nothing_lent_without_borrower(void **state)
{
    double a[POINTS], b[POINTS];
    struct alloc_member m[] = {member(0, 0, 6, linear(a, 100, 300), 300),
                               member(1, 0, 6, linear(b, 100, 800), 800)};
    const struct alloc_node node = {12};
    unsigned cores[2];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, m, 2, &node, 1);

    (void)state;
    (void)solve(&p, cores);
    assert_int_equal(cores[1], 8); /* what it can use */
    assert_int_equal(cores[0], 4); /* the rest of the pool, 3 of which it needs */
}

/* The answer equals the relaxation to the last bit although that would take half a step: it ends.
 */
static void relaxation_met_exactly(void **state)
{
    static const double jump[] = {0, 0, 200}, one[] = {0, 100}, best[] = {0, 200};
    struct alloc_member m[] = {member(0, 0, 0, jump, 200), member(1, 0, 0, one, 200),
                               member(2, 0, 0, best, 200)};
    const struct alloc_node node = {2};
    unsigned cores[3];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_NONE, m, 3, &node, 1);

    (void)state;
    m[0].nrate = 3;
    m[1].nrate = m[2].nrate = 2;
    m[0].now = m[1].now = m[2].now = 2; /* so that nothing counts as a move */
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 0);
    assert_int_equal(cores[1], 1);
    assert_int_equal(cores[2], 1);
}

/* A job on two nodes: a core on one of them alone is worthless. */
static void members_move_together(void **state)
{
    double a[POINTS], b[POINTS];
    const struct alloc_member m[] = {member(0, 0, 4, linear(a, 100, 1600), 1600),
                                     member(0, 1, 4, a, 1600),
                                     member(1, 1, 4, linear(b, 100, 400), 400)};
    const struct alloc_node nodes[] = {{16}, {8}};
    unsigned cores[3];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, m, 3, nodes, 2);

    (void)state;
    (void)solve(&p, cores);
    /* node 0 has room for 16, but node 1 holds the job at 4 */
    assert_int_equal(cores[0], 4);
    assert_int_equal(cores[1], 4);
    assert_int_equal(cores[2], 4);
}

/* Storage is short: the job that makes more of a byte gets the cores that keep it busy. */
static void bandwidth_is_shared(void **state)
{
    double a[POINTS], b[POINTS];
    struct alloc_member m[] = {member(0, 0, 2, linear(a, 100, 800), 800),
                               member(1, 0, 2, linear(b, 100, 800), 800)};
    const struct alloc_node node = {16};
    unsigned cores[2];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, m, 2, &node, 1);
    struct alloc_result r;

    (void)state;
    m[0].sample_bytes = 1e6;
    m[1].sample_bytes = 1e5;
    p.io_bytes_per_s = 4e8 + 8e7;
    r = solve(&p, cores);
    assert_int_equal(cores[0], 4);
    assert_int_equal(cores[1], 8);
    assert_near(r.upper_bound, r.value, 1e-9);
    p.io_bytes_per_s = NAN;
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 8);
    /* even without any bandwidth left, floors stand */
    p.io_bytes_per_s = 0;
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 2);
    assert_int_equal(cores[1], 2);
}

/* Own cores and minimums that a pool cannot hold shrink alike, and never overfill it. */
static void floors_shrink_alike(void **state)
{
    double a[POINTS];
    struct alloc_member m[] = {member(0, 0, 12, linear(a, 100, 1200), 1200),
                               member(1, 0, 12, a, 1200)};
    const struct alloc_node node = {8};
    unsigned cores[2];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, m, 2, &node, 1);

    (void)state;
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 4);
    assert_int_equal(cores[1], 4);
    m[0].min = m[1].min = 20;
    (void)solve(&p, cores);
    assert_int_equal(cores[0] + cores[1], 8);
    p.policy = ALLOC_STATIC;
    (void)solve(&p, cores);
    assert_int_equal(cores[0] + cores[1], 8);
    p.policy = ALLOC_EVEN;
    (void)solve(&p, cores);
    assert_int_equal(cores[0] + cores[1], 8);
}

/* Equal jobs: whoever has the odd core keeps it, however often and in whatever order it is asked.
 */
static void equal_jobs_never_swap(void **state)
{
    static const enum alloc_policy all[] = {ALLOC_GPU_BUSY, ALLOC_NASH, ALLOC_MAX_MIN,
                                            ALLOC_MAKESPAN};
    double a[POINTS];
    struct alloc_member m[] = {member(0, 0, 4, linear(a, 100, 1200), 1200),
                               member(1, 0, 4, a, 1200)};
    const struct alloc_node node = {9};

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        for (unsigned odd = 0; odd < 2; odd++) {
            struct alloc_problem p = problem(all[i], ALLOC_GUARANTEE_OWN, m, 2, &node, 1);
            unsigned cores[2];

            m[odd].now = 5;
            m[1 - odd].now = 4;
            for (unsigned n = 0; n < 3; n++) {
                struct alloc_result r = solve(&p, cores);

                assert_int_equal(r.moves, 0);
                assert_int_equal(cores[odd], 5);
                m[0].now = cores[0];
                m[1].now = cores[1];
            }
        }
}

static void hysteresis(void **state)
{
    double a[POINTS], b[POINTS];
    struct alloc_member m[] = {member(0, 0, 4, linear(a, 100, 800), 800),
                               member(1, 0, 4, linear(b, 100, 1000), 1000)};
    const struct alloc_node node = {8};
    unsigned cores[2];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_NONE, m, 2, &node, 1);
    struct alloc_result r;

    (void)state;
    /* 8/8 + 0 against 4/8 + 4/10: better by 11 % */
    r = solve(&p, cores);
    assert_false(r.kept);
    assert_int_equal(cores[0], 8);
    p.min_gain = 0.12;
    r = solve(&p, cores);
    assert_true(r.kept);
    assert_int_equal(r.moves, 0);
    assert_int_equal(cores[0], 4);
    assert_near(r.value, 0.9, 1e-9);
    assert_near(r.upper_bound, 1.0, 1e-9);
    p.min_gain = 0.10;
    assert_false(solve(&p, cores).kept);
    /* what the curves themselves do not know better than by 20 % is no reason to move */
    p.min_gain = 0;
    m[0].uncertainty = m[1].uncertainty = 0.2;
    assert_true(solve(&p, cores).kept);
    /* but what is not allowed any more must go, and only that */
    m[0].now = 6;
    p.guarantee = ALLOC_GUARANTEE_OWN;
    r = solve(&p, cores);
    assert_false(r.kept);
    assert_int_equal(cores[0], 4);
}

/* A newcomer is served, but that is no occasion to rearrange the others for next to nothing. */
static void a_newcomer_moves_only_what_it_must(void **state)
{
    double a[POINTS], b[POINTS], c[POINTS];
    struct alloc_member m[] = {member(0, 0, 6, linear(a, 100, 1000), 1000),
                               member(1, 0, 6, linear(b, 99, 1000), 1000),
                               member(2, 0, 6, linear(c, 100, 600), 600)};
    const struct alloc_node node = {18};
    unsigned cores[3];
    struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, m, 3, &node, 1);

    (void)state;
    m[0].now = 8; /* by a hair the worse place for two of the twelve */
    m[1].now = 10;
    m[2].now = 0;
    p.min_gain = 0.02;
    (void)solve(&p, cores);
    assert_int_equal(cores[0], 6);
    assert_int_equal(cores[1], 6);
    assert_int_equal(cores[2], 6);
    /* the same with room for all: nobody else moves */
    m[0].own = m[1].own = 2;
    (void)solve(&p, cores);
    assert_int_equal(cores[2], 6);
    assert_true(cores[0] <= 8);
    assert_true(cores[1] <= 10);
}

/* Curves that wobble within their uncertainty move nothing, once what can surely be lent is lent.
 */
static void noise_moves_nothing(void **state)
{
    struct dice dice = {5};
    unsigned moved = 0, decisions = 0;

    (void)state;
    for (unsigned n = 0; n < 200; n++) {
        const struct cases_shape shape = {
            .nnodes = 1, .pool = 28, .njobs = 5, .spread = CASES_ONE_NODE, .concave = true};
        unsigned cores[16];
        struct cases c;
        double *truth;

        assert_int_equal(cases_make(&c, &dice, &shape), 0);
        c.problem.min_gain = 0.02;
        c.problem.policy = n % 2 == 0 ? ALLOC_GPU_BUSY : ALLOC_NASH;
        truth = malloc(5 * 29 * sizeof(*truth));
        assert_non_null(truth);
        memcpy(truth, c.rates, 5 * 29 * sizeof(*truth));
        for (size_t i = 0; i < 5; i++)
            c.members[i].uncertainty = 0.05;
        (void)solve(&c.problem, cores);
        for (size_t i = 0; i < 5; i++)
            c.members[i].now = cores[i];
        for (unsigned step = 0; step < 120; step++) {
            struct alloc_result r;

            for (size_t i = 0; i < 5; i++) {
                /* the estimate of a core's rate and of G wander by up to the uncertainty */
                double off = 1 + 0.05 * (2 * dice_share(&dice) - 1);

                for (unsigned k = 0; k < 29; k++)
                    c.rates[i * 29 + k] = fmin(truth[i * 29 + k] * off, c.members[i].gpu_rate);
            }
            r = solve(&c.problem, cores);
            if (step >= 20) {
                moved += r.moves;
                decisions++;
            }
            for (size_t i = 0; i < 5; i++)
                c.members[i].now = cores[i];
        }
        free(truth);
        cases_free(&c);
    }
    print_message("# noise: %u cores moved in %u decisions\n", moved, decisions);
    /* the estimates wander by a whole standard deviation each time; hardly ever does that add up */
    assert_true(moved * 2000 <= decisions);
}

/* Adding or removing what is not connected changes nothing here: parts are solved alone. */
static void a_part_alone_equals_the_whole(void **state)
{
    struct dice dice = {77};

    (void)state;
    for (unsigned n = 0; n < 10000; n++) {
        const struct cases_shape shape = {.nnodes = 12,
                                          .pool = 10,
                                          .njobs = 14,
                                          .span = 2,
                                          .spread = CASES_ANY_NODES,
                                          .bounds = true};
        unsigned all[64], part_of_node[12], part_of_member[64], job_number[14], alone[64];
        struct alloc_member members[64];
        struct alloc_node nodes[12];
        size_t nm = 0, nn = 0;
        bool grew = true, in[12] = {0};
        struct alloc_problem p;
        struct cases c;

        assert_int_equal(cases_make(&c, &dice, &shape), 0);
        c.problem.policy = (enum alloc_policy)(n % 4);
        c.problem.guarantee = (enum alloc_guarantee)(n % 3);
        c.problem.min_gain = n % 2 == 0 ? 0 : 0.02;
        for (size_t i = 0; i < c.problem.nmembers; i++)
            c.members[i].work = 1000 + 100 * (double)i;
        (void)solve(&c.problem, all);
        /* what hangs together with node 0 */
        in[0] = true;
        while (grew) {
            grew = false;
            for (size_t i = 0; i < c.problem.nmembers; i++)
                for (size_t o = 0; in[c.members[i].node] && o < c.problem.nmembers; o++)
                    if (c.members[o].job == c.members[i].job && !in[c.members[o].node])
                        grew = in[c.members[o].node] = true;
        }
        for (unsigned k = 0; k < 12; k++)
            if (in[k]) {
                part_of_node[k] = (unsigned)nn;
                nodes[nn++] = c.nodes[k];
            }
        memset(job_number, 0xff, sizeof(job_number));
        p = c.problem;
        p.njobs = 0;
        for (size_t i = 0; i < c.problem.nmembers; i++)
            if (in[c.members[i].node]) {
                unsigned *job = &job_number[c.members[i].job];

                if (*job == UINT32_MAX)
                    *job = (unsigned)p.njobs++;
                part_of_member[nm] = (unsigned)i;
                members[nm] = c.members[i];
                members[nm].job = *job;
                members[nm++].node = part_of_node[c.members[i].node];
            }
        p.members = members;
        p.nmembers = nm;
        p.nodes = nodes;
        p.nnodes = nn;
        (void)solve(&p, alone);
        for (size_t i = 0; i < nm; i++)
            assert_int_equal(alone[i], all[part_of_member[i]]);
        cases_free(&c);
    }
}

/* ---- max-min and makespan against exhaustive search ---------------------------------------- */

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int compare_lexicographically(const double *a, const double *b, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (fabs(a[i] - b[i]) > 1e-9)
            return a[i] > b[i] ? 1 : -1;
    return 0;
}

static void sorted_keys(const struct alloc_problem *p, const unsigned *cores, double *keys)
{
    for (size_t i = 0; i < p->nmembers; i++) {
        const struct alloc_member *m = &p->members[i];

        keys[i] = m->rate[cores[i]] / (p->policy == ALLOC_MAKESPAN ? m->work : m->gpu_rate);
    }
    qsort(keys, p->nmembers, sizeof(*keys), compare_double);
}

static void search_lowest(const struct alloc_problem *p, size_t i, unsigned left, unsigned *cores,
                          double *best)
{
    double keys[8];

    if (i == p->nmembers) {
        sorted_keys(p, cores, keys);
        if (compare_lexicographically(keys, best, (unsigned)p->nmembers) > 0)
            memcpy(best, keys, p->nmembers * sizeof(*best));
        return;
    }
    for (cores[i] = 0; cores[i] <= left; cores[i]++)
        search_lowest(p, i + 1, left - cores[i], cores, best);
    cores[i] = 0;
}

static void lowest_first_is_exact(void **state)
{
    struct dice dice = {31};

    (void)state;
    for (unsigned n = 0; n < 400; n++) {
        struct cases_shape shape = {.nnodes = 1,
                                    .pool = 4 + dice_below(&dice, 9),
                                    .njobs = 1 + dice_below(&dice, 4),
                                    .spread = CASES_ONE_NODE};
        double best[8] = {-1, -1, -1, -1}, ours[8];
        unsigned cores[8], any[8];
        struct cases c;
        struct alloc_result r;

        assert_int_equal(cases_make(&c, &dice, &shape), 0);
        c.problem.policy = n % 2 == 0 ? ALLOC_MAX_MIN : ALLOC_MAKESPAN;
        c.problem.guarantee = ALLOC_GUARANTEE_NONE;
        for (size_t i = 0; i < c.problem.nmembers; i++)
            c.members[i].work = 100 + 1000 * dice_share(&dice);
        r = solve(&c.problem, cores);
        sorted_keys(&c.problem, cores, ours);
        search_lowest(&c.problem, 0, c.nodes[0].pool, any, best);
        assert_near(r.value, best[0], 1e-9);
        assert_near(r.upper_bound, best[0], 1e-9);
        /* equal keys (several at a standstill) may be raised in any order; else all ranks agree */
        for (size_t i = 0; i + 1 < c.problem.nmembers; i++)
            if (best[i + 1] - best[i] < 1e-9 || ours[i + 1] - ours[i] < 1e-9)
                goto next;
        assert_int_equal(compare_lexicographically(ours, best, (unsigned)c.problem.nmembers), 0);
    next:
        cases_free(&c);
    }
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void refusals(void **state)
{
    double a[POINTS], bad[POINTS];
    const struct alloc_node node = {8}, huge = {1u << 20};
    const struct alloc_member good = member(0, 0, 4, linear(a, 100, 800), 800);
    struct alloc_member m[12];
    unsigned cores[1];
    struct alloc_result r = {.cores = cores};

    (void)state;
    linear(bad, 100, 800);
    bad[3] = NAN;
    for (size_t i = 0; i < 12; i++)
        m[i] = good;
    m[0].job = 7;
    m[1].node = 3;
    m[2].rate = bad;
    m[3].nrate = 0;
    m[4].gpu_rate = 0;
    m[5].weight = -1;
    m[6].gpus = 0;
    m[7].min = 5, m[7].max = 4;
    m[8].uncertainty = -0.1;
    m[9].sample_bytes = INFINITY;
    m[10].work = -1;
    m[11].weight = NAN;
    for (size_t i = 0; i < 12; i++) {
        struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, &m[i], 1, &node, 1);
        char error[256] = "";

        p.njobs = 1;
        assert_int_equal(alloc_solve(&p, &r, error, sizeof(error)), -1);
        assert_true(strlen(error) > 10);
    }
    {
        struct alloc_problem p = problem(ALLOC_GPU_BUSY, ALLOC_GUARANTEE_OWN, &good, 1, &huge, 1);
        char error[256] = "";

        assert_int_equal(alloc_solve(&p, &r, error, sizeof(error)), -1);
        p.nodes = &node;
        p.min_gain = -1;
        assert_int_equal(alloc_solve(&p, &r, error, sizeof(error)), -1);
        p.min_gain = 0;
        p.io_bytes_per_s = -1;
        assert_int_equal(alloc_solve(&p, &r, error, sizeof(error)), -1);
        p.io_bytes_per_s = NAN;
        p.policy = (enum alloc_policy)17;
        assert_int_equal(alloc_solve(&p, &r, error, sizeof(error)), -1);
        p.policy = ALLOC_GPU_BUSY;
        assert_int_equal(alloc_solve(&p, &r, error, sizeof(error)), 0);
        /* nobody there is no error */
        p.nmembers = 0;
        assert_int_equal(alloc_solve(&p, &r, error, sizeof(error)), 0);
        assert_near(r.value, 0, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies),
        cmocka_unit_test(guarantee_protects_the_hungry),
        cmocka_unit_test(soft_knee_lends),
        cmocka_unit_test(a_core_that_is_hardly_used_is_lent),
        cmocka_unit_test(makespan_follows_work),
        cmocka_unit_test(no_useless_cores),
        cmocka_unit_test(nothing_lent_without_borrower),
        cmocka_unit_test(relaxation_met_exactly),
        cmocka_unit_test(members_move_together),
        cmocka_unit_test(bandwidth_is_shared),
        cmocka_unit_test(floors_shrink_alike),
        cmocka_unit_test(equal_jobs_never_swap),
        cmocka_unit_test(hysteresis),
        cmocka_unit_test(a_newcomer_moves_only_what_it_must),
        cmocka_unit_test(noise_moves_nothing),
        cmocka_unit_test(a_part_alone_equals_the_whole),
        cmocka_unit_test(lowest_first_is_exact),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
