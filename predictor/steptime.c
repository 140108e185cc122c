/* Step times: physics and a learned correction; see steptime.h. */
#include "steptime.h"

#include "correction.h"
#include "physics.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Beyond the most GPUs that were measured growth is damped: so much weight, in logarithms, has the
 * time at the edge of what was measured. */
#define EDGE_WEIGHT 0.2
#define OUTLIER     5.0 /* residuals are clipped at so many (robust) standard deviations */
#define LEARN_MIN   12u /* points below which there is only physics */

struct pred_step_model {
    struct pred_physics physics;
    struct pred_correction *correction; /* NULL: too few points */
    double residual_sd;
    unsigned replicas, most_alone, most_spread; /* the largest that were measured */
};

static bool sensible(const struct pred_step *s)
{
    return s->batch >= 1e-6 && s->batch <= 1e9 && s->replicas >= 1 &&
           s->replicas <= PRED_REPLICAS_MAX && s->nodes >= 1 && s->nodes <= s->replicas &&
           s->least >= 1 && s->least <= s->most && s->most <= s->replicas;
}

static uint64_t mixed(uint64_t hash, unsigned value)
{
    return (hash ^ value) * 0x100000001b3u; /* FNV-1a */
}

int pred_step_placement(struct pred_step *step, const char *placement)
{
    unsigned counts[10] = {0}, digits = 0, total = 0, most = 0, least = 9;
    uint64_t layout = 0xcbf29ce484222325u, shape = layout;

    for (const char *p = placement; *p != '\0'; p++, digits++) {
        unsigned gpus = (unsigned)(*p - '0');

        if (*p < '1' || *p > '9' || digits >= 4096)
            goto invalid;
        counts[gpus]++;
        total += gpus;
        most = gpus > most ? gpus : most;
        least = gpus < least ? gpus : least;
        layout = mixed(layout, gpus);
    }
    if (digits == 0)
        goto invalid;
    for (unsigned gpus = 1; gpus < 10; gpus++)
        shape = mixed(shape, counts[gpus]);
    step->replicas = total;
    step->nodes = digits;
    step->most = most;
    step->least = least;
    step->layout = layout;
    step->shape = shape;
    return 0;
invalid:
    errno = EINVAL;
    return -1;
}

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The same placement, no larger than what was measured. */
static struct pred_step at_the_edge(const struct pred_step_model *m, const struct pred_step *q)
{
    struct pred_step edge = *q;

    edge.replicas = smaller(q->replicas, m->replicas);
    edge.most = smaller(q->most, q->nodes > 1 ? m->most_spread : m->most_alone);
    return edge;
}

static void physics_time(const struct pred_step_model *m, const struct pred_step *q,
                         struct pred_step_time *time)
{
    struct pred_step edge = at_the_edge(m, q);
    struct pred_step_time inside;

    pred_physics_time(&m->physics, q, time);
    pred_physics_time(&m->physics, &edge, &inside);
    time->step_s *= pow(inside.step_s / time->step_s, EDGE_WEIGHT);
}

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

/* Robust standard deviation around zero: 1.4826 x median |r|, scaling |r| in scratch. */
static double spread(const double *residual, double *scratch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = fabs(residual[i]);
    qsort(scratch, n, sizeof(*scratch), by_value);
    return 1.4826 * scratch[n / 2];
}

static void note_extent(struct pred_step_model *m, const struct pred_step *points, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned *most = points[i].nodes > 1 ? &m->most_spread : &m->most_alone;

        if (points[i].replicas > m->replicas)
            m->replicas = points[i].replicas;
        if (points[i].most > *most)
            *most = points[i].most;
    }
    if (m->most_spread == 0)
        m->most_spread = m->most_alone;
    if (m->most_alone == 0)
        m->most_alone = m->most_spread;
}

static int learn_correction(struct pred_step_model *m, const struct pred_step *points, size_t n)
{
    double *residual = calloc(n, sizeof(*residual)), *scratch = calloc(n, sizeof(*scratch));
    struct pred_step_time time;

    if (residual == NULL || scratch == NULL) {
        free(residual);
        free(scratch);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        physics_time(m, &points[i], &time);
        residual[i] = log(points[i].step_s / time.step_s);
    }
    m->residual_sd = fmax(0.01, spread(residual, scratch, n));
    for (size_t i = 0; i < n; i++)
        residual[i] = fmax(-OUTLIER * m->residual_sd, fmin(residual[i], OUTLIER * m->residual_sd));
    if (n >= LEARN_MIN)
        m->correction = pred_correction_fit(points, residual, n);
    free(residual);
    free(scratch);
    return n >= LEARN_MIN && m->correction == NULL ? -1 : 0;
}

/* Sensible points only, and every k-th of too many. */
static size_t select_points(const struct pred_step *points, size_t n, struct pred_step *chosen)
{
    size_t kept = 0, stride = n / PRED_STEPS_MAX + 1;

    for (size_t i = 0; i < n; i += stride)
        if (sensible(&points[i]) && points[i].step_s >= 1e-9 && points[i].step_s <= 1e6)
            chosen[kept++] = points[i];
    return kept;
}

struct pred_step_model *pred_step_fit(const struct pred_step *points, size_t n)
{
    struct pred_step_model *m = calloc(1, sizeof(*m));
    struct pred_step *chosen = calloc(n + 1, sizeof(*chosen));
    size_t kept;

    errno = ENOMEM;
    if (m == NULL || chosen == NULL)
        goto fail;
    kept = select_points(points, n, chosen);
    if (kept < 4) {
        errno = EINVAL;
        goto fail;
    }
    note_extent(m, chosen, kept);
    if (pred_physics_fit(&m->physics, chosen, kept) != 0)
        goto fail;
    if (learn_correction(m, chosen, kept) != 0)
        goto fail;
    free(chosen);
    return m;
fail:
    free(chosen);
    pred_step_model_free(m);
    return NULL;
}

void pred_step_model_free(struct pred_step_model *model)
{
    if (model == NULL)
        return;
    pred_correction_free(model->correction);
    free(model);
}

int pred_step_predict(const struct pred_step_model *model, const struct pred_step *query,
                      struct pred_step_time *time)
{
    if (!sensible(query)) {
        errno = EINVAL;
        return -1;
    }
    physics_time(model, query, time);
    time->rel_sd = model->residual_sd;
    if (model->correction != NULL) {
        double log_correction = pred_correction_at(model->correction, query, &time->rel_sd);

        time->correction = exp(log_correction);
        time->step_s *= time->correction;
    }
    return 0;
}
