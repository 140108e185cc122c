/* Models and GPUs by name. */
#include "config.h"

#include "named.h"

#include "tokens.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_MAX    256u
#define KEPT_BYTES   12e9
#define KEPT_PER     (2.0 * 4.0) /* bytes kept of an activation: itself and its gradient */
#define OVERLAP_NONE 1.0

/* ---- names --------------------------------------------------------------------------------- */

static int unknown(char *error, const char *what, const char *name, const char *near)
{
    (void)snprintf(error, NAMED_ERROR_MAX, "there is no %s '%s' in the tables%s%s%s", what, name,
                   *near != '\0' ? ": did you mean " : "", near, *near != '\0' ? "?" : "");
    return -1;
}

static int find_model(struct named *named, const char *name, char *error)
{
    char near[256];

    named->model = name == NULL ? NULL : pred_tables_model(&named->tables, name);
    if (name == NULL || named->model != NULL)
        return 0;
    pred_tables_near_models(&named->tables, name, near, sizeof near);
    return unknown(error, "model", name, near);
}

static int find_gpu(struct named *named, const char *name, char *error)
{
    char near[256];

    named->gpu = name == NULL ? NULL : pred_tables_gpu(&named->tables, name);
    if (name == NULL || named->gpu != NULL)
        return 0;
    pred_tables_near_gpus(&named->tables, name, near, sizeof near);
    return unknown(error, "GPU", name, near);
}

static int check_precision(const struct named *named, char *error)
{
    enum pred_precision precision = named_precision(named);

    if (named->gpu == NULL || !isnan(named->gpu->flops_per_s[precision]))
        return 0;
    (void)snprintf(error, NAMED_ERROR_MAX, "a %s does not compute in %s", named->gpu->name,
                   pred_precision_name(precision));
    return -1;
}

int named_find(const char *tables, const char *model, const char *gpu, int precision,
               struct named *named, char *error)
{
    *named = (struct named){.precision = precision};
    if (pred_tables_read(&named->tables, tables, error, NAMED_ERROR_MAX) != 0)
        return -1;
    if (find_model(named, model, error) < 0 || find_gpu(named, gpu, error) < 0)
        return -1;
    return check_precision(named, error);
}

void named_free(struct named *named)
{
    pred_tables_free(&named->tables);
    *named = (struct named){0};
}

void named_set_device(struct named *named, const char *device)
{
    named->gpu = pred_tables_gpu_in(&named->tables, device);
}

enum pred_precision named_precision(const struct named *named)
{
    if (named->precision >= 0)
        return (enum pred_precision)named->precision;
    return named->gpu != NULL ? pred_gpu_precision(named->gpu) : PRED_TF32;
}

/* ---- what a model takes -------------------------------------------------------------------- */

unsigned named_side(const struct pred_model *model)
{
    unsigned channels, height, width;
    char more;

    if (sscanf(model->input, "%ux%ux%u%c", &channels, &height, &width, &more) != 3 ||
        channels != 3 || height != width)
        return 0;
    return width;
}

unsigned named_tokens(const struct pred_model *model)
{
    unsigned count;
    int end = 0;

    if (sscanf(model->input, "%u tokens%n", &count, &end) != 1 || end == 0 ||
        model->input[end] != '\0' || count > TOKENS_MAX)
        return 0;
    return count;
}

unsigned named_batch(const struct pred_model *model)
{
    unsigned batch = BATCH_MAX;

    if (isnan(model->activations))
        return batch;
    while (batch > 1 && batch * model->activations * KEPT_PER > KEPT_BYTES)
        batch /= 2;
    return batch;
}

/* ---- a step -------------------------------------------------------------------------------- */

/* Seconds of an iteration of these ranks; NAN: it cannot be told. */
static double iteration_s(const struct pred_job *job, unsigned ranks, unsigned nodes,
                          double overlap)
{
    struct pred_job asked = *job;
    struct pred_curve curve;
    double seconds;

    asked.gpus = 1;
    asked.gpus_total = ranks;
    asked.nodes = nodes;
    asked.overlap = overlap;
    if (pred_curve_static(&asked, 0, &curve) != 0)
        return (double)NAN;
    seconds = asked.batch / curve.gpu_rate;
    pred_curve_free(&curve);
    return seconds;
}

int named_predict(const struct named *named, const struct named_setting *setting,
                  struct named_step *step)
{
    struct gpu_timeline *parts = &step->parts;
    struct pred_job job;
    double whole_s;

    *step = (struct named_step){0};
    pred_job_init(&job);
    if (named->model == NULL || named->gpu == NULL ||
        !pred_tables_apply(named->model, named->gpu, named_precision(named), &job))
        return -1;
    job.batch = setting->batch;
    job.between_nodes = setting->between_nodes;
    parts->compute_s = iteration_s(&job, 1, 1, setting->overlap);
    whole_s = iteration_s(&job, setting->ranks, setting->nodes, setting->overlap);
    step->sync_s =
        iteration_s(&job, setting->ranks, setting->nodes, OVERLAP_NONE) - parts->compute_s;
    if (!(parts->compute_s > 0) || !(whole_s > 0))
        return -1;
    parts->exchange_s = fmax(0.0, whole_s - parts->compute_s);
    if (setting->host_bytes_per_s > 0)
        parts->copy_s = setting->batch_bytes / setting->host_bytes_per_s;
    step->step_s = fmax(parts->compute_s + parts->exchange_s, parts->copy_s);
    return 0;
}
