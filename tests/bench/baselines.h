/* Two published ways to model a step's time, to measure the predictor against. */
#ifndef ADLOADER_BENCH_BASELINES_H
#define ADLOADER_BENCH_BASELINES_H

#include "steptime.h"

struct baseline {
    const char *name;
    unsigned nparams;
    double (*step_s)(const double *x, const struct pred_step *step);
    /* where a fit may start, of a typical step time and batch; all but the last are logarithms */
    void (*start)(double step_s, double batch, double *x);
};

/* c batch + ring: computing in proportion to FLOPs, no constant, no overlap. 3 parameters. */
extern const struct baseline BASELINE_FLOPS;
/* The form of Pollux (Qiao et al., OSDI 2021), 7 parameters: linear computing time, exchange linear
 * in the number of replicas in a node and between nodes, overlap exponent 1..10. */
extern const struct baseline BASELINE_POLLUX;

/* The best of several starts; x receives the parameters. Returns 0, -1 without memory. */
int baseline_fit(const struct baseline *baseline, const struct pred_step *steps, size_t n,
                 double *x);

#endif
