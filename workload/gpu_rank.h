/*
 * The GPU of a rank, from what was asked for and where the rank stands.
 */
#ifndef ADLTRAIN_GPU_RANK_H
#define ADLTRAIN_GPU_RANK_H

#include "gpu.h"
#include "options.h"
#include "ring.h"
#include "world.h"

struct gpu_expectation {
    double step_s;  /* of the emulated GPU's step; NAN: a real one, or none */
    bool predicted; /* a named model: step holds what the predictor says */
    struct named_step step;
};

/*
 * Opens what options->gpu says (train is set; a device that turns out to be known to the tables is
 * noted in options->named), and tells what may be expected of it. NULL with the reason in the log.
 * Close it by its ops.
 */
struct gpu *gpu_rank_open(struct run_options *options, const struct world *world,
                          const atomic_int *stop, struct gpu_expectation *expectation);

/* GPUs that sum gradients themselves meet, over the ring that the ranks have. 0, or -1 with the
 * reason in the log. */
int gpu_rank_join(struct gpu *gpu, struct ring *ring, const struct world *world);

#endif
