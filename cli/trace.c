/* Reading and writing traces: see trace.h. */
#include "config.h"

#include "trace.h"

#include "predictor.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 65536
#define POINTS_MAX     4097u

struct parsing {
    struct trace *trace;
    struct json_object *curve_index, *job_index;
    size_t curves_room, jobs_room;
    unsigned line;
    bool has_nodes;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static int refuse(struct parsing *p, const char *format, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, format);
    if (vsnprintf(text, sizeof(text), format, ap) < 0)
        text[0] = '\0';
    va_end(ap);
    snprintf(p->error, p->error_size, "line %u: %s", p->line, text);
    return -1;
}

void trace_free(struct trace *trace)
{
    if (trace == NULL)
        return;
    for (size_t i = 0; i < trace->ncurves; i++)
        free(trace->curves[i].rate);
    free(trace->curves);
    free(trace->jobs);
    free(trace);
}

/* ---- words --------------------------------------------------------------------------------- */

/* One "key=value" of a line and what to do with the value. */
struct key {
    const char *name;
    double *number; /* or */
    const char **text;
    double min, max;
    bool whole;
};

static int take_number(struct parsing *p, const struct key *key, const char *value)
{
    char *end;
    double number;

    errno = 0;
    number = strtod(value, &end);
    if (end == value || *end != '\0' || errno != 0 || !(number >= key->min && number <= key->max))
        return refuse(p, "%s=%.64s has to be a number from %g to %g", key->name, value, key->min,
                      key->max);
    if (key->whole && number != floor(number))
        return refuse(p, "%s=%.64s has to be whole", key->name, value);
    *key->number = number;
    return 0;
}

static int take_word(struct parsing *p, const struct key *keys, size_t nkeys, char *word)
{
    char *value = strchr(word, '=');

    if (value != NULL)
        *value++ = '\0';
    for (size_t i = 0; i < nkeys; i++) {
        if (strcmp(keys[i].name, word) != 0)
            continue;
        if (value == NULL)
            return refuse(p, "%s needs a value", word);
        if (keys[i].number != NULL)
            return take_number(p, &keys[i], value);
        *keys[i].text = value;
        return 0;
    }
    return refuse(p, "%.64s is not known here", word);
}

static int take_words(struct parsing *p, const struct key *keys, size_t nkeys, char **save)
{
    for (char *word = strtok_r(NULL, " \t", save); word != NULL; word = strtok_r(NULL, " \t", save))
        if (take_word(p, keys, nkeys, word) < 0)
            return -1;
    return 0;
}

static int take_name(struct parsing *p, const char *what, char **save, char *name)
{
    char *word = strtok_r(NULL, " \t", save);

    if (word == NULL)
        return refuse(p, "%s needs a name", what);
    if (strlen(word) >= TRACE_NAME_MAX)
        return refuse(p, "a name is longer than %d bytes", TRACE_NAME_MAX - 1);
    for (const char *c = word; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("-_.", *c) == NULL)
            return refuse(p, "a name has letters, digits, '-', '_' and '.' only");
    strcpy(name, word); /* its length was checked */
    return 0;
}

static int index_add(struct parsing *p, struct json_object *map, const char *name, size_t number)
{
    if (json_object_object_get_ex(map, name, NULL))
        return refuse(p, "%s stands here a second time", name);
    if (json_object_object_add(map, name, json_object_new_int64((int64_t)number)) != 0)
        return refuse(p, "not enough memory");
    return 0;
}

/* ---- lines --------------------------------------------------------------------------------- */

static int line_nodes(struct parsing *p, char **save)
{
    double count = NAN, cores = NAN, gpus = NAN, main_cores = 1;
    struct trace *t = p->trace;
    const char *pool = "all";
    const struct key keys[] = {
        {"count", &count, NULL, 1, 100000, true},
        {"cores", &cores, NULL, 1, 4096, true},
        {"gpus", &gpus, NULL, 1, 1024, true},
        {"main_cores_per_gpu", &main_cores, NULL, 0, 64, true},
        {"pool", NULL, &pool, 0, 0, false},
        {"start_s", &t->start_s, NULL, 0, 1e6, false},
        {"end_s", &t->end_s, NULL, 0, 1e6, false},
        {"learn_s", &t->learn_s, NULL, 0, 1e6, false},
    };

    if (p->has_nodes)
        return refuse(p, "nodes stands here a second time");
    if (take_words(p, keys, sizeof(keys) / sizeof(*keys), save) < 0)
        return -1;
    if (isnan(count) || isnan(cores) || isnan(gpus))
        return refuse(p, "nodes needs count, cores and gpus");
    if (cores < gpus * main_cores)
        return refuse(p, "%g cores are less than the main cores of %g GPUs", cores, gpus);
    if (count * gpus > TRACE_GPUS_MAX)
        return refuse(p, "more than %u GPUs in all", TRACE_GPUS_MAX);
    if (strcmp(pool, "all") != 0 && strcmp(pool, "running") != 0)
        return refuse(p, "pool=%.64s has to be all or running", pool);
    t->nnodes = (unsigned)count;
    t->cores = (unsigned)cores;
    t->gpus = (unsigned)gpus;
    t->main_per_gpu = (unsigned)main_cores;
    t->pool_all = strcmp(pool, "all") == 0;
    p->has_nodes = true;
    return 0;
}

static int curve_points(struct parsing *p, struct trace_curve *curve, const char *points)
{
    const char *at = points;
    double best = 0;

    curve->rate = calloc(POINTS_MAX, sizeof(*curve->rate));
    if (curve->rate == NULL)
        return refuse(p, "not enough memory");
    do {
        char *end;
        double rate = strtod(at, &end);

        if (end == at || (*end != ',' && *end != '\0') || !(rate >= 0 && rate <= 1e12) ||
            curve->nrate >= POINTS_MAX)
            return refuse(p, "points have to be up to %u rates with commas between", POINTS_MAX);
        curve->rate[curve->nrate++] = rate;
        best = fmax(best, rate);
        at = end;
    } while (*at++ == ',');
    if (isnan(curve->gpu_rate))
        curve->gpu_rate = best;
    if (!(best > 0) || curve->gpu_rate < best)
        return refuse(p, "the best rate %g has to be above 0 and at most gpu_rate", best);
    return 0;
}

static int curve_declared(struct parsing *p, struct trace_curve *curve)
{
    struct pred_job job;
    struct pred_curve predicted;

    if (isnan(curve->gpu_rate) || isnan(curve->core_rate))
        return refuse(p, "curve needs points, or gpu_rate and core_rate");
    if (!p->has_nodes)
        return refuse(p, "nodes has to stand before the first curve");
    pred_job_init(&job);
    job.gpus = job.gpus_total = job.nodes = 1;
    job.gpu_rate.value = curve->gpu_rate;
    job.core_rate.value = curve->core_rate;
    job.beta.value = curve->beta;
    if (!isnan(curve->io_rate)) {
        job.sample_bytes = 1;
        job.cache_hit = 0;
        job.io_bytes_per_s = curve->io_rate;
    }
    if (pred_curve_static(&job, p->trace->cores, &predicted) < 0)
        return refuse(p, "no curve can be made of this: %s", strerror(errno));
    curve->rate = predicted.rate;
    curve->nrate = predicted.ncores + 1;
    predicted.rate = NULL;
    pred_curve_free(&predicted);
    return 0;
}

static int line_curve(struct parsing *p, char **save)
{
    struct trace *t = p->trace;
    struct trace_curve *curve;
    const char *points = NULL;

    if (t->ncurves >= TRACE_CURVES_MAX)
        return refuse(p, "more than %u curves", TRACE_CURVES_MAX);
    if (t->ncurves == p->curves_room) {
        size_t room = p->curves_room == 0 ? 16 : 2 * p->curves_room;
        struct trace_curve *more = reallocarray(t->curves, room, sizeof(*more));

        if (more == NULL)
            return refuse(p, "not enough memory");
        t->curves = more;
        p->curves_room = room;
    }
    curve = &t->curves[t->ncurves++];
    *curve = (struct trace_curve){.gpu_rate = NAN, .core_rate = NAN, .io_rate = NAN};
    {
        const struct key keys[] = {
            {"gpu_rate", &curve->gpu_rate, NULL, 1e-9, 1e12, false},
            {"core_rate", &curve->core_rate, NULL, 1e-9, 1e12, false},
            {"beta", &curve->beta, NULL, 0, 10, false},
            {"io_rate", &curve->io_rate, NULL, 1e-9, 1e12, false},
            {"points", NULL, &points, 0, 0, false},
        };

        if (take_name(p, "curve", save, curve->name) < 0 ||
            index_add(p, p->curve_index, curve->name, t->ncurves - 1) < 0 ||
            take_words(p, keys, sizeof(keys) / sizeof(*keys), save) < 0)
            return -1;
    }
    if (points != NULL && !isnan(curve->core_rate))
        return refuse(p, "curve has points or a core_rate, not both");
    return points != NULL ? curve_points(p, curve, points) : curve_declared(p, curve);
}

static int line_job(struct parsing *p, char **save)
{
    struct trace *t = p->trace;
    struct trace_job *job;
    struct json_object *known = NULL;
    double at = NAN, work = NAN, weight = 1, nodes = 1, gpus = 1;
    const char *curve = NULL;
    const struct key keys[] = {
        {"at", &at, NULL, 0, 1e12, false},           {"work", &work, NULL, 1e-6, 1e18, false},
        {"weight", &weight, NULL, 1e-6, 1e6, false}, {"nodes", &nodes, NULL, 1, 100000, true},
        {"gpus", &gpus, NULL, 1, 1024, true},        {"curve", NULL, &curve, 0, 0, false},
    };

    if (t->njobs >= TRACE_JOBS_MAX)
        return refuse(p, "more than %u jobs", TRACE_JOBS_MAX);
    if (t->njobs == p->jobs_room) {
        size_t room = p->jobs_room == 0 ? 256 : 2 * p->jobs_room;
        struct trace_job *more = reallocarray(t->jobs, room, sizeof(*more));

        if (more == NULL)
            return refuse(p, "not enough memory");
        t->jobs = more;
        p->jobs_room = room;
    }
    job = &t->jobs[t->njobs++];
    *job = (struct trace_job){0};
    if (take_name(p, "job", save, job->name) < 0 ||
        index_add(p, p->job_index, job->name, t->njobs - 1) < 0 ||
        take_words(p, keys, sizeof(keys) / sizeof(*keys), save) < 0)
        return -1;
    if (isnan(at) || isnan(work) || curve == NULL)
        return refuse(p, "job needs at, work and curve");
    if (!json_object_object_get_ex(p->curve_index, curve, &known))
        return refuse(p, "there is no curve %.64s before this line", curve);
    if (!p->has_nodes || nodes > t->nnodes || gpus > t->gpus)
        return refuse(p, "no machine above has %g nodes with %g GPUs", nodes, gpus);
    job->arrival_s = at;
    job->work_samples = work;
    job->weight = weight;
    job->nodes = (unsigned)nodes;
    job->gpus = (unsigned)gpus;
    job->curve = (unsigned)json_object_get_int64(known);
    return 0;
}

static int parse_line(struct parsing *p, char *line)
{
    char *save = NULL, *word;

    line[strcspn(line, "#\r")] = '\0';
    word = strtok_r(line, " \t", &save);
    if (word == NULL)
        return 0;
    if (strcmp(word, "nodes") == 0)
        return line_nodes(p, &save);
    if (strcmp(word, "curve") == 0)
        return line_curve(p, &save);
    if (strcmp(word, "job") == 0)
        return line_job(p, &save);
    return refuse(p, "a line begins with nodes, curve or job, not %.64s", word);
}

static int parse_lines(struct parsing *p, const char *text, size_t length)
{
    static const char nothing[] = "";
    const char *end = text + length;

    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t n = (size_t)((stop != NULL ? stop : end) - at);
        char *line;
        int rc;

        p->line++;
        if (n > LINE_MAX_BYTES || memchr(at, '\0', n) != NULL)
            return refuse(p, "longer than %d bytes, or no text", LINE_MAX_BYTES);
        line = malloc(n + 1);
        if (line == NULL)
            return refuse(p, "not enough memory");
        memcpy(line, n > 0 ? at : nothing, n);
        line[n] = '\0';
        rc = parse_line(p, line);
        free(line);
        if (rc < 0)
            return -1;
        at += n + 1;
    }
    if (p->trace->njobs == 0)
        return refuse(p, "the trace ends without a job");
    return 0;
}

static int by_arrival(const void *a, const void *b)
{
    const struct trace_job *x = a, *y = b;

    if (x->arrival_s < y->arrival_s || x->arrival_s > y->arrival_s)
        return x->arrival_s < y->arrival_s ? -1 : 1;
    return strcmp(x->name, y->name);
}

struct trace *trace_parse(const char *text, size_t length, char *error, size_t error_size)
{
    struct parsing p = {.error = error, .error_size = error_size};
    int rc;

    p.trace = calloc(1, sizeof(*p.trace));
    p.curve_index = json_object_new_object();
    p.job_index = json_object_new_object();
    if (p.trace == NULL || p.curve_index == NULL || p.job_index == NULL)
        rc = refuse(&p, "not enough memory");
    else
        rc = parse_lines(&p, text, length);
    json_object_put(p.curve_index);
    json_object_put(p.job_index);
    if (rc < 0) {
        trace_free(p.trace);
        return NULL;
    }
    qsort(p.trace->jobs, p.trace->njobs, sizeof(*p.trace->jobs), by_arrival);
    return p.trace;
}

static int print_curve(const struct trace_curve *c, FILE *out)
{
    if (!isnan(c->core_rate)) {
        if (fprintf(out, "curve %s gpu_rate=%.6g core_rate=%.6g beta=%.6g", c->name, c->gpu_rate,
                    c->core_rate, c->beta) < 0 ||
            (!isnan(c->io_rate) && fprintf(out, " io_rate=%.6g", c->io_rate) < 0))
            return -1;
        return fputc('\n', out) == EOF ? -1 : 0;
    }
    if (fprintf(out, "curve %s gpu_rate=%.6g points=", c->name, c->gpu_rate) < 0)
        return -1;
    for (unsigned i = 0; i < c->nrate; i++)
        if (fprintf(out, "%s%.6g", i > 0 ? "," : "", c->rate[i]) < 0)
            return -1;
    return fputc('\n', out) == EOF ? -1 : 0;
}

int trace_print(const struct trace *t, FILE *out)
{
    if (fprintf(out, "nodes count=%u cores=%u gpus=%u main_cores_per_gpu=%u pool=%s", t->nnodes,
                t->cores, t->gpus, t->main_per_gpu, t->pool_all ? "all" : "running") < 0)
        return -1;
    if ((t->start_s > 0 || t->end_s > 0 || t->learn_s > 0) &&
        fprintf(out, " start_s=%g end_s=%g learn_s=%g", t->start_s, t->end_s, t->learn_s) < 0)
        return -1;
    if (fputc('\n', out) == EOF)
        return -1;
    for (size_t i = 0; i < t->ncurves; i++)
        if (print_curve(&t->curves[i], out) < 0)
            return -1;
    for (size_t i = 0; i < t->njobs; i++) {
        const struct trace_job *j = &t->jobs[i];

        if (fprintf(out, "job %s at=%.3f curve=%s nodes=%u gpus=%u work=%.0f weight=%g\n", j->name,
                    j->arrival_s, t->curves[j->curve].name, j->nodes, j->gpus, j->work_samples,
                    j->weight) < 0)
            return -1;
    }
    return 0;
}
