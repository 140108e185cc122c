/*
 * Traces for the simulator: a machine, curves and jobs, as text (adloader-trace(5) has the format),
 * and a generator of series of jobs like those that loader papers evaluate.
 */
#ifndef ADLOADER_TRACE_H
#define ADLOADER_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_NAME_MAX   64
#define TRACE_JOBS_MAX   1000000u
#define TRACE_CURVES_MAX 4096u
#define TRACE_GPUS_MAX   1000000u

struct trace_curve {
    char name[TRACE_NAME_MAX];
    double gpu_rate, core_rate, beta, io_rate; /* of one GPU, samples/s; core_rate NAN: points */
    double *rate; /* samples/s of one GPU with c loader cores, c = 0..nrate-1, flat beyond */
    unsigned nrate;
};

struct trace_job {
    char name[TRACE_NAME_MAX];
    double arrival_s;
    double work_samples; /* of all its GPUs together */
    double weight;
    unsigned curve, nodes, gpus; /* gpus: on each node */
};

struct trace {
    unsigned nnodes, cores, gpus; /* of a node */
    unsigned main_per_gpu;        /* cores kept for each GPU's main thread */
    bool pool_all; /* cores of idle GPUs are lent too; else only those of running jobs */
    /* Of each job: seconds for which it holds GPUs and own cores before it trains and after, and
     * how long it has its own cores or more until its demand is known. */
    double start_s, end_s, learn_s;
    struct trace_curve *curves;
    size_t ncurves;
    struct trace_job *jobs; /* by arrival */
    size_t njobs;
};

/* Read a trace. NULL with a sentence (and line number) in error. */
struct trace *trace_parse(const char *text, size_t length, char *error, size_t error_size);
int trace_print(const struct trace *trace, FILE *out);
void trace_free(struct trace *trace);

/* Which models arrive. */
enum trace_mix {
    TRACE_MIX_MEASURED, /* Synergy's, with measured loader curves */
    TRACE_MIX_NAMED     /* those that the A-Dloader paper names: curves as the predictor has them */
};

struct trace_spec {
    enum trace_mix mix;
    char gpu[TRACE_NAME_MAX], precision[TRACE_NAME_MAX]; /* for TRACE_MIX_NAMED */
    unsigned jobs, nodes, gpus, cores;                   /* gpus and cores of a node */
    unsigned job_gpus, job_nodes; /* most of a job: 1, 2, 4, .. up to these, at random */
    double load;                  /* offered GPU time over GPU time that there is */
    double hours;                 /* mean time that a job trains at full speed */
    double modest;                /* share of jobs whose loaders need little (language, audio) */
    uint64_t seed;
    bool pool_all;
};

/* "jobs=100,nodes=3,gpus=4,cores=28,load=1.2,..."; keys not named keep their default. -1 with a
 * sentence in error. */
int trace_spec_parse(const char *text, struct trace_spec *spec, char *error, size_t error_size);
const char *trace_spec_usage(void);

/* Poisson arrivals. tables: of models and GPUs, for TRACE_MIX_NAMED alone. NULL with a sentence in
 * error. */
struct pred_tables;
struct trace *trace_generate(const struct trace_spec *spec, const struct pred_tables *tables,
                             char *error, size_t error_size);

/* Repeatable random numbers: splitmix64. */
uint64_t trace_random(uint64_t *state);
double trace_uniform(uint64_t *state); /* 0 <= x < 1 */
double trace_normal(uint64_t *state);  /* mean 0, deviation 1 */

#endif
