/*
 * The summary of a run: what it did, how fast, what it waited for, and the loaders' cores over
 * time; as one JSON document with units in the key names.
 */
#ifndef ADLTRAIN_SUMMARY_H
#define ADLTRAIN_SUMMARY_H

#include "loader.h"
#include "options.h"
#include "progress.h"
#include "record.h"
#include "world.h"

#include <stddef.h>

/* One rank's figures, as ranks send them to each other. */
struct rank_figures {
    double samples, steps, seconds, wait_s, compute_s, exchange_s, loader_cpu_s, cpu_s, skipped;
};

struct summary {
    const struct run_options *options;
    const struct world *world;
    const struct rank_figures *ranks; /* all ranks'; or the own one only if complete is false */
    bool complete;
    const struct loader_totals *loader;
    const struct record *record;
    double step_s;                      /* of the emulated GPU; NAN: a real one, or none */
    const char *device;                 /* a real GPU's name; NULL none */
    const struct named_step *predicted; /* of the named model; NULL: cannot be told */
    uint64_t start_wall_s;              /* seconds since the epoch */
    unsigned loaders_max;
    const char *ended; /* "seconds", "steps", "samples", "signal", "failed", "peer-lost", ... */
    int exit_status;
};

struct rank_figures summary_figures(const struct totals *from, const struct totals *to,
                                    const struct loader_totals *loader);

/* CPU seconds of the process since its start. */
double summary_cpu_seconds(void);

/* Can this rank write what --json asks it for? Before a run; 0, or -1 with the reason in the log.
 */
int summary_check(const char *pattern, unsigned rank);

/* Write what options->json asks for, if this rank is to. 0, or -1 with the reason in the log. */
int summary_write(const struct summary *summary);

/* One line for people on standard output. */
int summary_print(const struct summary *summary);

#endif
