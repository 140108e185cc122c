/*
 * The record of a run over time: the loaders' cores whenever they change, and one point an
 * interval. Bounded: a run of any length keeps at most RECORD_POINTS_MAX of each and says so.
 */
#ifndef ADLTRAIN_RECORD_H
#define ADLTRAIN_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#define RECORD_POINTS_MAX 100000u

struct record_cores { /* from t_s on */
    double t_s;
    unsigned workers, cores;
    char *cpus; /* list form */
};

struct record_point { /* over the interval that ended at t_s */
    double t_s, samples_per_s, gpu_busy, wait, exchange, loader_cpu_cores;
};

struct record {
    struct record_cores *cores;
    struct record_point *points;
    size_t ncores, npoints, cores_capacity, points_capacity;
    bool truncated;
};

void record_free(struct record *record);

/* Adds an entry if workers or CPUs differ from the last one's; lack of memory truncates. */
void record_cores(struct record *record, double t_s, unsigned workers, unsigned cores,
                  const char *cpus);
void record_point(struct record *record, const struct record_point *point);

#endif
