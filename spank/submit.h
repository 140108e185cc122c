/* The plugin's part in srun, sbatch and salloc: refuse nonsense before anything is queued. */
#ifndef ADLOADER_SUBMIT_H
#define ADLOADER_SUBMIT_H

#include "args.h"

#include <stdbool.h>

/*
 * args_error: what is wrong in plugstack.conf, or "". is_srun: it starts a step, and may be told
 * how to bind its tasks. Puts into the environment what the step's nodes have to know, under names
 * that any --export lets through.
 */
void submit_init(const struct args *args, const char *args_error, bool is_srun);

/* One occurrence of the option: 0, or -1, told to the user. */
int submit_option(const char *value);

/* All options are in: look at the environment. 0, or -1, told to the user. */
int submit_check(void);

/* The step exists and is about to be launched: say what will not be done with it. */
void submit_launch(void);

#endif
