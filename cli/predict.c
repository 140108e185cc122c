/*
 * adloader predict: how fast would a training run with 0..n loader cores? From its model, GPUs and
 * node as declared, from a profile, or as the controller sees a running job.
 */
#include "config.h"

#include "cli.h"
#include "client.h"
#include "conf.h"
#include "curveout.h"
#include "declared.h"
#include "doc.h"
#include "explain.h"
#include "profile.h"
#include "status.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CORES_DEFAULT 32
#define PATH_BYTES    4096

/* All that a prediction is made of; owns tables and strings. */
struct inputs {
    struct pred_tables tables;
    struct pred_declared declared;
    struct pred_calibration calibration;
    struct pred_profile profile;
    bool has_profile;
    struct pred_job job;
    unsigned cores;
    char title[256];
};

/* ---- options
 * ------------------------------------------------------------------------------------- */

static bool number_option(const struct cli *cli, const char *name, double min, double max,
                          double *value)
{
    const char *text = cli_value(cli, name);

    if (text == NULL)
        return true;
    if (cli_number(text, min, max, value))
        return true;
    (void)cli_usage_error(cli, "--%s has to be a number from %g to %g, not '%s'", name, min, max,
                          text);
    return false;
}

static bool count_option(const struct cli *cli, const char *name, double max, unsigned *value)
{
    double number = *value;

    if (!number_option(cli, name, 1, max, &number))
        return false;
    if (number != floor(number)) {
        (void)cli_usage_error(cli, "--%s has to be a whole number", name);
        return false;
    }
    *value = (unsigned)number;
    return true;
}

static int unknown_name(const struct cli *cli, const char *what, const char *name, const char *near)
{
    return cli_usage_error(cli, "there is no %s '%s' in the tables%s%s%s", what, name,
                           *near != '\0' ? ": did you mean "
                                         : "; give its numbers instead (--help)",
                           near, *near != '\0' ? "?" : "");
}

/* The admin's own file, if there is one; a broken one is an error. */
static int read_own(struct pred_tables *tables, const char *file, bool models)
{
    char error[512];
    int rc = models ? pred_tables_read_models(tables, file, error, sizeof(error))
                    : pred_tables_read_gpus(tables, file, error, sizeof(error));

    if (rc == 0 || errno == ENOENT)
        return CLI_OK;
    cli_error("%s", error);
    return CLI_FAILURE;
}

static int read_tables(const struct cli *cli, struct inputs *in)
{
    const char *folder = cli_value(cli, "tables");
    char error[512];
    int status;

    if (pred_tables_read(&in->tables, folder != NULL ? folder : ADL_DATADIR, error,
                         sizeof(error)) != 0) {
        cli_error("%s (--tables names another folder)", error);
        return CLI_FAILURE;
    }
    status = read_own(&in->tables, ADL_SYSCONFDIR "/adloader/models.csv", true);
    return status != CLI_OK ? status
                            : read_own(&in->tables, ADL_SYSCONFDIR "/adloader/gpus.csv", false);
}

static int choose_names(const struct cli *cli, struct inputs *in)
{
    const char *model = cli_value(cli, "model"), *gpu = cli_value(cli, "gpu");
    const char *precision = cli_value(cli, "precision"), *data = cli_value(cli, "data");
    char near[256];

    if (model != NULL && (in->declared.model = pred_tables_model(&in->tables, model)) == NULL) {
        pred_tables_near_models(&in->tables, model, near, sizeof(near));
        return unknown_name(cli, "model", model, near);
    }
    if (gpu != NULL && (in->declared.gpu = pred_tables_gpu(&in->tables, gpu)) == NULL) {
        pred_tables_near_gpus(&in->tables, gpu, near, sizeof(near));
        return unknown_name(cli, "GPU", gpu, near);
    }
    in->declared.precision = precision != NULL ? pred_precision_parse(precision) : -1;
    if (precision != NULL && in->declared.precision < 0)
        return cli_usage_error(cli, "--precision has to be fp32, tf32 or amp, not '%s'", precision);
    if (data == NULL)
        return CLI_OK;
    in->declared.data = strcmp(data, "jpeg") == 0     ? HINTS_DATA_JPEG
                        : strcmp(data, "raw") == 0    ? HINTS_DATA_RAW
                        : strcmp(data, "packed") == 0 ? HINTS_DATA_PACKED
                                                      : HINTS_DATA_UNKNOWN;
    if (in->declared.data == HINTS_DATA_UNKNOWN)
        return cli_usage_error(cli, "--data has to be jpeg, raw or packed, not '%s'", data);
    return CLI_OK;
}

/* Numbers on the command line beat names. */
static int take_numbers(const struct cli *cli, struct pred_job *job)
{
    double params = NAN, gpu_flops = NAN, core_rate = NAN, beta = NAN, gpu_rate = NAN,
           cache = job->cache_hit;

    if (!number_option(cli, "flops", 1, 1e18, &job->flops_forward) ||
        !number_option(cli, "params", 0, 1e14, &params) ||
        !number_option(cli, "gpu-flops", 1, 1e18, &gpu_flops) ||
        !number_option(cli, "sample-bytes", 0, 1e12, &job->sample_bytes) ||
        !number_option(cli, "io", 1, 1e14, &job->io_bytes_per_s) ||
        !number_option(cli, "cache-hit", 0, 1, &cache) ||
        !number_option(cli, "core-rate", 1e-9, 1e9, &core_rate) ||
        !number_option(cli, "beta", 0, 0.95, &beta) ||
        !number_option(cli, "gpu-rate", 1e-9, 1e9, &gpu_rate) ||
        !count_option(cli, "batch", 1e6, &job->batch) ||
        !count_option(cli, "gpus", 1024, &job->gpus) ||
        !count_option(cli, "gpus-total", 65536, &job->gpus_total) ||
        !count_option(cli, "nodes", 65536, &job->nodes) ||
        !count_option(cli, "workers", PRED_CORES_MAX, &job->workers_max))
        return CLI_USAGE;
    job->cache_hit = cache;
    if (!isnan(params))
        job->gradient_bytes = 4 * params;
    if (!isnan(gpu_flops))
        job->gpu_flops_per_s = gpu_flops;
    if (!isnan(core_rate))
        job->core_rate = (struct pred_value){core_rate, 0.1, PRED_STATIC};
    if (!isnan(beta))
        job->beta = (struct pred_value){beta, 0.1, PRED_STATIC};
    if (!isnan(gpu_rate))
        job->gpu_rate = (struct pred_value){gpu_rate, 0.1, PRED_STATIC};
    if (job->gpus == 0)
        job->gpus = 1;
    if (job->nodes == 0)
        job->nodes = 1;
    if (job->gpus_total == 0)
        job->gpus_total = job->gpus * job->nodes;
    if (job->batch == 0 && job->flops_forward > 0)
        job->batch = 64;
    return CLI_OK;
}

/* The node's calibration: named, or the one of this host where the controller keeps them. */
static int read_calibration(const struct cli *cli, const struct conf *conf, struct inputs *in)
{
    const char *file = cli_value(cli, "calibration");
    char path[PATH_BYTES], host[256] = "", error[512];

    if (file == NULL) {
        if (gethostname(host, sizeof(host) - 1) != 0 || conf->state_dir[0] == '\0')
            return CLI_OK;
        host[strcspn(host, "./")] = '\0';
        if (snprintf(path, sizeof(path), "%s/" PRED_CALIBRATION_FOLDER "/%s", conf->state_dir,
                     host) >= (int)sizeof(path))
            return CLI_OK;
    }
    if (pred_calibration_read(&in->calibration, file != NULL ? file : path, error, sizeof(error)) ==
        0) {
        in->declared.calibration = &in->calibration;
        return CLI_OK;
    }
    if (file == NULL && (errno == ENOENT || errno == EACCES))
        return CLI_OK;
    cli_error("%s", error);
    return CLI_FAILURE;
}

/* The profile of that name, of the GPU if that is said: the one most lately updated. */
static int read_profile(const struct cli *cli, const struct conf *conf, struct inputs *in)
{
    const char *name = cli_value(cli, "profile"), *gpu = cli_value(cli, "gpu"),
               *folder = cli_value(cli, "profiles");
    char path[PATH_BYTES], error[512];
    struct pred_profile *all;
    size_t n, corrupt;

    if (name == NULL)
        return CLI_OK;
    snprintf(path, sizeof(path), "%s/" PRED_PROFILE_FOLDER, conf->state_dir);
    if (pred_profile_list(folder != NULL ? folder : path, &all, &n, &corrupt, error,
                          sizeof(error)) != 0) {
        cli_error("%s", error);
        return CLI_FAILURE;
    }
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, name) != 0 || (gpu != NULL && strcmp(all[i].gpu, gpu) != 0) ||
            (in->has_profile && !(all[i].updated_s > in->profile.updated_s)))
            continue;
        in->profile = all[i];
        in->has_profile = true;
    }
    free(all);
    if (in->has_profile)
        return CLI_OK;
    cli_error("there is no profile '%s'%s%s in %s; 'adloader profile list' shows those that are",
              name, gpu != NULL ? " of GPU " : "", gpu != NULL ? gpu : "",
              folder != NULL ? folder : path);
    return CLI_FAILURE;
}

static int gather(const struct cli *cli, struct inputs *in)
{
    struct conf *conf;
    int status;
    unsigned cores = CORES_DEFAULT;

    if (!count_option(cli, "cores", PRED_CORES_MAX, &cores))
        return CLI_USAGE;
    in->cores = cores;
    status = read_tables(cli, in);
    if (status == CLI_OK)
        status = choose_names(cli, in);
    if (status != CLI_OK)
        return status;
    conf = cli_conf(cli);
    if (conf == NULL)
        return CLI_FAILURE;
    status = read_calibration(cli, conf, in);
    if (status == CLI_OK)
        status = read_profile(cli, conf, in);
    conf_free(conf);
    if (status != CLI_OK)
        return status;
    if (in->declared.gpu == NULL && in->declared.calibration != NULL)
        in->declared.gpu = pred_tables_gpu_in(&in->tables, in->calibration.gpu);
    if (!count_option(cli, "gpus", 1024, &in->declared.gpus))
        return CLI_USAGE;
    if (!pred_declare(&in->declared, &in->job))
        return cli_usage_error(cli, "%s has no %s; --precision names another",
                               in->declared.gpu->name,
                               pred_precision_name(pred_declared_precision(&in->declared)));
    status = take_numbers(cli, &in->job);
    if (status == CLI_OK && in->has_profile)
        pred_profile_apply(&in->profile, in->job.gpus, (double)time(NULL), &in->job);
    return status;
}

/* ---- what was assumed
 * ---------------------------------------------------------------------------- */

static void make_title(const struct cli *cli, struct inputs *in)
{
    const char *job = cli_value(cli, "job");
    const char *model = in->declared.model != NULL ? in->declared.model->name
                        : in->has_profile          ? in->profile.name
                                                   : "training";

    if (job != NULL)
        snprintf(in->title, sizeof(in->title), "job %s", job);
    else if (in->job.batch > 0)
        snprintf(in->title, sizeof(in->title), "%s, %u x %s, batch %u", model, in->job.gpus,
                 in->declared.gpu != NULL ? in->declared.gpu->name : "GPU", in->job.batch);
    else
        snprintf(in->title, sizeof(in->title), "%s, %u x %s", model, in->job.gpus,
                 in->declared.gpu != NULL ? in->declared.gpu->name : "GPU");
}

static void print_value(const char *what, const struct pred_value *value, const char *unit)
{
    if (value->value > 0)
        printf("  %-10s  %.4g %s (+- %.0f %%, %s)\n", what, value->value, unit, 100 * value->rel_sd,
               pred_source_name(value->source));
    else
        printf("  %-10s  unknown\n", what);
}

static void print_assumed(const struct inputs *in)
{
    const struct pred_job *job = &in->job;

    printf("%s\n", in->title);
    if (in->declared.model != NULL)
        printf("  %-10s  %.4g GFLOP forward a sample, %.4g M parameters [%s]\n", "model",
               job->flops_forward / 1e9, in->declared.model->params / 1e6,
               in->declared.model->source);
    if (in->declared.gpu != NULL)
        printf("  %-10s  %.4g TFLOP/s in %s, memory %.4g GB/s, %s [%s]\n", "GPU",
               job->gpu_flops_per_s / 1e12,
               pred_precision_name(pred_declared_precision(&in->declared)),
               in->declared.gpu->memory_bytes_per_s / 1e9, in->declared.gpu->link_name,
               in->declared.gpu->source);
    if (in->declared.calibration != NULL && in->calibration.node[0] != '\0')
        printf("  %-10s  %s, %.0f cores: %s\n", "calibrated", in->calibration.node,
               in->calibration.cores, in->calibration.cpu);
    if (in->has_profile)
        printf("  %-10s  %s on %s, %.0f runs\n", "profile", in->profile.name, in->profile.gpu,
               in->profile.runs);
    print_value("one core", &job->core_rate, "samples/s");
    if (job->beta.value > 0)
        printf("  %-10s  %.3g\n", "contention", job->beta.value);
    printf("\n");
}

/* ---- a running job
 * ------------------------------------------------------------------------------- */

static enum pred_limit limit_of(const char *name)
{
    for (int l = PRED_LIMIT_UNKNOWN; name != NULL && l < PRED_LIMITS; l++)
        if (strcmp(pred_limit_name((enum pred_limit)l), name) == 0)
            return (enum pred_limit)l;
    return PRED_LIMIT_UNKNOWN;
}

static enum pred_source source_of(const char *name)
{
    for (int s = PRED_UNKNOWN; name != NULL && s <= PRED_MEASURED; s++)
        if (strcmp(pred_source_name((enum pred_source)s), name) == 0)
            return (enum pred_source)s;
    return PRED_UNKNOWN;
}

static double not_negative(double value)
{
    return value > 0 ? value : 0; /* also for NAN */
}

/* The curve in the controller's answer, as one of ours. -1: it has none, or no memory. */
static int curve_of_answer(struct json_object *member, struct pred_curve *curve)
{
    struct json_object *object = doc_member(member, "curve"), *rate, *low, *high, *limit;
    size_t n;

    *curve = (struct pred_curve){0};
    if (object == NULL || (n = doc_count(doc_member(object, "rate"))) == 0 ||
        n > PRED_CORES_MAX + 1)
        return -1;
    rate = doc_member(object, "rate");
    low = doc_member(object, "low");
    high = doc_member(object, "high");
    limit = doc_member(object, "limit");
    curve->gpu_rate = doc_number(object, "gpu_rate");
    if (!(curve->gpu_rate > 0))
        return -1;
    curve->rate = calloc(n, sizeof(double));
    curve->low = calloc(n, sizeof(double));
    curve->high = calloc(n, sizeof(double));
    curve->limit = calloc(n, sizeof(uint8_t));
    if (curve->rate == NULL || curve->low == NULL || curve->high == NULL || curve->limit == NULL) {
        pred_curve_free(curve);
        return -1;
    }
    curve->ncores = (unsigned)n - 1;
    for (size_t i = 0; i < n; i++) {
        curve->rate[i] = not_negative(doc_number_at(rate, i));
        curve->low[i] = fmin(curve->rate[i], not_negative(doc_number_at(low, i)));
        curve->high[i] = fmax(curve->rate[i], not_negative(doc_number_at(high, i)));
        curve->limit[i] = (uint8_t)limit_of(doc_text_at(limit, i));
    }
    curve->demand = not_negative(doc_number(object, "demand_cores"));
    curve->demand_rel_sd = not_negative(doc_number(member, "predicted_error"));
    curve->relative =
        doc_text(object, "unit") == NULL || strcmp(doc_text(object, "unit"), "relative") == 0;
    curve->source = source_of(doc_text(object, "source"));
    return 0;
}

/* Asks the controller; on success the document of one or more members is the caller's. */
static struct json_object *ask(const struct cli *cli, const char *job, int *status)
{
    struct client_address address;
    char error[512], *text;
    size_t length;
    struct json_object *document;

    if (!status_is_job(job)) {
        *status =
            cli_usage_error(cli, "--job takes a job or step, such as 12 or 12.0, not '%s'", job);
        return NULL;
    }
    if (client_address(cli, &address, status) != 0)
        return NULL;
    *status = CLI_FAILURE;
    if (client_query(&address, "explain", job, "", &text, &length, error, sizeof(error)) !=
        CLIENT_OK) {
        cli_error("%s", error);
        return NULL;
    }
    document = explain_parse(text, length, error, sizeof(error));
    free(text);
    if (document == NULL)
        cli_error("the controller's answer: %s", error);
    else
        *status = CLI_OK;
    return document;
}

/* ---- output
 * -------------------------------------------------------------------------------------- */

static int plot(const struct cli *cli, const struct pred_curve *curve, const char *title)
{
    const char *file = cli_value(cli, "plot");
    FILE *out;
    int rc;

    if (file == NULL)
        return CLI_OK;
    out = fopen(file, "we");
    if (out == NULL) {
        cli_error("%s cannot be written: %s", file, strerror(errno));
        return CLI_FAILURE;
    }
    rc = curve_svg(curve, title, out);
    if (fclose(out) != 0 || rc != 0) {
        cli_error("%s cannot be written: %s", file, strerror(errno));
        return CLI_FAILURE;
    }
    return CLI_OK;
}

static void add_text(struct json_object *object, const char *key, const char *text)
{
    struct json_object *value = text != NULL ? json_object_new_string(text) : NULL;

    if (value != NULL && json_object_object_add(object, key, value) != 0)
        json_object_put(value);
}

static void add_value(struct json_object *object, const char *key, double number)
{
    struct json_object *value = isfinite(number) ? json_object_new_double(number) : NULL;

    if (json_object_object_add(object, key, value) != 0)
        json_object_put(value);
}

static int print_declared_json(const struct inputs *in, const struct pred_curve *curve)
{
    struct json_object *document = curve_json(curve);
    int status;

    if (document == NULL) {
        cli_error("out of memory");
        return CLI_FAILURE;
    }
    add_text(document, "title", in->title);
    if (in->declared.model != NULL)
        add_text(document, "model", in->declared.model->name);
    if (in->declared.gpu != NULL)
        add_text(document, "gpu", in->declared.gpu->name);
    add_value(document, "gpus", in->job.gpus);
    add_value(document, "batch_samples", in->job.batch);
    add_value(document, "flops_forward", in->job.flops_forward);
    add_value(document, "gradient_bytes", in->job.gradient_bytes);
    add_value(document, "gpu_flops_per_s", in->job.gpu_flops_per_s);
    add_value(document, "core_rate_samples_per_s", in->job.core_rate.value);
    status = cli_print_json(document);
    json_object_put(document);
    return status;
}

/* Without one of these the curve would be made of defaults alone. */
static bool describes_training(const struct cli *cli)
{
    static const char *const words[] = {"model", "profile", "flops", "gpu-rate", "core-rate"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (cli_value(cli, words[i]) != NULL)
            return true;
    return false;
}

static int predict_declared(const struct cli *cli, struct inputs *in)
{
    struct pred_curve curve;
    int status = gather(cli, in);

    if (status != CLI_OK)
        return status;
    if (!describes_training(cli))
        return cli_usage_error(cli,
                               "which training? Give --model NAME (and --gpu), --profile NAME, "
                               "--flops and --params, or the rates --gpu-rate and --core-rate; "
                               "--job JOB asks for a running one");
    make_title(cli, in);
    if (pred_curve_static(&in->job, in->cores, &curve) != 0) {
        if (errno == EINVAL)
            return cli_usage_error(
                cli, "these numbers contradict one another (more GPUs of a node than in all?)");
        cli_error("out of memory");
        return CLI_FAILURE;
    }
    status = plot(cli, &curve, in->title);
    if (status == CLI_OK && cli->json) {
        status = print_declared_json(in, &curve);
    } else if (status == CLI_OK) {
        print_assumed(in);
        status = curve_print(&curve, stdout) == 0 ? CLI_OK : CLI_FAILURE;
    }
    pred_curve_free(&curve);
    return status;
}

static int show_member(const struct cli *cli, struct json_object *member, struct json_object *list,
                       bool first)
{
    struct pred_curve curve;
    char title[256];
    int status;

    snprintf(title, sizeof(title), "step %s on %s", doc_text(member, "id"),
             doc_text(member, "node"));
    if (curve_of_answer(member, &curve) != 0) {
        cli_error("%s: the controller has no curve of it yet", title);
        return CLI_FAILURE;
    }
    status = first ? plot(cli, &curve, title) : CLI_OK;
    if (status == CLI_OK && cli->json) {
        struct json_object *object = curve_json(&curve);

        if (object != NULL) {
            add_text(object, "title", title);
            add_text(object, "id", doc_text(member, "id"));
            add_text(object, "node", doc_text(member, "node"));
        }
        if (object == NULL || json_object_array_add(list, object) != 0) {
            json_object_put(object);
            status = CLI_FAILURE;
        }
    } else if (status == CLI_OK) {
        printf("%s%s\n\n", first ? "" : "\n", title);
        status = curve_print(&curve, stdout) == 0 ? CLI_OK : CLI_FAILURE;
    }
    pred_curve_free(&curve);
    return status;
}

/* {"members": [...]}: a document is an object, whatever is in it. */
static int print_members(struct json_object *list)
{
    struct json_object *wrapped = json_object_new_object();
    int status = CLI_FAILURE;

    if (wrapped != NULL && json_object_object_add(wrapped, "members", json_object_get(list)) == 0)
        status = cli_print_json(wrapped);
    else
        cli_error("out of memory");
    json_object_put(wrapped);
    return status;
}

static int predict_job(const struct cli *cli, const char *job)
{
    int status;
    struct json_object *document = ask(cli, job, &status), *members, *list;

    if (document == NULL)
        return status;
    members = doc_member(document, "members");
    list = json_object_new_array();
    if (doc_count(members) == 0) {
        cli_error("the controller knows no step of job %s", job);
        status = CLI_FAILURE;
    }
    for (size_t i = 0; status == CLI_OK && i < doc_count(members); i++)
        status = show_member(cli, doc_at(members, i), list, i == 0);
    if (status == CLI_OK && cli->json)
        status = print_members(list);
    json_object_put(list);
    json_object_put(document);
    return status;
}

static int run(const struct cli *cli)
{
    struct inputs *in;
    const char *job = cli_value(cli, "job");
    int status;

    if (job != NULL)
        return predict_job(cli, job);
    in = calloc(1, sizeof(*in));
    if (in == NULL) {
        cli_error("out of memory");
        return CLI_FAILURE;
    }
    pred_job_init(&in->job);
    in->declared.precision = -1;
    status = predict_declared(cli, in);
    pred_tables_free(&in->tables);
    free(in);
    return status;
}

static const struct cli_option options[] = {
    {"model", "NAME", "a model of the tables: its FLOPs, parameters and input"},
    {"gpu", "NAME", "a GPU of the tables"},
    {"precision", "NAME", "fp32, tf32 or amp; default: tf32 where the GPU has it"},
    {"gpus", "N", "GPUs on this node, default 1"},
    {"gpus-total", "N", "GPUs of the whole job"},
    {"nodes", "N", "nodes of the job, default 1"},
    {"batch", "N", "samples a GPU and step, default 64"},
    {"cores", "N", "predict for 0..N loader cores, default 32"},
    {"workers", "N", "the program runs at most N loader workers"},
    {"data", "KIND", "jpeg, raw or packed; default jpeg for models of images"},
    {"flops", "X", "forward FLOPs of a sample (2 x MACs), for a model of your own"},
    {"params", "X", "its parameters"},
    {"gpu-flops", "X", "FLOP/s that the GPU reaches, for one of your own"},
    {"gpu-rate", "X", "samples/s of all GPUs of the node when data is never late, if known"},
    {"core-rate", "X", "samples/s that one loader core delivers, if known"},
    {"beta", "X", "contention between loader cores, 0 none"},
    {"sample-bytes", "X", "bytes of a sample in storage"},
    {"io", "X", "bytes/s of storage for this job"},
    {"cache-hit", "X", "share of samples that the page cache holds, 0 to 1"},
    {"profile", "NAME", "start from a profile, what was learned of such trainings"},
    {"profiles", "FOLDER", "where they are, default StateDir/profiles"},
    {"calibration", "FILE", "what adloader calibrate wrote, default that of this host"},
    {"tables", "FOLDER", "where models.csv and gpus.csv are"},
    {"job", "JOB[.STEP]", "a running job, as the controller sees it"},
    {"plot", "FILE", "draw the curve into FILE, an SVG picture"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_predict = {
    .name = "predict",
    .arguments = "",
    .summary = "Predict how fast a training would run with 0..N loader cores",
    .text =
        "Prints the rate for each number of loader cores, its band of uncertainty, what limits "
        "it,\n"
        "and how many cores are worth having. Numbers given here beat those of the tables, the\n"
        "node's calibration and a profile.",
    .options = options,
    .min_arguments = 0,
    .max_arguments = 0,
    .run = run,
};
