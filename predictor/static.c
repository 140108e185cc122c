/* The curve of what is declared, calibrated or kept in a profile, before anything is measured. */
#include "terms.h"

#include <errno.h>
#include <math.h>

/* Relative standard deviations where the value brings none. */
#define SD_DECLARED 0.3  /* a number that the user or a table gave */
#define SD_MODELLED 0.35 /* G from FLOPs and peaks */
#define SD_UNKNOWN  1.0
#define SD_MOST     2.0  /* beyond it a number says nothing */
#define SD_EXACT    0.05 /* one core's work is the unit: only its noise */

#define RATE_MAX                                                                                   \
    1e15 /* whatever counts as one: samples, bytes, FLOPs a second; a bound, no estimate */

void pred_job_init(struct pred_job *job)
{
    const struct pred_value unknown = {NAN, NAN, PRED_UNKNOWN};
    const struct pred_link no_link = {NAN, NAN};

    *job = (struct pred_job){
        .flops_forward = NAN,
        .gradient_bytes = NAN,
        .sample_bytes = NAN,
        .gpu_flops_per_s = NAN,
        .sample_gpu_s = NAN,
        .step_overhead_s = NAN,
        .overlap = NAN,
        .in_node = no_link,
        .between_nodes = no_link,
        .core_rate = unknown,
        .beta = unknown,
        .gpu_rate = unknown,
        .demand = unknown,
        .io_bytes_per_s = NAN,
        .cache_hit = NAN,
        .memory_bytes_per_s = NAN,
        .sample_memory_bytes = NAN,
    };
}

static bool known(double value)
{
    return value > 1e-30; /* not NAN; what is below is as good as nothing */
}

static bool acceptable(double value, double limit)
{
    return isnan(value) || (value >= 0 && value <= limit);
}

int pred_job_check(const struct pred_job *job)
{
    const double values[] = {
        job->gradient_bytes,        job->sample_bytes,    job->step_overhead_s,
        job->sample_gpu_s,          job->in_node.alpha_s, job->in_node.bus_bytes_per_s,
        job->between_nodes.alpha_s, job->io_bytes_per_s,  job->between_nodes.bus_bytes_per_s,
        job->core_rate.value,       job->gpu_rate.value,  job->core_rate.rel_sd,
        job->gpu_rate.rel_sd,       job->beta.value,      job->beta.rel_sd,
        job->demand.value,          job->demand.rel_sd,   job->memory_bytes_per_s,
        job->sample_memory_bytes,
    };

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (!acceptable(values[i], RATE_MAX))
            goto invalid;
    /* today's largest models and machines are within a factor 1e6 of these */
    if (!acceptable(job->flops_forward, 1e21) || !acceptable(job->gpu_flops_per_s, 1e21) ||
        !acceptable(job->cache_hit, 1))
        goto invalid;
    if (!isnan(job->overlap) && !(job->overlap >= 1 && job->overlap <= 10))
        goto invalid;
    if (job->workers_max > 0 && job->workers_min > job->workers_max)
        goto invalid;
    if (job->gpus_total > 0 && (job->gpus > job->gpus_total || job->nodes > job->gpus_total))
        goto invalid;
    return 0;
invalid:
    errno = EINVAL;
    return -1;
}

static double or_zero(double value)
{
    return known(value) ? value : 0;
}

/* G from the model, the batch and the GPU; NAN where they do not suffice. */
static double modelled_gpu_rate(const struct pred_job *job)
{
    double gpus = job->gpus > 0 ? job->gpus : 1;
    double total = fmax(job->gpus_total, gpus);
    double nodes = job->nodes > 0 ? job->nodes : ceil(total / gpus);
    double batch = job->batch > 0 ? job->batch : 1;
    double compute_s, sync_s, step_s;

    if (!known(job->flops_forward) || !known(job->gpu_flops_per_s))
        return NAN;
    compute_s =
        pred_compute_s(job->batch > 0 ? or_zero(job->step_overhead_s) : 0, batch,
                       job->flops_forward, job->gpu_flops_per_s, or_zero(job->sample_gpu_s));
    sync_s = job->batch > 0 ? pred_sync_s(ceil(total / nodes), nodes, or_zero(job->gradient_bytes),
                                          &job->in_node, &job->between_nodes)
                            : 0;
    step_s = pred_overlap_s(compute_s, sync_s, isnan(job->overlap) ? PRED_OVERLAP : job->overlap);
    return batch * gpus / step_s;
}

static double sd_of(const struct pred_value *value, double otherwise)
{
    return known(value->rel_sd) ? fmin(value->rel_sd, SD_MOST) : otherwise;
}

double pred_job_gpu_rate(const struct pred_job *job, double *rel_sd, enum pred_source *source)
{
    double rate = modelled_gpu_rate(job);

    if (known(job->gpu_rate.value)) {
        *rel_sd = sd_of(&job->gpu_rate, SD_DECLARED);
        *source = job->gpu_rate.source != PRED_UNKNOWN ? job->gpu_rate.source : PRED_STATIC;
        return job->gpu_rate.value;
    }
    if (known(rate) && rate <= RATE_MAX) {
        *rel_sd = SD_MODELLED;
        *source = PRED_STATIC;
        return rate;
    }
    *rel_sd = SD_UNKNOWN;
    *source = PRED_UNKNOWN;
    return NAN;
}

static enum pred_source weaker(enum pred_source a, enum pred_source b)
{
    return a < b ? a : b;
}

/* G or k from the other one and a known demand; or both relative. */
static void take_demand(const struct pred_job *job, struct pred_params *p)
{
    double demand = fmin(job->demand.value, PRED_CORES_MAX), sd = sd_of(&job->demand, SD_DECLARED);

    if (p->gpu_known) {
        p->core_rate = p->gpu_rate / pred_loader_rate(1, p->beta, demand);
        p->core_rate_sd = hypot(p->gpu_rate_sd, sd);
    } else {
        p->gpu_rate = pred_loader_rate(p->core_rate, p->beta, demand);
        p->gpu_rate_sd = p->core_known ? hypot(p->core_rate_sd, sd) : sd;
        p->core_rate_sd = p->core_known ? p->core_rate_sd : SD_EXACT;
    }
    p->demand_sd = sd;
}

/* Nothing bends the curve: it is such that the machine's last core still helps. */
static void take_nothing(unsigned ncores, struct pred_params *p)
{
    double cores = ncores > 0 ? ncores : 1;

    if (!p->gpu_known)
        p->gpu_rate = pred_loader_rate(p->core_rate, p->beta, cores);
    else
        p->core_rate = p->gpu_rate / pred_loader_rate(1, p->beta, cores);
    p->linear = !isfinite(p->supply_max);
    p->demand_sd = SD_UNKNOWN;
}

void pred_job_params(const struct pred_job *job, unsigned ncores, struct pred_params *p)
{
    enum pred_source gpu_source, core_source = PRED_UNKNOWN;

    *p = (struct pred_params){
        .core_rate = 1,
        .core_rate_sd = SD_UNKNOWN,
        .beta = known(job->beta.value) ? fmin(job->beta.value, PRED_BETA_MAX) : 0,
        .depth = PRED_KNEE_DEPTH,
        .cores_max = job->workers_max > 0 ? (double)job->workers_max : (double)INFINITY,
        .supply_max = (double)INFINITY,
        .supply_limit = PRED_LIMIT_IO,
    };
    p->gpu_rate = pred_job_gpu_rate(job, &p->gpu_rate_sd, &gpu_source);
    p->gpu_known = known(p->gpu_rate);
    p->core_known = known(job->core_rate.value);
    if (p->core_known) {
        p->core_rate = job->core_rate.value;
        p->core_rate_sd = sd_of(&job->core_rate, SD_DECLARED);
        core_source = job->core_rate.source != PRED_UNKNOWN ? job->core_rate.source : PRED_STATIC;
    }
    p->relative = !p->core_known && !p->gpu_known;
    if (!p->relative)
        p->supply_max = fmin(pred_io_rate(job->io_bytes_per_s, job->sample_bytes, job->cache_hit),
                             pred_memory_rate(job->memory_bytes_per_s, job->sample_memory_bytes));
    p->source = weaker(gpu_source, core_source);
    p->demand_sd = hypot(p->core_rate_sd, p->gpu_rate_sd);
    p->demand_known = (p->gpu_known && p->core_known) || known(job->demand.value);
    if (p->gpu_known && p->core_known)
        return;
    if (known(job->demand.value)) {
        take_demand(job, p);
        p->source = job->demand.source != PRED_UNKNOWN ? job->demand.source : PRED_STATIC;
    } else {
        take_nothing(ncores, p);
    }
}

int pred_curve_static(const struct pred_job *job, unsigned ncores, struct pred_curve *curve)
{
    struct pred_params p;

    *curve = (struct pred_curve){0};
    if (pred_job_check(job) != 0)
        return -1;
    if (ncores > PRED_CORES_MAX) {
        errno = EINVAL;
        return -1;
    }
    pred_job_params(job, ncores, &p);
    return pred_params_curve(&p, ncores, curve);
}
