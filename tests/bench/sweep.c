/*
 * The sweep behind docs/allocation.md: what the policies gain over both kinds of even split, over
 * load, over how demand compares with the even share, and over prediction error, with and without
 * the guarantee. Many random series each; no mix is picked.
 *
 *     tests/bench/sweep FOLDER TABLES [SERIES]
 *
 * writes FOLDER/allocation.md and FOLDER/allocation.svg; TABLES has models.csv and gpus.csv.
 */
#include "config.h"

#include "sim.h"
#include "svg.h"
#include "tables.h"
#include "trace.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOBS       200u
#define SERIES_MAX 200u
#define ROWS_MAX   16

/* The policies that are compared, each with the two kinds of even split on the same series. */
static const struct {
    const char *name;
    enum alloc_policy policy;
} policies[] = {{"gpu-busy", ALLOC_GPU_BUSY}, {"nash", ALLOC_NASH}, {"makespan", ALLOC_MAKESPAN}};
#define NPOLICIES (sizeof(policies) / sizeof(*policies))

/* Mean over series of each number; the worst and best series of the first. */
struct gains {
    double samples_even, samples_slots;   /* aggregate samples/s over that with the split, less 1 */
    double rate_even;                     /* mean over jobs of T/T_even, less 1 */
    double busy, busy_even;               /* mean T/G */
    double makespan_even, makespan_slots; /* how much shorter */
    double completion_even, completion_slots; /* mean completion time, how much shorter */
    double below_own, worst_own;
    double least, most; /* of samples_even */
    double moves;       /* cores a job */
};

static struct pred_tables known; /* models and GPUs */

struct setting {
    enum trace_mix mix;
    const char *precision;
    unsigned cores, job_gpus, job_nodes;
    double load, modest, error;
    enum alloc_guarantee guarantee;
};

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "sweep: %s\n", what);
    exit(1);
}

static struct sim_result run(const struct trace *trace, const struct setting *s,
                             enum alloc_policy policy, uint64_t seed)
{
    const struct sim_options options = {.policy = policy,
                                        .guarantee = s->guarantee,
                                        .error = s->error,
                                        .uncertainty = s->error,
                                        .min_gain = 0.02,
                                        .seed = seed};
    struct sim_result result;
    char error[512];

    if (sim_run(trace, &options, &result, error, sizeof(error)) < 0)
        die(error);
    return result;
}

static struct trace *make_trace(const struct setting *s, uint64_t seed)
{
    struct trace_spec spec = {.mix = s->mix,
                              .gpu = "v100",
                              .jobs = JOBS,
                              .nodes = 3,
                              .gpus = 4,
                              .cores = s->cores,
                              .job_gpus = s->job_gpus,
                              .job_nodes = s->job_nodes,
                              .load = s->load,
                              .hours = 1,
                              .modest = s->modest,
                              .seed = seed,
                              .pool_all = true};
    struct trace *trace;
    char error[512];

    snprintf(spec.precision, sizeof(spec.precision), "%s", s->precision);
    trace = trace_generate(&spec, &known, error, sizeof(error));
    if (trace == NULL)
        die(error);
    return trace;
}

static void add(struct gains *g, const struct sim_result *r, const struct sim_result *even,
                const struct sim_result *slots, double share)
{
    double samples = r->samples_per_s / even->samples_per_s - 1;

    g->samples_even += share * samples;
    g->samples_slots += share * (r->samples_per_s / slots->samples_per_s - 1);
    g->rate_even += share * (r->mean_vs_even - 1);
    g->busy += share * r->mean_gpu_busy;
    g->busy_even += share * even->mean_gpu_busy;
    g->makespan_even += share * (1 - r->makespan_s / even->makespan_s);
    g->makespan_slots += share * (1 - r->makespan_s / slots->makespan_s);
    g->completion_even += share * (1 - r->mean_completion_s / even->mean_completion_s);
    g->completion_slots += share * (1 - r->mean_completion_s / slots->mean_completion_s);
    g->below_own += share * r->below_own_share;
    g->worst_own = fmin(g->worst_own, r->worst_vs_own);
    g->least = fmin(g->least, samples);
    g->most = fmax(g->most, samples);
    g->moves += share * (double)r->moves / JOBS;
}

static void measure(const struct setting *s, unsigned series, struct gains *gains)
{
    for (size_t p = 0; p < NPOLICIES; p++)
        gains[p] = (struct gains){.worst_own = INFINITY, .least = INFINITY, .most = -INFINITY};
    for (uint64_t seed = 1; seed <= series; seed++) {
        struct trace *trace = make_trace(s, seed);
        struct sim_result even = run(trace, s, ALLOC_EVEN, seed);
        struct sim_result slots = run(trace, s, ALLOC_STATIC, seed);

        for (size_t p = 0; p < NPOLICIES; p++) {
            struct sim_result r = run(trace, s, policies[p].policy, seed);

            add(&gains[p], &r, &even, &slots, 1.0 / series);
            sim_result_free(&r);
        }
        sim_result_free(&even);
        sim_result_free(&slots);
        trace_free(trace);
    }
}

/* Mean cores a GPU that the series' jobs want, by GPU time, over what an even share gives. */
static double demand_over_share(const struct setting *s)
{
    struct trace *t = make_trace(s, 1);
    double wanted = 0, gpus = 0;

    for (size_t j = 0; j < t->njobs; j++) {
        const struct trace_curve *c = &t->curves[t->jobs[j].curve];
        double n = (double)t->jobs[j].gpus * t->jobs[j].nodes;
        unsigned cores = 0;

        while (cores + 1 < c->nrate && c->rate[cores] < 0.99 * c->gpu_rate)
            cores++;
        wanted += n * cores;
        gpus += n;
    }
    trace_free(t);
    return wanted / gpus / (s->cores / 4.0 - 1);
}

/* ---- tables -------------------------------------------------------------------------------- */

struct table {
    FILE *out;
    struct setting rows[ROWS_MAX];
    char labels[ROWS_MAX][64];
    double x[ROWS_MAX];
    struct gains gains[ROWS_MAX][NPOLICIES];
    size_t n;
};

static void table_row(struct table *t, unsigned series, struct setting s, double x,
                      const char *label)
{
    if (t->n >= ROWS_MAX)
        die("too many rows");
    t->rows[t->n] = s;
    t->x[t->n] = x;
    snprintf(t->labels[t->n], sizeof(t->labels[0]), "%s", label);
    measure(&s, series, t->gains[t->n]);
    t->n++;
    fprintf(stderr, ".");
}

static void table_print(const struct table *t, const char *what)
{
    fprintf(t->out,
            "| %s | policy | samples/s over even | least..most | over slots | T/T_even | GPU-busy "
            "(even) | makespan shorter than even / slots | completion shorter than even / slots | "
            "time below own | worst T/T_own | moves a job |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|---|\n",
            what);
    for (size_t i = 0; i < t->n; i++)
        for (size_t p = 0; p < NPOLICIES; p++) {
            const struct gains *g = &t->gains[i][p];

            fprintf(
                t->out,
                "| %s | %s | %+.1f %% | %+.1f..%+.1f %% | %+.1f %% | %.3f | %.1f %% (%.1f %%) | "
                "%.1f %% / %.1f %% | %.1f %% / %.1f %% | %.2f %% | %.2f | %.1f |\n",
                t->labels[i], policies[p].name, 100 * g->samples_even, 100 * g->least,
                100 * g->most, 100 * g->samples_slots, 1 + g->rate_even, 100 * g->busy,
                100 * g->busy_even, 100 * g->makespan_even, 100 * g->makespan_slots,
                100 * g->completion_even, 100 * g->completion_slots, 100 * g->below_own,
                g->worst_own, g->moves);
        }
    fprintf(t->out, "\n");
}

/* ---- the three sweeps ---------------------------------------------------------------------- */

static const struct setting usual = {.mix = TRACE_MIX_MEASURED,
                                     .precision = "amp",
                                     .cores = 28,
                                     .job_gpus = 1,
                                     .job_nodes = 1,
                                     .load = 1.2,
                                     .modest = 0.5,
                                     .guarantee = ALLOC_GUARANTEE_OWN};

static void sweep_load(struct table *t, unsigned series)
{
    static const double loads[] = {0.4, 0.7, 1.0, 1.3};
    static const unsigned cores[] = {28, 16};
    char label[64];

    for (size_t c = 0; c < 2; c++)
        for (size_t i = 0; i < sizeof(loads) / sizeof(*loads); i++) {
            struct setting s = usual;

            s.cores = cores[c];
            s.load = loads[i];
            snprintf(label, sizeof(label), "%u cores a GPU, load %.1f", s.cores / 4, s.load);
            table_row(t, series, s, s.load, label);
        }
}

static void sweep_demand(struct table *t, unsigned series)
{
    static const double modest[] = {0, 0.25, 0.5, 0.75, 1};
    static const unsigned cores[] = {28, 16};
    char label[64];

    for (size_t c = 0; c < 2; c++)
        for (size_t i = 0; i < sizeof(modest) / sizeof(*modest); i++) {
            struct setting s = usual;

            s.cores = cores[c];
            s.modest = modest[i];
            snprintf(label, sizeof(label), "%u cores a GPU, %.0f %% modest, demand/share %.2f",
                     s.cores / 4, 100 * s.modest, demand_over_share(&s));
            table_row(t, series, s, demand_over_share(&s), label);
        }
}

static void sweep_error(struct table *t, unsigned series)
{
    static const double errors[] = {0, 0.05, 0.1, 0.2};
    char label[64];

    for (int none = 0; none < 2; none++)
        for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
            struct setting s = usual;

            s.error = errors[i];
            s.guarantee = none ? ALLOC_GUARANTEE_NONE : ALLOC_GUARANTEE_OWN;
            snprintf(label, sizeof(label), "guarantee %s, error %.0f %%", none ? "none" : "own",
                     100 * s.error);
            table_row(t, series, s, 100 * s.error, label);
        }
}

static void sweep_size(struct table *t, unsigned series)
{
    static const unsigned gpus[] = {1, 2, 4, 4}, nodes[] = {1, 1, 1, 2};
    char label[64];

    for (size_t i = 0; i < sizeof(gpus) / sizeof(*gpus); i++) {
        struct setting s = usual;

        s.job_gpus = gpus[i];
        s.job_nodes = nodes[i];
        snprintf(label, sizeof(label), "up to %u GPUs on up to %u nodes", gpus[i], nodes[i]);
        table_row(t, series, s, (double)gpus[i] * nodes[i], label);
    }
}

static void sweep_named(struct table *t, unsigned series)
{
    static const char *const precisions[] = {"fp32", "amp"};
    static const unsigned cores[] = {28, 16};
    char label[64];

    for (size_t i = 0; i < 2; i++)
        for (size_t c = 0; c < 2; c++) {
            struct setting s = usual;

            s.mix = TRACE_MIX_NAMED;
            s.precision = precisions[i];
            s.cores = cores[c];
            snprintf(label, sizeof(label), "%s, %u cores a GPU, demand/share %.2f", s.precision,
                     s.cores / 4, demand_over_share(&s));
            table_row(t, series, s, demand_over_share(&s), label);
        }
}

/* ---- the plot ------------------------------------------------------------------------------ */

struct lines {
    struct svg_series series[2 * NPOLICIES];
    double y[2 * NPOLICIES][ROWS_MAX];
    char names[2 * NPOLICIES][48];
};

/* The first and second half of a table's rows, as lines of gain over even; policy by policy. */
static void make_lines(const struct table *t, const char *first, const char *second,
                       struct lines *l)
{
    size_t half = t->n / 2;

    for (size_t h = 0; h < 2; h++)
        for (size_t p = 0; p < NPOLICIES; p++) {
            size_t k = h * NPOLICIES + p;

            for (size_t i = 0; i < half; i++)
                l->y[k][i] = 100 * t->gains[h * half + i][p].samples_even;
            snprintf(l->names[k], sizeof(l->names[k]), "%s, %s", policies[p].name,
                     h == 0 ? first : second);
            l->series[k] = (struct svg_series){l->names[k], t->x + h * half, l->y[k], half, false};
        }
}

static int draw(const char *folder, const struct table *load, const struct table *demand,
                const struct table *error)
{
    static struct lines by_load, by_demand, by_error;
    struct svg_chart charts[3];
    char path[4096];
    FILE *out;
    int rc;

    make_lines(load, "7 cores", "4 cores", &by_load);
    make_lines(demand, "7 cores", "4 cores", &by_demand);
    make_lines(error, "own", "none", &by_error);
    charts[0] = (struct svg_chart){"Aggregate samples/s over an even split, by load",
                                   "load",
                                   "gain, %",
                                   by_load.series,
                                   2 * NPOLICIES,
                                   NULL,
                                   0};
    charts[1] = (struct svg_chart){"By demand over even share (7 and 4 cores a GPU)",
                                   "mean cores wanted / even share",
                                   "gain, %",
                                   by_demand.series,
                                   2 * NPOLICIES,
                                   NULL,
                                   0};
    charts[2] = (struct svg_chart){"By prediction error, with and without the guarantee",
                                   "prediction error, %",
                                   "gain, %",
                                   by_error.series,
                                   2 * NPOLICIES,
                                   NULL,
                                   0};
    if (snprintf(path, sizeof(path), "%s/allocation.svg", folder) >= (int)sizeof(path))
        die("the folder's name is too long");
    out = fopen(path, "we");
    if (out == NULL)
        die(strerror(errno));
    rc = svg_page(out, charts, 3, 1);
    return fclose(out) != 0 ? -1 : rc;
}

/* ---- the document -------------------------------------------------------------------------- */

static void introduce(FILE *out, unsigned series)
{
    fprintf(
        out,
        "# What the allocator gains\n\n"
        "<!-- Written by tests/bench/sweep; do not edit. -->\n\n"
        "Made by `make tests/bench/sweep && tests/bench/sweep docs predictor %u`: each row is the "
        "mean over "
        "%u random series of %u jobs on 3 nodes with 4 GPUs each. Jobs arrive at random "
        "(Poisson), wait for GPUs first come, first served, and train for half an hour to two "
        "hours' worth of full speed. Their curves are those that Synergy (OSDI 2022) measured "
        "on a V100 with DALI: hungry image models (ResNet-18 and -50, MobileNet, AlexNet, "
        "ShuffleNet: they want 4 to 12 cores a GPU) and modest ones (speech, translation: 1 to "
        "3 cores). Each GPU keeps one core for its main thread.\n\n"
        "Two baselines: **even** splits the loader cores of a node evenly among the jobs that "
        "run there, anew at each start and end; **slots** gives each GPU the same fixed cores, "
        "as `--cpus-per-gpu` does. A job's own cores (T_own) are its slots'.\n\n"
        "- *samples/s*: aggregate over the whole run, which is all work over the makespan. "
        "*least..most* are the worst and the best of the series.\n"
        "- *T/T_even*: mean over jobs of the rate over what an even split would give the same "
        "job at the same time among the same jobs.\n"
        "- *GPU-busy*: mean over jobs of T/G.\n"
        "- *time below own*: share of job time below 99.5 %% of the rate with own cores; *worst* "
        "is the worst of any job at any time in all series.\n"
        "- *prediction error* x %%: the allocator sees curves whose core rate and GPU rate are "
        "both wrong by a lognormal factor of that deviation, drawn for each job, and is told of "
        "it as their uncertainty; jobs train by the true curves.\n\n"
        "![gains](allocation.svg)\n\n",
        series, series, JOBS);
}

/* The row and policy with the largest mean gain of all tables. */
static void print_largest(FILE *out, const struct table *const *tables, size_t ntables)
{
    const struct gains *best = NULL;
    const char *label = "", *policy = "";

    for (size_t t = 0; t < ntables; t++)
        for (size_t i = 0; i < tables[t]->n; i++)
            for (size_t p = 0; p < NPOLICIES; p++) {
                const struct gains *g = &tables[t]->gains[i][p];

                if (best != NULL && g->samples_even <= best->samples_even)
                    continue;
                best = g;
                label = tables[t]->labels[i];
                policy = policies[p].name;
            }
    if (best != NULL)
        fprintf(
            out,
            "The largest mean gain of all tables is %+.1f %% samples/s over even (%+.1f %% over "
            "slots, makespan %.1f %% shorter than even): %s, %s. A-Dloader (ACM TACO 21(4), "
            "2024) reports +28.9 %% throughput and a makespan 10 %% shorter than with an even "
            "split, on a series, curves and a metric that are not public; for a fixed amount of "
            "work the two figures cannot both be means over the same run.\n\n",
            100 * best->samples_even, 100 * best->samples_slots, 100 * best->makespan_even, label,
            policy);
}

static void conclude(FILE *out, const struct table *demand)
{
    const struct gains *all = &demand->gains[0][0], *none = &demand->gains[4][0];

    fprintf(
        out,
        "There is something to gain where some jobs want less than their share and others "
        "more. Where all want more, only what an even split wastes on curves that jump is left "
        "(%+.1f %% with 7 cores a GPU, all hungry); where all want less, an even split is as "
        "good (%+.1f %%, all modest). Aggregate samples/s adds up samples of different models, "
        "so that T/T_even and GPU-busy are the fairer figures. Without the guarantee a little "
        "more is gained for all together, at the price of jobs that are slower than with their "
        "own cores. Nothing here models the cost of a move: with loaders that are re-bound, not "
        "restarted, it is a few milliseconds.\n",
        100 * all->samples_even, 100 * none->samples_even);
}

static void write_all(FILE *out, const char *folder, unsigned series)
{
    static struct table load, demand, error, size, paper;

    load.out = demand.out = error.out = size.out = paper.out = out;
    introduce(out, series);
    sweep_load(&load, series);
    fprintf(out, "## By load\n\nHalf of the jobs modest, guarantee own, exact predictions. Load 1: "
                 "as much GPU time is asked for as there is.\n\n");
    table_print(&load, "setting");
    sweep_demand(&demand, series);
    fprintf(out, "## By demand over the even share\n\nLoad 1.2. From only hungry jobs to only "
                 "modest ones.\n\n");
    table_print(&demand, "setting");
    sweep_error(&error, series);
    fprintf(out, "## By prediction error, with and without the guarantee\n\n7 cores a GPU, load "
                 "1.2, half of the jobs modest.\n\n");
    table_print(&error, "setting");
    sweep_size(&size, series);
    fprintf(out, "## By size of the jobs\n\n7 cores a GPU, load 1.2, half modest; sizes are powers "
                 "of two up to these, at random.\n\n");
    table_print(&size, "setting");
    sweep_named(&paper, series);
    fprintf(
        out,
        "## The models that the paper names\n\nResNet-18, -50 and -101, VGG-16, MobileNet-v2, "
        "EfficientNet-B0 and -B3, NASNet-A mobile and large on a V100, single and mixed "
        "precision, batch 64. Their GPU rates are the predictor's; one core loads 262 images/s "
        "and cores hinder one another by 0.1 (Synergy's ResNet-50). Load 1.2, guarantee own.\n\n");
    table_print(&paper, "setting");
    {
        const struct table *const all[] = {&load, &demand, &error, &size, &paper};

        fprintf(out, "## Reading\n\n");
        print_largest(out, all, 5);
        conclude(out, &demand);
    }
    if (draw(folder, &load, &demand, &error) < 0)
        die("cannot draw");
}

int main(int argc, char **argv)
{
    unsigned series = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 20;
    char path[4096], error[512];
    FILE *out;

    if (argc < 3 || series < 1 || series > SERIES_MAX)
        die("usage: sweep FOLDER TABLES [SERIES], at most 200 series");
    if (pred_tables_read(&known, argv[2], error, sizeof(error)) < 0)
        die(error);
    if (snprintf(path, sizeof(path), "%s/allocation.md", argv[1]) >= (int)sizeof(path))
        die("the folder's name is too long");
    out = fopen(path, "we");
    if (out == NULL)
        die(strerror(errno));
    write_all(out, argv[1], series);
    fprintf(stderr, "\n");
    if (fclose(out) != 0)
        die("cannot write");
    pred_tables_free(&known);
    return 0;
}
