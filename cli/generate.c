/*
 * A generator of series of jobs: named models, Poisson arrivals, load, cores a GPU. See trace.h.
 *
 * The curves are those that Synergy measured on one V100 with DALI (batch 512, enough memory;
 * OSDI 2022, github.com/msr-fiddle/synergy), by loader cores a GPU: for ResNet and MobileNet as the
 * fitted form (gpu_rate, core_rate, beta), for those that jump as points; for language and audio
 * models, which hardly load, as two or three points. "image" jobs are the first five.
 */
#include "config.h"

#include "trace.h"

#include "predictor.h"
#include "tables.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct model {
    const char *name;
    double gpu_rate, core_rate, beta; /* or */
    double points[13];                /* relative to the rate with 3 cores */
    double at_three;
    bool modest;
};

static const struct model models[] = {
    {"resnet18", 1920, 296, 0.050, {0}, 0, false},
    {"resnet50", 755, 262, 0.100, {0}, 0, false},
    {"mobilenet", 1118, 267, 0.055, {0}, 0, false},
    {"alexnet",
     0,
     0,
     0,
     {0, .30, .66, 1, 1.25, 1.53, 1.75, 1.83, 1.92, 2, 2.31, 2.63, 2.94},
     853,
     false},
    {"shufflenet",
     0,
     0,
     0,
     {0, .30, .66, 1, 1.25, 1.53, 1.75, 1.83, 1.92, 2, 2.3, 2.59, 2.89},
     833,
     false},
    {"deepspeech", 0, 0, 0, {0, .30, .66, 1}, 26, true},
    {"gnmt", 0, 0, 0, {0, 1, 1}, 100, true},
    {"transformer", 0, 0, 0, {0, 1, 1}, 100, true},
};
#define NMODELS (sizeof(models) / sizeof(*models))
#define NIMAGE  5u

/*
 * The families that the A-Dloader paper names. How fast a GPU trains them is the predictor's; that
 * one core loads 262 samples/s and cores hinder one another by 0.1 is what Synergy measured for
 * ResNet-50.
 */
static const char *const named[] = {"resnet18",        "resnet50",        "resnet101",
                                    "vgg16",           "mobilenet-v2",    "efficientnet-b0",
                                    "efficientnet-b3", "nasnet-a-mobile", "nasnet-a-large"};
#define NNAMED          (sizeof(named) / sizeof(*named))
#define NAMED_CORE_RATE 262.0
#define NAMED_BETA      0.1
#define NAMED_BATCH     64u

/* ---- random numbers ------------------------------------------------------------------------ */

uint64_t trace_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

double trace_uniform(uint64_t *state)
{
    return (double)(trace_random(state) >> 11) / 9007199254740992.0;
}

double trace_normal(uint64_t *state)
{
    double u = 1 - trace_uniform(state), v = trace_uniform(state);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v); /* Box and Muller */
}

static double exponential(uint64_t *state, double mean)
{
    return -mean * log(1 - trace_uniform(state));
}

/* ---- what is asked for --------------------------------------------------------------------- */

const char *trace_spec_usage(void)
{
    return "jobs=N,nodes=N,gpus=N,cores=N (of a node),load=X,hours=X,modest=SHARE,job_gpus=N,"
           "job_nodes=N,pool=all|running,seed=N,mix=measured|named,gpu=NAME,precision=NAME";
}

static int spec_key(struct trace_spec *spec, const char *key, const char *value)
{
    double number = 0;
    char *end;

    if (strcmp(key, "mix") == 0) {
        spec->mix = strcmp(value, "named") == 0 ? TRACE_MIX_NAMED : TRACE_MIX_MEASURED;
        return spec->mix == TRACE_MIX_NAMED || strcmp(value, "measured") == 0 ? 0 : -1;
    }
    if (strcmp(key, "gpu") == 0)
        return snprintf(spec->gpu, sizeof(spec->gpu), "%s", value) < (int)sizeof(spec->gpu) ? 0
                                                                                            : -1;
    if (strcmp(key, "precision") == 0)
        return snprintf(spec->precision, sizeof(spec->precision), "%s", value) <
                       (int)sizeof(spec->precision)
                   ? 0
                   : -1;
    if (strcmp(key, "pool") == 0) {
        spec->pool_all = strcmp(value, "all") == 0;
        return spec->pool_all || strcmp(value, "running") == 0 ? 0 : -1;
    }
    errno = 0;
    number = strtod(value, &end);
    if (end == value || *end != '\0' || errno != 0 || !(number >= 0 && number <= 1e9))
        return -1;
    {
        const struct {
            const char *name;
            unsigned *count;
            double *number;
            double min, max;
        } keys[] = {
            {"jobs", &spec->jobs, NULL, 1, TRACE_JOBS_MAX},
            {"nodes", &spec->nodes, NULL, 1, 100000},
            {"gpus", &spec->gpus, NULL, 1, 1024},
            {"cores", &spec->cores, NULL, 1, 4096},
            {"job_gpus", &spec->job_gpus, NULL, 1, 1024},
            {"job_nodes", &spec->job_nodes, NULL, 1, 1024},
            {"load", NULL, &spec->load, 0.01, 100},
            {"hours", NULL, &spec->hours, 0.001, 10000},
            {"modest", NULL, &spec->modest, 0, 1},
        };

        if (strcmp(key, "seed") == 0) {
            spec->seed = (uint64_t)number;
            return 0;
        }
        for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
            if (strcmp(keys[i].name, key) != 0)
                continue;
            if (!(number >= keys[i].min && number <= keys[i].max))
                return -1;
            if (keys[i].number != NULL)
                *keys[i].number = number;
            else
                *keys[i].count = (unsigned)number;
            return 0;
        }
    }
    return -1;
}

int trace_spec_parse(const char *text, struct trace_spec *spec, char *error, size_t error_size)
{
    char copy[512], *save = NULL;

    *spec = (struct trace_spec){.jobs = 100,
                                .nodes = 3,
                                .gpus = 4,
                                .cores = 28,
                                .job_gpus = 1,
                                .job_nodes = 1,
                                .load = 1,
                                .hours = 1,
                                .modest = 0.5,
                                .seed = 1,
                                .gpu = "v100",
                                .precision = "amp",
                                .pool_all = true};
    if (strlen(text) >= sizeof(copy)) {
        snprintf(error, error_size, "too long; known are %s", trace_spec_usage());
        return -1;
    }
    strcpy(copy, text); /* its length was checked */
    for (char *word = strtok_r(copy, ",", &save); word != NULL; word = strtok_r(NULL, ",", &save)) {
        char *value = strchr(word, '=');

        if (value != NULL)
            *value++ = '\0';
        if (value == NULL || spec_key(spec, word, value) < 0) {
            snprintf(error, error_size, "%.64s: not known or out of bounds; known are %s", word,
                     trace_spec_usage());
            return -1;
        }
    }
    if ((double)spec->nodes * spec->gpus > TRACE_GPUS_MAX || spec->cores < spec->gpus ||
        spec->job_gpus > spec->gpus || spec->job_nodes > spec->nodes) {
        snprintf(error, error_size,
                 "a node needs a core for each GPU, a job has to fit the machine, and there are at "
                 "most %u GPUs",
                 TRACE_GPUS_MAX);
        return -1;
    }
    return 0;
}

/* ---- making it ----------------------------------------------------------------------------- */

/* The predictor's curve of what stands in curve, for one GPU. */
static int predict_curve(struct trace_curve *curve, unsigned cores)
{
    struct pred_job job;
    struct pred_curve predicted;

    pred_job_init(&job);
    job.gpus = job.gpus_total = job.nodes = 1;
    job.gpu_rate.value = curve->gpu_rate;
    job.core_rate.value = curve->core_rate;
    job.beta.value = curve->beta;
    if (pred_curve_static(&job, cores, &predicted) < 0)
        return -1;
    curve->rate = predicted.rate;
    curve->nrate = predicted.ncores + 1;
    predicted.rate = NULL;
    pred_curve_free(&predicted);
    return 0;
}

static int measured_curve(const struct model *m, unsigned cores, struct trace_curve *curve)
{
    *curve = (struct trace_curve){.io_rate = NAN, .core_rate = NAN};
    snprintf(curve->name, sizeof(curve->name), "%s", m->name);
    if (m->core_rate > 0) {
        curve->gpu_rate = m->gpu_rate;
        curve->core_rate = m->core_rate;
        curve->beta = m->beta;
        return predict_curve(curve, cores);
    }
    curve->rate = calloc(13, sizeof(*curve->rate));
    if (curve->rate == NULL)
        return -1;
    for (unsigned c = 0; c < 13 && (c == 0 || m->points[c] > 0); c++) {
        curve->rate[curve->nrate++] = m->points[c] * m->at_three;
        curve->gpu_rate = fmax(curve->gpu_rate, curve->rate[c]);
    }
    return 0;
}

static int named_curve(const char *name, const struct trace_spec *spec,
                       const struct pred_tables *tables, struct trace_curve *curve, char *error,
                       size_t error_size)
{
    const struct pred_model *model = pred_tables_model(tables, name);
    const struct pred_gpu *gpu = pred_tables_gpu(tables, spec->gpu);
    int precision = pred_precision_parse(spec->precision);
    struct pred_curve alone;
    struct pred_job job;

    *curve = (struct trace_curve){.io_rate = NAN, .core_rate = NAMED_CORE_RATE, .beta = NAMED_BETA};
    snprintf(curve->name, sizeof(curve->name), "%s", name);
    pred_job_init(&job);
    if (model == NULL || gpu == NULL || precision < 0 ||
        !pred_tables_apply(model, gpu, (enum pred_precision)precision, &job)) {
        snprintf(error, error_size, "the tables do not say how fast a %s trains %s in %s",
                 spec->gpu, name, spec->precision);
        return -1;
    }
    job.gpus = job.gpus_total = job.nodes = 1;
    job.batch = NAMED_BATCH;
    job.core_rate.value = NAMED_CORE_RATE;
    if (pred_curve_static(&job, 1, &alone) < 0)
        return -1;
    curve->gpu_rate = alone.gpu_rate;
    pred_curve_free(&alone);
    return predict_curve(curve, spec->cores);
}

/* 1, 2, 4, .. up to most, each as likely. */
static unsigned power_of_two(uint64_t *state, unsigned most)
{
    unsigned choices = 1;

    while ((1u << choices) <= most)
        choices++;
    return 1u << (unsigned)(trace_uniform(state) * choices);
}

/* Where in the trace's curves a job's is: of the kind that the spec asks for. */
static unsigned choose_curve(const struct trace *t, const struct trace_spec *spec, uint64_t *state)
{
    bool modest = trace_uniform(state) < spec->modest;
    double at = trace_uniform(state);

    if (spec->mix == TRACE_MIX_NAMED)
        return (unsigned)(at * (double)t->ncurves);
    return modest ? NIMAGE + (unsigned)(at * ((double)NMODELS - NIMAGE)) : (unsigned)(at * NIMAGE);
}

static void make_jobs(struct trace *t, const struct trace_spec *spec)
{
    uint64_t state = spec->seed * 0x9e3779b97f4a7c15ULL + 1;
    double at = 0, gpu_seconds = 0, per_job;

    for (unsigned i = 0; i < spec->jobs; i++) {
        struct trace_job *job = &t->jobs[i];
        double seconds;

        snprintf(job->name, sizeof(job->name), "j%u", i);
        job->curve = choose_curve(t, spec, &state);
        job->nodes = power_of_two(&state, spec->job_nodes);
        job->gpus = power_of_two(&state, spec->job_gpus);
        job->weight = 1;
        /* neither all alike nor wild: half to twice the mean, as often above as below */
        seconds = spec->hours * 3600 * exp2(2 * trace_uniform(&state) - 1);
        job->work_samples = t->curves[job->curve].gpu_rate * job->nodes * job->gpus * seconds;
        gpu_seconds += seconds * job->nodes * job->gpus;
    }
    per_job = gpu_seconds / spec->jobs / (spec->nodes * spec->gpus) / spec->load;
    for (unsigned i = 0; i < spec->jobs; i++) {
        t->jobs[i].arrival_s = at;
        at += exponential(&state, per_job);
    }
    t->njobs = spec->jobs;
}

static int make_curves(struct trace *t, const struct trace_spec *spec,
                       const struct pred_tables *tables, char *error, size_t error_size)
{
    size_t n = spec->mix == TRACE_MIX_NAMED ? NNAMED : NMODELS;

    for (; t->ncurves < n; t->ncurves++) {
        struct trace_curve *curve = &t->curves[t->ncurves];
        int rc = spec->mix == TRACE_MIX_NAMED
                     ? named_curve(named[t->ncurves], spec, tables, curve, error, error_size)
                     : measured_curve(&models[t->ncurves], spec->cores, curve);

        if (rc < 0)
            return -1;
    }
    return 0;
}

struct trace *trace_generate(const struct trace_spec *spec, const struct pred_tables *tables,
                             char *error, size_t error_size)
{
    struct trace *t = calloc(1, sizeof(*t));

    snprintf(error, error_size, "not enough memory");
    if (t == NULL)
        return NULL;
    *t = (struct trace){.nnodes = spec->nodes,
                        .cores = spec->cores,
                        .gpus = spec->gpus,
                        .main_per_gpu = 1,
                        .pool_all = spec->pool_all};
    t->curves = calloc(NMODELS + NNAMED, sizeof(*t->curves));
    t->jobs = calloc(spec->jobs, sizeof(*t->jobs));
    if (t->curves == NULL || t->jobs == NULL ||
        make_curves(t, spec, tables, error, error_size) < 0) {
        trace_free(t);
        return NULL;
    }
    make_jobs(t, spec);
    return t;
}
