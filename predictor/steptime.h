/*
 * Step times of one application, fitted offline on a table of measured ones: from the batch and the
 * placement of its GPUs to seconds a step.
 *
 * The model is the physics of compute.c, comm.c, straggler.c and overlap.c with its few constants
 * fitted under priors (physics.c), times a learned correction for what the physics does not know
 * (correction.c). Far from what was measured the correction fades and the physics remains.
 */
#ifndef ADLOADER_PREDICTOR_STEPTIME_H
#define ADLOADER_PREDICTOR_STEPTIME_H

#include <stddef.h>
#include <stdint.h>

#define PRED_STEPS_MAX    4096u /* more points than this are thinned out */
#define PRED_REPLICAS_MAX 65536u

struct pred_step {
    double batch;         /* samples a GPU and step */
    unsigned replicas;    /* GPUs of the job */
    unsigned nodes;       /* that they are on */
    unsigned most, least; /* GPUs on the node that has most, and least */
    uint64_t shape;       /* equal for equal numbers of GPUs a node in whatever order */
    uint64_t layout;      /* equal for equal numbers in this order */
    double step_s;        /* measured; ignored in a query */
};

/* From "1122": one digit a node, its GPUs. Returns 0; -1 with errno EINVAL. */
int pred_step_placement(struct pred_step *step, const char *placement);

struct pred_step_time {
    double step_s, rel_sd;        /* the prediction */
    double compute_s, exchange_s; /* its parts, before overlap and correction */
    double correction;            /* factor that was learned, already in step_s */
};

struct pred_step_model;

/* NULL: errno EINVAL (fewer than 4 sensible points), ENOMEM. The caller frees it. */
struct pred_step_model *pred_step_fit(const struct pred_step *points, size_t n);
void pred_step_model_free(struct pred_step_model *model);

/* 0; -1 with errno EINVAL for a query that makes no sense. */
int pred_step_predict(const struct pred_step_model *model, const struct pred_step *query,
                      struct pred_step_time *time);

#endif
