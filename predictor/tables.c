/* See tables.h. */
#include "config.h"

#include "tables.h"

#include "names_near.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 1024
#define LINES_MAX      20000
#define FIELDS_MAX     16

#define USUAL_PASSES 30.0
#define LAUNCH_S                                                                                   \
    0.010 /* a step: some thousand kernels, about 10 us each from an eager framework               \
           */
#define OPTIMIZER_BYTES                                                                            \
    20.0 /* a parameter and step: gradient, momentum and weight read, two written */

struct field {
    const char *column;
    double low, high; /* numbers: bounds; high 0: text */
    bool may_lack;    /* "-" */
};

/* A file being read: one row at a time, split in place. */
struct reader {
    FILE *file;
    const char *name;
    unsigned line;
    const struct field *fields;
    unsigned nfields;
    char text[LINE_MAX_BYTES];
    char *values[FIELDS_MAX];
    char *error;
    size_t error_size;
};

static int complain(struct reader *r, const char *what, const char *detail)
{
    snprintf(r->error, r->error_size, "%s:%u: %s%s%s", r->name, r->line, what,
             detail != NULL ? " " : "", detail != NULL ? detail : "");
    errno = EINVAL;
    return -1;
}

static char *trimmed(char *text)
{
    char *end;

    text += strspn(text, " \t");
    end = text + strlen(text);
    while (end > text && strchr(" \t\r\n", end[-1]) != NULL)
        *--end = '\0';
    return text;
}

/* 1: a row is in values; 0: the end; -1: error. */
static int next_row(struct reader *r)
{
    while (fgets(r->text, sizeof(r->text), r->file) != NULL) {
        char *p = r->text;
        unsigned n = 0;

        if (++r->line > LINES_MAX)
            return complain(r, "too many lines", NULL);
        if (strchr(r->text, '\n') == NULL && !feof(r->file))
            return complain(r, "the line is too long", NULL);
        if (*trimmed(p) == '\0' || *(p + strspn(p, " \t")) == '#')
            continue;
        for (char *value; (value = strsep(&p, ",")) != NULL;) {
            if (n == r->nfields)
                return complain(r, "too many fields, the line ends with", r->fields[n - 1].column);
            r->values[n++] = trimmed(value);
        }
        if (n < r->nfields)
            return complain(r, "a field is missing:", r->fields[n].column);
        return 1;
    }
    return ferror(r->file) ? complain(r, "cannot be read:", strerror(errno)) : 0;
}

static int check_head(struct reader *r)
{
    int rc = next_row(r);

    if (rc < 0)
        return -1;
    if (rc == 0)
        return complain(r, "empty, a line with the columns' names is needed", NULL);
    for (unsigned i = 0; i < r->nfields; i++)
        if (strcmp(r->values[i], r->fields[i].column) != 0)
            return complain(r, "this column has to be", r->fields[i].column);
    return 0;
}

static int number(struct reader *r, unsigned i, double *value)
{
    const struct field *f = &r->fields[i];
    char *end, text[160];

    if (f->may_lack && strcmp(r->values[i], "-") == 0) {
        *value = NAN;
        return 0;
    }
    *value = strtod(r->values[i], &end);
    if (end != r->values[i] && *end == '\0' && *value >= f->low && *value <= f->high)
        return 0;
    snprintf(text, sizeof(text), "%s has to be a number from %g to %g%s", f->column, f->low,
             f->high, f->may_lack ? ", or - for unknown" : "");
    return complain(r, text, NULL);
}

static int text_field(struct reader *r, unsigned i, char *out, size_t size)
{
    for (const char *p = r->values[i]; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p == 127 || *p == '"' || *p == '\\')
            return complain(r, "an odd character in", r->fields[i].column);
    if (snprintf(out, size, "%s", r->values[i]) >= (int)size)
        return complain(r, "too long:", r->fields[i].column);
    if (i == 0 && out[strspn(out, "-_. ")] == '\0')
        return complain(r, "a name is missing", NULL);
    return 0;
}

enum { M_NAME, M_GMACS, M_PARAMS, M_ACTS, M_PASSES, M_INPUT, M_SAMPLE, M_SOURCE, M_FIELDS };
static const struct field MODEL_FIELDS[M_FIELDS] = {
    {"name", 0, 0, false},       {"gmacs", 1e-9, 1e9, false}, {"params_m", 0, 1e8, false},
    {"acts_m", 1e-6, 1e9, true}, {"passes", 0, 1e4, true},    {"input", 0, 0, false},
    {"sample_kb", 0, 1e9, true}, {"source", 0, 0, false},
};

static int model_row(struct reader *r, struct pred_model *m)
{
    double gmacs, params, acts, kb;

    if (text_field(r, M_NAME, m->name, sizeof(m->name)) != 0 || number(r, M_GMACS, &gmacs) != 0 ||
        number(r, M_PARAMS, &params) != 0 || number(r, M_ACTS, &acts) != 0 ||
        number(r, M_PASSES, &m->passes) != 0 ||
        text_field(r, M_INPUT, m->input, sizeof(m->input)) != 0 || number(r, M_SAMPLE, &kb) != 0 ||
        text_field(r, M_SOURCE, m->source, sizeof(m->source)) != 0)
        return -1;
    m->flops_forward = 2e9 * gmacs;
    m->params = 1e6 * params;
    m->activations = 1e6 * acts;
    m->sample_bytes = 1e3 * kb;
    return 0;
}

enum {
    G_NAME,
    G_FP32,
    G_TF32,
    G_AMP,
    G_EFF,
    G_EFF_AMP,
    G_MEM,
    G_BUS,
    G_ALPHA,
    G_LINK,
    G_SOURCE,
    G_FIELDS
};
static const struct field GPU_FIELDS[G_FIELDS] = {
    {"name", 0, 0, false},         {"fp32", 1e-3, 1e6, false},   {"tf32", 1e-3, 1e6, true},
    {"amp", 1e-3, 1e6, true},      {"eff", 0.01, 1, false},      {"eff_amp", 0.01, 1, true},
    {"mem_gbs", 1e-3, 1e6, false}, {"bus_gbs", 1e-3, 1e6, true}, {"alpha_us", 0, 1e6, true},
    {"link", 0, 0, false},         {"source", 0, 0, false},
};

static int gpu_row(struct reader *r, struct pred_gpu *g)
{
    double fp32, tf32, amp, eff, eff_amp, mem, bus, alpha;

    if (text_field(r, G_NAME, g->name, sizeof(g->name)) != 0 || number(r, G_FP32, &fp32) != 0 ||
        number(r, G_TF32, &tf32) != 0 || number(r, G_AMP, &amp) != 0 ||
        number(r, G_EFF, &eff) != 0 || number(r, G_EFF_AMP, &eff_amp) != 0 ||
        number(r, G_MEM, &mem) != 0 || number(r, G_BUS, &bus) != 0 ||
        number(r, G_ALPHA, &alpha) != 0 ||
        text_field(r, G_LINK, g->link_name, sizeof(g->link_name)) != 0 ||
        text_field(r, G_SOURCE, g->source, sizeof(g->source)) != 0)
        return -1;
    g->flops_per_s[PRED_FP32] = 1e12 * fp32 * eff;
    g->flops_per_s[PRED_TF32] = 1e12 * tf32 * eff_amp;
    g->flops_per_s[PRED_AMP] = 1e12 * amp * eff_amp;
    g->memory_bytes_per_s = 1e9 * mem;
    g->link = (struct pred_link){1e-6 * alpha, 1e9 * bus};
    return 0;
}

static bool open_reader(struct reader *r, const char *file, const struct field *fields,
                        unsigned nfields, char *error, size_t size)
{
    *r = (struct reader){.file = fopen(file, "re"),
                         .name = file,
                         .fields = fields,
                         .nfields = nfields,
                         .error = error,
                         .error_size = size};
    if (r->file == NULL)
        snprintf(error, size, "%s: cannot be opened: %s", file, strerror(errno));
    return r->file != NULL;
}

/* Room for one more of `size` bytes in an array; false without memory or past the bound. */
static bool grow(void **array, size_t n, size_t *room, size_t size)
{
    size_t more = *room > 0 ? 2 * *room : 64;
    void *bigger;

    if (n < *room)
        return true;
    if (n >= PRED_ENTRIES_MAX)
        return false;
    bigger = realloc(*array, more * size);
    if (bigger == NULL)
        return false;
    *array = bigger;
    *room = more;
    return true;
}

static int put_model(struct pred_tables *t, const struct pred_model *m)
{
    void *models = t->models;

    for (size_t i = 0; i < t->nmodels; i++)
        if (pred_names_equal(t->models[i].name, m->name)) {
            t->models[i] = *m;
            return 0;
        }
    if (!grow(&models, t->nmodels, &t->models_room, sizeof(*m)))
        return -1;
    t->models = models;
    t->models[t->nmodels++] = *m;
    return 0;
}

static int put_gpu(struct pred_tables *t, const struct pred_gpu *g)
{
    void *gpus = t->gpus;

    for (size_t i = 0; i < t->ngpus; i++)
        if (pred_names_equal(t->gpus[i].name, g->name)) {
            t->gpus[i] = *g;
            return 0;
        }
    if (!grow(&gpus, t->ngpus, &t->gpus_room, sizeof(*g)))
        return -1;
    t->gpus = gpus;
    t->gpus[t->ngpus++] = *g;
    return 0;
}

/* Everything of `from` into `to`. */
static int merge(struct pred_tables *to, const struct pred_tables *from)
{
    for (size_t i = 0; i < from->nmodels; i++)
        if (put_model(to, &from->models[i]) != 0)
            return -1;
    for (size_t i = 0; i < from->ngpus; i++)
        if (put_gpu(to, &from->gpus[i]) != 0)
            return -1;
    return 0;
}

static int read_rows(struct reader *r, bool models, struct pred_tables *read)
{
    int rc = check_head(r);

    while (rc == 0 && (rc = next_row(r)) > 0) {
        struct pred_model m = {.name = ""};
        struct pred_gpu g = {.name = ""};

        if (models)
            rc = model_row(r, &m) != 0      ? -1
                 : put_model(read, &m) != 0 ? complain(r, "no room", NULL)
                                            : 0;
        else
            rc = gpu_row(r, &g) != 0      ? -1
                 : put_gpu(read, &g) != 0 ? complain(r, "no room", NULL)
                                          : 0;
    }
    return rc;
}

/* All or nothing: a file with an error changes nothing. */
static int read_file(struct pred_tables *tables, const char *file, bool models, char *error,
                     size_t size)
{
    struct pred_tables read = {0};
    struct reader r;
    int rc;

    if (!open_reader(&r, file, models ? MODEL_FIELDS : GPU_FIELDS, models ? M_FIELDS : G_FIELDS,
                     error, size))
        return -1;
    rc = read_rows(&r, models, &read);
    fclose(r.file);
    if (rc == 0 && merge(tables, &read) != 0)
        rc = complain(&r, "no room for all of it", NULL);
    pred_tables_free(&read);
    return rc;
}

int pred_tables_read_models(struct pred_tables *tables, const char *file, char *error, size_t size)
{
    return read_file(tables, file, true, error, size);
}

int pred_tables_read_gpus(struct pred_tables *tables, const char *file, char *error, size_t size)
{
    return read_file(tables, file, false, error, size);
}

int pred_tables_read(struct pred_tables *tables, const char *folder, char *error, size_t size)
{
    char path[4096];

    if (snprintf(path, sizeof(path), "%s/models.csv", folder) >= (int)sizeof(path)) {
        snprintf(error, size, "the folder's name is too long");
        errno = ENAMETOOLONG;
        return -1;
    }
    if (pred_tables_read_models(tables, path, error, size) != 0)
        return -1;
    snprintf(path, sizeof(path), "%s/gpus.csv", folder);
    return pred_tables_read_gpus(tables, path, error, size);
}

void pred_tables_free(struct pred_tables *tables)
{
    free(tables->models);
    free(tables->gpus);
    *tables = (struct pred_tables){0};
}

const struct pred_model *pred_tables_model(const struct pred_tables *tables, const char *name)
{
    for (size_t i = 0; i < tables->nmodels; i++)
        if (pred_names_equal(tables->models[i].name, name))
            return &tables->models[i];
    return NULL;
}

const struct pred_gpu *pred_tables_gpu(const struct pred_tables *tables, const char *name)
{
    for (size_t i = 0; i < tables->ngpus; i++)
        if (pred_names_equal(tables->gpus[i].name, name))
            return &tables->gpus[i];
    return NULL;
}

const struct pred_gpu *pred_tables_gpu_in(const struct pred_tables *tables, const char *name)
{
    const struct pred_gpu *best = NULL;

    for (size_t i = 0; i < tables->ngpus; i++)
        if (pred_names_contain(name, tables->gpus[i].name) &&
            (best == NULL || strlen(tables->gpus[i].name) > strlen(best->name)))
            best = &tables->gpus[i];
    return best;
}

void pred_tables_near_models(const struct pred_tables *tables, const char *name, char *text,
                             size_t size)
{
    struct pred_near near = {.wanted = name};

    for (size_t i = 0; i < tables->nmodels; i++)
        pred_near_offer(&near, tables->models[i].name);
    pred_near_print(&near, text, size);
}

void pred_tables_near_gpus(const struct pred_tables *tables, const char *name, char *text,
                           size_t size)
{
    struct pred_near near = {.wanted = name};

    for (size_t i = 0; i < tables->ngpus; i++)
        pred_near_offer(&near, tables->gpus[i].name);
    pred_near_print(&near, text, size);
}

static const char *const PRECISION_NAMES[PRED_PRECISIONS] = {"fp32", "tf32", "amp"};

int pred_precision_parse(const char *name)
{
    for (int p = 0; p < PRED_PRECISIONS; p++)
        if (strcmp(name, PRECISION_NAMES[p]) == 0)
            return p;
    return strcmp(name, "fp16") == 0 || strcmp(name, "bf16") == 0 ? PRED_AMP : -1;
}

const char *pred_precision_name(enum pred_precision precision)
{
    return PRECISION_NAMES[precision];
}

enum pred_precision pred_gpu_precision(const struct pred_gpu *gpu)
{
    return isnan(gpu->flops_per_s[PRED_TF32]) ? PRED_FP32 : PRED_TF32;
}

double pred_model_traffic(const struct pred_model *model, enum pred_precision precision)
{
    double passes = isnan(model->passes) ? USUAL_PASSES : model->passes;

    return model->activations * passes * (precision == PRED_AMP ? 2 : 4);
}

bool pred_tables_apply(const struct pred_model *model, const struct pred_gpu *gpu,
                       enum pred_precision precision, struct pred_job *job)
{
    if (model != NULL) {
        job->flops_forward = model->flops_forward;
        job->gradient_bytes = 4 * model->params;
        job->sample_bytes = model->sample_bytes;
    }
    if (gpu == NULL)
        return true;
    if (isnan(gpu->flops_per_s[precision]))
        return false;
    job->gpu_flops_per_s = gpu->flops_per_s[precision];
    job->in_node = gpu->link;
    job->step_overhead_s = LAUNCH_S;
    if (model != NULL) {
        job->sample_gpu_s = pred_model_traffic(model, precision) / gpu->memory_bytes_per_s;
        job->step_overhead_s += OPTIMIZER_BYTES * model->params / gpu->memory_bytes_per_s;
    }
    return true;
}
