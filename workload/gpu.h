/*
 * The GPU of a rank, whatever it is: an emulated one, whose steps are timed waits (gpu_emulated.c),
 * or a real one driven by CUDA, cuBLAS and NCCL (gpu_cuda.c, a module that is loaded when it is
 * asked for, so that adltrain itself runs where there is no CUDA). Every output names the kind.
 *
 * A step: a batch is copied to one of the GPU's slots while the batch before it is in work; begin()
 * starts forward and backward pass and the exchange of the gradients that overlaps with them;
 * compute() and exchange() wait for either. All functions that return int give 0, or -1 after they
 * have complained.
 */
#ifndef ADLTRAIN_GPU_H
#define ADLTRAIN_GPU_H

#include "tables.h" /* enum pred_precision */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_SLOTS     2u /* batches on the GPU: one in work, one arriving */
#define GPU_NO_BATCH  GPU_SLOTS
#define GPU_ERROR_MAX 512
#define GPU_ID_BYTES  128u /* of the token by which ranks find each other */

/* How long the parts of an emulated step take. */
struct gpu_timeline {
    double compute_s;  /* forward and backward pass of one batch */
    double exchange_s; /* the part of the gradient exchange that computing does not hide */
    double copy_s;     /* of a batch from the host; hidden behind the step before it if shorter */
};

/* The work of a real step, of one rank. */
struct gpu_work {
    unsigned batch; /* samples */
    size_t sample_floats;
    double forward_flops;  /* a sample; a step costs three times as many */
    double traffic_bytes;  /* a sample's activations through GPU memory in a step; 0 none */
    size_t gradient_bytes; /* summed over the ranks in each step */
    enum pred_precision precision;
};

/* Whom the GPU belongs to. */
struct gpu_owner {
    unsigned rank, ranks;
    int local_rank;         /* among the ranks of this node; -1 unknown */
    double peer_timeout_s;  /* how long an exchange may stand still */
    const atomic_int *stop; /* nonzero: an emulated wait ends early */
    void (*complain)(const char *sentence);
};

struct gpu;

struct gpu_ops {
    const char *kind; /* "emulated" or "cuda" */
    bool sums;        /* exchange() sums the gradients itself: nobody else needs to */

    /* Memory for batches from which the GPU copies fast. NULL functions: ordinary memory will do.
     */
    void *(*alloc)(struct gpu *gpu, size_t bytes);
    void (*release)(struct gpu *gpu, void *memory);

    /* Ranks that sum by themselves meet by a token that rank 0 makes and all get. NULL: no need. */
    int (*make_id)(struct gpu *gpu, uint8_t id[GPU_ID_BYTES]);
    int (*join)(struct gpu *gpu, const uint8_t id[GPU_ID_BYTES]);

    /* From a thread of its own: samples into the slot; returns when they are there. */
    int (*copy)(struct gpu *gpu, unsigned slot, const float *samples);
    /* Starts a step on the slot's batch. GPU_NO_BATCH: takes part in the exchange alone. */
    int (*begin)(struct gpu *gpu, unsigned slot);
    int (*compute)(struct gpu *gpu);
    int (*exchange)(struct gpu *gpu);

    void (*close)(struct gpu *gpu);
};

/* What every kind of GPU begins with. */
struct gpu {
    const struct gpu_ops *ops;
    char name[64]; /* of the device; "" emulated */
};

/* NULL, after a complaint. */
struct gpu *gpu_emulated_open(const struct gpu_timeline *timeline, const struct gpu_owner *owner);
struct gpu *gpu_cuda_open(const struct gpu_work *work, const struct gpu_owner *owner);

/* What the module exports under this name; the version guards against an older file. */
#define GPU_MODULE_VERSION 2u
#define GPU_MODULE_SYMBOL  "adltrain_gpu_module"
struct gpu_module {
    unsigned version;
    struct gpu *(*open)(const struct gpu_work *work, const struct gpu_owner *owner);
};

#endif
