/*
 * The simulator: a trace's jobs arrive, wait for GPUs (first come, first served), train and finish,
 * while a policy divides the loader cores at every start and finish. The allocator is the
 * controller's own; it sees predicted curves, and jobs train by the true ones.
 */
#ifndef ADLOADER_SIM_H
#define ADLOADER_SIM_H

#include "alloc.h"
#include "trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_options {
    enum alloc_policy policy; /* ALLOC_STATIC: each GPU keeps its slot's cores; ALLOC_EVEN: all
                                 running jobs of a node get the same, anew at each event */
    enum alloc_guarantee guarantee;
    double error;       /* standard deviation of log(predicted / true), of core rate and G each */
    double uncertainty; /* that the allocator is told of */
    double min_gain;
    uint64_t seed; /* of the errors */
    bool keep_series;
};

struct sim_point {       /* from this time on */
    double time_s, busy; /* busy: share of all GPUs' time that they compute */
};

struct sim_result {
    double makespan_s;      /* until the last job is done */
    double samples_per_s;   /* aggregate: all work over the makespan */
    double mean_vs_even;    /* over jobs: mean of T over T with an even split, there and then */
    double mean_vs_own;     /* the same against the cores of the job's own slots */
    double worst_vs_own;    /* of any job at any time */
    double below_own_share; /* of job time that is spent below it, but for ALLOC_FLOOR_TOLERANCE */
    double mean_gpu_busy;   /* over jobs: mean of T/G */
    double mean_completion_s; /* arrival to end */
    double p95_completion_s;
    unsigned long moves;          /* cores that running jobs got from others */
    unsigned long events, solved; /* starts and ends; members in all problems solved */
    struct sim_point *series;     /* with keep_series */
    size_t nseries;
    double *start_s, *end_s; /* a job */
};

/* 0, or -1 with a sentence in error. Free the result with sim_result_free(). */
int sim_run(const struct trace *trace, const struct sim_options *options, struct sim_result *result,
            char *error, size_t error_size);
void sim_result_free(struct sim_result *result);

/*
 * What no policy can beat, knowing everything beforehand: the makespan from each job's fastest run,
 * the GPUs' capacity and the cores' capacity after each arrival; the mean completion time from each
 * job's fastest run at once.
 */
struct sim_bound {
    double makespan_s, mean_completion_s, samples_per_s;
};
int sim_bound(const struct trace *trace, struct sim_bound *bound);

#endif
