/*
 * The allocator against oracles that know nothing of its methods: exhaustive search over counts of
 * cores, a plain table over one node's cores, and GLPK's integer programme where glpsol is there.
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
#include <unistd.h>

#include <cmocka.h>

#define MEMBERS_MAX 64

/* ---- what an answer is worth, told by definition ------------------------------------------- */

static double rate_of(const struct alloc_member *m, unsigned c)
{
    return m->rate[c < m->nrate ? c : m->nrate - 1];
}

static double job_share(const struct alloc_problem *p, unsigned job, const unsigned *cores)
{
    double share = INFINITY;

    for (size_t i = 0; i < p->nmembers; i++)
        if (p->members[i].job == job)
            share = fmin(share, rate_of(&p->members[i], cores[i]) / p->members[i].gpu_rate);
    return share;
}

static double job_value(const struct alloc_problem *p, unsigned job, double share)
{
    double sum = 0;

    for (size_t i = 0; i < p->nmembers; i++) {
        const struct alloc_member *m = &p->members[i];

        if (m->job != job)
            continue;
        sum += p->policy == ALLOC_NASH ? m->weight * log(fmax(share, 1e-9) * m->gpu_rate)
                                       : m->weight * m->gpus * share;
    }
    return sum;
}

static double value_of(const struct alloc_problem *p, const unsigned *cores)
{
    double sum = 0;

    for (unsigned j = 0; j < p->njobs; j++) {
        double share = job_share(p, j, cores);

        if (!isinf(share))
            sum += job_value(p, j, share);
    }
    return sum;
}

static double io_of(const struct alloc_problem *p, const unsigned *cores)
{
    double io = 0;

    for (size_t i = 0; i < p->nmembers; i++)
        io += p->members[i].sample_bytes * p->members[i].gpu_rate *
              job_share(p, p->members[i].job, cores);
    return io;
}

static unsigned most_of(const struct alloc_problem *p, size_t i)
{
    const struct alloc_member *m = &p->members[i];
    unsigned pool = p->nodes[m->node].pool;

    return m->max != 0 && m->max < pool ? m->max : pool;
}

static unsigned least_of(const struct alloc_problem *p, size_t i)
{
    unsigned most = most_of(p, i);

    return p->members[i].min < most ? p->members[i].min : most;
}

/* The share that a job has with its own cores, as far as its bounds let it have them. */
static double own_share(const struct alloc_problem *p, unsigned job)
{
    unsigned cores[MEMBERS_MAX];

    for (size_t i = 0; i < p->nmembers; i++)
        cores[i] = p->members[i].own;
    return job_share(p, job, cores);
}

/* The highest share that a job can reach at all. */
static double top_share(const struct alloc_problem *p, unsigned job)
{
    double top = INFINITY;

    for (size_t i = 0; i < p->nmembers; i++) {
        double best = 0;

        if (p->members[i].job != job)
            continue;
        for (unsigned c = least_of(p, i); c <= most_of(p, i); c++)
            best = fmax(best, rate_of(&p->members[i], c) / p->members[i].gpu_rate);
        top = fmin(top, best);
    }
    return top;
}

static double floor_of(const struct alloc_problem *p, unsigned job)
{
    if (p->guarantee == ALLOC_GUARANTEE_NONE)
        return 0;
    return fmin(own_share(p, job) * (1 - ALLOC_FLOOR_TOLERANCE), top_share(p, job));
}

/* ---- exhaustive search --------------------------------------------------------------------- */

struct search {
    const struct alloc_problem *p;
    unsigned cores[MEMBERS_MAX], best[MEMBERS_MAX];
    double floors[MEMBERS_MAX];
    unsigned left[16];
    double value;
    double io_limit;
};

static void search_check(struct search *s)
{
    double value;

    for (unsigned j = 0; j < s->p->njobs; j++)
        if (job_share(s->p, j, s->cores) < s->floors[j] - 1e-12)
            return;
    if (io_of(s->p, s->cores) > s->io_limit)
        return;
    value = value_of(s->p, s->cores);
    if (value > s->value) {
        s->value = value;
        memcpy(s->best, s->cores, sizeof(s->best));
    }
}

/* Counts worth trying: others have the rate of fewer cores. */
static bool worth(const struct alloc_problem *p, size_t i, unsigned c)
{
    if (c == least_of(p, i))
        return true;
    for (unsigned k = least_of(p, i); k < c; k++)
        if (rate_of(&p->members[i], k) >= rate_of(&p->members[i], c))
            return false;
    return true;
}

static void search_from(struct search *s, size_t i)
{
    unsigned *left;

    if (i == s->p->nmembers) {
        search_check(s);
        return;
    }
    left = &s->left[s->p->members[i].node];
    for (unsigned c = least_of(s->p, i); c <= most_of(s->p, i) && c <= *left; c++) {
        if (!worth(s->p, i, c) || rate_of(&s->p->members[i], c) / s->p->members[i].gpu_rate <
                                      s->floors[s->p->members[i].job] - 1e-12)
            continue;
        s->cores[i] = c;
        *left -= c;
        search_from(s, i + 1);
        *left += c;
    }
}

static double exhaustive(const struct alloc_problem *p)
{
    struct search s = {.p = p, .value = -INFINITY, .io_limit = INFINITY};

    for (unsigned j = 0; j < p->njobs; j++)
        s.floors[j] = floor_of(p, j);
    for (size_t n = 0; n < p->nnodes; n++)
        s.left[n] = p->nodes[n].pool;
    if (!isnan(p->io_bytes_per_s)) {
        /* what the floors read is theirs, whatever the device can do */
        double io = 0;

        for (size_t i = 0; i < p->nmembers; i++) {
            const struct alloc_member *m = &p->members[i];
            double least = INFINITY;

            for (size_t o = 0; o < p->nmembers; o++)
                for (unsigned c = least_of(p, o); p->members[o].job == m->job; c++)
                    if (rate_of(&p->members[o], c) / p->members[o].gpu_rate >=
                        s.floors[m->job] - 1e-12) {
                        least = fmin(least, rate_of(&p->members[o], c) / p->members[o].gpu_rate);
                        break;
                    }
            io += m->sample_bytes * m->gpu_rate * least;
        }
        s.io_limit = fmax(p->io_bytes_per_s, io) * (1 + 1e-12);
    }
    search_from(&s, 0);
    return s.value;
}

/* ---- a plain table over one node's cores --------------------------------------------------- */

static double table(const struct alloc_problem *p)
{
    unsigned pool = p->nodes[0].pool;
    double best[512], next[512];

    for (unsigned c = 0; c <= pool; c++)
        best[c] = 0;
    for (size_t i = 0; i < p->nmembers; i++) {
        double least = floor_of(p, p->members[i].job);

        for (unsigned c = 0; c <= pool; c++) {
            next[c] = -INFINITY;
            for (unsigned x = least_of(p, i); x <= most_of(p, i) && x <= c; x++) {
                double share = rate_of(&p->members[i], x) / p->members[i].gpu_rate;

                if (share >= least - 1e-12)
                    next[c] = fmax(next[c], best[c - x] + job_value(p, p->members[i].job, share));
            }
        }
        memcpy(best, next, sizeof(best));
    }
    return best[pool];
}

/* ---- checks -------------------------------------------------------------------------------- */

static double solve(const struct alloc_problem *p, struct alloc_result *r)
{
    char error[256] = "";

    if (alloc_solve(p, r, error, sizeof(error)) < 0)
        fail_msg("refused: %s", error);
    return r->value;
}

/* Pools, bounds and floors hold, and the value is what the cores are worth. */
static void check_answer(const struct alloc_problem *p, const struct alloc_result *r)
{
    unsigned used[16] = {0};

    for (size_t i = 0; i < p->nmembers; i++) {
        used[p->members[i].node] += r->cores[i];
        assert_true(r->cores[i] >= least_of(p, i));
        assert_true(r->cores[i] <= most_of(p, i));
    }
    for (size_t n = 0; n < p->nnodes; n++)
        assert_true(used[n] <= p->nodes[n].pool);
    for (unsigned j = 0; j < p->njobs; j++) {
        double share = job_share(p, j, r->cores);

        if (!isinf(share) && share < floor_of(p, j) - 1e-9)
            fail_msg("job %u: share %g below its floor %g", j, share, floor_of(p, j));
    }
    if (fabs(r->value - value_of(p, r->cores)) > 1e-9 * (1 + fabs(r->value)))
        fail_msg("value %.12g, but the cores are worth %.12g", r->value, value_of(p, r->cores));
    assert_true(r->upper_bound >= r->value);
}

static const enum alloc_policy policies[] = {ALLOC_GPU_BUSY, ALLOC_NASH};
static const enum alloc_guarantee guarantees[] = {ALLOC_GUARANTEE_OWN, ALLOC_GUARANTEE_NONE};

/* One node: 2,000 cases, non-concave curves, floors and caps: gap 0. */
static void one_node_is_exact(void **state)
{
    struct dice dice = {20240211};
    double worst = 0;
    unsigned concave = 0;

    (void)state;
    for (unsigned n = 0; n < 2000; n++) {
        bool small = n % 2 == 0;
        struct cases_shape shape = {
            .nnodes = 1,
            .pool = small ? 4 + dice_below(&dice, 7) : 8 + dice_below(&dice, 76),
            .njobs = small ? 1 + dice_below(&dice, 4) : 1 + dice_below(&dice, 12),
            .spread = CASES_ONE_NODE,
            .concave = n % 10 == 9,
            .bounds = n % 3 == 0};
        unsigned cores[MEMBERS_MAX];
        struct alloc_result r = {.cores = cores};
        struct cases c;
        double ours, best;

        assert_int_equal(cases_make(&c, &dice, &shape), 0);
        concave += shape.concave;
        c.problem.policy = policies[n / 2 % 2];
        c.problem.guarantee = guarantees[n / 4 % 2];
        ours = solve(&c.problem, &r);
        check_answer(&c.problem, &r);
        best = small ? exhaustive(&c.problem) : table(&c.problem);
        if (small && fabs(best - table(&c.problem)) > 1e-9 * (1 + fabs(best)))
            fail_msg("case %u: the oracles differ, %.12g and %.12g", n, best, table(&c.problem));
        worst = fmax(worst, fabs(best - ours));
        if (fabs(best - ours) > 1e-8 * (1 + fabs(best)))
            fail_msg("case %u: %.12g, but %.12g is possible", n, ours, best);
        if (fabs(r.upper_bound - best) > 1e-8 * (1 + fabs(best)))
            fail_msg("case %u: bound %.12g, optimum %.12g", n, r.upper_bound, best);
        cases_free(&c);
    }
    print_message("# one node: 2000 cases (%u concave), worst difference to the optimum %.1e\n",
                  concave, worst);
}

struct gaps {
    double sum, worst, bound_sum, bound_worst;
    unsigned cases, exact, closed;
};

static void gaps_add(struct gaps *g, const struct alloc_result *r, double best)
{
    double gap = best - r->value, bound = r->upper_bound - best;

    if (gap < -1e-7 * (1 + fabs(best)))
        fail_msg("case %u: %.12g is above what is possible, %.12g", g->cases, r->value, best);

    gap = gap > 1e-8 * (1 + fabs(best)) ? gap / fmax(1e-9, fabs(best)) : 0;
    if (bound < -1e-8 * (1 + fabs(best)))
        fail_msg("bound %.12g is below the optimum %.12g", r->upper_bound, best);
    bound = bound > 1e-8 * (1 + fabs(best)) ? bound / fmax(1e-9, fabs(best)) : 0;
    g->sum += gap;
    g->worst = fmax(g->worst, gap);
    g->bound_sum += bound;
    g->bound_worst = fmax(g->bound_worst, bound);
    g->cases++;
    g->exact += gap <= 0;
    g->closed += bound <= 0;
}

static void gaps_print(const char *what, const struct gaps *g)
{
    print_message("# %s: %u cases, optimum in %u; gap to it mean %.4f %% worst %.4f %%; "
                  "bound above it mean %.4f %% worst %.4f %%, equal in %u\n",
                  what, g->cases, g->exact, 100 * g->sum / g->cases, 100 * g->worst,
                  100 * g->bound_sum / g->cases, 100 * g->bound_worst, g->closed);
}

static void many_nodes(const char *what, const struct cases_shape *like, uint64_t seed, unsigned n,
                       double mean_allowed)
{
    struct dice dice = {seed};
    struct gaps gaps = {0};

    for (unsigned i = 0; i < n; i++) {
        struct cases_shape shape = *like;
        unsigned cores[MEMBERS_MAX];
        struct alloc_result r = {.cores = cores};
        struct cases c;

        shape.njobs = 2 + dice_below(&dice, like->njobs - 1);
        shape.nnodes = 2 + dice_below(&dice, like->nnodes - 1);
        shape.bounds = i % 3 == 0;
        assert_int_equal(cases_make(&c, &dice, &shape), 0);
        c.problem.policy = policies[i % 2];
        c.problem.guarantee = guarantees[i / 2 % 2];
        (void)solve(&c.problem, &r);
        check_answer(&c.problem, &r);
        gaps_add(&gaps, &r, exhaustive(&c.problem));
        cases_free(&c);
    }
    gaps_print(what, &gaps);
    if (gaps.sum / n > mean_allowed)
        fail_msg("%s: mean gap %g", what, gaps.sum / n);
}

/* Many nodes: 500 cases in all. */
static void blocks_of_nodes(void **state)
{
    const struct cases_shape shape = {
        .nnodes = 4, .pool = 6, .njobs = 5, .span = 3, .spread = CASES_BLOCKS, .concave = true};

    (void)state;
    many_nodes("blocks of nodes, concave curves", &shape, 7, 150, 0);
}

static void any_nodes(void **state)
{
    const struct cases_shape shape = {
        .nnodes = 3, .pool = 6, .njobs = 4, .span = 3, .spread = CASES_ANY_NODES};

    (void)state;
    many_nodes("any nodes, any curves", &shape, 8, 250, 0.01);
}

static void shared_io(void **state)
{
    const struct cases_shape shape = {
        .nnodes = 3, .pool = 6, .njobs = 4, .span = 2, .spread = CASES_ANY_NODES, .io = true};

    (void)state;
    many_nodes("any nodes and shared I/O", &shape, 9, 100, 0.01);
}

/* ---- GLPK ---------------------------------------------------------------------------------- */

/* Write the integer programme: a 0/1 variable for each member and count; members of a job agree on
 * the share. To keep the file small a job's variables are its distinct shares. */
static unsigned job_shares(const struct alloc_problem *p, unsigned job, double *shares)
{
    unsigned n = 0;

    for (size_t i = 0; i < p->nmembers; i++) {
        if (p->members[i].job != job)
            continue;
        for (unsigned c = least_of(p, i); c <= most_of(p, i); c++) {
            double share = rate_of(&p->members[i], c) / p->members[i].gpu_rate;
            bool fresh = share <= top_share(p, job) + 1e-12 && share >= floor_of(p, job) - 1e-12;

            for (unsigned k = 0; k < n && fresh; k++)
                fresh = fabs(shares[k] - share) > 1e-12;
            if (fresh && n < 512)
                shares[n++] = share;
        }
    }
    return n;
}

/* Fewest cores with which a member reaches a share. */
static unsigned cores_for(const struct alloc_problem *p, size_t i, double share)
{
    unsigned c = least_of(p, i);

    while (c < most_of(p, i) && rate_of(&p->members[i], c) / p->members[i].gpu_rate < share - 1e-12)
        c++;
    return c;
}

static void write_programme(const struct alloc_problem *p, FILE *f)
{
    static double shares[MEMBERS_MAX][512];
    unsigned n[MEMBERS_MAX] = {0};

    fprintf(f, "Maximize\n value:");
    for (unsigned j = 0; j < p->njobs; j++) {
        n[j] = job_shares(p, j, shares[j]);
        for (unsigned k = 0; k < n[j]; k++)
            fprintf(f, " %+.15g y%u_%u\n", job_value(p, j, shares[j][k]), j, k);
    }
    fprintf(f, "Subject To\n");
    for (unsigned j = 0; j < p->njobs; j++) {
        fprintf(f, " one%u:", j);
        for (unsigned k = 0; k < n[j]; k++)
            fprintf(f, " + y%u_%u\n", j, k);
        fprintf(f, " = 1\n");
    }
    for (size_t node = 0; node < p->nnodes; node++) {
        fprintf(f, " pool%zu: 0 none\n", node);
        for (size_t i = 0; i < p->nmembers; i++)
            for (unsigned k = 0; p->members[i].node == node && k < n[p->members[i].job]; k++)
                fprintf(f, " + %u y%u_%u\n", cores_for(p, i, shares[p->members[i].job][k]),
                        p->members[i].job, k);
        fprintf(f, " <= %u\n", p->nodes[node].pool);
    }
    fprintf(f, "Binary\n");
    for (unsigned j = 0; j < p->njobs; j++)
        for (unsigned k = 0; k < n[j]; k++)
            fprintf(f, " y%u_%u\n", j, k);
    fprintf(f, "End\n");
}

static double glpsol(const struct alloc_problem *p, const char *dir)
{
    char lp[256], out[256], command[1024], line[512];
    double value = NAN;
    FILE *f;

    assert_true(snprintf(lp, sizeof(lp), "%s/case.lp", dir) < (int)sizeof(lp));
    assert_true(snprintf(out, sizeof(out), "%s/case.out", dir) < (int)sizeof(out));
    f = fopen(lp, "w");
    assert_non_null(f);
    write_programme(p, f);
    assert_int_equal(fclose(f), 0);
    assert_true(snprintf(command, sizeof(command), "glpsol --lp %s -o %s --tmlim 20 >/dev/null", lp,
                         out) < (int)sizeof(command));
    if (system(command) != 0)
        return NAN;
    f = fopen(out, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "Status:", 7) == 0 && strstr(line, "INTEGER OPTIMAL") == NULL)
            break;
        if (sscanf(line, "Objective: value = %lf", &value) == 1)
            break;
    }
    assert_int_equal(fclose(f), 0);
    (void)unlink(lp);
    (void)unlink(out);
    return value;
}

/* Larger than what can be searched: up to 12 jobs on 6 nodes of 28 cores. */
static void against_glpsol(void **state)
{
    const struct cases_shape like = {
        .nnodes = 6, .pool = 28, .njobs = 12, .span = 3, .spread = CASES_ANY_NODES};
    char dir[] = "/tmp/adl-oracle-XXXXXX";
    struct dice dice = {11};
    struct gaps gaps = {0};

    (void)state;
    if (system("command -v glpsol >/dev/null 2>&1") != 0) {
        print_message("# glpsol is not installed: skipped\n");
        skip();
    }
    assert_non_null(mkdtemp(dir));
    for (unsigned i = 0; i < 60; i++) {
        struct cases_shape shape = like;
        unsigned cores[MEMBERS_MAX];
        struct alloc_result r = {.cores = cores};
        struct cases c;
        double best;

        shape.spread = i % 3 == 0 ? CASES_BLOCKS : CASES_ANY_NODES;
        shape.concave = i % 6 == 0;
        assert_int_equal(cases_make(&c, &dice, &shape), 0);
        c.problem.guarantee = guarantees[i % 2];
        (void)solve(&c.problem, &r);
        check_answer(&c.problem, &r);
        best = glpsol(&c.problem, dir);
        if (!isnan(best)) {
            /* glpsol prints nine digits */
            double slack = 2e-8 * fabs(best);

            if (r.value > best - slack && r.value < best + slack)
                best = r.value;
            if (r.upper_bound < best && r.upper_bound > best - slack)
                best = r.upper_bound;
            gaps_add(&gaps, &r, best);
        }
        cases_free(&c);
    }
    (void)rmdir(dir);
    if (gaps.cases == 0)
        skip();
    gaps_print("against glpsol", &gaps);
    assert_true(gaps.sum / gaps.cases <= 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_is_exact), cmocka_unit_test(blocks_of_nodes),
        cmocka_unit_test(any_nodes),         cmocka_unit_test(shared_io),
        cmocka_unit_test(against_glpsol),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
