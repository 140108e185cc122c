/* From a what-if document to an answer: see whatif.h. */
#include "config.h"

#include "whatif.h"

#include "declared.h"
#include "place.h"
#include "strict.h"
#include "tables.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EFFORT 1e8 /* nobody waits for a what-if: a hundred times what the controller spends */

static const struct doc_rule node_rules[] = {
    {"name", DOC_TEXT, true, NULL},       {"topology", DOC_TEXT, false, NULL},
    {"synthetic", DOC_TEXT, false, NULL}, {"reserved_cpus", DOC_TEXT, false, NULL},
    {"pool_cpus", DOC_TEXT, false, NULL}, {NULL, 0, false, NULL},
};

static const struct doc_rule member_rules[] = {
    {"id", DOC_TEXT, true, NULL},
    {"job", DOC_TEXT, false, NULL},
    {"node", DOC_TEXT, true, NULL},
    {"own_cpus", DOC_TEXT, true, NULL},
    {"held_cpus", DOC_TEXT, false, NULL},
    {"tasks", DOC_NUMBER, false, NULL},
    {"gpus", DOC_TEXTS, false, NULL},
    {"weight", DOC_NUMBER, false, NULL},
    {"curve_samples_per_s", DOC_NUMBERS, false, NULL},
    {"gpu_rate", DOC_NUMBER, false, NULL},
    {"core_rate", DOC_NUMBER, false, NULL},
    {"beta", DOC_NUMBER, false, NULL},
    {"io_rate", DOC_NUMBER, false, NULL},
    {"model", DOC_TEXT, false, NULL},
    {"batch", DOC_NUMBER, false, NULL},
    {"gpu", DOC_TEXT, false, NULL},
    {"precision", DOC_TEXT, false, NULL},
    {"workers_min", DOC_NUMBER, false, NULL},
    {"workers_max", DOC_NUMBER, false, NULL},
    {"uncertainty", DOC_NUMBER, false, NULL},
    {"sample_bytes", DOC_NUMBER, false, NULL},
    {"work_samples", DOC_NUMBER, false, NULL},
    {NULL, 0, false, NULL},
};

static const struct doc_rule rules[] = {
    {"policy", DOC_TEXT, false, NULL},
    {"guarantee", DOC_TEXT, false, NULL},
    {"main_cores_per_task", DOC_NUMBER, false, NULL},
    {"io_bytes_per_s", DOC_NUMBER, false, NULL},
    {"min_gain", DOC_NUMBER, false, NULL},
    {"nodes", DOC_OBJECTS, true, node_rules},
    {"members", DOC_OBJECTS, true, member_rules},
    {NULL, 0, false, NULL},
};

/* Everything that reading needs at hand. */
struct reading {
    struct whatif *w;
    struct pred_tables tables;
    const char *folder;
    bool tables_read;
    struct json_object *node_index, *job_index, *ids; /* name -> number */
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct reading *r, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    if (vsnprintf(r->error, r->error_size, format, ap) < 0)
        r->error[0] = '\0';
    va_end(ap);
    return false;
}

static bool no_memory(struct reading *r)
{
    return refuse(r, "not enough memory");
}

/* ---- small values -------------------------------------------------------------------------- */

static bool read_cpus(struct reading *r, struct json_object *object, const char *key,
                      const char *whose, struct cpus *set)
{
    const char *text = doc_text(object, key);

    if (text == NULL || cpus_parse(set, text) == 0)
        return true;
    return refuse(r, "%s: %s \"%.64s\" is not a list of CPUs like \"0-3,8\"", whose, key, text);
}

/* A number within bounds, or the default where it is absent. */
static bool read_number(struct reading *r, struct json_object *object, const char *key,
                        const char *whose, double min, double max, double *value)
{
    double number = doc_number(object, key);

    if (isnan(number))
        return true;
    if (!(number >= min && number <= max))
        return refuse(r, "%s: %s is %g, but has to be from %g to %g", whose, key, number, min, max);
    *value = number;
    return true;
}

static bool read_count(struct reading *r, struct json_object *object, const char *key,
                       const char *whose, double min, double max, unsigned *value)
{
    double number = *value;

    if (!read_number(r, object, key, whose, min, max, &number))
        return false;
    if (number != floor(number))
        return refuse(r, "%s: %s is %g, but has to be whole", whose, key, number);
    *value = (unsigned)number;
    return true;
}

/* Where name stands in the map; adds it as next where it is new. -1: no memory. */
static long intern(struct json_object *map, const char *name, size_t next, bool *fresh)
{
    struct json_object *known = NULL;

    *fresh = !json_object_object_get_ex(map, name, &known);
    if (!*fresh)
        return (long)json_object_get_int64(known);
    return json_object_object_add(map, name, json_object_new_int64((int64_t)next)) == 0 ? (long)next
                                                                                        : -1;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static bool read_topology(struct reading *r, struct json_object *object, struct whatif_node *node)
{
    const char *file = doc_text(object, "topology"), *synthetic = doc_text(object, "synthetic");
    char error[512] = "";

    if (file != NULL && synthetic != NULL)
        return refuse(r, "node %.64s has both a topology and a synthetic one", node->name);
    if (file != NULL)
        node->topo = topo_from_xml_file(file, error, sizeof(error));
    else if (synthetic != NULL)
        node->topo = topo_from_synthetic(synthetic, error, sizeof(error));
    else
        return true;
    if (node->topo == NULL)
        return refuse(r, "node %.64s: %s", node->name, error);
    node->described = true;
    return true;
}

static bool read_node(struct reading *r, struct json_object *object, size_t index)
{
    struct whatif_node *node = &r->w->nodes[index];
    bool fresh;

    node->name = doc_text(object, "name");
    if (intern(r->node_index, node->name, index, &fresh) < 0)
        return no_memory(r);
    if (!fresh)
        return refuse(r, "there are two nodes %.64s", node->name);
    return read_cpus(r, object, "reserved_cpus", node->name, &node->reserved) &&
           read_cpus(r, object, "pool_cpus", node->name, &node->extra) &&
           read_topology(r, object, node);
}

/* ---- curves -------------------------------------------------------------------------------- */

static bool read_curve_values(struct reading *r, struct json_object *values,
                              struct whatif_member *m, double gpu_rate)
{
    size_t n = doc_count(values);
    double best = 0;

    if (n == 0 || n > PRED_CORES_MAX + 1)
        return refuse(r, "%s: curve_samples_per_s needs 1 to %u values, not %zu", m->id,
                      PRED_CORES_MAX + 1, n);
    m->rate = calloc(n, sizeof(*m->rate));
    if (m->rate == NULL)
        return no_memory(r);
    m->nrate = (unsigned)n;
    for (size_t c = 0; c < n; c++) {
        m->rate[c] = doc_number_at(values, c);
        if (!(m->rate[c] >= 0 && m->rate[c] <= 1e15))
            return refuse(r, "%s: curve_samples_per_s[%zu] has to be 0 or more", m->id, c);
        best = fmax(best, m->rate[c]);
    }
    m->gpu_rate = isnan(gpu_rate) ? best : gpu_rate;
    if (!(m->gpu_rate > 0))
        return refuse(r, "%s: its curve is 0 everywhere, so that it needs a gpu_rate", m->id);
    if (m->gpu_rate < best)
        return refuse(r, "%s: its curve reaches %g, more than its gpu_rate %g", m->id, best,
                      m->gpu_rate);
    return true;
}

static bool apply_tables(struct reading *r, struct json_object *object,
                         const struct whatif_member *m, struct pred_job *job)
{
    const char *model_name = doc_text(object, "model"), *gpu_name = doc_text(object, "gpu");
    const char *precision_name = doc_text(object, "precision");
    const struct pred_model *model = NULL;
    const struct pred_gpu *gpu = NULL;
    int precision = -1;
    char near[256] = "";

    if (model_name == NULL || gpu_name == NULL)
        return refuse(r, "%s: model and gpu belong together", m->id);
    if (!r->tables_read && pred_tables_read(&r->tables, r->folder, r->error, r->error_size) < 0)
        return false;
    r->tables_read = true;
    model = pred_tables_model(&r->tables, model_name);
    if (model == NULL) {
        pred_tables_near_models(&r->tables, model_name, near, sizeof(near));
        return refuse(r, "%s: there is no model %.64s%s%s", m->id, model_name,
                      near[0] != '\0' ? "; near it are " : "", near);
    }
    gpu = pred_tables_gpu(&r->tables, gpu_name);
    if (gpu == NULL) {
        pred_tables_near_gpus(&r->tables, gpu_name, near, sizeof(near));
        return refuse(r, "%s: there is no GPU %.64s%s%s", m->id, gpu_name,
                      near[0] != '\0' ? "; near it are " : "", near);
    }
    precision = precision_name != NULL ? pred_precision_parse(precision_name)
                                       : (int)pred_gpu_precision(gpu);
    /* with what is usual for the loader of such a model */
    if (precision < 0 || !pred_declare(&(struct pred_declared){.model = model,
                                                               .gpu = gpu,
                                                               .gpus = m->ngpus,
                                                               .precision = precision},
                                       job))
        return refuse(r, "%s: a %.64s does not compute in that precision", m->id, gpu_name);
    return true;
}

/* From gpu_rate, core_rate, .. or from a model: the predictor's curve of what is declared. */
static bool predict_curve(struct reading *r, struct json_object *object, struct whatif_member *m,
                          double gpu_rate)
{
    struct pred_job job;
    struct pred_curve curve;
    double core_rate = NAN, beta = NAN, io_rate = NAN;
    unsigned batch = 0, workers_max = 0, pool = cpus_count(&r->w->nodes[m->node].pool);

    pred_job_init(&job);
    if (!read_number(r, object, "core_rate", m->id, 1e-9, 1e12, &core_rate) ||
        !read_number(r, object, "beta", m->id, 0, 10, &beta) ||
        !read_number(r, object, "io_rate", m->id, 1e-9, 1e12, &io_rate) ||
        !read_count(r, object, "batch", m->id, 1, 1e6, &batch) ||
        !read_count(r, object, "workers_max", m->id, 1, 65536, &workers_max))
        return false;
    if (doc_text(object, "model") != NULL || doc_text(object, "gpu") != NULL) {
        if (!isnan(gpu_rate))
            return refuse(r, "%s: give a model or a gpu_rate, not both", m->id);
        if (!apply_tables(r, object, m, &job))
            return false;
    } else if (isnan(gpu_rate) || isnan(core_rate)) {
        return refuse(r,
                      "%s: its curve is unknown; give curve_samples_per_s, or gpu_rate and "
                      "core_rate, or model, batch and gpu",
                      m->id);
    }
    job.batch = batch;
    job.gpus = job.gpus_total = m->ngpus;
    job.nodes = 1;
    job.gpu_rate.value = gpu_rate;
    if (!isnan(core_rate))
        job.core_rate.value = core_rate;
    if (!isnan(beta))
        job.beta.value = beta;
    job.workers_max = workers_max;
    if (!isnan(io_rate)) {
        job.sample_bytes = 1;
        job.cache_hit = 0;
        job.io_bytes_per_s = io_rate;
    }
    if (pred_curve_static(&job, pool < PRED_CORES_MAX ? pool : PRED_CORES_MAX, &curve) < 0)
        return refuse(r, "%s: no curve can be made of what is declared: %s", m->id,
                      strerror(errno));
    m->rate = curve.rate;
    m->nrate = curve.ncores + 1;
    m->gpu_rate = curve.gpu_rate;
    curve.rate = NULL;
    pred_curve_free(&curve);
    return true;
}

static bool read_curve(struct reading *r, struct json_object *object, struct whatif_member *m)
{
    static const char *const others[] = {"core_rate", "beta", "io_rate", "model", "batch", "gpu"};
    struct json_object *values = doc_member(object, "curve_samples_per_s");
    double gpu_rate = NAN;

    if (!read_number(r, object, "gpu_rate", m->id, 1e-9, 1e15, &gpu_rate))
        return false;
    if (values == NULL)
        return predict_curve(r, object, m, gpu_rate);
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (doc_member(object, others[i]) != NULL)
            return refuse(r, "%s: its curve is given as values, so %s has no meaning", m->id,
                          others[i]);
    return read_curve_values(r, values, m, gpu_rate);
}

/* ---- members ------------------------------------------------------------------------------- */

static bool read_gpus(struct reading *r, struct json_object *list, struct whatif_member *m)
{
    const struct whatif_node *node = &r->w->nodes[m->node];

    for (size_t i = 0; i < doc_count(list); i++) {
        const char *name = doc_text_at(list, i);
        const struct topo_gpu *gpu;

        if (name == NULL)
            return refuse(r, "%s: gpus[%zu] is null", m->id, i);
        m->ngpus++;
        if (!node->described || node->topo->ngpus == 0)
            continue; /* its place stays unknown */
        gpu = topo_gpu(node->topo, name);
        if (gpu == NULL)
            return refuse(r, "%s: node %.64s has no GPU %.64s", m->id, node->name, name);
        if (cpus_or(&m->near, &gpu->local) < 0)
            return no_memory(r);
    }
    if (m->ngpus == 0)
        m->ngpus = 1;
    return true;
}

static bool take_own(struct reading *r, struct whatif_member *m)
{
    struct whatif_node *node = &r->w->nodes[m->node];

    if (cpus_is_empty(&m->own))
        return refuse(r, "%s owns no CPU", m->id);
    for (long c = cpus_next(&m->own, 0); node->described && c >= 0;
         c = cpus_next(&m->own, (unsigned long)c + 1))
        if (topo_pu(node->topo, (unsigned)c) == NULL)
            return refuse(r, "%s: node %.64s has no CPU %ld", m->id, node->name, c);
    if (cpus_intersects(&m->own, &node->owned)) {
        cpus_and(&node->owned, &m->own);
        return refuse(r, "%s: CPU %ld of node %.64s is owned by another member", m->id,
                      cpus_next(&node->owned, 0), node->name);
    }
    return cpus_or(&node->owned, &m->own) == 0 || no_memory(r);
}

static bool read_member(struct reading *r, struct json_object *object, size_t index)
{
    struct whatif_member *m = &r->w->members[index];
    struct json_object *node = NULL;
    const char *node_name = doc_text(object, "node");
    long job;
    bool fresh;

    m->id = doc_text(object, "id");
    m->job = doc_text(object, "job") != NULL ? doc_text(object, "job") : m->id;
    m->tasks = 1;
    if (strlen(m->id) > 256 || intern(r->ids, m->id, index, &fresh) < 0)
        return refuse(r, "members[%zu]: its id is too long", index);
    if (!fresh)
        return refuse(r, "there are two members %.64s", m->id);
    job = intern(r->job_index, m->job, r->w->njobs, &fresh);
    if (job < 0)
        return no_memory(r);
    r->w->njobs += fresh;
    m->job_index = (unsigned)job;
    if (!json_object_object_get_ex(r->node_index, node_name, &node))
        return refuse(r, "%s: there is no node %.64s", m->id, node_name);
    m->node = (unsigned)json_object_get_int64(node);
    m->held_given = doc_text(object, "held_cpus") != NULL;
    return read_cpus(r, object, "own_cpus", m->id, &m->own) &&
           read_cpus(r, object, "held_cpus", m->id, &m->held) &&
           read_count(r, object, "tasks", m->id, 1, 65536, &m->tasks) &&
           read_gpus(r, doc_member(object, "gpus"), m) && take_own(r, m);
}

/* Main cores, claims and pools, once all owners are known. */
static bool divide_node(struct reading *r, unsigned index)
{
    struct whatif *w = r->w;
    struct whatif_node *node = &w->nodes[index];

    if (node->topo == NULL) {
        struct cpus all = CPUS_EMPTY;

        if (cpus_copy(&all, &node->owned) < 0 || cpus_or(&all, &node->extra) < 0)
            return no_memory(r);
        node->topo = topo_flat(&all);
        cpus_free(&all);
        if (node->topo == NULL)
            return no_memory(r);
    }
    if (cpus_copy(&node->pool, &node->extra) < 0)
        return no_memory(r);
    for (size_t k = 0; k < node->nmembers; k++) {
        struct whatif_member *m = &w->members[w->by_node[node->first + k]];

        if (cpus_copy(&m->claim, &m->own) < 0)
            return no_memory(r);
        cpus_andnot(&m->claim, &node->reserved);
        if (place_main(node->topo, &m->claim, w->main_cores_per_task * m->tasks, &m->near,
                       &node->main, false, &m->main) < 0 ||
            cpus_or(&node->main, &m->main) < 0)
            return no_memory(r);
        cpus_andnot(&m->claim, &m->main);
        if (cpus_or(&node->pool, &m->claim) < 0 ||
            (!m->held_given && cpus_copy(&m->held, &m->claim) < 0))
            return no_memory(r);
    }
    cpus_andnot(&node->pool, &node->reserved);
    cpus_andnot(&node->pool, &node->main);
    return true;
}

static bool fill_input(struct reading *r, struct json_object *object, size_t index)
{
    struct whatif_member *m = &r->w->members[index];
    struct alloc_member *a = &r->w->input[index];

    if (!read_curve(r, object, m))
        return false;
    cpus_and(&m->held, &r->w->nodes[m->node].pool);
    *a = (struct alloc_member){.job = m->job_index,
                               .node = m->node,
                               .own = cpus_count(&m->claim),
                               .now = cpus_count(&m->held),
                               .weight = 1,
                               .gpus = m->ngpus,
                               .rate = m->rate,
                               .nrate = m->nrate,
                               .gpu_rate = m->gpu_rate,
                               .work = NAN};
    if (!read_number(r, object, "weight", m->id, 1e-6, 1e6, &a->weight) ||
        !read_number(r, object, "uncertainty", m->id, 0, 10, &a->uncertainty) ||
        !read_number(r, object, "sample_bytes", m->id, 0, 1e15, &a->sample_bytes) ||
        !read_number(r, object, "work_samples", m->id, 0, 1e18, &a->work) ||
        !read_count(r, object, "workers_min", m->id, 0, 65536, &a->min) ||
        !read_count(r, object, "workers_max", m->id, 1, 65536, &a->max))
        return false;
    if (a->max != 0 && a->min > a->max)
        return refuse(r, "%s: workers_min %u is more than workers_max %u", m->id, a->min, a->max);
    return true;
}

/* ---- the document -------------------------------------------------------------------------- */

static bool read_rules(struct reading *r)
{
    struct json_object *document = r->w->document;
    const char *policy = doc_text(document, "policy"), *guarantee = doc_text(document, "guarantee");
    int p = policy != NULL ? alloc_policy_parse(policy) : ALLOC_GPU_BUSY;
    int g = guarantee != NULL ? alloc_guarantee_parse(guarantee) : ALLOC_GUARANTEE_OWN;

    if (p < 0)
        return refuse(r,
                      "policy \"%.64s\": it has to be gpu-busy, nash, max-min, makespan, even or "
                      "static",
                      policy);
    if (g < 0)
        return refuse(r, "guarantee \"%.64s\": it has to be own, even or none", guarantee);
    r->w->policy = (enum alloc_policy)p;
    r->w->guarantee = (enum alloc_guarantee)g;
    r->w->main_cores_per_task = 1;
    r->w->io_bytes_per_s = NAN;
    return read_count(r, document, "main_cores_per_task", "document", 0, 1024,
                      &r->w->main_cores_per_task) &&
           read_number(r, document, "io_bytes_per_s", "document", 1, 1e18, &r->w->io_bytes_per_s) &&
           read_number(r, document, "min_gain", "document", 0, 10, &r->w->min_gain);
}

/* Loaders that run now do so on different CPUs. */
static bool check_held(struct reading *r, const struct whatif_node *node)
{
    struct cpus seen = CPUS_EMPTY;
    bool good = true;

    for (size_t k = 0; k < node->nmembers && good; k++) {
        const struct whatif_member *m = &r->w->members[r->w->by_node[node->first + k]];

        if (cpus_intersects(&seen, &m->held))
            good = refuse(r, "%s: some of its held_cpus are held by another member", m->id);
        else
            good = cpus_or(&seen, &m->held) == 0 || no_memory(r);
    }
    cpus_free(&seen);
    return good;
}

/* List members node by node, in the document's order on each. */
static bool sort_by_node(struct reading *r)
{
    struct whatif *w = r->w;
    size_t next = 0;

    w->by_node = calloc(w->nmembers + 1, sizeof(*w->by_node));
    if (w->by_node == NULL)
        return no_memory(r);
    for (size_t i = 0; i < w->nmembers; i++)
        w->nodes[w->members[i].node].nmembers++;
    for (size_t n = 0; n < w->nnodes; n++) {
        w->nodes[n].first = next;
        next += w->nodes[n].nmembers;
        w->nodes[n].nmembers = 0;
    }
    for (size_t i = 0; i < w->nmembers; i++) {
        struct whatif_node *node = &w->nodes[w->members[i].node];

        w->by_node[node->first + node->nmembers++] = i;
    }
    return true;
}

static bool read_all(struct reading *r)
{
    struct whatif *w = r->w;
    struct json_object *nodes = doc_member(w->document, "nodes");
    struct json_object *members = doc_member(w->document, "members");

    w->nnodes = doc_count(nodes);
    w->nmembers = doc_count(members);
    w->nodes = calloc(w->nnodes + 1, sizeof(*w->nodes));
    w->members = calloc(w->nmembers + 1, sizeof(*w->members));
    w->input = calloc(w->nmembers + 1, sizeof(*w->input));
    w->result.cores = calloc(w->nmembers + 1, sizeof(*w->result.cores));
    r->node_index = json_object_new_object();
    r->job_index = json_object_new_object();
    r->ids = json_object_new_object();
    if (w->nodes == NULL || w->members == NULL || w->input == NULL || w->result.cores == NULL ||
        r->node_index == NULL || r->job_index == NULL || r->ids == NULL)
        return no_memory(r);
    if (!read_rules(r))
        return false;
    for (size_t n = 0; n < w->nnodes; n++)
        if (!read_node(r, doc_at(nodes, n), n))
            return false;
    for (size_t i = 0; i < w->nmembers; i++)
        if (!read_member(r, doc_at(members, i), i))
            return false;
    if (!sort_by_node(r))
        return false;
    for (unsigned n = 0; n < w->nnodes; n++)
        if (!divide_node(r, n))
            return false;
    for (size_t i = 0; i < w->nmembers; i++)
        if (!fill_input(r, doc_at(members, i), i))
            return false;
    for (size_t n = 0; n < w->nnodes; n++)
        if (!check_held(r, &w->nodes[n]))
            return false;
    return true;
}

struct whatif *whatif_read(const char *text, size_t length, const char *tables, char *error,
                           size_t error_size)
{
    struct reading r = {.folder = tables, .error = error, .error_size = error_size};
    bool good;

    r.w = calloc(1, sizeof(*r.w));
    if (r.w == NULL) {
        (void)no_memory(&r);
        return NULL;
    }
    r.w->document = strict_parse(text, length, rules, error, error_size);
    good = r.w->document != NULL && read_all(&r);
    json_object_put(r.node_index);
    json_object_put(r.job_index);
    json_object_put(r.ids);
    pred_tables_free(&r.tables);
    if (good)
        return r.w;
    whatif_free(r.w);
    return NULL;
}

void whatif_free(struct whatif *w)
{
    if (w == NULL)
        return;
    for (size_t n = 0; w->nodes != NULL && n < w->nnodes; n++) {
        struct whatif_node *node = &w->nodes[n];

        topo_free(node->topo);
        cpus_free(&node->reserved);
        cpus_free(&node->extra);
        cpus_free(&node->owned);
        cpus_free(&node->main);
        cpus_free(&node->pool);
    }
    for (size_t i = 0; w->members != NULL && i < w->nmembers; i++) {
        struct whatif_member *m = &w->members[i];

        cpus_free(&m->own);
        cpus_free(&m->main);
        cpus_free(&m->claim);
        cpus_free(&m->held);
        cpus_free(&m->near);
        cpus_free(&m->cpus);
        free(m->rate);
    }
    free(w->by_node);
    free(w->nodes);
    free(w->members);
    free(w->input);
    free(w->result.cores);
    json_object_put(w->document);
    free(w);
}

/* ---- solving ------------------------------------------------------------------------------- */

/* A member's rate when all members of its job have these cores: the slowest holds the others. */
static void job_rates(const struct whatif *w, const unsigned *cores, size_t stride, double *share)
{
    for (size_t j = 0; j < w->njobs; j++)
        share[j] = INFINITY;
    for (size_t i = 0; i < w->nmembers; i++) {
        const struct whatif_member *m = &w->members[i];
        unsigned c = cores[i * stride];

        share[m->job_index] =
            fmin(share[m->job_index], m->rate[c < m->nrate ? c : m->nrate - 1] / m->gpu_rate);
    }
}

static int allocate(struct whatif *w, char *error, size_t error_size)
{
    struct alloc_node *pools = calloc(w->nnodes + 1, sizeof(*pools));
    unsigned *even = calloc(w->nmembers + 1, sizeof(*even));
    struct alloc_problem p = {.policy = w->policy,
                              .guarantee = w->guarantee,
                              .members = w->input,
                              .nmembers = w->nmembers,
                              .nodes = pools,
                              .nnodes = w->nnodes,
                              .njobs = w->njobs,
                              .io_bytes_per_s = w->io_bytes_per_s,
                              .effort = EFFORT,
                              .min_gain = w->min_gain};
    struct alloc_result even_result = {.cores = even};
    int rc = pools == NULL || even == NULL ? -1 : 0;

    for (size_t n = 0; rc == 0 && n < w->nnodes; n++)
        pools[n].pool = cpus_count(&w->nodes[n].pool);
    if (rc == 0)
        rc = alloc_solve(&p, &w->result, error, error_size);
    p.policy = ALLOC_EVEN;
    if (rc == 0)
        rc = alloc_solve(&p, &even_result, error, error_size);
    for (size_t i = 0; rc == 0 && i < w->nmembers; i++) {
        w->members[i].cores = w->result.cores[i];
        w->members[i].even_cores = even[i];
    }
    free(pools);
    free(even);
    return rc;
}

static int rate_members(struct whatif *w)
{
    double *share = calloc(3 * (w->njobs + 1), sizeof(*share));
    unsigned *cores = calloc(3 * (w->nmembers + 1), sizeof(*cores));

    if (share == NULL || cores == NULL) {
        free(share);
        free(cores);
        return -1;
    }
    for (size_t i = 0; i < w->nmembers; i++) {
        cores[3 * i] = w->members[i].cores;
        cores[3 * i + 1] = w->input[i].own;
        cores[3 * i + 2] = w->members[i].even_cores;
    }
    for (size_t k = 0; k < 3; k++)
        job_rates(w, cores + k, 3, share + k * w->njobs);
    for (size_t i = 0; i < w->nmembers; i++) {
        struct whatif_member *m = &w->members[i];
        double floor;

        m->rate_now = share[m->job_index] * m->gpu_rate;
        m->rate_own = share[w->njobs + m->job_index] * m->gpu_rate;
        m->rate_even = share[2 * w->njobs + m->job_index] * m->gpu_rate;
        floor = w->guarantee == ALLOC_GUARANTEE_EVEN ? m->rate_even : m->rate_own;
        m->floor_kept = m->rate_now >= floor * (1 - ALLOC_FLOOR_TOLERANCE - 1e-9);
    }
    free(share);
    free(cores);
    return 0;
}

static int place_node(struct whatif *w, const struct whatif_node *node)
{
    struct place_member *p = calloc(node->nmembers + 1, sizeof(*p));
    int rc;

    if (p == NULL)
        return -1;
    for (size_t k = 0; k < node->nmembers; k++) {
        const struct whatif_member *m = &w->members[w->by_node[node->first + k]];

        p[k] = (struct place_member){.job = m->job_index,
                                     .count = m->cores,
                                     .claim = m->claim,
                                     .held = m->held,
                                     .near = m->near};
    }
    rc = place_loaders(node->topo, &node->pool, p, node->nmembers);
    for (size_t k = 0; rc == 0 && k < node->nmembers; k++) {
        struct whatif_member *m = &w->members[w->by_node[node->first + k]];

        cpus_move(&m->cpus, &p[k].cpus);
        m->local = place_local_share(&m->cpus, &m->near);
    }
    free(p);
    return rc;
}

int whatif_solve(struct whatif *w, char *error, size_t error_size)
{
    if (allocate(w, error, error_size) < 0 || rate_members(w) < 0) {
        if (error[0] == '\0')
            snprintf(error, error_size, "not enough memory");
        return -1;
    }
    for (unsigned n = 0; n < w->nnodes; n++)
        if (place_node(w, &w->nodes[n]) < 0) {
            snprintf(error, error_size,
                     "node %.64s: its pool names CPUs that it does not have, or memory is short",
                     w->nodes[n].name);
            return -1;
        }
    return 0;
}
