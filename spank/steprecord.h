/*
 * What a step has added to its cpusets, on disk in the node's directory (JOB.STEP.cpuset), so that
 * others can undo it. Written whole (a new file, then renamed) before the change that it tells of,
 * under the node's lock; gone with the last addition. It says whose it is: process, start time and
 * boot.
 */
#ifndef ADLOADER_STEPRECORD_H
#define ADLOADER_STEPRECORD_H

#include "cpuset.h"

#define STEPRECORD_MAX 65536u /* bytes; a longer one is not read */

struct steprecord {
    uint32_t job, step;
    bool version2;
    pid_t holder;
    uint64_t holder_start;
    char boot[64];
    struct cpuset_level levels[CPUSET_LEVELS_MAX];
    unsigned nlevels;
};

/* Of the step itself. 0, or -1 with errno. */
int steprecord_write(const struct cpuset *set);
int steprecord_remove(struct nodedir *node, uint32_t job, uint32_t step);

/* Call fn for each record that can be read. */
typedef void steprecord_fn(const struct steprecord *record, void *argument);
void steprecord_each(struct nodedir *node, steprecord_fn *fn, void *argument);

bool steprecord_of_this_boot(const struct steprecord *record, const struct procfs *fs);

/* Is the process that wrote it there? */
bool steprecord_alive(const struct steprecord *record, const struct procfs *fs);
bool steprecord_any_dead(struct nodedir *node, const struct procfs *fs);

/* What all steps but this one have added to the level with this directory. 0, or -1 (ENOMEM). */
int steprecord_added(struct nodedir *node, uint32_t job, uint32_t step, const char *directory,
                     struct cpus *added);

#endif
