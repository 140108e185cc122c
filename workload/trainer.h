/*
 * The training loop of a rank: take a batch, run a step on the GPU, exchange gradients with the
 * other ranks, until the work asked for is done. All ranks end after the same step, because each
 * exchange also carries the wishes to stop.
 */
#ifndef ADLTRAIN_TRAINER_H
#define ADLTRAIN_TRAINER_H

#include "options.h"

/* Run the whole job: loaders, ranks, loop, summary. Returns the exit status (see --help). */
int trainer_run(struct run_options *options);

#endif
