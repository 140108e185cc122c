/*
 * Placement's promises under random events on every recorded machine and some synthetic ones: steps
 * arrive with the cores that Slurm would give them, change their demand, and leave; the allocator
 * says how many, placement says which. ADL_SEQUENCES sets how many sequences are played on each.
 */
#include "alloc.h"
#include "alloc_cases.h"
#include "place.h"
#include "shared.h"
#include "topo.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MEMBERS_MAX 12
#define EVENTS      12
#define POINTS      65

struct step {
    bool alive;
    struct cpus own, main;
    struct place_member place; /* count, claim, held (before), near, cpus (now) */
    double rate[POINTS], gpu_rate;
};

struct world {
    const char *name;
    const struct topo *topo;
    struct dice dice;
    struct cpus free, reserved; /* of the machine: owned by nobody; never used */
    struct step steps[MEMBERS_MAX];
    unsigned jobs;
    unsigned long moves, decisions, splits, near, placed;
};

static struct cpus *copy_of(struct cpus *to, const struct cpus *from)
{
    assert_int_equal(cpus_copy(to, from), 0);
    return to;
}

/* ---- events -------------------------------------------------------------------------------- */

static bool same_core(const struct topo *topo, unsigned a, unsigned b)
{
    int core = topo_pu(topo, a)->core;

    return core >= 0 && core == topo_pu(topo, b)->core;
}

/* Slurm's way: whole cores in a row from somewhere, or single PUs of cores, from what is free. */
static void give_own(struct world *w, struct step *s)
{
    bool single = dice_below(&w->dice, 4) == 0;
    unsigned want = 1 + dice_below(&w->dice, (unsigned)w->topo->npus / 3 + 1);
    size_t from = dice_below(&w->dice, (unsigned)w->topo->npus);

    for (size_t i = 0; i < w->topo->npus && cpus_count(&s->own) < want; i++) {
        unsigned os = w->topo->pus[(from + i) % w->topo->npus].os;

        for (size_t k = 0; k < w->topo->npus; k++) {
            unsigned other = w->topo->pus[k].os;

            if (other != os && (single || !same_core(w->topo, os, other)))
                continue;
            if (cpus_isset(&w->free, other)) {
                assert_int_equal(cpus_set(&s->own, other), 0);
                cpus_clear(&w->free, other);
            }
        }
    }
}

static void arrive(struct world *w, struct step *s)
{
    struct cpus none = CPUS_EMPTY;
    unsigned main_cores;

    memset(s, 0, sizeof(*s));
    give_own(w, s);
    if (cpus_is_empty(&s->own))
        return;
    s->alive = true;
    s->place.job = w->jobs++;
    for (size_t g = 0; g < w->topo->ngpus; g++)
        if (dice_below(&w->dice, (unsigned)w->topo->ngpus) == 0)
            assert_int_equal(cpus_or(&s->place.near, &w->topo->gpus[g].local), 0);
    main_cores = dice_below(&w->dice, 3);
    assert_int_equal(
        place_main(w->topo, &s->own, main_cores, &s->place.near, &none, false, &s->main), 0);
    assert_true(cpus_is_subset(&s->main, &s->own));
    assert_int_equal(cpus_count(&s->main),
                     main_cores < cpus_count(&s->own) ? main_cores : cpus_count(&s->own));
    copy_of(&s->place.claim, &s->own);
    cpus_andnot(&s->place.claim, &s->main);
    s->gpu_rate = cases_curve(&w->dice, s->rate, POINTS, false);
}

static void forget(struct world *w, struct step *s)
{
    assert_int_equal(cpus_or(&w->free, &s->own), 0);
    cpus_free(&s->own);
    cpus_free(&s->main);
    cpus_free(&s->place.claim);
    cpus_free(&s->place.held);
    cpus_free(&s->place.near);
    cpus_free(&s->place.cpus);
    s->alive = false;
}

static void event(struct world *w)
{
    struct step *s = &w->steps[dice_below(&w->dice, MEMBERS_MAX)];

    if (!s->alive)
        arrive(w, s);
    else if (dice_below(&w->dice, 3) == 0)
        forget(w, s);
    else
        s->gpu_rate = cases_curve(&w->dice, s->rate, POINTS, false);
}

/* ---- a decision, and all that must be true of it ------------------------------------------- */

static unsigned count_and(const struct cpus *a, const struct cpus *b)
{
    struct cpus both = CPUS_EMPTY;
    unsigned n;

    copy_of(&both, a);
    cpus_and(&both, b);
    n = cpus_count(&both);
    cpus_free(&both);
    return n;
}

static void check_counts(const struct world *w, const struct alloc_problem *p,
                         const unsigned *cores)
{
    unsigned sum = 0;

    for (size_t i = 0; i < p->nmembers; i++) {
        const struct alloc_member *m = &p->members[i];
        unsigned own = m->own < m->nrate ? m->own : m->nrate - 1;
        unsigned is = cores[i] < m->nrate ? cores[i] : m->nrate - 1;

        sum += cores[i];
        if (m->rate[is] < m->rate[own] * (1 - ALLOC_FLOOR_TOLERANCE) - 1e-9 * m->gpu_rate)
            fail_msg("%s: a member with %u own cores gets %u: rate %g below %g", w->name, m->own,
                     cores[i], m->rate[is], m->rate[own]);
    }
    assert_true(sum <= p->nodes[0].pool);
}

/* How the PUs of a core are used at the end. */
struct use {
    unsigned jobs[8], njobs, free_pus, pool_pus;
};

static int core_key(const struct topo *topo, size_t i)
{
    /* PUs without a core are cores of their own, after the others */
    return topo->pus[i].core >= 0 ? topo->pus[i].core : (int)(topo->ncores + i);
}

static struct use *use_of_cores(const struct world *w, const struct cpus *pool)
{
    struct use *use = calloc(w->topo->ncores + w->topo->npus + 1, sizeof(*use));

    assert_non_null(use);
    for (size_t i = 0; i < w->topo->npus; i++) {
        struct use *u = &use[core_key(w->topo, i)];
        bool taken = false;

        if (!cpus_isset(pool, w->topo->pus[i].os))
            continue;
        u->pool_pus++;
        for (size_t k = 0; k < MEMBERS_MAX; k++) {
            bool known = false;

            if (!w->steps[k].alive || !cpus_isset(&w->steps[k].place.cpus, w->topo->pus[i].os))
                continue;
            taken = true;
            for (unsigned n = 0; n < u->njobs; n++)
                known = known || u->jobs[n] == w->steps[k].place.job;
            if (!known && u->njobs < 8)
                u->jobs[u->njobs++] = w->steps[k].place.job;
        }
        u->free_pus += !taken;
    }
    return use;
}

/* What a member took that is neither its own nor was held: no torn core while a whole one is free,
 * nothing far while a near whole core is free. */
static void check_taken(struct world *w, const struct step *s, const struct cpus *pool,
                        const struct use *use, bool whole_free)
{
    for (size_t i = 0; i < w->topo->npus; i++) {
        unsigned os = w->topo->pus[i].os;

        if (!cpus_isset(&s->place.cpus, os))
            continue;
        w->placed++;
        w->near += cpus_isset(&s->place.near, os);
        w->splits += use[core_key(w->topo, i)].njobs > 1;
        if (cpus_isset(&s->place.held, os) || cpus_isset(&s->place.claim, os))
            continue;
        if (whole_free && use[core_key(w->topo, i)].njobs > 1)
            fail_msg("%s: PU %u shares a core with another job while a whole core is free", w->name,
                     os);
        for (size_t k = 0; k < w->topo->npus && !cpus_isset(&s->place.near, os); k++) {
            const struct use *u = &use[core_key(w->topo, k)];

            if (cpus_isset(pool, w->topo->pus[k].os) &&
                cpus_isset(&s->place.near, w->topo->pus[k].os) && u->free_pus == u->pool_pus)
                fail_msg("%s: PU %u is far, while near PU %u is free", w->name, os,
                         w->topo->pus[k].os);
        }
    }
}

static void check_places(struct world *w, const struct cpus *pool)
{
    struct use *use = use_of_cores(w, pool);
    struct cpus seen = CPUS_EMPTY;
    bool whole_free = false;

    for (size_t c = 0; c < w->topo->ncores + w->topo->npus; c++)
        whole_free = whole_free || (use[c].pool_pus > 0 && use[c].free_pus == use[c].pool_pus);
    for (size_t k = 0; k < MEMBERS_MAX; k++) {
        const struct step *s = &w->steps[k];
        unsigned held, kept;

        if (!s->alive)
            continue;
        assert_int_equal(cpus_count(&s->place.cpus), s->place.count);
        assert_true(cpus_is_subset(&s->place.cpus, pool));
        assert_false(cpus_intersects(&s->place.cpus, &seen));
        assert_false(cpus_intersects(&s->place.cpus, &w->reserved));
        for (size_t o = 0; o < MEMBERS_MAX; o++)
            assert_false(w->steps[o].alive && cpus_intersects(&s->place.cpus, &w->steps[o].main));
        assert_int_equal(cpus_or(&seen, &s->place.cpus), 0);
        /* as much as can be of what was held is still held */
        held = count_and(&s->place.held, pool);
        kept = count_and(&s->place.held, &s->place.cpus);
        if (kept != (held < s->place.count ? held : s->place.count))
            fail_msg("%s: keeps %u of %u that it held, wants %u", w->name, kept, held,
                     s->place.count);
        w->moves += s->place.count - kept;
        check_taken(w, s, pool, use, whole_free);
    }
    cpus_free(&seen);
    free(use);
}

static size_t ask_allocator(struct world *w, const struct cpus *pool, unsigned *cores)
{
    struct alloc_member members[MEMBERS_MAX];
    const struct alloc_node node = {cpus_count(pool)};
    struct alloc_problem p = {.policy = (enum alloc_policy)dice_below(&w->dice, 4),
                              .guarantee = ALLOC_GUARANTEE_OWN,
                              .members = members,
                              .nodes = &node,
                              .nnodes = 1,
                              .io_bytes_per_s = NAN};
    struct alloc_result r = {.cores = cores};
    char error[256] = "";

    for (size_t k = 0; k < MEMBERS_MAX; k++)
        if (w->steps[k].alive)
            members[p.nmembers++] =
                (struct alloc_member){.job = (unsigned)p.njobs++,
                                      .own = cpus_count(&w->steps[k].place.claim),
                                      .now = count_and(&w->steps[k].place.cpus, pool),
                                      .weight = 1,
                                      .gpus = 1,
                                      .rate = w->steps[k].rate,
                                      .nrate = POINTS,
                                      .gpu_rate = w->steps[k].gpu_rate,
                                      .work = NAN};
    if (alloc_solve(&p, &r, error, sizeof(error)) < 0)
        fail_msg("%s: %s", w->name, error);
    check_counts(w, &p, cores);
    return p.nmembers;
}

static void decide(struct world *w)
{
    struct place_member members[MEMBERS_MAX];
    unsigned cores[MEMBERS_MAX];
    struct cpus pool = CPUS_EMPTY;
    size_t n = 0;

    for (size_t k = 0; k < MEMBERS_MAX; k++)
        if (w->steps[k].alive)
            assert_int_equal(cpus_or(&pool, &w->steps[k].place.claim), 0);
    (void)ask_allocator(w, &pool, cores);
    for (size_t k = 0; k < MEMBERS_MAX; k++) {
        struct step *s = &w->steps[k];

        if (!s->alive)
            continue;
        s->place.count = cores[n];
        cpus_move(&s->place.held, &s->place.cpus);
        members[n++] = s->place;
    }
    if (place_loaders(w->topo, &pool, members, n) < 0)
        fail_msg("%s: cannot be placed", w->name);
    n = 0;
    for (size_t k = 0; k < MEMBERS_MAX; k++)
        if (w->steps[k].alive)
            cpus_move(&w->steps[k].place.cpus, &members[n++].cpus);
    check_places(w, &pool);
    w->decisions++;
    cpus_free(&pool);
}

static void play(struct world *w, unsigned sequences)
{
    for (unsigned n = 0; n < sequences; n++) {
        cpus_clear_all(&w->free);
        cpus_clear_all(&w->reserved);
        for (size_t i = 0; i < w->topo->npus; i++)
            assert_int_equal(cpus_set(&w->free, w->topo->pus[i].os), 0);
        if (w->topo->npus > 4)
            assert_int_equal(cpus_set(&w->reserved, w->topo->pus[n % w->topo->npus].os), 0);
        cpus_andnot(&w->free, &w->reserved);
        for (unsigned e = 0; e < EVENTS; e++) {
            event(w);
            decide(w);
        }
        for (size_t k = 0; k < MEMBERS_MAX; k++)
            if (w->steps[k].alive)
                forget(w, &w->steps[k]);
    }
    print_message(
        "# %-42s %8lu decisions, %6.2f moves each, %5.1f %% near, %4.1f %% on split cores\n",
        w->name, w->decisions, (double)w->moves / (double)w->decisions,
        w->placed > 0 ? 100.0 * (double)w->near / (double)w->placed : 0,
        w->placed > 0 ? 100.0 * (double)w->splits / (double)w->placed : 0);
    cpus_free(&w->free);
    cpus_free(&w->reserved);
}

static unsigned sequences_wanted(size_t npus)
{
    const char *text = getenv("ADL_SEQUENCES");
    unsigned wanted = text != NULL ? (unsigned)strtoul(text, NULL, 10) : 0;

    if (wanted > 0)
        return wanted;
    return npus > 200 ? 3 : npus > 64 ? 10 : 40;
}

static void play_on(const char *name, struct topo *topo)
{
    static struct world w;

    memset(&w, 0, sizeof(w));
    w.name = name;
    w.topo = topo;
    w.dice.state = 42;
    play(&w, sequences_wanted(topo->npus));
    topo_free(topo);
}

static void recorded_machines(void **state)
{
    char dir[512], path[1024], error[256] = "";
    struct dirent *entry;
    DIR *d;

    (void)state;
    if (!shared_path(dir, sizeof(dir), "topologies"))
        skip();
    d = opendir(dir);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        struct topo *topo;

        if (strstr(entry->d_name, ".xml") == NULL)
            continue;
        assert_true(snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name) < (int)sizeof(path));
        topo = topo_from_xml_file(path, error, sizeof(error));
        if (topo == NULL)
            fail_msg("%s: %s", entry->d_name, error);
        play_on(entry->d_name, topo);
    }
    assert_int_equal(closedir(d), 0);
}

static void synthetic_machines(void **state)
{
    static const char *const texts[] = {"pack:2 core:14 pu:1", "pack:2 numa:2 l3:2 core:4 pu:2",
                                        "core:1 pu:2", "pack:1 core:8 pu:8"};
    struct cpus flat = CPUS_EMPTY;
    char error[256] = "";

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct topo *topo = topo_from_synthetic(texts[i], error, sizeof(error));

        assert_non_null(topo);
        play_on(texts[i], topo);
    }
    assert_int_equal(cpus_parse(&flat, "0-7,1100-1107"), 0);
    play_on("flat, nothing known", topo_flat(&flat));
    cpus_free(&flat);
}

/* ---- single rules -------------------------------------------------------------------------- */

static void expect(const struct cpus *set, const char *list)
{
    char *is = cpus_to_string(set);

    assert_non_null(is);
    assert_string_equal(is, list);
    free(is);
}

/* Overlapping steps of one job share main cores; other jobs' are left alone while there are more.
 */
static void main_cores_taken(void **state)
{
    char error[256] = "";
    struct topo *topo = topo_from_synthetic("pack:2 core:4 pu:1", error, sizeof(error));
    struct cpus own = CPUS_EMPTY, taken = CPUS_EMPTY, near = CPUS_EMPTY, chosen = CPUS_EMPTY;

    (void)state;
    assert_non_null(topo);
    assert_int_equal(cpus_parse(&own, "0-7"), 0);
    assert_int_equal(cpus_parse(&taken, "2"), 0);
    assert_int_equal(place_main(topo, &own, 2, &near, &taken, true, &chosen), 0);
    expect(&chosen, "0,2");
    cpus_clear(&taken, 2);
    assert_int_equal(cpus_set(&taken, 0), 0);
    assert_int_equal(place_main(topo, &own, 2, &near, &taken, false, &chosen), 0);
    expect(&chosen, "1-2");
    /* never more than there are, and none if none are asked for */
    assert_int_equal(place_main(topo, &own, 100, &near, &taken, false, &chosen), 0);
    expect(&chosen, "0-7");
    assert_int_equal(place_main(topo, &own, 0, &near, &taken, false, &chosen), 0);
    expect(&chosen, "");
    /* a CPU that the machine does not have is not chosen */
    assert_int_equal(cpus_set(&own, 900), 0);
    assert_int_equal(place_main(topo, &own, 100, &near, &taken, false, &chosen), 0);
    expect(&chosen, "0-7");
    cpus_free(&own);
    cpus_free(&taken);
    cpus_free(&chosen);
    topo_free(topo);
}

static void refuses_too_much(void **state)
{
    char error[256] = "";
    struct topo *topo = topo_from_synthetic("core:4 pu:1", error, sizeof(error));
    struct place_member m = {.count = 5};
    struct cpus pool = CPUS_EMPTY;

    (void)state;
    assert_non_null(topo);
    assert_int_equal(cpus_parse(&pool, "0-3,64"), 0);
    assert_int_equal(place_loaders(topo, &pool, &m, 1), -1);
    assert_true(cpus_is_empty(&m.cpus));
    m.count = 4;
    assert_int_equal(place_loaders(topo, &pool, &m, 1), 0);
    expect(&m.cpus, "0-3");
    cpus_free(&m.cpus);
    assert_int_equal(place_loaders(topo, &pool, NULL, 0), 0);
    cpus_free(&pool);
    topo_free(topo);
}

static void local_share(void **state)
{
    struct cpus cpus = CPUS_EMPTY, near = CPUS_EMPTY;

    (void)state;
    assert_int_equal(cpus_parse(&cpus, "0-3"), 0);
    assert_true(isnan(place_local_share(&cpus, &near)));
    assert_int_equal(cpus_parse(&near, "3-9"), 0);
    assert_true(fabs(place_local_share(&cpus, &near) - 0.25) < 1e-12);
    cpus_clear_all(&cpus);
    assert_true(isnan(place_local_share(&cpus, &near)));
    cpus_free(&cpus);
    cpus_free(&near);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_machines), cmocka_unit_test(synthetic_machines),
        cmocka_unit_test(main_cores_taken),  cmocka_unit_test(refuses_too_much),
        cmocka_unit_test(local_share),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
