/* How many loader threads a rank shall run. */
#ifndef ADLTRAIN_WORKERS_H
#define ADLTRAIN_WORKERS_H

#include "adloader.h"
#include "options.h"

/* CPUs of the calling thread's affinity mask, at least 1. */
unsigned workers_mask_size(void);

/* The most that may ever be asked for: --loaders, else the CPUs online. */
unsigned workers_max(const struct run_options *options);

/*
 * The number now. --fixed-loaders: --loaders, else the rank's own CPUs. Otherwise adloader's last
 * word, else ADLOADER_WORKERS (both through the client), else --loaders, else the rank's own CPUs.
 * Own CPUs are those of the mask, or SLURM_CPUS_PER_TASK where that is less (ranks that share one).
 */
unsigned workers_wanted(const struct run_options *options, unsigned mask_size, adloader_t *client);

#endif
