/*
 * Tables of models and of GPUs, read from text files (models.csv, gpus.csv and an admin's own of
 * the same form), and what they say put into a pred_job. Files are taken as hostile: bounded in
 * size, every number within bounds, and any error names file and line.
 */
#ifndef ADLOADER_PREDICTOR_TABLES_H
#define ADLOADER_PREDICTOR_TABLES_H

#include "predictor.h"

#include <stdbool.h>
#include <stddef.h>

#define PRED_NAME_MAX    64
#define PRED_ENTRIES_MAX 4096u

struct pred_model {
    char name[PRED_NAME_MAX];
    char input[PRED_NAME_MAX], source[192];
    double flops_forward; /* a sample */
    double params;
    double activations;  /* elements a sample; NAN unknown */
    double passes;       /* how often training moves them; NAN unknown */
    double sample_bytes; /* as stored; NAN unknown */
};

enum pred_precision { PRED_FP32, PRED_TF32, PRED_AMP, PRED_PRECISIONS };

struct pred_gpu {
    char name[PRED_NAME_MAX];
    char link_name[PRED_NAME_MAX], source[192];
    double flops_per_s[PRED_PRECISIONS]; /* efficiency x peak; NAN: has none */
    double memory_bytes_per_s;
    struct pred_link link;
};

struct pred_tables {
    struct pred_model *models;
    size_t nmodels, models_room;
    struct pred_gpu *gpus;
    size_t ngpus, gpus_room;
};

/*
 * Adds a file's entries, replacing those of the same name. 0; -1 with a sentence in error, and the
 * tables as they were (errno ENOENT where there is no such file).
 */
int pred_tables_read_models(struct pred_tables *tables, const char *file, char *error, size_t size);
int pred_tables_read_gpus(struct pred_tables *tables, const char *file, char *error, size_t size);
/* models.csv and gpus.csv of the folder; where they are lacking that is an error. */
int pred_tables_read(struct pred_tables *tables, const char *folder, char *error, size_t size);
void pred_tables_free(struct pred_tables *tables);

/* By name without case, '-', '_', '.' and spaces; NULL: not there. */
const struct pred_model *pred_tables_model(const struct pred_tables *tables, const char *name);
const struct pred_gpu *pred_tables_gpu(const struct pred_tables *tables, const char *name);

/* The GPU whose name is part of a longer one, as a driver gives it ("NVIDIA A100-SXM4-80GB"): the
 * longest such; NULL none. */
const struct pred_gpu *pred_tables_gpu_in(const struct pred_tables *tables, const char *name);

/* "a, b or c": the names nearest to one that is not there, at most three; "" if none is near. */
void pred_tables_near_models(const struct pred_tables *tables, const char *name, char *text,
                             size_t size);
void pred_tables_near_gpus(const struct pred_tables *tables, const char *name, char *text,
                           size_t size);

/* "fp32", "tf32", "amp" (also "fp16", "bf16"), or -1. */
int pred_precision_parse(const char *name);
const char *pred_precision_name(enum pred_precision precision);
/* What the GPU does unless told otherwise: TF32 where it has it, as frameworks do for convolutions.
 */
enum pred_precision pred_gpu_precision(const struct pred_gpu *gpu);

/* Bytes that a sample's activations move through GPU memory in training; NAN unknown. */
double pred_model_traffic(const struct pred_model *model, enum pred_precision precision);

/*
 * Fill the model's and the GPU's part of job (flops_forward, gradient_bytes, sample_bytes,
 * gpu_flops_per_s, sample_gpu_s, step_overhead_s, in_node). Either may be NULL: its part stays.
 * false where the GPU cannot compute in that precision.
 */
bool pred_tables_apply(const struct pred_model *model, const struct pred_gpu *gpu,
                       enum pred_precision precision, struct pred_job *job);

#endif
