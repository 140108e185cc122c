/* How many loader threads a rank shall run. */
#include "config.h"

#include "workers.h"

#include "cpus.h"
#include "loader.h"

#include <stdlib.h>
#include <unistd.h>

unsigned workers_mask_size(void)
{
    struct cpus mask = CPUS_EMPTY;
    unsigned size = cpus_get_affinity(0, &mask) == 0 ? cpus_count(&mask) : 0;

    cpus_free(&mask);
    return size > 0 ? size : 1;
}

static unsigned at_most(unsigned value, unsigned limit)
{
    return value < limit ? value : limit;
}

unsigned workers_max(const struct run_options *options)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    if (options->loaders > 0)
        return options->loaders;
    return online > 0 && (unsigned long)online < LOADER_THREADS_MAX ? (unsigned)online
                                                                    : LOADER_THREADS_MAX;
}

static unsigned own_cpus(unsigned mask_size)
{
    const char *text = getenv("SLURM_CPUS_PER_TASK");
    long share = text == NULL ? 0 : strtol(text, NULL, 10);

    return share >= 1 && (unsigned long)share < mask_size ? (unsigned)share : mask_size;
}

unsigned workers_wanted(const struct run_options *options, unsigned mask_size, adloader_t *client)
{
    unsigned fallback = options->loaders > 0 ? options->loaders : own_cpus(mask_size);
    unsigned wanted = options->fixed_loaders ? fallback : adloader_workers(client, fallback);

    return at_most(wanted > 0 ? wanted : 1, workers_max(options));
}
