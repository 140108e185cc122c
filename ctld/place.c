/*
 * Placement: which PUs a member's loaders get. Three passes: members keep what they hold (those
 * that shrink give up what suits them least), then take free PUs of their own claim, then borrow,
 * near their GPUs first. Every choice is the lowest of one number a PU, so the order of what
 * matters stands in one place for each pass: take_key() and drop_key().
 *
 * SMT: a core serves one job where possible. How many PUs of a core a member fills before it opens
 * another (the fill) is the smallest number at which all members get along without sharing.
 */
#include "config.h"

#include "place.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NOBODY   (-1)
#define FAR_MAX  4095u
#define SLOW_MAX 1023u

/* One PU of the pool. */
struct spot {
    const struct topo_pu *pu;
    int core;     /* dense here: index into board.cores */
    int taker;    /* member, or NOBODY */
    int claimant; /* member, or NOBODY */
};

struct core {
    unsigned taken; /* PUs in use */
    bool whole;     /* all its PUs are in the pool */
    int job;        /* of the first taker; SEVERAL if siblings are split */
};
#define SEVERAL (-2)

/* What one member's keys need; made only for members that take or give up anything. */
struct view {
    int member;
    unsigned have;
    bool built;
    bool *near;     /* a spot */
    bool *l3;       /* an L3: it has PUs there */
    unsigned *away; /* a NUMA domain (and one more for unknown): distance from home */
};

struct board {
    const struct topo *topo;
    struct place_member *members;
    size_t nmembers;
    struct spot *spots;
    size_t nspots;
    int *spot_of; /* an OS number up to last_os: index of its spot, or NOBODY */
    long last_os;
    struct core *cores;
    unsigned ncores;
    unsigned *l3_job; /* an L3: 0 nobody, 1 + job, UINT_MAX several */
    unsigned fill;
    struct view *views;
};

/* ---- setting up ---------------------------------------------------------------------------- */

/* Where the machine tells of no NUMA domains, its packages are the domains. */
static bool by_package(const struct topo *topo)
{
    return topo->nnuma <= 1 && topo->npackages > 1;
}

static size_t domains_of(const struct topo *topo)
{
    return (size_t)(by_package(topo) ? topo->npackages : topo->nnuma) + 1;
}

/* The index of a PU's domain, with one beyond the last for "unknown". */
static size_t domain_of(const struct topo *topo, const struct topo_pu *pu)
{
    int domain = by_package(topo) ? pu->package : pu->numa;
    size_t unknown = domains_of(topo) - 1;

    return domain >= 0 && (size_t)domain < unknown ? (size_t)domain : unknown;
}

static void board_free(struct board *b)
{
    for (size_t m = 0; b->views != NULL && m < b->nmembers; m++) {
        free(b->views[m].near);
        free(b->views[m].l3);
        free(b->views[m].away);
    }
    free(b->views);
    free(b->spots);
    free(b->spot_of);
    free(b->cores);
    free(b->l3_job);
}

/* PUs without a known core are cores of their own. */
static int number_cores(struct board *b)
{
    size_t n = (size_t)b->topo->ncores + 1;
    int *number = malloc(n * sizeof(*number));

    if (number == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        number[i] = -1;
    for (size_t s = 0; s < b->nspots; s++) {
        int core = b->spots[s].pu->core;

        if (core < 0 || (unsigned)core >= b->topo->ncores) {
            b->cores[b->ncores].whole = true;
            b->spots[s].core = (int)b->ncores++;
            continue;
        }
        if (number[core] < 0) {
            b->cores[b->ncores].whole = true;
            number[core] = (int)b->ncores++;
        }
        b->spots[s].core = number[core];
    }
    for (size_t i = 0; i < b->topo->npus; i++) {
        const struct topo_pu *pu = &b->topo->pus[i];

        if (pu->core >= 0 && (unsigned)pu->core < b->topo->ncores && number[pu->core] >= 0 &&
            b->spot_of[pu->os] == NOBODY)
            b->cores[number[pu->core]].whole = false;
    }
    free(number);
    return 0;
}

static struct spot *spot_at(const struct board *b, long os)
{
    return os <= b->last_os && b->spot_of[os] != NOBODY ? &b->spots[b->spot_of[os]] : NULL;
}

static int board_spots(struct board *b, const struct cpus *pool)
{
    size_t n = (size_t)cpus_count(pool) + 1;

    b->last_os = b->topo->npus > 0 ? (long)b->topo->pus[b->topo->npus - 1].os : 0;
    b->spots = calloc(n, sizeof(*b->spots));
    b->cores = calloc(n, sizeof(*b->cores));
    b->l3_job = calloc((size_t)b->topo->nl3 + 1, sizeof(*b->l3_job));
    b->spot_of = malloc(((size_t)b->last_os + 1) * sizeof(*b->spot_of));
    if (b->spots == NULL || b->cores == NULL || b->l3_job == NULL || b->spot_of == NULL)
        return -1;
    for (long os = 0; os <= b->last_os; os++)
        b->spot_of[os] = NOBODY;
    /* what the pool names and the machine does not have stays out */
    for (size_t i = 0; i < b->topo->npus; i++) {
        const struct topo_pu *pu = &b->topo->pus[i];

        if (!cpus_isset(pool, pu->os))
            continue;
        b->spot_of[pu->os] = (int)b->nspots;
        b->spots[b->nspots++] = (struct spot){pu, 0, NOBODY, NOBODY};
    }
    for (size_t m = 0; m < b->nmembers; m++) {
        const struct cpus *claim = &b->members[m].claim;

        for (long c = cpus_next(claim, 0); c >= 0; c = cpus_next(claim, (unsigned long)c + 1)) {
            struct spot *spot = spot_at(b, c);

            if (spot != NULL && spot->claimant == NOBODY)
                spot->claimant = (int)m;
        }
    }
    return number_cores(b);
}

/* The smallest number of PUs a core at which every member can have whole cores. */
static unsigned choose_fill(const struct board *b)
{
    unsigned most = 1;

    for (size_t s = 0; s < b->nspots; s++)
        if ((unsigned)b->spots[s].pu->sibling + 1 > most)
            most = (unsigned)b->spots[s].pu->sibling + 1;
    for (unsigned fill = 1; fill < most; fill++) {
        size_t need = 0;

        for (size_t m = 0; m < b->nmembers; m++)
            need += (b->members[m].count + fill - 1) / fill;
        if (need <= b->ncores)
            return fill;
    }
    return most;
}

static double distance(const struct topo *topo, size_t a, size_t b)
{
    if (!by_package(topo) && topo->numa_distance != NULL && a < topo->nnuma && b < topo->nnuma)
        return topo->numa_distance[a * topo->nnuma + b];
    return a == b ? 10 : 20;
}

/* Distance of every domain from the nearest home domain; all 0 when home is nowhere. */
static void measure_away(const struct topo *topo, const bool *home, unsigned *away)
{
    size_t n = domains_of(topo);

    for (size_t d = 0; d < n; d++) {
        double least = INFINITY;

        for (size_t h = 0; h < n; h++)
            if (home[h])
                least = fmin(least, distance(topo, h, d));
        if (isinf(least))
            least = 0;
        away[d] = least < FAR_MAX ? (unsigned)least : FAR_MAX;
    }
}

/* Home: the domains of the GPUs, else of what it holds, else of its claim. */
static bool mark_home(const struct topo *topo, const struct cpus *set, bool *home)
{
    bool any = false;

    for (long c = cpus_next(set, 0); c >= 0; c = cpus_next(set, (unsigned long)c + 1)) {
        const struct topo_pu *pu = topo_pu(topo, (unsigned)c);

        if (pu == NULL)
            continue;
        home[domain_of(topo, pu)] = true;
        any = true;
    }
    return any;
}

static int view_build(const struct board *b, struct view *v)
{
    const struct place_member *m = &b->members[v->member];
    bool *home = calloc(domains_of(b->topo), sizeof(*home));

    v->near = calloc(b->nspots + 1, sizeof(*v->near));
    v->l3 = calloc((size_t)b->topo->nl3 + 1, sizeof(*v->l3));
    v->away = calloc(domains_of(b->topo), sizeof(*v->away));
    if (home == NULL || v->near == NULL || v->l3 == NULL || v->away == NULL) {
        free(home);
        return -1;
    }
    for (long c = cpus_next(&m->near, 0); c >= 0; c = cpus_next(&m->near, (unsigned long)c + 1)) {
        const struct spot *spot = spot_at(b, c);

        if (spot != NULL)
            v->near[spot - b->spots] = true;
    }
    if (!mark_home(b->topo, &m->near, home) && !mark_home(b->topo, &m->held, home))
        (void)mark_home(b->topo, &m->claim, home);
    measure_away(b->topo, home, v->away);
    free(home);
    v->built = true;
    return 0;
}

static int board_build(struct board *b, const struct cpus *pool)
{
    if (board_spots(b, pool) < 0)
        return -1;
    b->fill = choose_fill(b);
    b->views = calloc(b->nmembers + 1, sizeof(*b->views));
    if (b->views == NULL)
        return -1;
    for (size_t m = 0; m < b->nmembers; m++)
        b->views[m].member = (int)m;
    return 0;
}

/* ---- taking and dropping ------------------------------------------------------------------- */

static int l3_of(const struct board *b, const struct spot *spot)
{
    int l3 = spot->pu->l3;

    return l3 >= 0 && (unsigned)l3 < b->topo->nl3 ? l3 : -1;
}

static void take(struct board *b, struct view *v, struct spot *spot)
{
    unsigned job = b->members[v->member].job;
    struct core *core = &b->cores[spot->core];
    int l3 = l3_of(b, spot);

    spot->taker = v->member;
    core->job = core->taken == 0 || core->job == (int)job ? (int)job : SEVERAL;
    core->taken++;
    v->have++;
    if (l3 >= 0) {
        if (v->built)
            v->l3[l3] = true;
        b->l3_job[l3] = b->l3_job[l3] == 0 || b->l3_job[l3] == job + 1 ? job + 1 : UINT32_MAX;
    }
}

static unsigned slowness(const struct spot *spot)
{
    double slow = (1 - spot->pu->speed) * SLOW_MAX;

    return slow < 0 ? 0 : slow > SLOW_MAX ? SLOW_MAX : (unsigned)slow;
}

static bool shared(const struct board *b, const struct view *v, const struct spot *spot)
{
    const struct core *core = &b->cores[spot->core];

    return core->taken > 0 && core->job != (int)b->members[v->member].job;
}

/*
 * The lower, the better for the member: a core of no other job; near its GPUs; a near domain; an
 * L3 that it already uses; fill up a core, then a fresh one; an L3 of no other job; fast; low
 * number.
 */
static uint64_t take_key(const struct board *b, const struct view *v, size_t s)
{
    const struct spot *spot = &b->spots[s];
    const struct core *core = &b->cores[spot->core];
    unsigned job = b->members[v->member].job;
    int l3 = l3_of(b, spot);
    uint64_t key;

    key = shared(b, v, spot);
    key = key << 1 | !v->near[s];
    key = key << 12 | v->away[domain_of(b->topo, spot->pu)];
    key = key << 1 | (core->taken >= b->fill);
    key = key << 4 | slowness(spot) >> 6;
    key = key << 1 | (l3 >= 0 && v->have > 0 && !v->l3[l3]);
    key = key << 2 | (core->taken > 0 ? 0u : core->whole ? 1u : 2u);
    key = key << 1 | (l3 >= 0 && b->l3_job[l3] != 0 && b->l3_job[l3] != job + 1);
    key = key << 10 | slowness(spot);
    return key << 16 | spot->pu->os;
}

static bool needs(const struct board *b, const struct view *v)
{
    return v->have < b->members[v->member].count;
}

/* Which free PUs a pass offers; nearness is no reason to share a core. */
enum offer { OFFER_CLAIM, OFFER_NEAR, OFFER_ALL };

static bool offered(const struct board *b, const struct view *v, size_t s, enum offer offer)
{
    const struct spot *spot = &b->spots[s];

    if (spot->taker != NOBODY)
        return false;
    switch (offer) {
    case OFFER_CLAIM:
        return spot->claimant == v->member;
    case OFFER_NEAR:
        return v->near[s] && !shared(b, v, spot);
    case OFFER_ALL:
        break;
    }
    return true;
}

static bool take_best(struct board *b, struct view *v, enum offer offer)
{
    uint64_t best = UINT64_MAX;
    struct spot *choice = NULL;

    for (size_t s = 0; s < b->nspots; s++) {
        uint64_t key;

        if (!offered(b, v, s, offer))
            continue;
        key = take_key(b, v, s);
        if (key < best) {
            best = key;
            choice = &b->spots[s];
        }
    }
    if (choice == NULL)
        return false;
    take(b, v, choice);
    return true;
}

/* Members take turns, a core's fill at a time, so that none gets all the near ones. */
static void take_in_turns(struct board *b, enum offer offer)
{
    bool progress = true;

    while (progress) {
        progress = false;
        for (size_t m = 0; m < b->nmembers; m++)
            for (unsigned i = 0; i < b->fill && needs(b, &b->views[m]); i++)
                progress = take_best(b, &b->views[m], offer) || progress;
    }
}

/* Among the PUs that a member holds: the higher, the sooner it gives it up. */
static uint64_t drop_key(const struct board *b, const struct view *v, size_t s,
                         const unsigned *on_core, const bool *wanted)
{
    const struct spot *spot = &b->spots[s];
    bool own = spot->claimant == v->member;
    unsigned mine = on_core[spot->core];
    uint64_t key;

    key = !own && spot->claimant != NOBODY && wanted[spot->claimant];
    key = key << 1 | !own;
    key = key << 1 | !v->near[s];
    key = key << 12 | v->away[domain_of(b->topo, spot->pu)];
    /* leave whole cores behind, or spread out while there is room */
    key = key << 6 | (b->fill > 1 ? 63u - (mine < 63u ? mine : 63u) : mine < 63u ? mine : 63u);
    key = key << 10 | slowness(spot);
    return key << 16 | spot->pu->os;
}

static void drop_worst(struct board *b, const struct view *v, bool *mine, unsigned *on_core,
                       const bool *wanted)
{
    size_t worst = b->nspots;
    uint64_t highest = 0;

    for (size_t s = 0; s < b->nspots; s++) {
        uint64_t key;

        if (!mine[s])
            continue;
        key = drop_key(b, v, s, on_core, wanted);
        if (worst == b->nspots || key > highest) {
            highest = key;
            worst = s;
        }
    }
    if (worst == b->nspots)
        return;
    mine[worst] = false;
    on_core[b->spots[worst].core]--;
}

/* One member keeps what it holds, at most its count. */
static int keep_held(struct board *b, struct view *v, bool *mine, unsigned *on_core,
                     const bool *wanted)
{
    const struct place_member *m = &b->members[v->member];
    unsigned held = 0;

    for (long c = cpus_next(&m->held, 0); c >= 0; c = cpus_next(&m->held, (unsigned long)c + 1)) {
        const struct spot *spot = spot_at(b, c);

        if (spot == NULL || spot->taker != NOBODY)
            continue;
        mine[spot - b->spots] = true;
        on_core[spot->core]++;
        held++;
    }
    if (held != m->count && view_build(b, v) < 0)
        return -1;
    for (; held > m->count; held--)
        drop_worst(b, v, mine, on_core, wanted);
    for (long c = cpus_next(&m->held, 0); c >= 0; c = cpus_next(&m->held, (unsigned long)c + 1)) {
        struct spot *spot = spot_at(b, c);

        if (spot == NULL)
            continue;
        if (mine[spot - b->spots])
            take(b, v, spot);
        mine[spot - b->spots] = false;
        on_core[spot->core] = 0;
    }
    return 0;
}

static int keep_all_held(struct board *b)
{
    bool *mine = calloc(b->nspots + 1, sizeof(*mine));
    bool *wanted = calloc(b->nmembers + 1, sizeof(*wanted));
    unsigned *on_core = calloc((size_t)b->ncores + 1, sizeof(*on_core));
    int rc = mine == NULL || wanted == NULL || on_core == NULL ? -1 : 0;

    for (size_t m = 0; rc == 0 && m < b->nmembers; m++)
        wanted[m] = b->members[m].count > cpus_count(&b->members[m].held);
    for (size_t m = 0; rc == 0 && m < b->nmembers; m++)
        rc = keep_held(b, &b->views[m], mine, on_core, wanted);
    free(mine);
    free(wanted);
    free(on_core);
    return rc;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static int write_result(struct board *b)
{
    for (size_t s = 0; s < b->nspots; s++)
        if (b->spots[s].taker != NOBODY &&
            cpus_set(&b->members[b->spots[s].taker].cpus, b->spots[s].pu->os) < 0)
            return -1;
    return 0;
}

static int place(struct board *b)
{
    if (keep_all_held(b) < 0)
        return -1;
    take_in_turns(b, OFFER_CLAIM);
    take_in_turns(b, OFFER_NEAR);
    take_in_turns(b, OFFER_ALL);
    return write_result(b);
}

int place_loaders(const struct topo *topo, const struct cpus *pool, struct place_member *members,
                  size_t nmembers)
{
    struct board b = {.topo = topo, .members = members, .nmembers = nmembers};
    size_t wanted = 0;
    int rc;

    for (size_t m = 0; m < nmembers; m++) {
        members[m].cpus = CPUS_EMPTY;
        wanted += members[m].count;
    }
    rc = board_build(&b, pool);
    if (rc == 0 && wanted > b.nspots) {
        board_free(&b);
        errno = EINVAL;
        return -1;
    }
    if (rc == 0)
        rc = place(&b);
    board_free(&b);
    if (rc < 0) {
        for (size_t m = 0; m < nmembers; m++) {
            cpus_free(&members[m].cpus);
            members[m].cpus = CPUS_EMPTY;
        }
        errno = ENOMEM;
    }
    return rc;
}

/* ---- main cores ---------------------------------------------------------------------------- */

struct main_choice {
    const struct topo *topo;
    const struct cpus *own, *near, *taken;
    bool share;
    unsigned *in_domain; /* chosen so far, a domain */
    unsigned *on_core;   /* chosen so far, a core (and one for unknown) */
};

/*
 * The lower, the better: near a GPU; kept already by the same job (or else not kept by another);
 * the domain with the fewest so far; the rest of a core already chosen; fast; low number.
 */
static uint64_t main_key(const struct main_choice *c, const struct topo_pu *pu)
{
    bool is_near = cpus_isset(c->near, pu->os);
    bool is_taken = cpus_isset(c->taken, pu->os);
    bool begun = pu->core >= 0 && (unsigned)pu->core < c->topo->ncores && c->on_core[pu->core] > 0;
    unsigned others = c->in_domain[domain_of(c->topo, pu)];
    double slow = (1 - pu->speed) * SLOW_MAX;
    uint64_t key;

    key = c->share ? !is_taken : is_taken;
    key = key << 1 | (!cpus_is_empty(c->near) && !is_near);
    key = key << 16 | (is_near ? (others < 65535u ? others : 65535u) : 0);
    key = key << 1 | !begun;
    key = key << 10 | (slow < 0 ? 0 : slow > SLOW_MAX ? SLOW_MAX : (unsigned)slow);
    return key << 16 | pu->os;
}

static const struct topo_pu *main_best(const struct main_choice *c, const struct cpus *chosen)
{
    const struct topo_pu *best = NULL;
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < c->topo->npus; i++) {
        const struct topo_pu *pu = &c->topo->pus[i];
        uint64_t key;

        if (!cpus_isset(c->own, pu->os) || cpus_isset(chosen, pu->os))
            continue;
        key = main_key(c, pu);
        if (key < least) {
            least = key;
            best = pu;
        }
    }
    return best;
}

int place_main(const struct topo *topo, const struct cpus *own, unsigned count,
               const struct cpus *near, const struct cpus *taken, bool share,
               struct cpus *main_cpus)
{
    struct main_choice c = {topo, own, near, taken, share, NULL, NULL};
    struct cpus chosen = CPUS_EMPTY;
    int rc = 0;

    c.in_domain = calloc(domains_of(topo), sizeof(*c.in_domain));
    c.on_core = calloc((size_t)topo->ncores + 1, sizeof(*c.on_core));
    if (c.in_domain == NULL || c.on_core == NULL)
        rc = -1;
    for (unsigned i = 0; rc == 0 && i < count; i++) {
        const struct topo_pu *pu = main_best(&c, &chosen);

        if (pu == NULL)
            break;
        c.in_domain[domain_of(topo, pu)]++;
        if (pu->core >= 0 && (unsigned)pu->core < topo->ncores)
            c.on_core[pu->core]++;
        rc = cpus_set(&chosen, pu->os);
    }
    free(c.in_domain);
    free(c.on_core);
    if (rc < 0) {
        cpus_free(&chosen);
        errno = ENOMEM;
        return -1;
    }
    cpus_move(main_cpus, &chosen);
    return 0;
}

double place_local_share(const struct cpus *cpus, const struct cpus *near)
{
    unsigned local = 0, all = cpus_count(cpus);

    if (near == NULL || cpus_is_empty(near) || all == 0)
        return NAN;
    for (long c = cpus_next(cpus, 0); c >= 0; c = cpus_next(cpus, (unsigned long)c + 1))
        local += cpus_isset(near, (unsigned)c);
    return (double)local / all;
}
