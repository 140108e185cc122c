/*
 * What adltrain is asked to do: its command line, checked and with defaults filled in.
 */
#ifndef ADLTRAIN_OPTIONS_H
#define ADLTRAIN_OPTIONS_H

#include "dataset.h"

#include <stdbool.h>
#include <stdint.h>

struct run_options {
    /* the data and how it is loaded */
    const char *data;
    unsigned batch, queue, crop;
    bool dct_scaling;
    uint64_t seed;
    /* loader threads */
    unsigned loaders;   /* 0: not said */
    bool fixed_loaders; /* follow nobody */
    /* the GPU: train false: the loader alone; else gpu_rate, or flops and gpu_flops */
    bool train;
    double gpu_rate, flops, gpu_flops;
    /* the other ranks */
    uint64_t gradient_bytes;
    long rank, ranks; /* -1: not said */
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

#endif
