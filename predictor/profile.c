/* What a profile says: learning it, ageing it and putting it to use. The store is profile_store.c.
 */
#include "config.h"

#include "profile.h"

#include "profile_text.h"

#include <math.h>
#include <string.h>

#define ENOUGH_REPORTS 30u
#define FRESH_SD       0.08 /* one run's own uncertainty at least: the next run is another one */
#define YEARLY_SD      0.5  /* what a year adds: code, data and machines change */
#define YEAR_S         31557600.0

static bool copy_part(char *part, const char *text)
{
    size_t n = strlen(text);

    if (n >= PRED_PROFILE_NAME)
        return false;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 127 ||
            strchr("/#=@\"\\", text[i]) != NULL)
            return false;
    memcpy(part, text, n + 1);
    return true;
}

bool pred_profile_init(struct pred_profile *p, const char *name, const char *gpu,
                       const char *node_type)
{
    pred_kv_clear(PRED_PROFILE_FIELDS, p);
    return *name != '\0' && name[0] != '.' && copy_part(p->name, name) && copy_part(p->gpu, gpu) &&
           copy_part(p->node_type, node_type);
}

static double aged_sd(double sd, const struct pred_profile *p, double now_s)
{
    double years = fmax(0, now_s - p->updated_s) / YEAR_S;

    if (isnan(years)) /* edited by hand, without a date: take it as it is */
        years = 0;
    return sqrt(sd * sd + YEARLY_SD * YEARLY_SD * years);
}

/* Fuse a new value into an old one of some age; either may be unknown. */
static void fuse(double *value, double *sd, double old_sd, double fresh, double fresh_sd)
{
    double wa, wb;

    if (!(fresh > 0 && isfinite(fresh)))
        return;
    fresh_sd = fmin(2, fmax(fresh_sd, FRESH_SD));
    if (!(*value > 0) || !(old_sd > 0)) {
        *value = fresh;
        *sd = fresh_sd;
        return;
    }
    wa = 1 / (old_sd * old_sd);
    wb = 1 / (fresh_sd * fresh_sd);
    *value = exp((wa * log(*value) + wb * log(fresh)) / (wa + wb));
    *sd = fmax(1 / sqrt(wa + wb), FRESH_SD / 2);
}

bool pred_profile_learn(struct pred_profile *p, const struct pred_learner *l, unsigned gpus,
                        double now_s)
{
    double n = gpus > 0 ? gpus : 1;

    if (l->reports < ENOUGH_REPORTS || l->exploring || !(l->demand > 0))
        return false;
    fuse(&p->core_rate, &p->core_rate_sd, aged_sd(p->core_rate_sd, p, now_s), l->core_rate,
         FRESH_SD);
    if (!l->held_back)
        fuse(&p->gpu_rate, &p->gpu_rate_sd, aged_sd(p->gpu_rate_sd, p, now_s), l->gpu_rate / n,
             l->demand_rel_sd);
    fuse(&p->demand, &p->demand_sd, aged_sd(p->demand_sd, p, now_s), l->demand / n,
         l->demand_rel_sd);
    if (l->beta >= 0)
        p->beta = isnan(p->beta) ? l->beta : 0.7 * p->beta + 0.3 * l->beta;
    if (l->sample_bytes >= 0)
        p->sample_bytes = isnan(p->sample_bytes) ? l->sample_bytes
                                                 : 0.7 * p->sample_bytes + 0.3 * l->sample_bytes;
    p->runs = isnan(p->runs) ? 1 : p->runs + 1;
    p->updated_s = now_s;
    return true;
}

static void prefer(struct pred_value *value, double number, double sd)
{
    bool declared = value->value > 0 && value->rel_sd > 0 && value->rel_sd < sd;

    if (number > 0 && !declared)
        *value = (struct pred_value){number, fmin(2, sd), PRED_PROFILE};
}

void pred_profile_apply(const struct pred_profile *p, unsigned gpus, double now_s,
                        struct pred_job *job)
{
    double n = gpus > 0 ? gpus : 1;

    prefer(&job->core_rate, p->core_rate,
           aged_sd(p->core_rate_sd > 0 ? p->core_rate_sd : 0.3, p, now_s));
    prefer(&job->gpu_rate, n * p->gpu_rate,
           aged_sd(p->gpu_rate_sd > 0 ? p->gpu_rate_sd : 0.3, p, now_s));
    prefer(&job->demand, n * p->demand, aged_sd(p->demand_sd > 0 ? p->demand_sd : 0.3, p, now_s));
    if (p->beta >= 0 && !(job->beta.value >= 0))
        job->beta = (struct pred_value){p->beta, 0.5, PRED_PROFILE};
    if (p->sample_bytes >= 0 && !(job->sample_bytes >= 0))
        job->sample_bytes = p->sample_bytes;
}
