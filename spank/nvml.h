/*
 * How busy the step's GPUs are, from NVIDIA's management library, which is loaded at run time where
 * it is there. Its absence, a GPU that does not tell, and MIG (whose instances have no such figure)
 * are all ordinary: the share is then unknown.
 *
 * The library may take seconds to start (a driver without persistence) or hang with a broken GPU:
 * so a thread of its own does all of it, which nobody waits for.
 */
#ifndef ADLOADER_NVML_H
#define ADLOADER_NVML_H

#include "msg.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"

struct nvml;

/*
 * Start to watch GPUs named as Slurm names them: by minor number ("0", of /dev/nvidia0), UUID
 * ("GPU-...") or PCI address ("0000:07:00.0"); MIG instances ("MIG-...") are unknown. library: a
 * file name as of dlopen(). NULL: there is nothing to watch, or no memory.
 */
struct nvml *nvml_start(const char *library, const char (*gpus)[MSG_GPU_MAX], unsigned ngpus);

/* Mean share of time, 0..1, that a kernel ran on the GPUs whose share is known, lately; NAN. */
double nvml_busy(const struct nvml *nvml);

/* The thread ends by itself, soon or late; nvml must not be used any more. */
void nvml_stop(struct nvml *nvml);

#endif
