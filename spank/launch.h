/*
 * While Slurm sets up a step, its other steps' cpusets must be as Slurm left them (cpuset.h): from
 * the plugin's first call in the step's daemon until the step's own cpuset is made. For every step,
 * also one that takes no part.
 */
#ifndef ADLOADER_LAUNCH_H
#define ADLOADER_LAUNCH_H

#include <stdint.h>

/* Bounded in time; failures are logged and change nothing. */
void launch_begin(const char *rundir, const char *node, uint32_t job);
void launch_end(void); /* may be called again */

#endif
