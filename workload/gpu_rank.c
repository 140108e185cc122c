/* The GPU of a rank. */
#include "config.h"

#include "gpu_rank.h"

#include "log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NETWORK_DELAY_S 20e-6 /* of one step of an exchange between nodes; a usual Ethernet's */

static void complain(const char *sentence)
{
    log_error("%s", sentence);
}

static void predict(const struct run_options *options, const struct world *world,
                    struct gpu_expectation *expectation)
{
    struct named_setting setting = {
        .batch = options->batch,
        .ranks = world->ranks,
        .nodes = world->nodes,
        .batch_bytes = (double)(options->batch * options_sample_floats(options) * sizeof(float)),
        .host_bytes_per_s = options->host_bytes_per_s,
        .between_nodes = {.alpha_s = NETWORK_DELAY_S,
                          .bus_bytes_per_s = options->network_bytes_per_s},
        .overlap = options->overlap,
    };

    expectation->predicted = named_predict(&options->named, &setting, &expectation->step) == 0;
}

/*
 * By a rate or by FLOPs: computing is all there is. Forward and backward pass together cost three
 * times the forward pass (the backward pass computes gradients for both inputs and weights, each as
 * much as the forward pass).
 */
static double plain_step_s(const struct run_options *options)
{
    if (options->gpu_rate > 0.0)
        return options->batch / options->gpu_rate;
    return 3.0 * options->flops * options->batch / options->gpu_flops;
}

static struct gpu *open_emulated(const struct run_options *options, const struct gpu_owner *owner,
                                 struct gpu_expectation *expectation)
{
    struct gpu_timeline timeline = expectation->step.parts;

    if (options->model == NULL) {
        expectation->step_s = plain_step_s(options);
        timeline = (struct gpu_timeline){.compute_s = expectation->step_s};
    } else if (expectation->predicted) {
        expectation->step_s = expectation->step.step_s;
    } else {
        log_error("the predictor has no step time for --model %s on a %s", options->model,
                  options->named.gpu->name);
        return NULL;
    }
    return gpu_emulated_open(&timeline, owner);
}

static struct gpu *open_cuda(struct run_options *options, const struct world *world,
                             const struct gpu_owner *owner, struct gpu_expectation *expectation)
{
    struct named *named = &options->named;
    struct gpu_work work = {.batch = options->batch,
                            .sample_floats = options_sample_floats(options),
                            .forward_flops = options->flops,
                            .gradient_bytes = (size_t)options->gradient_bytes};
    struct gpu *gpu;

    if (options->model == NULL)
        named->precision = options->precision;
    work.precision = named_precision(named);
    if (named->model != NULL && !isnan(named->model->activations))
        work.traffic_bytes = pred_model_traffic(named->model, work.precision);
    gpu = gpu_cuda_open(&work, owner);
    if (gpu == NULL)
        return NULL;
    named->precision = (int)work.precision;
    if (named->model != NULL) {
        named_set_device(named, gpu->name);
        predict(options, world, expectation);
    }
    return gpu;
}

struct gpu *gpu_rank_open(struct run_options *options, const struct world *world,
                          const atomic_int *stop, struct gpu_expectation *expectation)
{
    struct gpu_owner owner = {.rank = world->rank,
                              .ranks = world->ranks,
                              .local_rank = world->local,
                              .peer_timeout_s = options->peer_timeout_s,
                              .stop = stop,
                              .complain = complain};

    *expectation = (struct gpu_expectation){.step_s = (double)NAN};
    if (options->gpu == GPU_CUDA)
        return open_cuda(options, world, &owner, expectation);
    if (options->model != NULL)
        predict(options, world, expectation);
    return open_emulated(options, &owner, expectation);
}

int gpu_rank_join(struct gpu *gpu, struct ring *ring, const struct world *world)
{
    uint8_t *ids;
    int rc = 0;

    if (gpu->ops->join == NULL)
        return 0;
    ids = calloc(world->ranks, GPU_ID_BYTES);
    if (ids == NULL) {
        log_error("out of memory");
        return -1;
    }
    if (world->rank == 0)
        rc = gpu->ops->make_id(gpu, ids);
    if (ring_gather(ring, ids, GPU_ID_BYTES) < 0)
        rc = -1;
    if (rc == 0)
        rc = gpu->ops->join(gpu, ids); /* rank 0's token is the first */
    free(ids);
    return rc;
}
