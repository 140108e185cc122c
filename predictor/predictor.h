/*
 * The predictor: how fast would this member train with c loader cores?
 *
 * A pure library: plain structs in, plain structs out; no sockets, no clock, no globals. Units
 * stand in the names or beside the fields. Unknown numbers are NAN. A member is one step on one
 * node; rates are samples/s of the member (all its GPUs on the node together).
 *
 * The model (DESIGN of the curve; the terms stand one a file with their sources):
 *
 *     t_comp  = a + batch * (3 * flops_forward / (efficiency * peak) + sample_gpu)
 *     t_sync  = alpha + 2 (K-1)/K * gradient_bytes / bus_bandwidth, per level
 *     t_iter  = (t_comp^g + t_sync^g)^(1/g)
 *     G       = batch * gpus / t_iter                        the rate when data is never late
 *     loader  = k c / (1 + beta (c-1))                       also capped by the number of workers
 *     io      = bandwidth / (sample_bytes * (1 - cache_hit))
 *     T(c)    = smooth minimum of G, loader(c), io
 *
 * Where nobody reports samples (an unchanged program), the unit "sample" is unknown and rates are
 * relative: one unit is the work that one loader core does in a second (k = 1), so that G equals
 * the demand in cores. T/G, all that the allocator needs, is the same in both.
 */
#ifndef ADLOADER_PREDICTOR_H
#define ADLOADER_PREDICTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PRED_CORES_MAX 4096u

enum pred_source { PRED_UNKNOWN, PRED_STATIC, PRED_PROFILE, PRED_MEASURED };

/* A number with its relative standard deviation (0.1 = 10 %) and where it comes from. */
struct pred_value {
    double value; /* NAN: unknown */
    double rel_sd;
    enum pred_source source;
};

/* What limits the rate at some c. */
enum pred_limit {
    PRED_LIMIT_UNKNOWN,
    PRED_LIMIT_GPU,     /* computing and exchanging gradients: data is never late */
    PRED_LIMIT_LOADER,  /* loader cores: more would help */
    PRED_LIMIT_WORKERS, /* the program runs fewer workers than cores */
    PRED_LIMIT_IO,      /* storage */
    /* not of the model; said of a curve by those who know (the controller) */
    PRED_LIMIT_MAIN_THREAD, /* the program's main thread takes no more */
    PRED_LIMIT_QUOTA,       /* a CPU bandwidth limit of the step */
    PRED_LIMITS
};

/* T(c) for c = 0..ncores. Owns its arrays: pred_curve_free(). */
struct pred_curve {
    unsigned ncores;    /* arrays have ncores + 1 entries */
    double *rate;       /* samples/s (or relative), never negative, NAN or above gpu_rate */
    double *low, *high; /* band of about one standard deviation around rate */
    uint8_t *limit;     /* enum pred_limit */
    double gpu_rate;    /* G, same unit; > 0 */
    double demand; /* cores at which the loader no longer holds the GPU back; may be > ncores */
    double demand_rel_sd;    /* its relative uncertainty */
    bool relative;           /* unit is core-seconds of loader work per second, not samples/s */
    enum pred_source source; /* of the weakest part that matters */
};

void pred_curve_free(struct pred_curve *curve);

/* The smallest number of cores (0..ncores) beyond which the rate gains less than the fraction
 * tolerance of gpu_rate: where a further core is no longer useful. */
unsigned pred_curve_knee(const struct pred_curve *curve, double tolerance);

/* ---- what is declared or known beforehand ------------------------------------------------ */

struct pred_link {
    double alpha_s;         /* latency of one all-reduce step, seconds */
    double bus_bytes_per_s; /* bus bandwidth as NCCL's tests define it */
};

struct pred_job {
    /* the model */
    double flops_forward;  /* a sample, FLOPs = 2 x MACs */
    double gradient_bytes; /* exchanged each step */
    double sample_bytes;   /* read from storage a sample */
    unsigned batch;        /* samples a GPU and step; 0 unknown */
    /* its GPUs */
    unsigned gpus;          /* of this member; 0 unknown */
    unsigned gpus_total;    /* of the job */
    unsigned nodes;         /* of the job */
    double gpu_flops_per_s; /* efficiency x peak, a GPU */
    double sample_gpu_s;    /* a sample's activations through GPU memory, seconds; NAN unknown */
    double step_overhead_s; /* a: constant part of a step */
    double overlap;         /* g, 1 (none) .. 10 (almost full); NAN: default */
    struct pred_link in_node, between_nodes;
    /* its loader on this node's cores */
    struct pred_value core_rate; /* k: samples/s of one core */
    struct pred_value beta;      /* contention, 0 = linear */
    struct pred_value gpu_rate; /* G if known directly (declared or profile); else from the above */
    struct pred_value demand; /* loader cores that it needs (a profile), where k or G is unknown */
    double io_bytes_per_s;    /* this member's share of the storage bandwidth; NAN no limit known */
    double cache_hit;         /* 0..1 */
    unsigned workers_min, workers_max; /* declared; 0 not said */
    double memory_bytes_per_s;  /* the node's memory bandwidth for loaders; NAN no limit known */
    double sample_memory_bytes; /* that a sample moves through memory on its way; NAN unknown */
};

#define PRED_OVERLAP 2.0 /* g where nothing is known: between none and full */

/* Everything unknown. */
void pred_job_init(struct pred_job *job);

/*
 * The curve of what is declared alone. Returns 0; -1 with errno EINVAL (a field is negative or
 * contradictory) or ENOMEM. With nothing known the curve is relative, linear, with demand = ncores
 * and source PRED_UNKNOWN: every core might help.
 */
int pred_curve_static(const struct pred_job *job, unsigned ncores, struct pred_curve *curve);

/* ---- learning from what is measured -------------------------------------------------------- */

struct pred_observation { /* one report of one member */
    double interval_s;    /* > 0 */
    unsigned cores;       /* loader cores in force during the interval */
    unsigned tasks;       /* loader tasks */
    unsigned workers;     /* of them, units that work on samples; 0 none seen */
    double loader_cpu_s;  /* CPU seconds of all loader tasks in the interval */
    double queue_s;       /* seconds they waited for a CPU; NAN unknown */
    double io_wait;       /* mean number of loader tasks waiting for storage; NAN unknown */
    double gpu_busy;      /* 0..1; NAN unknown */
    double samples;       /* trained on in the interval; NAN unknown */
    double wait_s;        /* training loop waited for data; NAN unknown */
    double busy_s;        /* training loop computed; NAN unknown */
    double read_bytes;    /* NAN unknown */
};

/* A noisy quantity followed over time: its mean and variance, and the two sums that notice a
 * lasting shift (track.h). Floats, since a member's learner has to stay small. */
struct pred_track {
    float mean, variance, seconds; /* seconds: how much of the past the mean knows */
    float up, up_sum, up_seconds, down, down_sum, down_seconds;
};

struct pred_point { /* a rate measured with some number of cores */
    float cores, rate, seconds;
};
#define PRED_LEARNER_POINTS 8

/* Constant size, copyable; all that is learned of one member. Cores and rates relative to the work
 * of one loader core unless samples are named. */
struct pred_learner {
    uint32_t reports;        /* used so far */
    uint32_t idle_reports;   /* in a row without any loader task */
    uint32_t last_cores;     /* cores of the last report; UINT32_MAX none yet */
    uint32_t capped_reports; /* in a row with more cores than workers, all of them busy */
    double use;              /* cores that the loaders use (smoothed); NAN unknown */
    double use_at_cores;     /* cores that they had when that was measured; NAN unknown */
    double saturation;       /* 0..1: use as a share of what they could use; NAN unknown */
    double busy;             /* GPU-busy share (smoothed); NAN unknown */
    double core_rate;        /* samples per core-second of one core alone; NAN unknown */
    double rate;             /* samples/s (smoothed); NAN unknown */
    double gpu_rate;         /* G as measured, samples/s; NAN unknown */
    double beta;             /* NAN unknown */
    double sample_bytes;     /* read from storage a sample; NAN unknown */
    double workers;          /* most that were seen lately; 0 none */
    double io_wait;          /* loader tasks waiting for storage (smoothed) */
    double variance;         /* of relative deviations between predicted and observed rate */
    double error;            /* running mean |predicted - observed| / observed of the rate */
    double demand;           /* cores; NAN unknown */
    double demand_rel_sd;
    double seen;      /* demand when it was last to be seen, not guessed; NAN never */
    double peak;      /* highest demand of the last minutes, forgotten slowly; 0 none */
    double free_busy; /* GPU-busy share when data is not late; NAN unknown */
    bool exploring;   /* demand is a guess: all that is known is that it is above use */
    bool held_back;   /* by something else than cores: storage, the main thread */
    bool io_bound;    /* ... by storage, that is: its loaders wait for that */
    struct pred_track use_track, rate_track, busy_track, cost_track;
    float cost_before, beyond_before; /* CPU seconds a sample before the last move; 0 not wanted */
    float beta_sd;
    struct pred_point points[PRED_LEARNER_POINTS];
};

void pred_learner_init(struct pred_learner *learner);

/* Takes one report; contradictory or absurd ones (negative, NAN where not allowed, more CPU than
 * cores x interval allows) are left out and 0 is returned; else 1. */
int pred_learner_observe(struct pred_learner *learner, const struct pred_job *job,
                         const struct pred_observation *observation);

/* The curve of both: declared and measured, fused by their uncertainties. As pred_curve_static. */
int pred_learner_curve(const struct pred_learner *learner, const struct pred_job *job,
                       unsigned ncores, struct pred_curve *curve);

/* An opaque form of at most PRED_STATE_MAX bytes that a member's agent keeps for the controller's
 * next life. Saved forms are versioned; load returns -1 for one that it does not understand. */
#define PRED_STATE_MAX 512
size_t pred_learner_save(const struct pred_learner *learner, uint8_t *buf, size_t size);
int pred_learner_load(struct pred_learner *learner, const uint8_t *buf, size_t length);

const char *pred_limit_name(enum pred_limit limit);
const char *pred_source_name(enum pred_source source);

#endif
