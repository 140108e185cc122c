/*
 * The plugin's part in slurmstepd: from the callbacks of one step to its agent. Without --adloader
 * every function returns at once. None of them waits for the network, and none can fail: what does
 * not work is logged and the step runs as if adloader were not there.
 */
#ifndef ADLOADER_REMOTE_H
#define ADLOADER_REMOTE_H

#include "args.h"
#include "options.h"

#include <stdint.h>
#include <sys/types.h>

#include <slurm/spank.h>

void remote_init(spank_t spank, const struct args *args);
void remote_option(const char *value);
void remote_init_post_opt(spank_t spank);
void remote_user_init(spank_t spank);
void remote_task_init(spank_t spank);
void remote_task_post_fork(spank_t spank);
void remote_task_exit(spank_t spank);
void remote_exit(spank_t spank);

#endif
