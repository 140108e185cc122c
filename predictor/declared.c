/* See declared.h. */
#include "declared.h"

#include <math.h>
#include <string.h>

/* Decoding and augmenting 224x224 ImageNet crops on a server core: 219 to 296 images/s in Synergy's
 * profiles (OSDI 2022, Xeon at 2.x GHz). Other data takes less work by nothing that we know. */
#define JPEG_CORE_RATE 250.0
#define JPEG_SD        0.5
#define JPEG_BETA      0.05 /* between the workers of one rank, which share a consumer */
#define CALIBRATED_SD  0.25 /* a program's own pipeline is not the calibration's */
#define PIXELS         (224.0 * 224.0)
/* A sample's way through memory: the picture decoded (0.56 MB) is written and read, its crop of
 * 224x224 floats (0.6 MB) written, collated (read and written), and copied to the GPU. */
#define SAMPLE_MEMORY_BYTES (2 * 0.56e6 + 4 * 0.6e6)

enum pred_precision pred_declared_precision(const struct pred_declared *d)
{
    if (d->precision >= 0 && d->precision < PRED_PRECISIONS)
        return (enum pred_precision)d->precision;
    return d->gpu != NULL ? pred_gpu_precision(d->gpu) : PRED_FP32;
}

static bool is_image(const struct pred_model *model)
{
    return model != NULL && strncmp(model->input, "3x", 2) == 0;
}

/* Work grows with the pixels that are made, half of it: decoding does not depend on the crop. */
static double size_factor(const struct pred_model *model)
{
    const char *x = is_image(model) ? strchr(model->input + 2, 'x') : NULL;
    double side = 0;

    for (const char *p = x != NULL ? x + 1 : ""; *p >= '0' && *p <= '9' && side < 1e5; p++)
        side = 10 * side + (*p - '0');
    return side > 0 ? 2 / (1 + side * side / PIXELS) : 1;
}

static void declare_loader(const struct pred_declared *d, struct pred_job *job)
{
    const struct pred_calibration *c = d->calibration;
    bool jpeg = d->data == HINTS_DATA_JPEG || (d->data == HINTS_DATA_UNKNOWN && is_image(d->model));
    double factor = size_factor(d->model);

    if (!jpeg)
        return;
    job->core_rate = (struct pred_value){factor * JPEG_CORE_RATE, JPEG_SD, PRED_STATIC};
    job->beta = (struct pred_value){JPEG_BETA / (d->gpus > 1 ? d->gpus : 1), 1, PRED_STATIC};
    if (c != NULL && c->memory_bytes_per_s > 0) {
        job->memory_bytes_per_s = c->memory_bytes_per_s;
        job->sample_memory_bytes = SAMPLE_MEMORY_BYTES / factor;
    }
    if (c == NULL || !(c->jpeg_rate > 0))
        return;
    job->core_rate = (struct pred_value){factor * c->jpeg_rate, CALIBRATED_SD, PRED_STATIC};
    if (c->jpeg_beta >= 0)
        job->beta = (struct pred_value){c->jpeg_beta, 0.3, PRED_STATIC};
}

static void declare_node(const struct pred_declared *d, struct pred_job *job)
{
    const struct pred_calibration *c = d->calibration;
    double measured[PRED_PRECISIONS];

    if (c == NULL)
        return;
    if (c->storage_bytes_per_s > 0)
        job->io_bytes_per_s = c->storage_bytes_per_s;
    if (c->nccl_bus_bytes_per_s > 0)
        job->in_node.bus_bytes_per_s = c->nccl_bus_bytes_per_s;
    if (c->nccl_alpha_s > 0)
        job->in_node.alpha_s = c->nccl_alpha_s;
    measured[PRED_FP32] = c->fp32_flops_per_s;
    measured[PRED_TF32] = c->tf32_flops_per_s;
    measured[PRED_AMP] = c->amp_flops_per_s;
    /* Measured are large products; a network's smaller ones reach the tables' share at most. */
    if (d->gpu == NULL && measured[pred_declared_precision(d)] > 0)
        job->gpu_flops_per_s = 0.75 * measured[pred_declared_precision(d)];
    if (d->gpu == NULL && d->model != NULL && c->gpu_memory_bytes_per_s > 0)
        job->sample_gpu_s =
            pred_model_traffic(d->model, pred_declared_precision(d)) / c->gpu_memory_bytes_per_s;
}

bool pred_declare(const struct pred_declared *declared, struct pred_job *job)
{
    if (!pred_tables_apply(declared->model, declared->gpu, pred_declared_precision(declared), job))
        return false;
    declare_loader(declared, job);
    declare_node(declared, job);
    return true;
}
