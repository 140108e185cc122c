/*
 * Whether this Slurm can call the plugin in helper processes: SlurmdParameters=contain_spank, which
 * Slurm has from 24.05 on (_run_spank_func() in its slurmstepd/mgr.c). What such a process is:
 * executor.h. Contained are user_init, task_post_fork and task_exit, in extern steps too; init,
 * init_post_opt and exit are always called in slurmstepd itself.
 */
#ifndef ADLOADER_CONTAINED_H
#define ADLOADER_CONTAINED_H

#include <slurm/slurm_version.h>

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0)
#define CONTAINED_POSSIBLE 1
#else
#define CONTAINED_POSSIBLE 0
#endif

#endif
