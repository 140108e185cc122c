/* The plugin's part in slurmd: have the node's topology exported once, by another program. */
#ifndef ADLOADER_TOPOLOGY_H
#define ADLOADER_TOPOLOGY_H

#include "args.h"

/*
 * Start "PROGRAM topology --export RUNDIR/topology.xml" detached and bounded in time; returns at
 * once. Loading a topology takes seconds on some machines and may hang on others, which is why it
 * happens neither in slurmd nor in slurmstepd. 0, or -1 with errno: nothing was started.
 */
int topology_export(const struct args *args);

#endif
