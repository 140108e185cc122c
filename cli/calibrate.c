/* adloader calibrate: measure this node in under a minute and write down what was found. */
#include "config.h"

#include "cal.h"
#include "cli.h"
#include "conf.h"
#include "replacefile.h"

#include <errno.h>
#include <json-c/json.h>
#include <libgen.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES  4096
#define SECONDS     40.0 /* for all parts together */
#define SECONDS_MAX 600.0
#define SECONDS_MIN 0.5

void cal_say(const struct cal_voice *voice, const char *format, ...)
{
    va_list args;

    if (voice->quiet)
        return;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void cal_missing(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static void cpu_name(char *text, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];

    text[0] = '\0';
    while (f != NULL && text[0] == '\0' && fgets(line, sizeof(line), f) != NULL) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            colon[strcspn(colon, "\n#")] = '\0';
            snprintf(text, size, "%s", colon + 2);
        }
    }
    if (f != NULL)
        fclose(f);
}

static bool wants(const struct cli *cli, const char *part, bool *wrong)
{
    const char *only = cli_value(cli, "only");
    static const char *const PARTS[] = {"jpeg", "memory", "storage", "gpu"};
    bool found = only == NULL;

    for (const char *p = only; p != NULL && *p != '\0';) {
        size_t n = strcspn(p, ",");
        bool known = false;

        for (size_t i = 0; i < sizeof(PARTS) / sizeof(PARTS[0]); i++)
            known = known || (strlen(PARTS[i]) == n && strncmp(PARTS[i], p, n) == 0);
        *wrong = *wrong || !known;
        found = found || (strlen(part) == n && strncmp(part, p, n) == 0);
        p += n + (p[n] == ',');
    }
    return found;
}

/* The controller's folder for what is measured; made if StateDir is there. 0, or -1, told. */
static int state_folder(const struct cli *cli, char *path, size_t size)
{
    struct conf *conf = cli_conf(cli);
    int rc = -1;

    if (conf == NULL)
        return -1;
    int n = snprintf(path, size, "%s/" PRED_CALIBRATION_FOLDER, conf->state_dir);
    if (conf->state_dir[0] == '\0')
        cli_error("StateDir is empty in adloader.conf; --output names a file");
    else if (access(conf->state_dir, F_OK) != 0)
        cli_error("StateDir %s is not there: %s; start adloaderctld once, or name a file with "
                  "--output",
                  conf->state_dir, strerror(errno));
    else if (n < 0 || (size_t)n >= size)
        cli_error("the file's name is too long");
    else if (mkdir(path, 0755) != 0 && errno != EEXIST)
        cli_error("%s cannot be made: %s; --output names another place", path, strerror(errno));
    else
        rc = 0;
    conf_free(conf);
    return rc;
}

/* So that nothing is measured for a minute and then lost. */
static int check_writable(const char *path)
{
    if (replacefile_ready(path))
        return CLI_OK;
    cli_error("%s cannot be written: %s; --output names another place", path,
              replacefile_error(errno));
    return CLI_FAILURE;
}

/* Where it goes: as said, else the controller's folder under this host's name. */
static int output_path(const struct cli *cli, const char *host, char *path, size_t size)
{
    const char *file = cli_value(cli, "output");
    char folder[PATH_BYTES];
    int n;

    if (file != NULL) {
        n = snprintf(path, size, "%s", file);
    } else {
        if (state_folder(cli, folder, sizeof(folder)) != 0)
            return CLI_FAILURE;
        n = snprintf(path, size, "%s/%s", folder, host);
    }
    if (n < 0 || (size_t)n >= size) {
        cli_error("the file's name is too long");
        return CLI_FAILURE;
    }
    return check_writable(path);
}

static void put(struct json_object *object, const char *key, double number)
{
    struct json_object *value = isfinite(number) ? json_object_new_double(number) : NULL;

    if (json_object_object_add(object, key, value) != 0)
        json_object_put(value);
}

static void put_text(struct json_object *object, const char *key, const char *text)
{
    struct json_object *value = *text != '\0' ? json_object_new_string(text) : NULL;

    if (json_object_object_add(object, key, value) != 0)
        json_object_put(value);
}

static int print_json(const struct pred_calibration *c, const char *file)
{
    struct json_object *object = json_object_new_object();
    int status;

    if (object == NULL) {
        cli_error("out of memory");
        return CLI_FAILURE;
    }
    put_text(object, "file", file);
    put_text(object, "node", c->node);
    put_text(object, "cpu", c->cpu);
    put(object, "cores", c->cores);
    put(object, "jpeg_images_per_s_per_core", c->jpeg_rate);
    put(object, "jpeg_beta", c->jpeg_beta);
    put(object, "jpeg_ceiling_images_per_s", c->jpeg_ceiling);
    put(object, "memory_bytes_per_s", c->memory_bytes_per_s);
    put_text(object, "storage", c->storage);
    put(object, "storage_bytes_per_s", c->storage_bytes_per_s);
    put(object, "storage_latency_s", c->storage_latency_s);
    put_text(object, "gpu", c->gpu);
    put(object, "gpus", c->gpus);
    put(object, "fp32_flops_per_s", c->fp32_flops_per_s);
    put(object, "tf32_flops_per_s", c->tf32_flops_per_s);
    put(object, "amp_flops_per_s", c->amp_flops_per_s);
    put(object, "gpu_memory_bytes_per_s", c->gpu_memory_bytes_per_s);
    put(object, "host_to_gpu_bytes_per_s", c->host_to_gpu_bytes_per_s);
    put(object, "nccl_alpha_s", c->nccl_alpha_s);
    put(object, "nccl_bus_bytes_per_s", c->nccl_bus_bytes_per_s);
    status = cli_print_json(object);
    json_object_put(object);
    return status;
}

/* What was not measured now, from before. False: none of it was measured. */
static bool keep_old(struct pred_calibration *fresh, const struct pred_calibration *old)
{
    double *now[] = {&fresh->jpeg_rate, &fresh->memory_bytes_per_s, &fresh->storage_bytes_per_s,
                     &fresh->gpus};
    const double before[] = {old->jpeg_rate, old->memory_bytes_per_s, old->storage_bytes_per_s,
                             old->gpus};
    bool any = false;

    for (size_t i = 0; i < sizeof(now) / sizeof(now[0]); i++)
        if (isnan(*now[i]))
            *now[i] = before[i];
        else
            any = true;
    return any;
}

/* A part of the time for each; what was measured before and is not measured now is kept. */
static int measure(const struct cli *cli, double seconds, unsigned threads,
                   struct pred_calibration *c)
{
    const struct cal_voice voice = {.quiet = cli->json};
    const char *folder = cli_value(cli, "folder");
    struct pred_calibration fresh = *c;
    bool wrong = false;

    fresh.jpeg_rate = fresh.memory_bytes_per_s = fresh.storage_bytes_per_s = fresh.gpus = NAN;
    bool jpeg = wants(cli, "jpeg", &wrong), memory = wants(cli, "memory", &wrong);
    bool storage = wants(cli, "storage", &wrong), gpu = wants(cli, "gpu", &wrong);

    if (wrong)
        return cli_usage_error(cli,
                               "--only takes jpeg, memory, storage and gpu, separated by commas");
    if (jpeg)
        cal_jpeg(&voice, threads, 0.45 * seconds, &fresh);
    if (memory)
        cal_memory(&voice, threads, 0.1 * seconds, &fresh);
    if (storage && folder != NULL)
        cal_storage(&voice, folder, 0.2 * seconds, &fresh);
    else if (storage)
        cal_missing("storage: not measured, --folder names one with data to read");
    if (gpu)
        cal_gpu(&voice, 0.25 * seconds, &fresh);
    if (!keep_old(&fresh, c)) {
        cli_error("nothing of what was asked for could be measured");
        return CLI_FAILURE;
    }
    *c = fresh;
    return CLI_OK;
}

static int run(const struct cli *cli)
{
    double seconds = SECONDS, threads = cal_cpus();
    char host[256] = "", path[PATH_BYTES], error[512];
    struct pred_calibration c;
    int status;

    if (cli_value(cli, "seconds") != NULL &&
        !cli_number(cli_value(cli, "seconds"), SECONDS_MIN, SECONDS_MAX, &seconds))
        return cli_usage_error(cli, "--seconds has to be a number from %g to %g", SECONDS_MIN,
                               SECONDS_MAX);
    if (cli_value(cli, "threads") != NULL &&
        (!cli_number(cli_value(cli, "threads"), 1, 4096, &threads) || threads != floor(threads)))
        return cli_usage_error(cli, "--threads has to be a whole number from 1 to 4096");
    if (gethostname(host, sizeof(host) - 1) != 0)
        snprintf(host, sizeof(host), "localhost");
    host[strcspn(host, "./")] = '\0';
    status = output_path(cli, host, path, sizeof(path));
    if (status != CLI_OK)
        return status;
    if (pred_calibration_read(&c, path, error, sizeof(error)) != 0 && errno != ENOENT)
        cli_error("%s; it is written anew", error);
    snprintf(c.node, sizeof(c.node), "%.*s", PRED_NAME_MAX - 1, host);
    cpu_name(c.cpu, sizeof(c.cpu));
    c.cores = threads;
    c.measured_s = (double)time(NULL);
    status = measure(cli, seconds, (unsigned)threads, &c);
    if (status != CLI_OK)
        return status;
    if (pred_calibration_write(&c, path, error, sizeof(error)) != 0) {
        cli_error("%s; --output names another place", error);
        return CLI_FAILURE;
    }
    if (cli->json)
        return print_json(&c, path);
    printf("written to %s\n", path);
    return CLI_OK;
}

static const struct cli_option options[] = {
    {"output", "FILE", "write there, default StateDir/calibration/HOST"},
    {"folder", "FOLDER", "read files of this folder to measure storage"},
    {"only", "PARTS", "of jpeg,memory,storage,gpu; what else is in FILE stays"},
    {"threads", "N", "use at most N threads, default all CPUs allowed"},
    {"seconds", "X", "take about so long, default 40"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_calibrate = {
    .name = "calibrate",
    .arguments = "",
    .summary = "Measure this node: picture decoding, memory, storage, GPUs",
    .text = "Run it on a node that is otherwise idle. What cannot be measured is said and stays "
            "unknown.\n"
            "adloader predict uses the result.",
    .options = options,
    .min_arguments = 0,
    .max_arguments = 0,
    .run = run,
};
