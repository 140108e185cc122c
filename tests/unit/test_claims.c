/* Who may speak for which CPU: a table of situations, and rules that hold in all of them. */
#include "config.h"

#include "claims.h"

#include "msg.h"
#include "rng.h"
#include "topo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX 8

struct row {
    uint32_t job, step;
    unsigned main_cores;
    const char *own;
    /* expected */
    const char *claim, *main, *loader;
};

struct situation {
    const char *name;
    const char *machine; /* hwloc synthetic, or NULL: flat 0-15 */
    const char *extra, *reserved;
    const char *pool; /* expected */
    struct row rows[MAX];
};

#define BATCH MSG_STEP_BATCH

static const struct situation situations[] = {
    {"nobody, but the admin's cores", NULL, "14-15", "15", "14", {{0}}},
    {"one step", NULL, "", "", "1-3", {{1, 0, 1, "0-3", "0-3", "0", "1-3"}}},
    {"no main cores", NULL, "", "", "0-3", {{1, 0, 0, "0-3", "0-3", "", "0-3"}}},
    {"a main core a task", NULL, "", "", "2-3", {{1, 0, 2, "0-3", "0-3", "0-1", "2-3"}}},
    {"more main cores than there are", NULL, "", "", "", {{1, 0, 9, "0-3", "0-3", "0-3", ""}}},
    {"two jobs side by side",
     NULL,
     "",
     "",
     "1-3,5-7",
     {{1, 0, 1, "0-3", "0-3", "0", "1-3"}, {2, 0, 1, "4-7", "4-7", "4", "5-7"}}},
    {"steps beat their batch script, which shares their main core",
     NULL,
     "",
     "",
     "1-3",
     {{1, BATCH, 1, "0-3", "2-3", "0", "2-3"}, {1, 0, 1, "0-1", "0-1", "0", "1"}}},
    {"a batch script without steps is a step",
     NULL,
     "",
     "",
     "1-3",
     {{1, BATCH, 1, "0-3", "0-3", "0", "1-3"}}},
    {"the quickstart's two CPUs",
     NULL,
     "",
     "",
     "0-1",
     {{1, BATCH, 0, "0-1", "", "", ""},
      {1, 0, 0, "0", "0", "", "0"},
      {1, 1, 0, "1", "1", "", "1"}}},
    {"the quickstart with one step",
     NULL,
     "",
     "",
     "0-1",
     {{1, BATCH, 0, "0-1", "1", "", "1"}, {1, 0, 0, "0", "0", "", "0"}}},
    {"another job's batch script does not yield",
     NULL,
     "",
     "",
     "0-3",
     {{1, BATCH, 0, "0-3", "1,3", "", "1,3"}, {2, 0, 0, "0-3", "0,2", "", "0,2"}}},
    {"overlapping steps divide evenly",
     NULL,
     "",
     "",
     "0-5",
     {{1, 0, 0, "0-5", "0,3", "", "0,3"},
      {1, 1, 0, "0-5", "1,4", "", "1,4"},
      {1, 2, 0, "0-5", "2,5", "", "2,5"}}},
    {"SMT siblings stay together",
     "core:4 pu:2",
     "",
     "",
     "0-7",
     {{1, 0, 0, "0-7", "0-1,4-5", "", "0-1,4-5"}, {1, 1, 0, "0-7", "2-3,6-7", "", "2-3,6-7"}}},
    {"partly overlapping",
     NULL,
     "",
     "",
     "0-5",
     {{1, 0, 0, "0-3", "0-2", "", "0-2"}, {2, 0, 0, "2-5", "3-5", "", "3-5"}}},
    {"reserved cores are nobody's loaders'",
     NULL,
     "8-9",
     "3,9",
     "1-2,8",
     {{1, 0, 1, "0-3", "0-3", "0", "1-2"}}},
    {"a main core is never in the pool, not even as an extra one",
     NULL,
     "0-1",
     "",
     "1-3",
     {{1, 0, 1, "0-3", "0-3", "0", "1-3"}}},
};

static void assert_cpus(const struct situation *s, const char *what, const struct cpus *cpus,
                        const char *expected)
{
    char text[256];

    (void)cpus_format(cpus, text, sizeof(text));
    if (strcmp(text, expected) != 0)
        fail_msg("%s: %s is \"%s\", not \"%s\"", s->name, what, text, expected);
}

static struct topo *machine(const char *synthetic)
{
    struct cpus all = CPUS_EMPTY;
    char error[256] = "";
    struct topo *topo;

    assert_int_equal(cpus_parse(&all, "0-15"), 0);
    topo =
        synthetic != NULL ? topo_from_synthetic(synthetic, error, sizeof(error)) : topo_flat(&all);
    cpus_free(&all);
    assert_non_null(topo);
    return topo;
}

static void free_all(struct claims_member *m, struct cpus *own, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        claims_member_free(&m[i]);
        cpus_free(&own[i]);
    }
}

static void check(const struct situation *s, bool reversed)
{
    struct topo *topo = machine(s->machine);
    struct cpus extra = CPUS_EMPTY, reserved = CPUS_EMPTY, pool = CPUS_EMPTY, none = CPUS_EMPTY;
    struct claims_member m[MAX] = {0};
    struct cpus own[MAX] = {CPUS_EMPTY};
    size_t n = 0;

    while (n < MAX && s->rows[n].own != NULL)
        n++;
    for (size_t k = 0; k < n; k++) {
        const struct row *r = &s->rows[reversed ? n - 1 - k : k];

        assert_int_equal(cpus_parse(&own[k], r->own), 0);
        m[k].job = r->job;
        m[k].step = r->step;
        m[k].special = r->step == BATCH;
        m[k].main_cores = r->main_cores;
        m[k].own = &own[k];
        m[k].near = &none;
    }
    assert_int_equal(cpus_parse(&extra, s->extra), 0);
    assert_int_equal(cpus_parse(&reserved, s->reserved), 0);
    assert_int_equal(claims_divide(topo, m, n, &extra, &reserved, &pool), 0);
    assert_cpus(s, "the pool", &pool, s->pool);
    for (size_t k = 0; k < n; k++) {
        const struct row *r = &s->rows[reversed ? n - 1 - k : k];

        assert_cpus(s, "a claim", &m[k].claim, r->claim);
        assert_cpus(s, "main", &m[k].main, r->main);
        assert_cpus(s, "loader", &m[k].loader, r->loader);
    }
    free_all(m, own, n);
    cpus_free(&extra);
    cpus_free(&reserved);
    cpus_free(&pool);
    topo_free(topo);
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
        check(&situations[i], false);
        check(&situations[i], true); /* the order of arrival is of no matter */
    }
}

/* Their own CPUs are not known: nothing is claimed or taken. */
static void test_bystander(void **state)
{
    struct topo *topo = machine(NULL);
    struct cpus own[2] = {CPUS_EMPTY, CPUS_EMPTY}, pool = CPUS_EMPTY, none = CPUS_EMPTY;
    struct claims_member m[2] = {{.job = 1, .bystander = true, .main_cores = 1},
                                 {.job = 2, .main_cores = 0}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cpus_parse(&own[i], "0-3"), 0);
        m[i].own = &own[i];
        m[i].near = &none;
    }
    assert_int_equal(claims_divide(topo, m, 2, NULL, NULL, &pool), 0);
    assert_true(cpus_is_empty(&m[0].claim) && cpus_is_empty(&m[0].main));
    assert_true(cpus_equal(&m[1].loader, &own[1]) && cpus_equal(&pool, &own[1]));
    free_all(m, own, 2);
    cpus_free(&pool);
    topo_free(topo);
}

/* Main cores are chosen near the GPUs. */
static void test_main_near_gpu(void **state)
{
    struct topo *topo = machine("numa:2 core:4 pu:1");
    struct cpus own = CPUS_EMPTY, near = CPUS_EMPTY, pool = CPUS_EMPTY;
    struct claims_member m = {.job = 1, .main_cores = 1, .own = &own, .near = &near};

    (void)state;
    assert_int_equal(cpus_parse(&own, "0-7"), 0);
    assert_int_equal(cpus_parse(&near, "4-7"), 0);
    assert_int_equal(claims_divide(topo, &m, 1, NULL, NULL, &pool), 0);
    assert_int_equal(cpus_count(&m.main), 1);
    assert_true(cpus_is_subset(&m.main, &near));
    claims_member_free(&m);
    cpus_free(&own);
    cpus_free(&near);
    cpus_free(&pool);
    topo_free(topo);
}

/* ---- rules, for whatever comes ------------------------------------------------------------- */

static void random_member(struct rng *rng, struct claims_member *m, struct cpus *own, unsigned npus)
{
    unsigned first = rng_below(rng, npus), length = 1 + rng_below(rng, npus / 2);

    m->job = 1 + rng_below(rng, 3);
    m->special = rng_chance(rng, 25);
    m->bystander = rng_chance(rng, 5);
    m->main_cores = rng_below(rng, 4);
    for (unsigned c = first; c < first + length; c++)
        if (!rng_chance(rng, 10))
            assert_int_equal(cpus_set(own, c % npus), 0);
}

static void check_rules(struct claims_member *m, const struct cpus *own, size_t n,
                        const struct cpus *extra, const struct cpus *reserved,
                        const struct cpus *pool, unsigned npus)
{
    for (unsigned c = 0; c < npus; c++) {
        unsigned claims = 0, owners = 0, loaders = 0, mains = 0;

        for (size_t i = 0; i < n; i++) {
            claims += cpus_isset(&m[i].claim, c);
            loaders += cpus_isset(&m[i].loader, c);
            mains += cpus_isset(&m[i].main, c);
            owners += !m[i].bystander && cpus_isset(&own[i], c);
            /* a claim is of its own; an ordinary step of the job would have beaten a batch step */
            assert_true(!cpus_isset(&m[i].claim, c) || cpus_isset(&own[i], c));
            assert_true(!cpus_isset(&m[i].main, c) || cpus_isset(&own[i], c));
            for (size_t k = 0; k < n; k++)
                if (cpus_isset(&m[i].claim, c) && m[i].special && !m[k].special &&
                    !m[k].bystander && m[k].job == m[i].job)
                    assert_false(cpus_isset(&own[k], c));
        }
        assert_int_equal(claims, owners > 0 ? 1 : 0);
        assert_true(loaders <= 1);
        if (mains > 0 || cpus_isset(reserved, c))
            assert_false(cpus_isset(pool, c));
        else
            assert_int_equal(cpus_isset(pool, c), claims > 0 || cpus_isset(extra, c));
        if (loaders > 0)
            assert_true(cpus_isset(pool, c));
    }
    for (size_t i = 0; i < n; i++) {
        unsigned wanted = m[i].bystander ? 0 : m[i].main_cores, have = cpus_count(&m[i].main);

        assert_true(have <= wanted);
        if (have < wanted) /* only where it owns no more */
            assert_int_equal(have, cpus_count(&own[i]));
    }
}

static void test_rules(void **state)
{
    static const char *const machines[] = {"core:16 pu:1", "core:8 pu:2", "numa:2 core:4 pu:2"};
    struct rng rng = {20250101};

    (void)state;
    for (unsigned round = 0; round < 3000; round++) {
        struct topo *topo = machine(machines[round % 3]);
        struct claims_member m[MAX] = {0};
        struct cpus own[MAX] = {CPUS_EMPTY}, extra = CPUS_EMPTY, reserved = CPUS_EMPTY;
        struct cpus pool = CPUS_EMPTY, none = CPUS_EMPTY;
        size_t n = rng_below(&rng, MAX + 1);

        for (size_t i = 0; i < n; i++) {
            random_member(&rng, &m[i], &own[i], 16);
            m[i].step = (uint32_t)i;
            m[i].own = &own[i];
            m[i].near = &none;
        }
        if (rng_chance(&rng, 30))
            assert_int_equal(cpus_set(&extra, rng_below(&rng, 16)), 0);
        if (rng_chance(&rng, 30))
            assert_int_equal(cpus_set(&reserved, rng_below(&rng, 16)), 0);
        assert_int_equal(claims_divide(topo, m, n, &extra, &reserved, &pool), 0);
        check_rules(m, own, n, &extra, &reserved, &pool, 16);
        free_all(m, own, n);
        cpus_free(&extra);
        cpus_free(&reserved);
        cpus_free(&pool);
        topo_free(topo);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_bystander),
        cmocka_unit_test(test_main_near_gpu),
        cmocka_unit_test(test_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
