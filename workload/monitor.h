/*
 * The thread beside the training loop (named adl-monitor): it prints a line each interval, keeps
 * the record, follows adloader's word on how many loaders are worth running, and takes SIGTERM and
 * SIGINT (which all threads must have blocked): the first asks for an orderly end, a second one of
 * either, a second or more later, ends the process at once.
 */
#ifndef ADLTRAIN_MONITOR_H
#define ADLTRAIN_MONITOR_H

#include "adloader.h"
#include "loader.h"
#include "options.h"
#include "progress.h"
#include "record.h"

#include <stdatomic.h>

struct monitor_config {
    const struct run_options *options;
    unsigned rank, mask_size;
    adloader_t *client;
    struct loader *loader;
    struct batches *queue; /* stopped on a signal */
    struct progress *progress;
    struct record *record; /* the monitor's until monitor_stop() */
    atomic_int *stop;      /* becomes the signal's number */
};

struct monitor;

/* NULL with the reason in the log. Time t_s counts from here. */
struct monitor *monitor_start(const struct monitor_config *config);

/* Ends the thread after a last look at the cores. */
void monitor_stop(struct monitor *monitor);

#endif
