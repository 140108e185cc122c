/* adltrain's command line. */
#include "config.h"

#include "options.h"

#include "augment.h"
#include "loader.h"
#include "workers.h"
#include "world.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
    "Usage: adltrain make-data DIR --images N [OPTION...]\n"
    "       adltrain run --data DIR (--gpu-rate R | --flops F --gpu-flops P | --no-train)\n"
    "                    --batch B (--seconds S | --steps N | --samples N) [OPTION...]\n"
    "\n"
    "adltrain is a data-parallel training job whose data path is real (JPEG files are read, "
    "decoded,\n"
    "cropped and normalised by a pool of loader threads, gradients travel between the ranks) and\n"
    "whose GPU is emulated by a timed wait. Under srun each task is a rank.\n"
    "\n"
    "make-data: make photograph-like JPEG files of sizes like ImageNet's\n"
    "  --images N           how many; more than there are extends a data set, fewer is no error\n"
    "  --seed S             another seed, another data set (default 1)\n"
    "  --size-mean KB       mean file size in 1000 bytes (default 110)\n"
    "  --classes C          number of folders (default 10)\n"
    "  --jobs J             threads (default: CPUs of the affinity mask)\n"
    "\n"
    "run: train\n"
    "  --data DIR           .jpg and .jpeg files in DIR and below\n"
    "  --batch B            samples a step and rank (default 64)\n"
    "  --gpu-rate R         samples/s that the emulated GPU trains when data is never late\n"
    "  --flops F            or: forward FLOPs of a sample (2 x multiply-adds); a step costs 3 x F "
    "x B\n"
    "  --gpu-flops P        ... at P FLOP/s that the GPU reaches\n"
    "  --no-train           no GPU and no exchange: measure the loader alone\n"
    "  --seconds S          stop after S seconds of training\n"
    "  --steps N            or after N steps\n"
    "  --samples N          or when all ranks together have trained on N samples\n"
    "  --loaders MAX        at most MAX loader threads (default: CPUs online)\n"
    "  --fixed-loaders      exactly --loaders threads (default: CPUs of the mask), whatever is "
    "advised;\n"
    "                       otherwise as many as adloader says, else ADLOADER_WORKERS, else "
    "--loaders,\n"
    "                       else the CPUs of the mask\n"
    "  --queue N            batches loaded ahead (default 3)\n"
    "  --crop PIXELS        side of the random-resized crop (default 224)\n"
    "  --dct-scaling        decode at 1/8 to 7/8 size where that still covers the crop\n"
    "  --seed S             order and augmentation (default 1)\n"
    "  --gradient-bytes N   exchanged each step (default 4194304; K, M, G allowed); stands for a "
    "model's\n"
    "                       gradients, is not scaled to one\n"
    "  --master HOST:PORT   where the ranks meet (default: from Slurm's environment)\n"
    "  --rank R --ranks N   without Slurm: which rank this process is, of how many\n"
    "  --join-timeout S     wait for the other ranks at the start (default 60)\n"
    "  --peer-timeout S     give up when another rank is silent for so long (default 120)\n"
    "  --json FILE          write a summary; '-' is standard output; %r becomes the rank's "
    "number;\n"
    "                       without %r only rank 0 writes\n"
    "  --interval S         seconds between two lines of progress (default 1)\n"
    "  --quiet              no lines of progress\n"
    "\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 the work asked for was done; 1 it failed; 2 wrong usage; 3 another rank was "
    "lost;\n"
    "128 + N ended by signal N, with a summary.\n";

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

/* ---- the options' numbers for getopt ------------------------------------------------------- */

enum {
    OPT_HELP = 256,
    OPT_VERSION,
    OPT_IMAGES,
    OPT_SEED,
    OPT_SIZE_MEAN,
    OPT_CLASSES,
    OPT_JOBS,
    OPT_DATA,
    OPT_BATCH,
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
    {NULL, 0, NULL, 0},
};

static const struct option run_table[] = {
    {"help", no_argument, NULL, OPT_HELP},
    {"data", required_argument, NULL, OPT_DATA},
    {"batch", required_argument, NULL, OPT_BATCH},
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

static int set_make(struct dataset_config *make, int option, const char *value)
{
    switch (option) {
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

static int set_run_data(struct run_options *run, int option, const char *value)
{
    switch (option) {
    case OPT_DATA:
        run->data = value;
        return 0;
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
    case OPT_SEED:
        return whole("seed", value, 0, UINT64_MAX, &run->seed);
    default:
        return -1;
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

static int set_run(struct run_options *run, int option, const char *value)
{
    switch (option) {
    case OPT_GPU_RATE:
        return real("gpu-rate", value, 1e-3, 1e9, &run->gpu_rate);
    case OPT_FLOPS:
        return real("flops", value, 1.0, 1e18, &run->flops);
    case OPT_GPU_FLOPS:
        return real("gpu-flops", value, 1.0, 1e21, &run->gpu_flops);
    case OPT_NO_TRAIN:
        run->train = false;
        return 0;
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
        return set_run_ranks(run, option, value);
    }
}

static int complain(const char *sentence)
{
    (void)fprintf(stderr, "adltrain run: %s (see adltrain --help)\n", sentence);
    return -1;
}

static int finish_run(const struct run_options *run, int argc, char **argv)
{
    bool rate = run->gpu_rate > 0.0, flops = run->flops > 0.0, gpu_flops = run->gpu_flops > 0.0;
    int ends = (run->seconds > 0.0) + (run->steps > 0) + (run->samples > 0);

    if (optind < argc) {
        (void)fprintf(stderr, "adltrain run: '%s' is not an option\n", argv[optind]);
        return -1;
    }
    if (run->data == NULL)
        return complain("--data DIR is missing");
    if (ends != 1)
        return complain("exactly one of --seconds, --steps and --samples is wanted");
    if (!run->train && (rate || flops || gpu_flops))
        return complain("--no-train has no GPU: leave out --gpu-rate, --flops and --gpu-flops");
    if (run->train && rate == (flops || gpu_flops))
        return complain("the GPU's speed is wanted: --gpu-rate, or --flops with --gpu-flops");
    if (run->train && flops != gpu_flops)
        return complain("--flops and --gpu-flops belong together");
    if ((run->rank >= 0) != (run->ranks >= 0))
        return complain("--rank and --ranks belong together");
    if (run->rank >= 0 && run->rank >= run->ranks)
        return complain("--rank is from 0 to --ranks less one");
    return 0;
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
        .make = {.seed = 1, .mean_kb = 110.0, .classes = 10},
        .run = {.batch = 64,
                .queue = 3,
                .crop = 224,
                .seed = 1,
                .train = true,
                .gradient_bytes = 4u << 20,
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
