/*
 * What adltrain is asked to do: its command line, checked and with defaults filled in.
 */
#ifndef ADLTRAIN_OPTIONS_H
#define ADLTRAIN_OPTIONS_H

#include "dataset.h"
#include "named.h"
#include "store.h"

#include <stdbool.h>
#include <stdint.h>

enum gpu_choice { GPU_EMULATED, GPU_CUDA };

struct run_options {
    /* the data and how it is loaded */
    struct store_config data; /* folder NULL: not said */
    unsigned batch, queue, crop;
    unsigned tokens; /* of a text; 0: samples are pictures */
    bool dct_scaling, repeat_batch;
    uint64_t seed;
    /* loader threads */
    unsigned loaders;   /* 0: not said */
    bool fixed_loaders; /* follow nobody */
    /* the GPU: train false: the loader alone; emulated: gpu_rate, or flops and gpu_flops, or a
     * named model on a named GPU; CUDA: flops or a named model */
    bool train;
    enum gpu_choice gpu;
    double gpu_rate, flops, gpu_flops;
    const char *model, *gpu_type, *tables; /* names; NULL: not said */
    int precision;                         /* enum pred_precision; -1: not said */
    double overlap;                        /* NAN: not said */
    double host_bytes_per_s, network_bytes_per_s;
    struct named named; /* looked up */
    /* the other ranks */
    uint64_t gradient_bytes; /* in the ring; with CUDA: of the model */
    long rank, ranks;        /* -1: not said */
    const char *master;
    double join_timeout_s, peer_timeout_s;
    /* when to stop: exactly one is not 0 */
    double seconds;
    uint64_t steps, samples;
    /* output */
    const char *json; /* NULL none, "-" standard output */
    double interval_s;
    bool quiet;
};

enum options_command { OPTIONS_MAKE_DATA, OPTIONS_RUN, OPTIONS_EXIT };

struct options {
    enum options_command command;
    struct dataset_config make;
    struct run_options run;
};

/*
 * 0, and command says what is to be done (OPTIONS_EXIT: --help or --version was answered); or -1,
 * what was wrong has been said on standard error.
 */
int options_parse(int argc, char **argv, struct options *options);
void options_free(struct options *options);

/* Floats of a sample as the GPU gets it. */
size_t options_sample_floats(const struct run_options *run);

/* What trains, as every output names it: "emulated", "cuda" or "none". */
const char *options_gpu(const struct run_options *run);

#endif
