/*
 * The saved form of a learner: an opaque blob that a member's agent keeps for the controller's next
 * life. Big-endian words: magic and version, then every field in a fixed order, floating numbers as
 * IEEE 754 singles. It comes back over the network, so nothing in it is believed: every number has
 * to be within its bounds.
 */
#include "predictor.h"

#include <math.h>
#include <string.h>

#define MAGIC 0x41504c33u /* "APL3"; the digit is the version */

struct cursor {
    uint8_t *out;      /* writing */
    const uint8_t *in; /* or reading */
    size_t at, size;
    bool failed;
};

static void word(struct cursor *c, uint32_t *value)
{
    if (c->size - c->at < 4) {
        c->failed = true;
        return;
    }
    if (c->out != NULL) {
        for (unsigned i = 0; i < 4; i++)
            c->out[c->at + i] = (uint8_t)(*value >> (24 - 8 * i));
    } else {
        *value = 0;
        for (unsigned i = 0; i < 4; i++)
            *value = *value << 8 | c->in[c->at + i];
    }
    c->at += 4;
}

/* A number in 0..limit; may_lack: or NAN for unknown. */
static void single(struct cursor *c, float *value, float limit, bool may_lack)
{
    uint32_t bits;

    memcpy(&bits, value, sizeof(bits));
    word(c, &bits);
    if (c->out != NULL || c->failed)
        return;
    memcpy(value, &bits, sizeof(bits));
    if (!(*value >= 0 && *value <= limit) && !(may_lack && isnan(*value)))
        c->failed = true;
}

static void number(struct cursor *c, double *value, double limit, bool may_lack)
{
    float f = (float)*value;

    single(c, &f, (float)limit, may_lack);
    *value = (double)f;
}

static void flag(struct cursor *c, bool *value)
{
    uint32_t v = *value;

    word(c, &v);
    if (v > 1)
        c->failed = true;
    *value = v == 1;
}

static void track(struct cursor *c, struct pred_track *t)
{
    const float most = 1e24f;

    single(c, &t->mean, 1e15f, false);
    single(c, &t->variance, 1e30f, false);
    single(c, &t->seconds, 1e6f, false);
    single(c, &t->up, 1e6f, false);
    single(c, &t->up_sum, most, false);
    single(c, &t->up_seconds, 1e9f, false);
    single(c, &t->down, 1e6f, false);
    single(c, &t->down_sum, most, false);
    single(c, &t->down_seconds, 1e9f, false);
}

/* The one list of fields, for both directions. */
static void fields(struct cursor *c, struct pred_learner *l)
{
    const double rate = 1e15, cores = 2 * PRED_CORES_MAX + 4;

    word(c, &l->reports);
    word(c, &l->idle_reports);
    word(c, &l->last_cores);
    word(c, &l->capped_reports);
    number(c, &l->use, cores, true);
    number(c, &l->use_at_cores, PRED_CORES_MAX, true);
    number(c, &l->saturation, 1, true);
    number(c, &l->busy, 1, true);
    number(c, &l->core_rate, rate, true);
    number(c, &l->rate, rate, true);
    number(c, &l->gpu_rate, rate, true);
    number(c, &l->beta, 1, true);
    number(c, &l->sample_bytes, rate, true);
    number(c, &l->workers, 4294967295.0, false);
    number(c, &l->io_wait, 4294967296.0, false);
    number(c, &l->variance, 1e6, true);
    number(c, &l->error, 1e6, true);
    number(c, &l->demand, cores, true);
    number(c, &l->demand_rel_sd, 1e6, true);
    number(c, &l->seen, cores, true);
    number(c, &l->peak, cores, false);
    number(c, &l->free_busy, 1, true);
    flag(c, &l->exploring);
    flag(c, &l->held_back);
    flag(c, &l->io_bound);
    track(c, &l->use_track);
    track(c, &l->rate_track);
    track(c, &l->busy_track);
    track(c, &l->cost_track);
    single(c, &l->cost_before, 1e12f, false);
    single(c, &l->beyond_before, PRED_CORES_MAX, false);
    single(c, &l->beta_sd, 1, false);
    for (unsigned i = 0; i < PRED_LEARNER_POINTS; i++) {
        single(c, &l->points[i].cores, PRED_CORES_MAX, false);
        single(c, &l->points[i].rate, 1e15f, false);
        single(c, &l->points[i].seconds, 1e9f, false);
    }
}

size_t pred_learner_save(const struct pred_learner *learner, uint8_t *buf, size_t size)
{
    struct pred_learner copy = *learner;
    struct cursor c = {.out = buf, .size = size};
    uint32_t magic = MAGIC;

    word(&c, &magic);
    fields(&c, &copy);
    return c.failed ? 0 : c.at;
}

static bool contradictory(const struct pred_learner *l)
{
    /* what later code divides by or takes for granted together */
    return l->idle_reports > l->reports ||
           (l->last_cores > PRED_CORES_MAX && l->last_cores != UINT32_MAX) ||
           (!isnan(l->demand) && (isnan(l->use) || isnan(l->demand_rel_sd))) ||
           isnan(l->core_rate) != isnan(l->beta) || l->core_rate == 0;
}

int pred_learner_load(struct pred_learner *learner, const uint8_t *buf, size_t length)
{
    struct pred_learner loaded = {0};
    struct cursor c = {.in = buf, .size = length};
    uint32_t magic = 0;

    word(&c, &magic);
    if (c.failed || magic != MAGIC)
        return -1;
    fields(&c, &loaded);
    if (c.failed || c.at != length || contradictory(&loaded))
        return -1;
    *learner = loaded;
    return 0;
}
