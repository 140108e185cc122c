/* adltrain's command line. */
#include "config.h"

#include "options.h"

#include "augment.h"
#include "loader.h"
#include "picture.h"
#include "tokens.h"
#include "usage.h"
#include "workers.h"
#include "world.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 3u

/* ---- values -------------------------------------------------------------------------------- */

/* Complaints of this file go to standard error under the program's name, as getopt's own do. */
static int refuse(const char *option, const char *value, const char *wanted)
{
    (void)fprintf(stderr, "adltrain: --%s %s: %s\n", option, value, wanted);
    return -1;
}

/* A whole number with an optional K, M or G (powers of 1024). */
static int whole(const char *option, const char *value, uint64_t low, uint64_t high, uint64_t *out)
{
    char wanted[96], *end = NULL;
    uint64_t number = 0;
    unsigned shift = 0;

    (void)snprintf(wanted, sizeof wanted,
                   "a whole number from %" PRIu64 " to %" PRIu64 " is wanted", low, high);
    errno = 0;
    if (value[0] >= '0' && value[0] <= '9')
        number = strtoull(value, &end, 10);
    if (end == NULL || errno != 0)
        return refuse(option, value, wanted);
    if (*end != '\0' && strchr("KMG", *end) != NULL) {
        shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 30;
        end++;
    }
    if (*end != '\0' || number > (UINT64_MAX >> shift) || number << shift < low ||
        number << shift > high)
        return refuse(option, value, wanted);
    *out = number << shift;
    return 0;
}

static int count(const char *option, const char *value, unsigned low, unsigned high, unsigned *out)
{
    uint64_t number;

    if (whole(option, value, low, high, &number) < 0)
        return -1;
    *out = (unsigned)number;
    return 0;
}

static int real(const char *option, const char *value, double low, double high, double *out)
{
    char wanted[96], *end;
    double number = strtod(value, &end);

    (void)snprintf(wanted, sizeof wanted, "a number from %g to %g is wanted", low, high);
    if (end == value || *end != '\0' || !isfinite(number) || number < low || number > high)
        return refuse(option, value, wanted);
    *out = number;
    return 0;
}

/* One of the words, as its number. */
static int word(const char *option, const char *value, const char *const *words, int *out)
{
    char wanted[96] = "wanted is";

    for (int i = 0; words[i] != NULL; i++) {
        size_t length = strlen(wanted);

        if (strcmp(value, words[i]) == 0) {
            *out = i;
            return 0;
        }
        (void)snprintf(wanted + length, sizeof wanted - length, "%s %s", i > 0 ? " or" : "",
                       words[i]);
    }
    return refuse(option, value, wanted);
}

/* ---- the options' numbers for getopt ------------------------------------------------------- */

enum {
    OPT_HELP = 256,
    OPT_VERSION,
    OPT_IMAGES,
    OPT_SEED,
    OPT_SIZE_MEAN,
    OPT_CLASSES,
    OPT_JOBS,
    OPT_FORMAT,
    OPT_PACK,
    OPT_SIDE,
    OPT_LENGTH,
    OPT_DATA,
    OPT_DATA_FORMAT,
    OPT_CACHE,
    OPT_STORAGE_BANDWIDTH,
    OPT_STORAGE_LATENCY,
    OPT_BATCH,
    OPT_GPU,
    OPT_MODEL,
    OPT_GPU_TYPE,
    OPT_PRECISION,
    OPT_OVERLAP,
    OPT_HOST_LINK,
    OPT_NETWORK,
    OPT_TABLES,
    OPT_GPU_RATE,
    OPT_FLOPS,
    OPT_GPU_FLOPS,
    OPT_NO_TRAIN,
    OPT_SECONDS,
    OPT_STEPS,
    OPT_SAMPLES,
    OPT_LOADERS,
    OPT_FIXED_LOADERS,
    OPT_QUEUE,
    OPT_CROP,
    OPT_DCT_SCALING,
    OPT_REPEAT_BATCH,
    OPT_TOKENS,
    OPT_GRADIENT_BYTES,
    OPT_MASTER,
    OPT_RANK,
    OPT_RANKS,
    OPT_JOIN_TIMEOUT,
    OPT_PEER_TIMEOUT,
    OPT_JSON,
    OPT_INTERVAL,
    OPT_QUIET,
};

static const struct option make_table[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"images", required_argument, NULL, OPT_IMAGES},
    {"seed", required_argument, NULL, OPT_SEED},
    {"size-mean", required_argument, NULL, OPT_SIZE_MEAN},
    {"classes", required_argument, NULL, OPT_CLASSES},
    {"jobs", required_argument, NULL, OPT_JOBS},
    {"format", required_argument, NULL, OPT_FORMAT},
    {"pack", required_argument, NULL, OPT_PACK},
    {"side", required_argument, NULL, OPT_SIDE},
    {"length", required_argument, NULL, OPT_LENGTH},
    {NULL, 0, NULL, 0},
};

static const struct option run_table[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"data", required_argument, NULL, OPT_DATA},
    {"data-format", required_argument, NULL, OPT_DATA_FORMAT},
    {"cache", required_argument, NULL, OPT_CACHE},
    {"storage-bandwidth", required_argument, NULL, OPT_STORAGE_BANDWIDTH},
    {"storage-latency", required_argument, NULL, OPT_STORAGE_LATENCY},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"gpu", required_argument, NULL, OPT_GPU},
    {"model", required_argument, NULL, OPT_MODEL},
    {"gpu-type", required_argument, NULL, OPT_GPU_TYPE},
    {"precision", required_argument, NULL, OPT_PRECISION},
    {"overlap", required_argument, NULL, OPT_OVERLAP},
    {"host-link", required_argument, NULL, OPT_HOST_LINK},
    {"network", required_argument, NULL, OPT_NETWORK},
    {"tables", required_argument, NULL, OPT_TABLES},
    {"gpu-rate", required_argument, NULL, OPT_GPU_RATE},
    {"flops", required_argument, NULL, OPT_FLOPS},
    {"gpu-flops", required_argument, NULL, OPT_GPU_FLOPS},
    {"no-train", no_argument, NULL, OPT_NO_TRAIN},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"steps", required_argument, NULL, OPT_STEPS},
    {"samples", required_argument, NULL, OPT_SAMPLES},
    {"loaders", required_argument, NULL, OPT_LOADERS},
    {"fixed-loaders", no_argument, NULL, OPT_FIXED_LOADERS},
    {"queue", required_argument, NULL, OPT_QUEUE},
    {"crop", required_argument, NULL, OPT_CROP},
    {"dct-scaling", no_argument, NULL, OPT_DCT_SCALING},
    {"tokens", required_argument, NULL, OPT_TOKENS},
    {"repeat-batch", no_argument, NULL, OPT_REPEAT_BATCH},
    {"seed", required_argument, NULL, OPT_SEED},
    {"gradient-bytes", required_argument, NULL, OPT_GRADIENT_BYTES},
    {"master", required_argument, NULL, OPT_MASTER},
    {"rank", required_argument, NULL, OPT_RANK},
    {"ranks", required_argument, NULL, OPT_RANKS},
    {"join-timeout", required_argument, NULL, OPT_JOIN_TIMEOUT},
    {"peer-timeout", required_argument, NULL, OPT_PEER_TIMEOUT},
    {"json", required_argument, NULL, OPT_JSON},
    {"interval", required_argument, NULL, OPT_INTERVAL},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {NULL, 0, NULL, 0},
};

/* ---- make-data ----------------------------------------------------------------------------- */

static int set_make_format(struct dataset_config *make, const char *value)
{
    static const char *const words[] = {
        [SAMPLE_JPEG] = "jpeg", [SAMPLE_RAW] = "raw", [SAMPLE_TOKENS] = "tokens", NULL};
    int number;

    if (word("format", value, words, &number) < 0)
        return -1;
    make->format = (enum sample_format)number;
    return 0;
}

static int set_make(struct dataset_config *make, int option, const char *value)
{
    switch (option) {
    case OPT_FORMAT:
        return set_make_format(make, value);
    case OPT_PACK:
        return count("pack", value, 1, 1000000, &make->pack);
    case OPT_LENGTH:
        return count("length", value, 1, TOKENS_MAX, &make->length);
    case OPT_SIDE:
        return count("side", value, PICTURE_SIDE_MIN, PICTURE_SIDE_MAX, &make->side);
    case OPT_IMAGES:
        return count("images", value, 1, FILES_COUNT_MAX, &make->images);
    case OPT_SEED:
        return whole("seed", value, 0, UINT64_MAX, &make->seed);
    case OPT_SIZE_MEAN:
        return real("size-mean", value, 5.0, 1000.0, &make->mean_kb);
    case OPT_CLASSES:
        return count("classes", value, 1, 10000, &make->classes);
    case OPT_JOBS:
        return count("jobs", value, 1, LOADER_THREADS_MAX, &make->jobs);
    default:
        return -1;
    }
}

static int finish_make(struct dataset_config *make, int argc, char **argv)
{
    if (optind + 1 != argc) {
        (void)fprintf(stderr, "adltrain make-data: one folder is wanted: adltrain make-data DIR "
                              "--images N\n");
        return -1;
    }
    make->folder = argv[optind];
    if (make->images == 0) {
        (void)fprintf(stderr, "adltrain make-data: --images N is missing\n");
        return -1;
    }
    if (make->jobs == 0)
        make->jobs = workers_mask_size();
    return 0;
}

/* ---- run ----------------------------------------------------------------------------------- */

static int signed_count(const char *option, const char *value, unsigned low, unsigned high,
                        long *out)
{
    unsigned number;

    if (count(option, value, low, high, &number) < 0)
        return -1;
    *out = (long)number;
    return 0;
}

static int scaled(const char *option, const char *value, double low, double high, double unit,
                  double *out)
{
    double number;

    if (real(option, value, low, high, &number) < 0)
        return -1;
    *out = number * unit;
    return 0;
}

static int set_run_storage(struct store_config *data, int option, const char *value)
{
    static const char *const formats[] = {[STORE_JPEG] = "jpeg",
                                          [STORE_RAW] = "raw",
                                          [STORE_TOKENS] = "tokens",
                                          [STORE_PACKED] = "packed",
                                          NULL};
    static const char *const caches[] = {
        [STORE_KEEP] = "keep", [STORE_WARM] = "warm", [STORE_DROP] = "drop", NULL};
    int number = 0, rc;

    switch (option) {
    case OPT_DATA:
        data->folder = value;
        return 0;
    case OPT_DATA_FORMAT:
        rc = word("data-format", value, formats, &number);
        data->format = (enum store_format)number;
        return rc;
    case OPT_CACHE:
        rc = word("cache", value, caches, &number);
        data->cache = (enum store_cache)number;
        return rc;
    case OPT_STORAGE_BANDWIDTH:
        return scaled("storage-bandwidth", value, 1e-3, 1e6, 1e6, &data->bytes_per_s);
    case OPT_STORAGE_LATENCY:
        return scaled("storage-latency", value, 0.0, 1e4, 1e-3, &data->latency_s);
    default:
        return -1;
    }
}

static int set_run_data(struct run_options *run, int option, const char *value)
{
    switch (option) {
    case OPT_BATCH:
        return count("batch", value, 1, 65536, &run->batch);
    case OPT_LOADERS:
        return count("loaders", value, 1, LOADER_THREADS_MAX, &run->loaders);
    case OPT_FIXED_LOADERS:
        run->fixed_loaders = true;
        return 0;
    case OPT_QUEUE:
        return count("queue", value, 1, 1024, &run->queue);
    case OPT_CROP:
        return count("crop", value, 8, AUGMENT_SIDE_MAX, &run->crop);
    case OPT_DCT_SCALING:
        run->dct_scaling = true;
        return 0;
    case OPT_TOKENS:
        return count("tokens", value, 1, TOKENS_MAX, &run->tokens);
    case OPT_REPEAT_BATCH:
        run->repeat_batch = true;
        return 0;
    case OPT_SEED:
        return whole("seed", value, 0, UINT64_MAX, &run->seed);
    default:
        return set_run_storage(&run->data, option, value);
    }
}

static int set_run_ranks(struct run_options *run, int option, const char *value)
{
    switch (option) {
    case OPT_GRADIENT_BYTES:
        return whole("gradient-bytes", value, 4, (uint64_t)16 << 30, &run->gradient_bytes);
    case OPT_MASTER:
        run->master = value;
        return 0;
    case OPT_RANK:
        return signed_count("rank", value, 0, WORLD_RANKS_MAX - 1, &run->rank);
    case OPT_RANKS:
        return signed_count("ranks", value, 1, WORLD_RANKS_MAX, &run->ranks);
    case OPT_JOIN_TIMEOUT:
        return real("join-timeout", value, 0.1, 86400.0, &run->join_timeout_s);
    case OPT_PEER_TIMEOUT:
        return real("peer-timeout", value, 0.1, 86400.0, &run->peer_timeout_s);
    default:
        return set_run_data(run, option, value);
    }
}

static int set_precision(struct run_options *run, const char *value)
{
    run->precision = pred_precision_parse(value);
    return run->precision < 0 ? refuse("precision", value, "wanted is fp32, tf32 or amp") : 0;
}

/* Names of the tables and what belongs to them. */
static int set_run_model(struct run_options *run, int option, const char *value)
{
    switch (option) {
    case OPT_MODEL:
        run->model = value;
        return 0;
    case OPT_GPU_TYPE:
        run->gpu_type = value;
        return 0;
    case OPT_PRECISION:
        return set_precision(run, value);
    case OPT_OVERLAP:
        return real("overlap", value, 1.0, 10.0, &run->overlap);
    case OPT_HOST_LINK:
        return scaled("host-link", value, 1e-3, 1e5, 1e9, &run->host_bytes_per_s);
    case OPT_NETWORK:
        return scaled("network", value, 1e-3, 1e5, 1e9, &run->network_bytes_per_s);
    case OPT_TABLES:
        run->tables = value;
        return 0;
    default:
        return set_run_ranks(run, option, value);
    }
}

static int set_run_gpu(struct run_options *run, int option, const char *value)
{
    static const char *const kinds[] = {[GPU_EMULATED] = "emulated", [GPU_CUDA] = "cuda", NULL};
    int number = 0, rc;

    switch (option) {
    case OPT_GPU:
        rc = word("gpu", value, kinds, &number);
        run->gpu = (enum gpu_choice)number;
        return rc;
    case OPT_GPU_RATE:
        return real("gpu-rate", value, 1e-3, 1e9, &run->gpu_rate);
    case OPT_FLOPS:
        return real("flops", value, 1.0, 1e18, &run->flops);
    case OPT_GPU_FLOPS:
        return real("gpu-flops", value, 1.0, 1e21, &run->gpu_flops);
    case OPT_NO_TRAIN:
        run->train = false;
        return 0;
    default:
        return set_run_model(run, option, value);
    }
}

static int set_run(struct run_options *run, int option, const char *value)
{
    switch (option) {
    case OPT_SECONDS:
        return real("seconds", value, 1e-3, 1e8, &run->seconds);
    case OPT_STEPS:
        return whole("steps", value, 1, UINT64_MAX >> 20, &run->steps);
    case OPT_SAMPLES:
        return whole("samples", value, 1, UINT64_MAX >> 20, &run->samples);
    case OPT_JSON:
        run->json = value;
        return 0;
    case OPT_INTERVAL:
        return real("interval", value, 0.05, 3600.0, &run->interval_s);
    case OPT_QUIET:
        run->quiet = true;
        return 0;
    default:
        return set_run_gpu(run, option, value);
    }
}

static int complain(const char *sentence)
{
    (void)fprintf(stderr, "adltrain run: %s (see adltrain --help)\n", sentence);
    return -1;
}

static int check_emulated(const struct run_options *run)
{
    bool rate = run->gpu_rate > 0.0, flops = run->flops > 0.0, gpu_flops = run->gpu_flops > 0.0;

    if (rate + (flops || gpu_flops) + (run->model != NULL) != 1)
        return complain("the GPU's speed is wanted: --gpu-rate, or --flops with --gpu-flops, or "
                        "--model");
    if (flops != gpu_flops)
        return complain("--flops and --gpu-flops belong together");
    if (run->model == NULL && run->gpu_type != NULL)
        return complain("--gpu-type belongs to --model");
    return 0;
}

static int check_cuda(const struct run_options *run)
{
    if ((run->flops > 0.0) == (run->model != NULL))
        return complain("--gpu=cuda wants its work: --model, or --flops");
    if (run->gpu_rate > 0.0 || run->gpu_flops > 0.0 || run->gpu_type != NULL)
        return complain("--gpu=cuda is as fast as it is: leave out --gpu-rate, --gpu-flops and "
                        "--gpu-type");
    return 0;
}

static int check_gpu(const struct run_options *run)
{
    if (run->train)
        return run->gpu == GPU_CUDA ? check_cuda(run) : check_emulated(run);
    if (run->gpu != GPU_EMULATED || run->gpu_rate > 0.0 || run->flops > 0.0 ||
        run->gpu_flops > 0.0 || run->model != NULL || run->gpu_type != NULL)
        return complain("--no-train has no GPU: leave out --gpu, --gpu-rate, --flops, --gpu-flops, "
                        "--model and --gpu-type");
    return 0;
}

/* What is said by a model's name, as far as it is not said otherwise. */
static int take_model(struct run_options *run)
{
    const char *gpu = run->gpu == GPU_CUDA ? NULL : run->gpu_type != NULL ? run->gpu_type : "v100";
    char error[NAMED_ERROR_MAX];
    unsigned side;

    if (named_find(run->tables, run->model, gpu, run->precision, &run->named, error) < 0)
        return complain(error);
    side = named_side(run->named.model);
    if (run->tokens == 0)
        run->tokens = named_tokens(run->named.model);
    if ((side > 0) == (run->tokens > 0)) {
        (void)snprintf(error, sizeof error, "--model %s takes %s, which adltrain cannot load",
                       run->model, run->named.model->input);
        return complain(error);
    }
    run->crop = run->crop > 0 ? run->crop : side;
    run->batch = run->batch > 0 ? run->batch : named_batch(run->named.model);
    if (run->gpu == GPU_CUDA) {
        run->flops = run->named.model->flops_forward;
        if (run->gradient_bytes == 0)
            run->gradient_bytes = (uint64_t)(4.0 * run->named.model->params);
    }
    return 0;
}

static void take_defaults(struct run_options *run)
{
    run->crop = run->crop > 0 ? run->crop : 224;
    run->batch = run->batch > 0 ? run->batch : 64;
    run->gradient_bytes = run->gradient_bytes > 0 ? run->gradient_bytes : 4u << 20;
}

/* Packs say themselves what is in them, when they are opened. */
static int check_data(const struct run_options *run)
{
    if (run->data.format == STORE_PACKED || (run->tokens > 0) == (run->data.format == STORE_TOKENS))
        return 0;
    return complain(run->tokens > 0 ? "the model takes texts: --data-format tokens or packed"
                                    : "texts are for models that take them: --model, or --tokens");
}

static int finish_run(struct run_options *run, int argc, char **argv)
{
    int ends = (run->seconds > 0.0) + (run->steps > 0) + (run->samples > 0);

    if (optind < argc) {
        (void)fprintf(stderr, "adltrain run: '%s' is not an option\n", argv[optind]);
        return -1;
    }
    if (run->data.folder == NULL)
        return complain("--data DIR is missing");
    if (ends != 1)
        return complain("exactly one of --seconds, --steps and --samples is wanted");
    if (check_gpu(run) < 0)
        return -1;
    if ((run->rank >= 0) != (run->ranks >= 0))
        return complain("--rank and --ranks belong together");
    if (run->rank >= 0 && run->rank >= run->ranks)
        return complain("--rank is from 0 to --ranks less one");
    if (run->model != NULL && take_model(run) < 0)
        return -1;
    take_defaults(run);
    return check_data(run);
}

/* ---- both ---------------------------------------------------------------------------------- */

/* 0 go on, 1 --help was answered, -1 wrong. */
static int parse_table(int argc, char **argv, const struct option *table, struct options *options)
{
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        int rc;

        if (option == OPT_HELP)
            return fputs(usage_text, stdout) < 0 ? -1 : 1;
        if (option == '?')
            return -1;
        rc = options->command == OPTIONS_RUN ? set_run(&options->run, option, optarg)
                                             : set_make(&options->make, option, optarg);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static void set_defaults(struct options *options)
{
    *options = (struct options){
        .make = {.seed = 1, .mean_kb = 110.0, .side = 256, .length = 1024, .classes = 10},
        .run = {.queue = 3,
                .seed = 1,
                .train = true,
                .tables = ADL_DATADIR,
                .precision = -1,
                .overlap = (double)NAN,
                .host_bytes_per_s = 12e9,
                .network_bytes_per_s = 10e9,
                .rank = -1,
                .ranks = -1,
                .join_timeout_s = 60.0,
                .peer_timeout_s = 120.0,
                .interval_s = 1.0},
    };
}

static int answer(const char *word, struct options *options)
{
    options->command = OPTIONS_EXIT;
    if (strcmp(word, "--help") == 0 || strcmp(word, "help") == 0)
        return fputs(usage_text, stdout) < 0 ? -1 : 0;
    if (strcmp(word, "--version") == 0)
        return printf("adltrain %s\n", PACKAGE_VERSION) < 0 ? -1 : 0;
    (void)fprintf(stderr,
                  "adltrain: '%s' is not a command: make-data or run is wanted (see adltrain "
                  "--help)\n",
                  word);
    return -1;
}

int options_parse(int argc, char **argv, struct options *options)
{
    static char run_name[] = "adltrain run", make_name[] = "adltrain make-data";
    int rc;

    set_defaults(options);
    if (argc < 2) {
        (void)fputs(usage_text, stderr);
        return -1;
    }
    if (strcmp(argv[1], "make-data") == 0)
        options->command = OPTIONS_MAKE_DATA;
    else if (strcmp(argv[1], "run") == 0)
        options->command = OPTIONS_RUN;
    else
        return answer(argv[1], options);
    argc--;
    argv++;
    argv[0] = options->command == OPTIONS_RUN ? run_name : make_name; /* for getopt's complaints */
    rc = parse_table(argc, argv, options->command == OPTIONS_RUN ? run_table : make_table, options);
    if (rc != 0) {
        options->command = OPTIONS_EXIT;
        return rc < 0 ? -1 : 0;
    }
    return options->command == OPTIONS_RUN ? finish_run(&options->run, argc, argv)
                                           : finish_make(&options->make, argc, argv);
}

void options_free(struct options *options)
{
    named_free(&options->run.named);
}

size_t options_sample_floats(const struct run_options *run)
{
    return run->tokens > 0 ? run->tokens : (size_t)CHANNELS * run->crop * run->crop;
}

const char *options_gpu(const struct run_options *run)
{
    if (!run->train)
        return "none";
    return run->gpu == GPU_CUDA ? "cuda" : "emulated";
}
