/*
 * How a model's FLOPs become matrix products: gradients are exchanged in buckets as they become
 * ready in the backward pass, and each bucket's layers cost their share of the work, as square
 * products of a side that fits and one of fewer rows for what is left. Pure.
 */
#ifndef ADLTRAIN_GPU_PLAN_H
#define ADLTRAIN_GPU_PLAN_H

#include "gpu.h"

#define GPU_BUCKETS_MAX  64u
#define GPU_BUCKET_BYTES (25u << 20) /* what PyTorch's DistributedDataParallel gathers into one */

struct gpu_plan {
    unsigned buckets;
    size_t bucket_floats;   /* of each but the last, which has what is left */
    size_t gradient_floats; /* of all */
    unsigned side;          /* of the square products */
    unsigned whole;         /* square products of a bucket in the forward pass */
    unsigned rows;          /* of one product more, rows x side x side; 0 none */
    size_t forward_traffic; /* bytes that a bucket's activations are moved in the forward pass */
};

/* Work in the backward pass is twice the forward one, product by product. */
struct gpu_plan gpu_plan_make(const struct gpu_work *work);

/* Gradients of bucket number i. */
size_t gpu_plan_floats(const struct gpu_plan *plan, unsigned bucket);

/* FLOPs of a whole step as planned: per bucket within 12 rows of a product of what was asked for.
 */
double gpu_plan_flops(const struct gpu_plan *plan);

#endif
