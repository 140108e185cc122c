/*
 * The terms of the model, one a file, each a pure function of numbers in base units (seconds,
 * bytes, samples, cores). They are the inside of the predictor; others include predictor.h.
 *
 * All return a finite number >= 0, or INFINITY where a rate has no limit. Arguments are checked by
 * the callers (pred_job_check and the learner): not negative, not NAN unless said.
 */
#ifndef ADLOADER_PREDICTOR_TERMS_H
#define ADLOADER_PREDICTOR_TERMS_H

#include "predictor.h"

/* compute.c: seconds of forward and backward pass of one GPU. sample_memory_s: time to move a
 * sample's activations through GPU memory, 0 unknown. */
double pred_compute_s(double overhead_s, double batch, double flops_forward, double flops_per_s,
                      double sample_memory_s);

/* comm.c: seconds of one all-reduce of bytes over n ranks by ring and by double binary tree. */
double pred_ring_s(double n, double bytes, const struct pred_link *link);
double pred_tree_s(double n, double bytes, const struct pred_link *link);
/* The faster of both at each level: first the ranks in the node, then the nodes. */
double pred_sync_s(double gpus_in_node, double nodes, double bytes, const struct pred_link *in_node,
                   const struct pred_link *between_nodes);

/* straggler.c: expected excess of the slowest of so many workers, in standard deviations. */
double pred_straggler(double workers);

/* overlap.c: seconds of an iteration from its computing and exchanging part. */
double pred_overlap_s(double compute_s, double sync_s, double overlap);

/* loader.c: samples/s of c cores, and the cores that give a rate (INFINITY: none do). */
#define PRED_BETA_MAX 0.95
double pred_loader_rate(double core_rate, double beta, double cores);
double pred_loader_cores(double core_rate, double beta, double rate);

/* membw.c: samples/s that the node's memory bandwidth admits; INFINITY where unknown (NAN). */
double pred_memory_rate(double memory_bytes_per_s, double memory_bytes_per_sample);

/* io.c: samples/s that storage admits; INFINITY where unknown (NAN) or all is cached. */
double pred_io_rate(double bytes_per_s, double sample_bytes, double cache_hit);
/* The share of a data set that is found in the page cache after the first pass over it. */
double pred_cache_hit(double cache_bytes, double dataset_bytes);

/* knee.c: rate of a consumer that could take `demand` and a producer that could make `supply`, with
 * room for `depth` batches between them; and the producer's busy share for that, and its inverse:
 * supply/demand from the busy share. */
#define PRED_KNEE_DEPTH 20.0 /* two batches prefetched by each of ten workers */
double pred_knee(double demand, double supply, double depth);
double pred_knee_busy(double ratio, double depth);
double pred_knee_ratio(double busy, double depth);

/* ---- a member's parameters, of whatever source, and the curve they make (curve.c) ---------- */

#define PRED_POINTS 8

struct pred_params {
    double core_rate, core_rate_sd; /* k, samples/s (or 1 where relative), and relative sd */
    double beta;
    double gpu_rate, gpu_rate_sd; /* G */
    double supply_max;            /* storage, memory or what else caps the loader; INFINITY none */
    double cores_max;             /* workers that can be busy at once; INFINITY unknown */
    double depth;
    double demand_sd;
    bool gpu_known, core_known; /* in samples/s */
    bool demand_known;          /* in cores: from both of these, or by itself */
    bool guess;                 /* G is not known to be a limit */
    bool linear;                /* no knee: nothing is known of G */
    bool relative;
    bool idle;                    /* no loader at all: every number of cores gives G */
    enum pred_limit supply_limit; /* the name for supply_max */
    enum pred_source source;
    /* measured points, ascending in cores: they overrule the model near them */
    unsigned npoints;
    struct {
        double cores, rate, trust; /* trust 0..1 */
    } points[PRED_POINTS];
};

double pred_params_rate(const struct pred_params *p, double cores);
double pred_params_demand(const struct pred_params *p);
int pred_params_curve(const struct pred_params *p, unsigned ncores, struct pred_curve *curve);

/* static.c: what is declared, as parameters. known: something was. Returns -1/EINVAL. */
int pred_job_check(const struct pred_job *job);
double pred_job_gpu_rate(const struct pred_job *job, double *rel_sd, enum pred_source *source);
void pred_job_params(const struct pred_job *job, unsigned ncores, struct pred_params *p);

/* learner.c: cores that the program has workers for; INFINITY unknown. */
double pred_learner_cores_max(const struct pred_learner *learner, const struct pred_job *job);

/* learned.c: declared and learned together. false/EINVAL: the job makes no sense. */
bool pred_learner_params(const struct pred_learner *learner, const struct pred_job *job,
                         unsigned ncores, struct pred_params *p);

#endif
