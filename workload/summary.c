/* The summary of a run. */
#include "config.h"

#include "summary.h"

#include "files.h"
#include "log.h"
#include "replacefile.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <json.h>

struct rank_figures summary_figures(const struct totals *from, const struct totals *to,
                                    const struct loader_totals *loader)
{
    return (struct rank_figures){
        .samples = (double)(to->samples - from->samples),
        .steps = (double)(to->steps - from->steps),
        .seconds = totals_elapsed(to) - totals_elapsed(from),
        .wait_s = to->seconds[PHASE_WAIT] - from->seconds[PHASE_WAIT],
        .compute_s = to->seconds[PHASE_COMPUTE] - from->seconds[PHASE_COMPUTE],
        .exchange_s = to->seconds[PHASE_EXCHANGE] - from->seconds[PHASE_EXCHANGE],
        .loader_cpu_s = loader->cpu_s,
        .cpu_s = summary_cpu_seconds(),
        .skipped = (double)loader->skipped,
    };
}

static double timeval_seconds(struct timeval value)
{
    return (double)value.tv_sec + 1e-6 * (double)value.tv_usec;
}

double summary_cpu_seconds(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return 0.0;
    return timeval_seconds(usage.ru_utime) + timeval_seconds(usage.ru_stime);
}

/* ---- building the document ------------------------------------------------------------------ */

/* Fewer digits than a double has: nobody measures nanoseconds of a share. */
static struct json_object *number(double value, int decimals)
{
    char text[64];

    if (!isfinite(value))
        return NULL; /* JSON null: unknown */
    (void)snprintf(text, sizeof text, "%.*f", decimals, value);
    return json_object_new_double_s(value, text);
}

static void put(struct json_object *object, const char *key, struct json_object *value)
{
    /* json-c takes the value even if it fails for lack of memory; the document then lacks a key */
    if (json_object_object_add(object, key, value) < 0)
        log_warning("summary: out of memory at %s", key);
}

static void put_text(struct json_object *object, const char *key, const char *text)
{
    put(object, key, text == NULL ? NULL : json_object_new_string(text));
}

static void put_count(struct json_object *object, const char *key, double value)
{
    put(object, key, json_object_new_int64((int64_t)value));
}

static double ratio(double part, double whole)
{
    return whole > 0.0 ? part / whole : 0.0;
}

static void put_figures(struct json_object *object, const struct rank_figures *f)
{
    put_count(object, "samples", f->samples);
    put_count(object, "steps", f->steps);
    put(object, "seconds", number(f->seconds, 6));
    put(object, "samples_per_s", number(ratio(f->samples, f->seconds), 3));
    put(object, "gpu_busy_share", number(ratio(f->compute_s, f->seconds), 5));
    put(object, "wait_share", number(ratio(f->wait_s, f->seconds), 5));
    put(object, "exchange_share", number(ratio(f->exchange_s, f->seconds), 5));
    put(object, "loader_cpu_s", number(f->loader_cpu_s, 3));
    put(object, "cpu_s", number(f->cpu_s, 3));
    put_count(object, "skipped_files", f->skipped);
}

static struct json_object *all_ranks(const struct summary *summary)
{
    struct json_object *all = json_object_new_object(), *ranks = json_object_new_array();
    double samples = 0.0, seconds = 0.0;

    for (unsigned rank = 0; rank < summary->world->ranks; rank++) {
        const struct rank_figures *figures = &summary->ranks[rank];
        struct json_object *one = json_object_new_object();

        put_count(one, "rank", rank);
        put_figures(one, figures);
        if (json_object_array_add(ranks, one) < 0)
            log_warning("summary: out of memory at rank %u", rank);
        samples += figures->samples;
        seconds = fmax(seconds, figures->seconds);
    }
    put_count(all, "samples", samples);
    put(all, "seconds", number(seconds, 6));
    put(all, "samples_per_s", number(ratio(samples, seconds), 3));
    put(all, "ranks", ranks);
    return all;
}

static struct json_object *positive(double value, int decimals)
{
    return value > 0.0 ? number(value, decimals) : NULL;
}

/* A step of the named model as the predictor has it. */
static struct json_object *predicted_part(const struct named_step *step)
{
    struct json_object *part = json_object_new_object();

    put(part, "step_s", number(step->step_s, 9));
    put(part, "compute_s", number(step->parts.compute_s, 9));
    put(part, "exchange_s", number(step->parts.exchange_s, 9));
    put(part, "exchange_whole_s", number(step->sync_s, 9));
    put(part, "copy_s", number(step->parts.copy_s, 9));
    return part;
}

static struct json_object *gpu_part(const struct summary *summary, const struct rank_figures *own)
{
    struct json_object *gpu = json_object_new_object();
    const struct run_options *options = summary->options;
    const struct named *named = &options->named;

    put(gpu, "step_s", number(summary->step_s, 9));
    put(gpu, "rate_samples_per_s", number(options->batch / summary->step_s, 3));
    put(gpu, "forward_flops",
        positive(named->model != NULL ? named->model->flops_forward : options->flops, 0));
    put(gpu, "flops_per_s", positive(options->gpu_flops, 0));
    put_text(gpu, "device", summary->device);
    put_text(gpu, "model", named->model == NULL ? NULL : named->model->name);
    put_text(gpu, "type", named->gpu == NULL ? NULL : named->gpu->name);
    put_text(gpu, "precision",
             named->model == NULL ? NULL : pred_precision_name(named_precision(named)));
    put(gpu, "predicted", summary->predicted == NULL ? NULL : predicted_part(summary->predicted));
    put(gpu, "measured_compute_s", positive(ratio(own->compute_s, own->steps), 9));
    put(gpu, "measured_exchange_s", positive(ratio(own->exchange_s, own->steps), 9));
    return gpu;
}

static struct json_object *loader_part(const struct summary *summary)
{
    const struct loader_totals *totals = summary->loader;
    struct json_object *loader = json_object_new_object();
    double files = (double)(totals->samples + totals->skipped), good = (double)totals->samples;

    put_count(loader, "decoded_samples", good);
    put_count(loader, "skipped_files", (double)totals->skipped);
    put_count(loader, "read_bytes", (double)totals->bytes);
    put(loader, "file_kb_mean", number(ratio(1e-3 * (double)totals->bytes, files), 3));
    put(loader, "read_ms_mean", number(ratio(1e3 * totals->read_s, files), 4));
    put(loader, "decode_ms_mean", number(ratio(1e3 * totals->decode_s, files), 4));
    put(loader, "augment_ms_mean", number(ratio(1e3 * totals->augment_s, good), 4));
    put(loader, "cpu_s", number(totals->cpu_s, 3));
    put(loader, "cpu_ms_mean", number(ratio(1e3 * totals->cpu_s, good), 4));
    put(loader, "waiting_for_room_s", number(totals->waiting_s, 3));
    put_count(loader, "threads_max", summary->loaders_max);
    return loader;
}

/* [t_s, workers, cores, "cpus"] from each moment on. */
static struct json_object *cores_part(const struct record *record)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < record->ncores; i++) {
        const struct record_cores *entry = &record->cores[i];
        struct json_object *row = json_object_new_array();

        if (json_object_array_add(row, number(entry->t_s, 3)) < 0 ||
            json_object_array_add(row, json_object_new_int64(entry->workers)) < 0 ||
            json_object_array_add(row, json_object_new_int64(entry->cores)) < 0 ||
            json_object_array_add(row, json_object_new_string(entry->cpus)) < 0 ||
            json_object_array_add(list, row) < 0)
            log_warning("summary: out of memory at the loaders' cores");
    }
    return list;
}

/* [t_s, samples_per_s, gpu_busy, wait, exchange, loader_cpu_cores] of each interval. */
static struct json_object *timeline_part(const struct record *record)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < record->npoints; i++) {
        const struct record_point *point = &record->points[i];
        struct json_object *row = json_object_new_array();

        if (json_object_array_add(row, number(point->t_s, 3)) < 0 ||
            json_object_array_add(row, number(point->samples_per_s, 2)) < 0 ||
            json_object_array_add(row, number(point->gpu_busy, 4)) < 0 ||
            json_object_array_add(row, number(point->wait, 4)) < 0 ||
            json_object_array_add(row, number(point->exchange, 4)) < 0 ||
            json_object_array_add(row, number(point->loader_cpu_cores, 3)) < 0 ||
            json_object_array_add(list, row) < 0)
            log_warning("summary: out of memory at the timeline");
    }
    return list;
}

static struct json_object *options_part(const struct run_options *options)
{
    static const char *const formats[] = {[STORE_JPEG] = "jpeg",
                                          [STORE_RAW] = "raw",
                                          [STORE_TOKENS] = "tokens",
                                          [STORE_PACKED] = "packed"};
    static const char *const caches[] = {
        [STORE_KEEP] = "keep", [STORE_WARM] = "warm", [STORE_DROP] = "drop"};
    struct json_object *object = json_object_new_object();

    put_text(object, "data", options->data.folder);
    put_text(object, "data_format", formats[options->data.format]);
    put_text(object, "cache", caches[options->data.cache]);
    put(object, "storage_bytes_per_s", positive(options->data.bytes_per_s, 0));
    put(object, "storage_latency_s", positive(options->data.latency_s, 6));
    put_count(object, "batch", options->batch);
    put_count(object, "queue_batches", options->queue);
    put_count(object, "crop_pixels", options->tokens > 0 ? 0 : options->crop);
    put_count(object, "tokens", options->tokens);
    put(object, "dct_scaling", json_object_new_boolean(options->dct_scaling));
    put(object, "repeat_batch", json_object_new_boolean(options->repeat_batch));
    put(object, "seed", json_object_new_uint64(options->seed));
    put(object, "fixed_loaders", json_object_new_boolean(options->fixed_loaders));
    put_count(object, "gradient_bytes", (double)options->gradient_bytes);
    if (options->gpu == GPU_EMULATED)
        put_text(object, "gradient_bytes_note",
                 "a buffer of a chosen size stands for a model's gradients");
    return object;
}

static struct json_object *build(const struct summary *summary)
{
    struct json_object *root = json_object_new_object();
    const struct world *world = summary->world;
    const struct rank_figures *own = &summary->ranks[summary->complete ? world->rank : 0];
    char host[256] = "";

    if (gethostname(host, sizeof host - 1) < 0)
        host[0] = '\0';
    put_text(root, "program", "adltrain " PACKAGE_VERSION);
    put_text(root, "gpu", options_gpu(summary->options));
    put_text(root, "host", host);
    put_count(root, "pid", getpid());
    put_count(root, "rank", world->rank);
    put_count(root, "ranks", world->ranks);
    put(root, "job", world->job < 0 ? NULL : json_object_new_int64(world->job));
    put(root, "step", world->step < 0 ? NULL : json_object_new_int64(world->step));
    put_count(root, "start_wall_s", (double)summary->start_wall_s);
    put_text(root, "ended", summary->ended);
    put_count(root, "exit_status", summary->exit_status);
    put_figures(root, own);
    put(root, "all_ranks", summary->complete ? all_ranks(summary) : NULL);
    put(root, "gpu_model", summary->options->train ? gpu_part(summary, own) : NULL);
    put(root, "loader", loader_part(summary));
    put(root, "loader_cores", cores_part(summary->record));
    put(root, "timeline", timeline_part(summary->record));
    put(root, "record_truncated", json_object_new_boolean(summary->record->truncated));
    put(root, "options", options_part(summary->options));
    return root;
}

/* ---- writing it ------------------------------------------------------------------------------ */

/* The file's name with %r replaced, in new memory; NULL: out of memory. */
static char *file_name(const char *pattern, unsigned rank)
{
    const char *mark = strstr(pattern, "%r");
    char *name;

    if (mark == NULL)
        return strdup(pattern);
    if (asprintf(&name, "%.*s%u%s", (int)(mark - pattern), pattern, rank, mark + 2) < 0)
        return NULL;
    return name;
}

static int write_text(const char *pattern, unsigned rank, const char *text)
{
    char error[FILES_ERROR_MAX];
    char *name;
    int rc;

    if (strcmp(pattern, "-") == 0)
        return puts(text) < 0 || fflush(stdout) != 0 ? -1 : 0;
    name = file_name(pattern, rank);
    if (name == NULL) {
        log_error("summary: out of memory");
        return -1;
    }
    rc = file_write_atomically(name, text, strlen(text), error);
    if (rc < 0)
        log_error("summary: %s", error);
    free(name);
    return rc;
}

static bool writes(const char *pattern, unsigned rank)
{
    return pattern != NULL && (rank == 0 || strstr(pattern, "%r") != NULL);
}

int summary_check(const char *pattern, unsigned rank)
{
    char *name;
    bool ready;

    if (!writes(pattern, rank) || strcmp(pattern, "-") == 0)
        return 0;
    name = file_name(pattern, rank);
    ready = name != NULL && replacefile_ready(name);
    if (!ready)
        log_error("summary: --json %s cannot be written: %s", name != NULL ? name : pattern,
                  replacefile_error(name != NULL ? errno : ENOMEM));
    free(name);
    return ready ? 0 : -1;
}

int summary_write(const struct summary *summary)
{
    const char *pattern = summary->options->json;
    struct json_object *root;
    const char *text;
    int rc;

    if (!writes(pattern, summary->world->rank))
        return 0;
    root = build(summary);
    text = json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_SPACED |
                                                    JSON_C_TO_STRING_NOSLASHESCAPE);
    if (text == NULL) {
        log_error("summary: out of memory");
        rc = -1;
    } else {
        rc = write_text(pattern, summary->world->rank, text);
    }
    (void)json_object_put(root);
    return rc;
}

int summary_print(const struct summary *summary)
{
    const struct rank_figures *f = &summary->ranks[summary->complete ? summary->world->rank : 0];

    if (printf("adltrain summary rank=%u ended=%s seconds=%.3f samples=%.0f samples_per_s=%.1f "
               "gpu=%s gpu_busy=%.3f wait=%.3f exchange=%.3f loader_cpu_s=%.2f skipped=%.0f\n",
               summary->world->rank, summary->ended, f->seconds, f->samples,
               ratio(f->samples, f->seconds), options_gpu(summary->options),
               ratio(f->compute_s, f->seconds), ratio(f->wait_s, f->seconds),
               ratio(f->exchange_s, f->seconds), f->loader_cpu_s, f->skipped) < 0)
        return -1;
    return fflush(stdout);
}
