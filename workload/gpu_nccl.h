/*
 * The exchange of gradients between the GPUs of all ranks, by NCCL. One user at a time. Built
 * without NCCL, a rank alone works and several are refused.
 */
#ifndef ADLTRAIN_GPU_NCCL_H
#define ADLTRAIN_GPU_NCCL_H

#include "gpu.h"

#include <cuda_runtime.h>

struct exchanger;

/* All return true, or false with what failed in error (GPU_ERROR_MAX bytes). */
bool exchanger_make_id(uint8_t id[GPU_ID_BYTES], char *error);

/* Meets the other ranks; the device is the calling thread's present one. */
struct exchanger *exchanger_join(const uint8_t id[GPU_ID_BYTES], unsigned rank, unsigned ranks,
                                 char *error);

/* On the stream: count floats of own are summed over the ranks into sums. */
bool exchanger_sum(struct exchanger *exchanger, const float *own, float *sums, size_t count,
                   cudaStream_t stream, char *error);

/* That no peer or link has failed meanwhile. */
bool exchanger_check(struct exchanger *exchanger, char *error);

/* aborted: without waiting for anything that is under way. NULL is nobody. */
void exchanger_leave(struct exchanger *exchanger, bool aborted);

#endif
