/*
 * loader-curve TABLE.csv [--json]
 *
 * From two measured points of each loader's curve, predicts the rest of it, and prints how far that
 * is off beside the linear model through the same points. TABLE.csv is either of
 *
 *     imread_dataloader_workers.csv       JPEG decoding by PyTorch workers; points at 1 and 2 of
 *                                         them (0 workers means the main process itself: 1 core)
 *     synergy_cpu_sensitivity_v100.csv    training rate over CPUs a GPU; points at 1 and 3; the
 * rate at most CPUs is taken as the GPU's, known to both models
 *
 * What two points leave open is taken from elsewhere, never from the curve that is predicted:
 * "alone": what is usual; "prior": the curves of all other machines (or models); "node": other
 * loaders on the same machine, whose ceiling in samples/s is this one's too, as a node's profile or
 * calibration would tell.
 */
#include "csv.h"
#include "loaderfit.h"
#include "terms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CURVES_MAX 512
#define POINTS_MAX 16
#define NAME_MAX   96

struct curve {
    char group[NAME_MAX], name[NAME_MAX]; /* what must not teach its own prior: the group */
    struct pred_loader_point points[POINTS_MAX];
    unsigned n;
    double gpu_rate; /* INFINITY: no GPU in it */
};

struct table {
    struct curve curves[CURVES_MAX];
    unsigned n;
    double second; /* cores of the second point; the first is 1 */
};

enum model { LINEAR, ALONE, PRIOR, NODE, NMODELS };
static const char *const NAME[NMODELS] = {"linear", "alone", "prior", "node"};

static struct curve *curve_of(struct table *t, const char *group, const char *name, double gpu_rate)
{
    for (unsigned i = 0; i < t->n; i++)
        if (strcmp(t->curves[i].group, group) == 0 && strcmp(t->curves[i].name, name) == 0)
            return &t->curves[i];
    if (t->n == CURVES_MAX)
        return NULL;
    t->curves[t->n] = (struct curve){.gpu_rate = gpu_rate};
    snprintf(t->curves[t->n].group, NAME_MAX, "%s", group);
    snprintf(t->curves[t->n].name, NAME_MAX, "%s", name);
    return &t->curves[t->n++];
}

static void add_point(struct curve *curve, double cores, double rate)
{
    if (curve != NULL && curve->n < POINTS_MAX && cores > 0 && rate > 0)
        curve->points[curve->n++] = (struct pred_loader_point){cores, rate};
}

static void read_workers(struct csv *csv, struct table *t)
{
    unsigned cpu = csv_need(csv, "cpu"), library = csv_need(csv, "library");
    unsigned workers = csv_need(csv, "num_workers"), rate = csv_need(csv, "images_per_s_mean");

    t->second = 2;
    while (csv_next(csv)) {
        struct curve *curve = curve_of(t, csv->fields[cpu], csv->fields[library], INFINITY);

        add_point(curve, fmax(1, csv_number(csv, workers)), csv_number(csv, rate));
    }
}

/* One- to four-GPU curves with enough memory; placeholders and language models, flat at any number
 * of CPUs, tell nothing (see the data's own description). */
static bool informative(const struct csv *csv, unsigned model, unsigned profile, unsigned memory)
{
    static const char *const FLAT[] = {"bert", "vae", "lstm", "gnmt", "transformer"};

    for (size_t i = 0; i < sizeof(FLAT) / sizeof(FLAT[0]); i++)
        if (strcmp(csv->fields[model], FLAT[i]) == 0)
            return false;
    return strcmp(csv->fields[profile], "models") == 0 && csv_number(csv, memory) == 250;
}

static void read_sensitivity(struct csv *csv, struct table *t)
{
    unsigned model = csv_need(csv, "model"), gpus = csv_need(csv, "gpus");
    unsigned profile = csv_need(csv, "profile_dir"), cpus = csv_need(csv, "cpus_per_gpu");
    unsigned memory = csv_need(csv, "mem_gb_per_gpu"), rate = csv_need(csv, "norm_throughput");

    t->second = 3;
    while (csv_next(csv)) {
        char name[NAME_MAX];

        if (!informative(csv, model, profile, memory))
            continue;
        snprintf(name, sizeof(name), "%s GPUs", csv->fields[gpus]);
        add_point(curve_of(t, csv->fields[model], name, INFINITY), csv_number(csv, cpus),
                  csv_number(csv, rate));
    }
    for (unsigned i = 0; i < t->n; i++) {
        struct curve *curve = &t->curves[i];

        curve->gpu_rate = 0;
        for (unsigned k = 0; k < curve->n; k++)
            curve->gpu_rate = fmax(curve->gpu_rate, curve->points[k].rate);
    }
}

static bool is_given(const struct table *t, const struct pred_loader_point *point)
{
    return point->cores == 1 || point->cores == t->second;
}

static unsigned given(const struct table *t, const struct curve *curve,
                      struct pred_loader_point *two)
{
    unsigned n = 0;

    for (unsigned k = 0; k < curve->n && n < 2; k++)
        if (is_given(t, &curve->points[k]))
            two[n++] = curve->points[k];
    return n;
}

/* Where the GPU limits the rate the loader's own is not to be seen. */
static unsigned loader_points(const struct curve *curve, struct pred_loader_point *seen)
{
    unsigned n = 0;

    for (unsigned k = 0; k < curve->n; k++)
        if (curve->points[k].rate < 0.97 * curve->gpu_rate)
            seen[n++] = curve->points[k];
    return n;
}

/* A prior from the curves of all other groups, each fitted on all its points. */
static void learn_prior(const struct table *t, const char *except, struct pred_loader_prior *prior)
{
    static struct pred_loader loaders[CURVES_MAX];
    struct pred_loader_prior wide;
    size_t n = 0;

    pred_loader_prior_init(&wide);
    for (unsigned i = 0; i < t->n; i++) {
        struct pred_loader_point seen[POINTS_MAX];
        unsigned points = loader_points(&t->curves[i], seen);

        if (strcmp(t->curves[i].group, except) == 0 || points < 3)
            continue;
        if (pred_loader_fit(seen, points, &wide, &loaders[n]) == 0)
            n++;
    }
    pred_loader_prior_init(prior);
    pred_loader_prior_learn(prior, loaders, n);
}

/* A prior that knows the node: the ceilings of its other loaders. False where there are none. */
static bool learn_node(const struct table *t, const struct curve *curve, double core_rate,
                       struct pred_loader_prior *prior)
{
    struct pred_loader_prior wide;
    double sum = 0;
    unsigned n = 0;

    pred_loader_prior_init(&wide);
    for (unsigned i = 0; i < t->n; i++) {
        struct pred_loader loader;
        struct pred_loader_point seen[POINTS_MAX];
        unsigned points = loader_points(&t->curves[i], seen);

        if (&t->curves[i] == curve || strcmp(t->curves[i].group, curve->group) != 0 || points < 3 ||
            pred_loader_fit(seen, points, &wide, &loader) != 0)
            continue;
        sum += log(loader.ceiling);
        n++;
    }
    if (n == 0)
        return false;
    prior->log_ceiling = sum / n - log(core_rate);
    prior->log_ceiling_sd = 0.2;
    return true;
}

struct off {
    double mean, worst; /* of |predicted / measured - 1| over the points not given */
};

static struct off linear_off(const struct table *t, const struct curve *curve,
                             const struct pred_loader_point *two)
{
    double core = two[0].rate / two[0].cores;
    struct off off = {0, 0};
    unsigned n = 0;

    for (unsigned k = 0; k < curve->n; k++) {
        double rate = fmin(curve->gpu_rate, core * curve->points[k].cores), wrong;

        if (is_given(t, &curve->points[k]))
            continue;
        wrong = fabs(rate / curve->points[k].rate - 1);
        off.mean += wrong;
        off.worst = fmax(off.worst, wrong);
        n++;
    }
    off.mean /= n;
    return off;
}

static struct off fitted_off(const struct table *t, const struct curve *curve,
                             const struct pred_loader_point *two,
                             const struct pred_loader_prior *prior)
{
    struct pred_loader_point seen[2];
    struct pred_loader loader;
    struct off off = {0, 0};
    unsigned n = 0, nseen = 0;

    for (unsigned k = 0; k < 2; k++)
        if (two[k].rate < 0.97 * curve->gpu_rate || k == 0)
            seen[nseen++] = two[k];
    if (pred_loader_fit(seen, nseen, prior, &loader) != 0)
        return (struct off){NAN, NAN};
    for (unsigned k = 0; k < curve->n; k++) {
        double rate = pred_loader_at(&loader, curve->points[k].cores), wrong;

        if (is_given(t, &curve->points[k]))
            continue;
        if (isfinite(curve->gpu_rate))
            rate = pred_knee(curve->gpu_rate, rate, PRED_KNEE_DEPTH);
        wrong = fabs(rate / curve->points[k].rate - 1);
        off.mean += wrong;
        off.worst = fmax(off.worst, wrong);
        n++;
    }
    off.mean /= n;
    return off;
}

static void print_curve(const struct curve *curve, const struct off *off, bool json, bool first)
{
    if (json) {
        printf("%s\n  {\"group\": \"%s\", \"curve\": \"%s\"", first ? "" : ",", curve->group,
               curve->name);
        for (unsigned m = 0; m < NMODELS; m++)
            printf(", \"%s\": {\"mean_abs_error_percent\": %.2f, \"worst_percent\": %.2f}", NAME[m],
                   100 * off[m].mean, 100 * off[m].worst);
        printf("}");
        return;
    }
    printf("%-28.28s %-14.14s", curve->group, curve->name);
    for (unsigned m = 0; m < NMODELS; m++)
        printf("   %6.1f %6.1f", 100 * off[m].mean, 100 * off[m].worst);
    printf("\n");
}

static void evaluate(const struct table *t, bool json)
{
    struct off sum[NMODELS] = {{0, 0}};
    unsigned counted = 0;

    if (json)
        printf("{\"curves\": [");
    else
        printf("error of the points not given, %%: mean and worst of |predicted / measured - 1|\n"
               "%-28s %-14s   %13s   %13s   %13s   %13s\n",
               "", "", "linear", "alone", "prior", "node");
    for (unsigned i = 0; i < t->n; i++) {
        const struct curve *curve = &t->curves[i];
        struct pred_loader_point two[2];
        struct pred_loader_prior prior;
        struct off off[NMODELS];

        if (given(t, curve, two) < 2 || curve->n < 3)
            continue;
        off[LINEAR] = linear_off(t, curve, two);
        pred_loader_prior_init(&prior);
        off[ALONE] = fitted_off(t, curve, two, &prior);
        learn_prior(t, curve->group, &prior);
        off[PRIOR] = fitted_off(t, curve, two, &prior);
        off[NODE] = learn_node(t, curve, two[0].rate, &prior) ? fitted_off(t, curve, two, &prior)
                                                              : off[PRIOR];
        print_curve(curve, off, json, counted == 0);
        for (unsigned m = 0; m < NMODELS; m++) {
            sum[m].mean += off[m].mean;
            sum[m].worst = fmax(sum[m].worst, off[m].worst);
        }
        counted++;
    }
    for (unsigned m = 0; m < NMODELS && counted > 0; m++)
        sum[m].mean /= counted;
    print_curve(&(struct curve){.group = "all", .name = "mean, worst"}, sum, json, counted == 0);
    if (json)
        printf("\n]}\n");
}

int main(int argc, char **argv)
{
    static struct table table;
    bool json = argc == 3 && strcmp(argv[2], "--json") == 0;
    struct csv csv;

    if (argc != 2 && !json) {
        fprintf(stderr, "usage: %s TABLE.csv [--json]\n", argv[0]);
        return 2;
    }
    if (!csv_open(&csv, argv[1]))
        return 2;
    if (csv_column(&csv, "num_workers") >= 0)
        read_workers(&csv, &table);
    else
        read_sensitivity(&csv, &table);
    csv_close(&csv);
    if (table.n == 0) {
        fprintf(stderr, "%s: no curve in it\n", argv[1]);
        return 1;
    }
    evaluate(&table, json);
    return 0;
}
