/*
 * Models and GPUs by name, from the predictor's tables, and what the predictor says of a step of
 * theirs. The formulas are the predictor's own: here they are only asked, once for one rank alone
 * and once for all, so that what is left is the part of the exchange that computing does not hide.
 */
#ifndef ADLTRAIN_NAMED_H
#define ADLTRAIN_NAMED_H

#include "gpu.h"

#include "predictor.h"
#include "tables.h"

struct named {
    struct pred_tables tables;
    const struct pred_model *model; /* NULL: none named */
    const struct pred_gpu *gpu;     /* NULL: none named or known */
    int precision;                  /* enum pred_precision; -1: the GPU's usual one */
};

#define NAMED_ERROR_MAX 512

/*
 * Read the tables of that folder and look up both names (either may be NULL). 0, or -1 with a
 * sentence in error. named_free() in either case.
 */
int named_find(const char *tables, const char *model, const char *gpu, int precision,
               struct named *named, char *error);
void named_free(struct named *named);

/* The GPU as a driver calls it; unknown to the tables, none is named. */
void named_set_device(struct named *named, const char *device);

/* The precision in force: as said, else the GPU's usual one, else TF32. */
enum pred_precision named_precision(const struct named *named);

/* Side of the pictures that the model takes; 0: it takes no pictures. */
unsigned named_side(const struct pred_model *model);

/* Tokens of the texts that it takes; 0: it takes none. */
unsigned named_tokens(const struct pred_model *model);

/*
 * A batch as it is usual for the model: the largest power of two up to 256 with which the
 * activations that training keeps (twice four bytes an element) fit into 12 GB, as they have to on
 * a GPU of 16 GB.
 */
unsigned named_batch(const struct pred_model *model);

/* Who takes part in a step, and by what they are linked. */
struct named_setting {
    unsigned batch, ranks, nodes;
    double batch_bytes;      /* copied to the GPU */
    double host_bytes_per_s; /* from the host to the GPU */
    struct pred_link between_nodes;
    double overlap; /* the predictor's g; NAN: its default */
};

struct named_step {
    struct gpu_timeline parts;
    double sync_s; /* the whole exchange, hidden part too */
    double step_s; /* of the whole iteration when data is never late */
};

/* 0, or -1 where model and GPU are not both known or the GPU does not have the precision. */
int named_predict(const struct named *named, const struct named_setting *setting,
                  struct named_step *step);

#endif
