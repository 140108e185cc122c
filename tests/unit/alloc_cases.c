/* Random allocation problems. See alloc_cases.h. */
#include "alloc_cases.h"

#include <math.h>
#include <stdlib.h>

uint64_t dice_next(struct dice *dice)
{
    /* splitmix64 */
    uint64_t z = (dice->state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

unsigned dice_below(struct dice *dice, unsigned n)
{
    return (unsigned)(dice_next(dice) % n);
}

double dice_share(struct dice *dice)
{
    return (double)(dice_next(dice) >> 11) / 9007199254740992.0;
}

/* What Synergy measured on a V100 for 1..24 cores a GPU, by the rate at 3: it is not concave. */
static const double jumping[] = {0, .30, .66, 1, 1.25, 1.53, 1.75, 1.8, 1.9, 2.0, 2.1, 2.2, 2.94};

double cases_curve(struct dice *dice, double *rate, unsigned npoints, bool concave)
{
    double k = 50 + 250 * dice_share(dice), beta = 0.2 * dice_share(dice);
    double g = k * (0.5 + 12 * dice_share(dice));
    unsigned kind = dice_below(dice, concave ? 2 : 7);

    for (unsigned c = 0; c < npoints; c++) {
        double x = c;

        switch (kind) {
        case 0: /* linear to a cap */
            rate[c] = fmin(g, k * x);
            break;
        case 1: /* contention */
            rate[c] = c == 0 ? 0 : fmin(g, k * x / (1 + beta * (x - 1)));
            break;
        case 2: /* jumps, as measured */
            rate[c] = 3 * k * jumping[c < 12 ? c : 12];
            break;
        case 3: /* random steps upwards */
            rate[c] =
                c == 0 ? 0 : rate[c - 1] + (dice_below(dice, 3) == 0 ? k * dice_share(dice) : 0);
            break;
        case 4: /* noise: sometimes more cores are slower */
            rate[c] = fmin(g, k * x) * (0.8 + 0.4 * dice_share(dice));
            break;
        case 5: /* cores do not matter */
            rate[c] = g;
            break;
        default: /* nothing below a few cores, then at once */
            rate[c] = x >= 2 + k / 60 ? g : 0.1 * k * (x > 0);
            break;
        }
    }
    if (kind == 2)
        return 3 * k * 2.94;
    return kind == 3 ? fmax(k, rate[npoints - 1]) : g;
}

static unsigned span_of(struct dice *dice, const struct cases_shape *shape)
{
    unsigned span = shape->spread == CASES_ONE_NODE ? 1 : 1 + dice_below(dice, shape->span);

    return span < shape->nnodes ? span : shape->nnodes;
}

/* The nodes of one job: a block, or any distinct ones. */
static void choose_nodes(struct dice *dice, const struct cases_shape *shape, unsigned span,
                         unsigned *nodes)
{
    if (shape->spread != CASES_ANY_NODES) {
        unsigned first = dice_below(dice, shape->nnodes - span + 1);

        for (unsigned k = 0; k < span; k++)
            nodes[k] = first + k;
        return;
    }
    for (unsigned k = 0; k < span; k++) {
        bool again = true;

        while (again) {
            nodes[k] = dice_below(dice, shape->nnodes);
            again = false;
            for (unsigned o = 0; o < k; o++)
                again = again || nodes[o] == nodes[k];
        }
    }
}

static void fill_member(struct dice *dice, const struct cases_shape *shape, struct alloc_member *m)
{
    m->own = dice_below(dice, shape->pool / 2 + 1);
    m->now = m->own;
    m->weight = 1;
    m->gpus = 1 + dice_below(dice, 4);
    m->work = NAN;
    if (shape->bounds) {
        m->min = dice_below(dice, 4) == 0 ? dice_below(dice, 3) : 0;
        m->max = dice_below(dice, 3) == 0 ? m->min + 1 + dice_below(dice, shape->pool) : 0;
        if (dice_below(dice, 3) == 0)
            m->weight = 0.5 + 2 * dice_share(dice);
    }
    if (shape->io)
        m->sample_bytes = dice_below(dice, 3) == 0 ? 0 : 1e5 * (0.5 + dice_share(dice));
}

static void job_members(struct cases *c, struct dice *dice, const struct cases_shape *shape,
                        unsigned job)
{
    unsigned npoints = shape->pool + 1, span = span_of(dice, shape),
             first = (unsigned)c->problem.nmembers;
    unsigned nodes[64] = {0};

    span = span < 64 ? span : 64;
    choose_nodes(dice, shape, span, nodes);
    for (unsigned k = 0; k < span; k++) {
        unsigned i = first + k;
        struct alloc_member *m = &c->members[i];
        double *rate = c->rates + (size_t)i * npoints;

        *m = (struct alloc_member){.job = job, .node = nodes[k]};
        fill_member(dice, shape, m);
        if (k > 0 && shape->spread == CASES_BLOCKS) {
            /* equal shards on equal nodes */
            *m = c->members[first];
            m->node = nodes[k];
            continue;
        }
        m->gpu_rate = cases_curve(dice, rate, npoints, shape->concave);
        m->rate = rate;
        m->nrate = npoints;
    }
    c->problem.nmembers += span;
}

/* Own cores that a pool can hold, and no less than the minimum, so that floors are possible. */
static void fit_own(struct cases *c)
{
    for (size_t n = 0; n < c->problem.nnodes; n++) {
        unsigned left = c->nodes[n].pool;

        for (size_t i = 0; i < c->problem.nmembers; i++) {
            struct alloc_member *m = &c->members[i];

            if (m->node != n)
                continue;
            m->own = m->own > m->min ? m->own : m->min;
            m->own = m->own < left ? m->own : left;
            m->min = m->min < m->own ? m->min : m->own;
            m->now = m->own;
            left -= m->own;
        }
    }
}

int cases_make(struct cases *c, struct dice *dice, const struct cases_shape *shape)
{
    size_t most = (size_t)shape->njobs * (shape->span > 0 ? shape->span : 1);
    double io = 0;

    *c = (struct cases){0};
    c->members = calloc(most, sizeof(*c->members));
    c->nodes = calloc(shape->nnodes, sizeof(*c->nodes));
    c->rates = calloc(most * (shape->pool + 1), sizeof(*c->rates));
    if (c->members == NULL || c->nodes == NULL || c->rates == NULL) {
        cases_free(c);
        return -1;
    }
    c->problem = (struct alloc_problem){.policy = ALLOC_GPU_BUSY,
                                        .guarantee = ALLOC_GUARANTEE_OWN,
                                        .members = c->members,
                                        .nodes = c->nodes,
                                        .nnodes = shape->nnodes,
                                        .njobs = shape->njobs,
                                        .io_bytes_per_s = NAN};
    for (unsigned n = 0; n < shape->nnodes; n++)
        c->nodes[n].pool = shape->pool - dice_below(dice, shape->pool / 3 + 1);
    for (unsigned j = 0; j < shape->njobs; j++)
        job_members(c, dice, shape, j);
    fit_own(c);
    for (size_t i = 0; i < c->problem.nmembers; i++)
        io += c->members[i].sample_bytes * c->members[i].gpu_rate;
    if (shape->io)
        c->problem.io_bytes_per_s = io * (0.2 + 0.6 * dice_share(dice));
    return 0;
}

void cases_free(struct cases *c)
{
    free(c->members);
    free(c->nodes);
    free(c->rates);
    *c = (struct cases){0};
}
