/* The plugin's part in srun, sbatch and salloc: refuse nonsense before anything is queued. */
#ifndef ADLOADER_SUBMIT_H
#define ADLOADER_SUBMIT_H

#include "args.h"

/* args_error: what is wrong in plugstack.conf, or "". */
void submit_init(const struct args *args, const char *args_error);

/* One occurrence of the option: 0, or -1, told to the user. */
int submit_option(const char *value);

/* All options are in: look at the environment. 0, or -1, told to the user. */
int submit_check(void);

#endif
