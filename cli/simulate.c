/* adloader simulate: policies against each other on one trace. */
#include "config.h"

#include "cli.h"
#include "number.h"
#include "sim.h"
#include "strict.h"
#include "svg.h"
#include "table.h"
#include "tables.h"
#include "trace.h"

#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX 16u

struct run_result {
    const char *name;
    struct sim_result result;
};

struct asked {
    struct sim_options base;
    const char *names[RUNS_MAX];
    enum alloc_policy policies[RUNS_MAX];
    size_t nruns;
    const char *plot;
};

/* ---- the command line ---------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum alloc_policy policy;
} known[] = {
    {"slots", ALLOC_STATIC}, {"even", ALLOC_EVEN},       {"gpu-busy", ALLOC_GPU_BUSY},
    {"nash", ALLOC_NASH},    {"max-min", ALLOC_MAX_MIN}, {"makespan", ALLOC_MAKESPAN},
};
#define NKNOWN (sizeof(known) / sizeof(*known))

static bool add_policy(struct asked *a, const char *name)
{
    for (size_t i = 0; i < NKNOWN; i++)
        if (strcmp(known[i].name, name) == 0 && a->nruns < RUNS_MAX) {
            a->names[a->nruns] = known[i].name;
            a->policies[a->nruns++] = known[i].policy;
            return true;
        }
    return false;
}

static int take_policies(const struct cli *cli, struct asked *a)
{
    const char *list = cli_value(cli, "policies");
    char copy[256], *save = NULL;

    if (list == NULL)
        list = "slots,even,gpu-busy,nash,max-min,makespan";
    if (snprintf(copy, sizeof(copy), "%s", list) >= (int)sizeof(copy))
        return cli_usage_error(cli, "--policies: too long");
    for (char *name = strtok_r(copy, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save))
        if (!add_policy(a, name))
            return cli_usage_error(
                cli,
                "--policies: %.64s has to be slots, even, gpu-busy, nash, max-min "
                "or makespan, and at most %u of them",
                name, RUNS_MAX);
    return a->nruns > 0 ? CLI_OK : cli_usage_error(cli, "--policies: none is named");
}

static int take_percent(const struct cli *cli, const char *option, double *share)
{
    const char *text = cli_value(cli, option);
    double percent;

    if (text == NULL)
        return CLI_OK;
    if (!cli_number(text, 0, 1000, &percent))
        return cli_usage_error(cli, "--%s has to be a number of percent from 0 to 1000", option);
    *share = percent / 100;
    return CLI_OK;
}

static int take_options(const struct cli *cli, struct asked *a)
{
    const char *guarantee = cli_value(cli, "guarantee"), *seed = cli_value(cli, "seed");
    double number = 1;
    int status = take_policies(cli, a), g;

    a->base.min_gain = 0.02;
    if (status == CLI_OK)
        status = take_percent(cli, "error", &a->base.error);
    a->base.uncertainty = a->base.error;
    if (status == CLI_OK)
        status = take_percent(cli, "uncertainty", &a->base.uncertainty);
    if (status == CLI_OK)
        status = take_percent(cli, "min-gain", &a->base.min_gain);
    if (status != CLI_OK)
        return status;
    g = guarantee != NULL ? alloc_guarantee_parse(guarantee) : (int)ALLOC_GUARANTEE_OWN;
    if (g < 0)
        return cli_usage_error(cli, "--guarantee has to be own, even or none");
    a->base.guarantee = (enum alloc_guarantee)g;
    if (seed != NULL && !cli_number(seed, 0, 1e15, &number))
        return cli_usage_error(cli, "--seed has to be a number");
    a->base.seed = (uint64_t)number;
    a->plot = cli_value(cli, "plot");
    a->base.keep_series = a->plot != NULL;
    return CLI_OK;
}

/* ---- answers ------------------------------------------------------------------------------- */

static int print_table(const struct run_result *runs, size_t n, const struct sim_bound *bound)
{
    static const struct table_column columns[] = {
        {"POLICY", false},      {"SAMPLES/S", true}, {"T/T-EVEN", true}, {"T/T-OWN", true},
        {"WORST/OWN", true},    {"BELOW-OWN", true}, {"GPU-BUSY", true}, {"MAKESPAN-H", true},
        {"COMPLETION-H", true}, {"P95-H", true},     {"MOVES", true}};
    struct table *table = table_new(columns, sizeof(columns) / sizeof(columns[0]));

    for (size_t i = 0; i < n; i++) {
        const struct sim_result *r = &runs[i].result;

        table_cell(table, runs[i].name);
        table_number(table, r->samples_per_s, 1);
        table_number(table, r->mean_vs_even, 4);
        table_number(table, r->mean_vs_own, 4);
        table_number(table, r->worst_vs_own, 3);
        table_cellf(table, "%.2f%%", 100 * r->below_own_share);
        table_cellf(table, "%.2f%%", 100 * r->mean_gpu_busy);
        table_number(table, r->makespan_s / 3600, 3);
        table_number(table, r->mean_completion_s / 3600, 3);
        table_number(table, r->p95_completion_s / 3600, 3);
        table_cellf(table, "%lu", r->moves);
    }
    table_cell(table, "(bound)");
    table_number(table, bound->samples_per_s, 1);
    for (int i = 0; i < 5; i++)
        table_cell(table, NULL);
    table_number(table, bound->makespan_s / 3600, 3);
    table_number(table, bound->mean_completion_s / 3600, 3);
    table_cell(table, NULL);
    table_cell(table, NULL);
    int result = table_print(table, stdout);
    table_free(table);
    return result < 0 ? CLI_FAILURE : CLI_OK;
}

static void add_number(struct json_object *object, const char *key, double value)
{
    json_object_object_add(object, key, number_json(value));
}

static struct json_object *run_document(const struct run_result *run)
{
    const struct sim_result *r = &run->result;
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "policy", json_object_new_string(run->name));
    add_number(object, "samples_per_s", r->samples_per_s);
    add_number(object, "mean_rate_over_even", r->mean_vs_even);
    add_number(object, "mean_rate_over_own", r->mean_vs_own);
    add_number(object, "worst_rate_over_own", r->worst_vs_own);
    add_number(object, "below_own_share", r->below_own_share);
    add_number(object, "mean_gpu_busy_share", r->mean_gpu_busy);
    add_number(object, "makespan_s", r->makespan_s);
    add_number(object, "mean_completion_s", r->mean_completion_s);
    add_number(object, "p95_completion_s", r->p95_completion_s);
    json_object_object_add(object, "moves", json_object_new_int64((int64_t)r->moves));
    json_object_object_add(object, "events", json_object_new_int64((int64_t)r->events));
    return object;
}

static int print_document(const struct asked *a, const struct run_result *runs, size_t n,
                          const struct sim_bound *bound)
{
    struct json_object *document = json_object_new_object(), *list = json_object_new_array();
    struct json_object *limits = json_object_new_object();

    json_object_object_add(document, "guarantee",
                           json_object_new_string(alloc_guarantee_name(a->base.guarantee)));
    add_number(document, "prediction_error", a->base.error);
    add_number(document, "uncertainty", a->base.uncertainty);
    add_number(document, "min_gain", a->base.min_gain);
    for (size_t i = 0; i < n; i++)
        json_object_array_add(list, run_document(&runs[i]));
    json_object_object_add(document, "policies", list);
    add_number(limits, "makespan_s", bound->makespan_s);
    add_number(limits, "mean_completion_s", bound->mean_completion_s);
    add_number(limits, "samples_per_s", bound->samples_per_s);
    json_object_object_add(document, "bound", limits);
    int status = cli_print_json(document);
    json_object_put(document);
    return status;
}

/* ---- the plot ------------------------------------------------------------------------------ */

static int fill_timeline(const struct run_result *runs, size_t n, struct svg_series *lines)
{
    for (size_t i = 0; i < n; i++) {
        const struct sim_result *r = &runs[i].result;
        double *values = calloc(2 * r->nseries + 1, sizeof(*values));

        if (values == NULL)
            return -1;
        for (size_t k = 0; k < r->nseries; k++) {
            values[k] = r->series[k].time_s / 3600;
            values[r->nseries + k] = 100 * r->series[k].busy;
        }
        lines[i] = (struct svg_series){runs[i].name, values, values + r->nseries, r->nseries, true};
    }
    return 0;
}

static int draw(FILE *out, const struct run_result *runs, size_t n)
{
    static const char *const groups[] = {"T/T-even", "T/T-own", "samples/s", "1/makespan"};
    double bars[RUNS_MAX][4];
    struct svg_series timeline[RUNS_MAX] = {0}, columns[RUNS_MAX];
    int rc = fill_timeline(runs, n, timeline);

    for (size_t i = 0; i < n; i++) {
        const struct sim_result *r = &runs[i].result, *first = &runs[0].result;

        bars[i][0] = r->mean_vs_even;
        bars[i][1] = r->mean_vs_own;
        bars[i][2] = r->samples_per_s / first->samples_per_s;
        bars[i][3] = first->makespan_s / r->makespan_s;
        columns[i] = (struct svg_series){runs[i].name, NULL, bars[i], 4, false};
    }
    if (rc == 0) {
        const struct svg_chart charts[] = {
            {"GPUs that compute", "hours", "% of all GPUs", timeline, n, NULL, NAN},
            {"Mean gain (the last two against the first policy)", "", "ratio", columns, n, groups,
             1},
        };

        rc = svg_page(out, charts, 2, 1);
    }
    for (size_t i = 0; i < n; i++)
        free((void *)timeline[i].x);
    return rc;
}

static int plot(const char *path, const struct run_result *runs, size_t n)
{
    FILE *out = fopen(path, "we");
    int rc;

    if (out == NULL) {
        cli_error("cannot write %s: %s", path, strerror(errno));
        return CLI_FAILURE;
    }
    rc = draw(out, runs, n);
    if (fclose(out) != 0)
        rc = -1;
    if (rc < 0)
        cli_error("cannot write %s", path);
    return rc < 0 ? CLI_FAILURE : CLI_OK;
}

/* ---- the subcommand ------------------------------------------------------------------------ */

static int simulate(const struct cli *cli, const struct asked *a, const struct trace *trace)
{
    struct run_result runs[RUNS_MAX] = {0};
    struct sim_bound bound;
    char error[512] = "";
    size_t n = 0;
    int status = CLI_OK;

    for (; n < a->nruns && status == CLI_OK; n++) {
        struct sim_options options = a->base;

        options.policy = a->policies[n];
        runs[n].name = a->names[n];
        if (sim_run(trace, &options, &runs[n].result, error, sizeof(error)) < 0) {
            cli_error("%s: %s", a->names[n], error);
            status = CLI_FAILURE;
        }
    }
    if (status == CLI_OK && sim_bound(trace, &bound) < 0)
        status = CLI_FAILURE;
    if (status == CLI_OK)
        status = cli->json ? print_document(a, runs, n, &bound) : print_table(runs, n, &bound);
    if (status == CLI_OK && a->plot != NULL)
        status = plot(a->plot, runs, n);
    for (size_t i = 0; i < n; i++)
        sim_result_free(&runs[i].result);
    return status;
}

static int write_trace(const struct cli *cli, const struct trace_spec *spec,
                       struct pred_tables *tables)
{
    const char *folder = cli_value(cli, "tables");
    struct trace *trace = NULL;
    char error[512] = "";
    int rc = 0;

    if (spec->mix == TRACE_MIX_NAMED)
        rc = pred_tables_read(tables, folder != NULL ? folder : ADL_DATADIR, error, sizeof(error));
    if (rc == 0)
        trace = trace_generate(spec, tables, error, sizeof(error));
    if (trace == NULL) {
        cli_error("%s", error);
        return CLI_FAILURE;
    }
    rc = trace_print(trace, stdout);
    trace_free(trace);
    return rc < 0 ? CLI_FAILURE : CLI_OK;
}

static int generate(const struct cli *cli, const char *text)
{
    struct pred_tables tables = {0};
    struct trace_spec spec;
    char error[512] = "";
    int status;

    if (cli->argc > 0)
        return cli_usage_error(cli, "--generate writes a trace and reads none");
    if (trace_spec_parse(text, &spec, error, sizeof(error)) < 0)
        return cli_usage_error(cli, "--generate: %s", error);
    status = write_trace(cli, &spec, &tables);
    pred_tables_free(&tables);
    return status;
}

static int run(const struct cli *cli)
{
    const char *spec = cli_value(cli, "generate");
    struct asked asked = {0};
    struct trace *trace = NULL;
    char error[512] = "", *text;
    size_t length = 0;
    int status;

    if (spec != NULL)
        return generate(cli, spec);
    if (cli->argc < 1)
        return cli_usage_error(cli, "simulate needs a TRACE, or --generate");
    status = take_options(cli, &asked);
    if (status != CLI_OK)
        return status;
    text = strict_read(cli->argv[0], &length, error, sizeof(error));
    if (text != NULL)
        trace = trace_parse(text, length, error, sizeof(error));
    free(text);
    if (trace == NULL) {
        cli_error("%s", error);
        return CLI_FAILURE;
    }
    status = simulate(cli, &asked, trace);
    trace_free(trace);
    return status;
}

static const struct cli_option options[] = {
    {"policies", "LIST", "of slots, even, gpu-busy, nash, max-min, makespan; default all"},
    {"guarantee", "WORD", "own (default), even or none"},
    {"error", "PERCENT", "of the predictions, core rate and GPU rate each; default 0"},
    {"uncertainty", "PERCENT", "that the allocator is told of; default the error"},
    {"min-gain", "PERCENT", "for which cores move; default 2"},
    {"seed", "N", "of the errors; default 1"},
    {"plot", "FILE", "also draw a timeline and bars into FILE, as SVG"},
    {"generate", "SPEC", "write a trace instead: jobs=100,load=1.2,..."},
    {"tables", "FOLDER", "where models.csv and gpus.csv are, for mix=named"},
    {NULL, NULL, NULL},
};

const struct cli_command cli_command_simulate = {
    .name = "simulate",
    .arguments = "TRACE",
    .summary = "Let a trace of jobs run under several policies",
    .text =
        "TRACE is a file, see adloader-trace(5); - is standard input. Jobs wait for GPUs, train\n"
        "a given amount, and end; cores are divided anew at each start and end by the\n"
        "controller's own allocator.",
    .options = options,
    .min_arguments = 0,
    .max_arguments = 1,
    .run = run,
};
