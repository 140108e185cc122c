/* The plugin's part in srun, sbatch and salloc: see submit.h. */
#include "config.h"

#include "submit.h"

#include "options.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <slurm/spank.h>

#define TEXT_SIZE 2048

static struct options options;
static bool default_on;
static char plugstack_error[TEXT_SIZE];

void submit_init(const struct args *args, const char *args_error)
{
    memset(&options, 0, sizeof options);
    default_on = args->default_on;
    snprintf(plugstack_error, sizeof plugstack_error, "%s", args_error);
}

int submit_option(const char *value)
{
    char error[TEXT_SIZE];
    if (options_take(&options, value, error, sizeof error) == 0)
        return 0;
    slurm_error("--adloader: %s", error);
    return -1;
}

int submit_check(void)
{
    char error[TEXT_SIZE];
    struct hints hints;
    if (options_resolve(&options, getenv("ADLOADER"), getenv("ADLOADER_OPTIONS"), default_on,
                        &hints, error, sizeof error) < 0) {
        slurm_error("adloader: %s", error);
        return -1;
    }
    if (hints.on && plugstack_error[0] != '\0')
        slurm_spank_log("adloader: %s", plugstack_error);
    return 0;
}
