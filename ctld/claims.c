/* Who may speak for which CPU of a node. See claims.h for the rules. */
#include "config.h"

#include "claims.h"

#include "place.h"

#include <errno.h>
#include <stdlib.h>

void claims_member_free(struct claims_member *member)
{
    cpus_free(&member->claim);
    cpus_free(&member->main);
    cpus_free(&member->loader);
}

/* Ordinary steps first, then by job and step, so that arrival order does not matter. */
static int compare(const void *a, const void *b)
{
    const struct claims_member *x = *(struct claims_member *const *)a;
    const struct claims_member *y = *(struct claims_member *const *)b;

    if (x->special != y->special)
        return x->special ? 1 : -1;
    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return 0;
}

/* Start with claim = own; a batch step leaves out what ordinary steps of its job own. */
static int claim_own(struct claims_member *const *order, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct claims_member *m = order[i];

        cpus_clear_all(&m->claim);
        if (m->bystander)
            continue;
        if (cpus_copy(&m->claim, m->own) < 0)
            return -1;
        for (size_t j = 0; m->special && j < n && !order[j]->special; j++)
            if (order[j]->job == m->job && !order[j]->bystander)
                cpus_andnot(&m->claim, order[j]->own);
    }
    return 0;
}

/* CPUs that more than one member still claims. */
static int find_contested(struct claims_member *const *order, size_t n, struct cpus *contested)
{
    struct cpus seen = CPUS_EMPTY, twice = CPUS_EMPTY;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        if (!cpus_intersects(&seen, &order[i]->claim)) {
            rc = cpus_or(&seen, &order[i]->claim);
            continue;
        }
        rc = cpus_copy(&twice, &order[i]->claim);
        if (rc == 0) {
            cpus_and(&twice, &seen);
            rc = cpus_or(contested, &twice);
        }
        if (rc == 0)
            rc = cpus_or(&seen, &order[i]->claim);
    }
    cpus_free(&seen);
    cpus_free(&twice);
    return rc;
}

/* The claimant of cpu that has won least so far; the one that won the core's sibling if it can. */
static size_t winner(struct claims_member *const *order, const unsigned *won, size_t n,
                     unsigned cpu, long sibling_winner)
{
    size_t best = n;

    if (sibling_winner >= 0 && cpus_isset(&order[sibling_winner]->claim, cpu))
        return (size_t)sibling_winner;
    for (size_t i = 0; i < n; i++)
        if (cpus_isset(&order[i]->claim, cpu) && (best == n || won[i] < won[best]))
            best = i;
    return best;
}

static int divide_contested(const struct topo *topo, struct claims_member *const *order, size_t n,
                            const struct cpus *contested)
{
    unsigned *won = calloc(n, sizeof(*won));
    long *core_winner = malloc((topo->ncores + 1) * sizeof(*core_winner));

    if (won == NULL || core_winner == NULL) {
        free(won);
        free(core_winner);
        errno = ENOMEM;
        return -1;
    }
    for (unsigned c = 0; c <= topo->ncores; c++)
        core_winner[c] = -1;

    for (long cpu = cpus_next(contested, 0); cpu >= 0;
         cpu = cpus_next(contested, (unsigned long)cpu + 1)) {
        const struct topo_pu *pu = topo_pu(topo, (unsigned)cpu);
        bool known = pu != NULL && pu->core >= 0 && (unsigned)pu->core < topo->ncores;
        size_t w = winner(order, won, n, (unsigned)cpu, known ? core_winner[pu->core] : -1);

        if (w == n)
            continue;
        won[w]++;
        if (known)
            core_winner[pu->core] = (long)w;
        for (size_t i = 0; i < n; i++)
            if (i != w)
                cpus_clear(&order[i]->claim, (unsigned)cpu);
    }
    free(won);
    free(core_winner);
    return 0;
}

/* Main cores of one member; taken: those that members of the same job keep already. */
static int choose_main(const struct topo *topo, struct claims_member *m, const struct cpus *taken)
{
    struct cpus rest = CPUS_EMPTY, more = CPUS_EMPTY;
    unsigned have;
    int rc;

    cpus_clear_all(&m->main);
    if (m->bystander || m->main_cores == 0)
        return 0;
    if (m->special)
        return place_main(topo, m->own, m->main_cores, m->near, taken, true, &m->main);

    if (place_main(topo, &m->claim, m->main_cores, m->near, taken, false, &m->main) < 0)
        return -1;
    have = cpus_count(&m->main);
    if (have >= m->main_cores || have == cpus_count(m->own))
        return 0;
    /* Its share of contested CPUs is too small: its main threads run where others' do. */
    rc = cpus_copy(&rest, m->own);
    if (rc == 0) {
        cpus_andnot(&rest, &m->main);
        rc = place_main(topo, &rest, m->main_cores - have, m->near, taken, true, &more);
    }
    if (rc == 0)
        rc = cpus_or(&m->main, &more);
    cpus_free(&rest);
    cpus_free(&more);
    return rc;
}

/* all_main: the main cores of the whole node. */
static int choose_mains(const struct topo *topo, struct claims_member *const *order, size_t n,
                        struct cpus *all_main)
{
    struct cpus taken = CPUS_EMPTY;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        cpus_clear_all(&taken);
        for (size_t j = 0; j < i && rc == 0; j++)
            if (order[j]->job == order[i]->job)
                rc = cpus_or(&taken, &order[j]->main);
        if (rc == 0)
            rc = choose_main(topo, order[i], &taken);
        if (rc == 0)
            rc = cpus_or(all_main, &order[i]->main);
    }
    cpus_free(&taken);
    return rc;
}

static int fill_loaders(struct claims_member *const *order, size_t n, const struct cpus *all_main,
                        const struct cpus *extra, const struct cpus *reserved, struct cpus *pool)
{
    cpus_clear_all(pool);
    if (extra != NULL && cpus_or(pool, extra) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct claims_member *m = order[i];

        if (cpus_copy(&m->loader, &m->claim) < 0)
            return -1;
        cpus_andnot(&m->loader, all_main);
        if (reserved != NULL)
            cpus_andnot(&m->loader, reserved);
        if (cpus_or(pool, &m->loader) < 0)
            return -1;
    }
    cpus_andnot(pool, all_main);
    if (reserved != NULL)
        cpus_andnot(pool, reserved);
    return 0;
}

int claims_divide(const struct topo *topo, struct claims_member *members, size_t nmembers,
                  const struct cpus *extra, const struct cpus *reserved, struct cpus *pool)
{
    struct claims_member **order = malloc((nmembers + 1) * sizeof(struct claims_member *));
    struct cpus contested = CPUS_EMPTY, all_main = CPUS_EMPTY;
    int rc = -1;

    if (order == NULL)
        return -1;
    for (size_t i = 0; i < nmembers; i++)
        order[i] = &members[i];
    qsort(order, nmembers, sizeof(struct claims_member *), compare);

    if (claim_own(order, nmembers) == 0 && find_contested(order, nmembers, &contested) == 0 &&
        (cpus_is_empty(&contested) || divide_contested(topo, order, nmembers, &contested) == 0) &&
        choose_mains(topo, order, nmembers, &all_main) == 0 &&
        fill_loaders(order, nmembers, &all_main, extra, reserved, pool) == 0)
        rc = 0;

    cpus_free(&contested);
    cpus_free(&all_main);
    free(order);
    return rc;
}
