/*
 * From what is declared (hints, a tool's options) to a pred_job: names looked up in the tables, the
 * node's calibration for its loader, storage and GPUs, and usual values where nothing else is
 * known, each with its uncertainty.
 */
#ifndef ADLOADER_PREDICTOR_DECLARED_H
#define ADLOADER_PREDICTOR_DECLARED_H

#include "calibration.h"
#include "hints.h"
#include "predictor.h"
#include "tables.h"

struct pred_declared {
    const struct pred_model *model; /* NULL: not said, or not in the tables */
    const struct pred_gpu *gpu;     /* NULL: unknown */
    unsigned gpus;                  /* of the member; 0 unknown */
    int precision;                  /* enum pred_precision; -1: the GPU's usual one */
    enum hints_data data;           /* what loaders read; UNKNOWN: by the model's input */
    const struct pred_calibration *calibration; /* of the node; NULL none */
};

/* Fills what is known and leaves the rest; false where the GPU cannot compute in that precision. */
bool pred_declare(const struct pred_declared *declared, struct pred_job *job);

/* The precision in force. */
enum pred_precision pred_declared_precision(const struct pred_declared *declared);

#endif
