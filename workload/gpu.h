/*
 * The GPU of a rank. Here it is emulated: a training step takes as long as a GPU of the stated
 * speed would take for forward and backward pass, and nothing is computed. Every output that
 * contains such a time says "emulated".
 */
#ifndef ADLTRAIN_GPU_H
#define ADLTRAIN_GPU_H

#include <stdatomic.h>
#include <stdint.h>

#define GPU_KIND "emulated"

struct gpu {
    double step_s; /* of one batch */
};

/* A GPU that trains samples_per_s when data is never late, for batches of batch samples. */
struct gpu gpu_with_rate(double samples_per_s, unsigned batch);

/*
 * A GPU that reaches gpu_flops floating-point operations a second on a model of forward_flops a
 * sample. Forward and backward pass together cost three times the forward pass (the backward pass
 * computes gradients for both inputs and weights, each as much as the forward pass).
 */
struct gpu gpu_with_flops(double forward_flops, double gpu_flops, unsigned batch);

/* One training step, ended early when *stop becomes nonzero. Returns the seconds it took. */
double gpu_step(const struct gpu *gpu, const atomic_int *stop);

#endif
