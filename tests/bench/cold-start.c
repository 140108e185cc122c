/*
 * cold-start TABLES DATA [--json]
 *
 * Predicts the training rate of ResNet-50 from the tables of models and GPUs alone (folder TABLES),
 * nothing measured, and compares it with three published measurements (folder DATA):
 * gavel_isolated_throughput.csv, resnet50_train_throughput_nvidia.csv, pollux_placements_t4.csv.
 * All GPUs of a row are on one node. Gavel and Pollux do not say the precision: FP32 is assumed.
 */
#include "csv.h"
#include "tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 4096

struct row {
    const char *table;
    char gpu[PRED_NAME_MAX];
    enum pred_precision precision;
    unsigned gpus, batch;
    double measured, predicted; /* samples/s of all GPUs */
};

struct rows {
    struct row row[ROWS_MAX];
    unsigned n;
};

static const char *folder;

static bool open_table(struct csv *csv, const char *name)
{
    static char path[3][4096];
    static unsigned turn;
    char *p = path[turn++ % 3];

    return snprintf(p, sizeof(path[0]), "%s/%s", folder, name) < (int)sizeof(path[0]) &&
           csv_open(csv, p);
}

static void add(struct rows *rows, const struct row *row)
{
    if (rows->n < ROWS_MAX && row->measured > 0 && row->gpus > 0 && row->batch > 0)
        rows->row[rows->n++] = *row;
}

static unsigned whole(double number)
{
    return number >= 0 && number < 1e6 ? (unsigned)number : 0;
}

static bool read_gavel(struct rows *rows)
{
    struct csv csv;
    unsigned source, gpu, model, batch, gpus, rate;

    if (!open_table(&csv, "gavel_isolated_throughput.csv"))
        return false;
    source = csv_need(&csv, "source_file");
    gpu = csv_need(&csv, "gpu");
    model = csv_need(&csv, "model");
    batch = csv_need(&csv, "batch_size");
    gpus = csv_need(&csv, "num_gpus");
    rate = csv_need(&csv, "samples_per_s");
    while (csv_next(&csv)) {
        struct row row = {.table = "gavel", .precision = PRED_FP32};

        if (strcmp(csv.fields[model], "ResNet-50") != 0 ||
            strstr(csv.fields[source], "physical") == NULL ||
            strstr(csv.fields[gpu], "unconsolidated") != NULL || csv_number(&csv, gpus) > 4)
            continue;
        snprintf(row.gpu, sizeof(row.gpu), "%s", csv.fields[gpu]);
        row.gpus = whole(csv_number(&csv, gpus));
        row.batch = whole(csv_number(&csv, batch));
        row.measured = csv_number(&csv, rate);
        add(rows, &row);
    }
    csv_close(&csv);
    return true;
}

static bool read_nvidia(struct rows *rows)
{
    struct csv csv;
    unsigned gpu, gpus, precision, rate;

    if (!open_table(&csv, "resnet50_train_throughput_nvidia.csv"))
        return false;
    gpu = csv_need(&csv, "gpu");
    gpus = csv_need(&csv, "num_gpus");
    precision = csv_need(&csv, "precision");
    rate = csv_need(&csv, "img_per_s");
    while (csv_next(&csv)) {
        struct row row = {.table = "nvidia", .batch = 256};
        const char *p = csv.fields[precision];

        row.precision = strcmp(p, "AMP") == 0    ? PRED_AMP
                        : strcmp(p, "TF32") == 0 ? PRED_TF32
                                                 : PRED_FP32;
        snprintf(row.gpu, sizeof(row.gpu), "%s",
                 strncmp(csv.fields[gpu], "V100", 4) == 0 ? "v100" : csv.fields[gpu]);
        row.gpus = whole(csv_number(&csv, gpus));
        row.measured = csv_number(&csv, rate);
        add(rows, &row);
    }
    csv_close(&csv);
    return true;
}

static bool read_pollux(struct rows *rows)
{
    struct csv csv;
    unsigned app, placement, batch, rate;

    if (!open_table(&csv, "pollux_placements_t4.csv"))
        return false;
    app = csv_need(&csv, "app");
    placement = csv_need(&csv, "num_nodes_or_placement");
    batch = csv_need(&csv, "local_bsz");
    rate = csv_need(&csv, "samples_per_s");
    while (csv_next(&csv)) {
        struct row row = {.table = "pollux", .gpu = "t4", .precision = PRED_FP32};

        if (strcmp(csv.fields[app], "imagenet") != 0 || strlen(csv.fields[placement]) != 1)
            continue;
        row.gpus = whole(csv_number(&csv, placement));
        row.batch = whole(csv_number(&csv, batch));
        row.measured = csv_number(&csv, rate);
        add(rows, &row);
    }
    csv_close(&csv);
    return true;
}

static bool predict(const struct pred_tables *tables, struct row *row)
{
    const struct pred_model *model = pred_tables_model(tables, "resnet50");
    const struct pred_gpu *gpu = pred_tables_gpu(tables, row->gpu);
    struct pred_curve curve;
    struct pred_job job;

    pred_job_init(&job);
    if (model == NULL || gpu == NULL || !pred_tables_apply(model, gpu, row->precision, &job))
        return false;
    job.batch = row->batch;
    job.gpus = job.gpus_total = row->gpus;
    job.nodes = 1;
    if (pred_curve_static(&job, 0, &curve) != 0)
        return false;
    row->predicted = curve.gpu_rate;
    pred_curve_free(&curve);
    return true;
}

static double wrong(const struct row *row)
{
    return fabs(row->predicted / row->measured - 1);
}

static bool alike(const struct row *a, const struct row *b)
{
    return strcmp(a->table, b->table) == 0 && strcmp(a->gpu, b->gpu) == 0 &&
           a->precision == b->precision;
}

static void print_row(const struct row *r, bool json, bool first)
{
    if (json)
        printf("%s\n  {\"table\": \"%s\", \"gpu\": \"%s\", \"precision\": \"%s\", \"gpus\": %u, "
               "\"batch\": %u, "
               "\"measured_samples_per_s\": %.1f, \"predicted_samples_per_s\": %.1f, "
               "\"error_percent\": %.1f}",
               first ? "" : ",", r->table, r->gpu, pred_precision_name(r->precision), r->gpus,
               r->batch, r->measured, r->predicted, 100 * (r->predicted / r->measured - 1));
    else
        printf("%-8s %-10s %-5s %4u %5u %9.1f %9.1f %+7.0f %%\n", r->table, r->gpu,
               pred_precision_name(r->precision), r->gpus, r->batch, r->measured, r->predicted,
               100 * (r->predicted / r->measured - 1));
}

/* A line for each table, GPU and precision; returns the mean of the lines, so that a table with
 * many rows does not outvote the others. */
static double print_groups(const struct rows *rows, bool json)
{
    double sum = 0;
    unsigned groups = 0;

    for (unsigned i = 0; i < rows->n; i++) {
        double mean = 0, ratio = 0;
        unsigned n = 0;
        bool seen = false;

        for (unsigned k = 0; k < i; k++)
            seen = seen || alike(&rows->row[k], &rows->row[i]);
        if (seen)
            continue;
        for (unsigned k = i; k < rows->n; k++)
            if (alike(&rows->row[k], &rows->row[i])) {
                mean += wrong(&rows->row[k]);
                ratio += log(rows->row[k].predicted / rows->row[k].measured);
                n++;
            }
        sum += mean / n;
        if (json)
            printf(
                "%s\n  {\"table\": \"%s\", \"gpu\": \"%s\", \"precision\": \"%s\", \"rows\": %u, "
                "\"mean_abs_error_percent\": %.1f, \"typical_ratio\": %.3f}",
                groups > 0 ? "," : "", rows->row[i].table, rows->row[i].gpu,
                pred_precision_name(rows->row[i].precision), n, 100 * mean / n, exp(ratio / n));
        else
            printf("%-8s %-10s %-5s %4u rows: mean error %5.1f %%, predicted/measured %.2f\n",
                   rows->row[i].table, rows->row[i].gpu,
                   pred_precision_name(rows->row[i].precision), n, 100 * mean / n, exp(ratio / n));
        groups++;
    }
    return groups > 0 ? sum / groups : NAN;
}

int main(int argc, char **argv)
{
    static struct rows rows;
    struct pred_tables tables = {0};
    bool json = argc == 4 && strcmp(argv[3], "--json") == 0;
    char error[512];
    double sum = 0, groups;

    if (argc != 3 && !json) {
        fprintf(stderr, "usage: %s TABLES DATA [--json]\n", argv[0]);
        return 2;
    }
    folder = argv[2];
    if (pred_tables_read(&tables, argv[1], error, sizeof(error)) != 0) {
        fprintf(stderr, "%s\n", error);
        return 2;
    }
    if (!read_gavel(&rows) || !read_nvidia(&rows) || !read_pollux(&rows))
        return 2;
    if (json)
        printf("{\"rows\": [");
    else
        printf("%-8s %-10s %-5s %4s %5s %9s %9s %9s\n", "table", "GPU", "prec", "GPUs", "batch",
               "measured", "predicted", "error");
    for (unsigned i = 0; i < rows.n; i++) {
        if (!predict(&tables, &rows.row[i])) {
            fprintf(stderr, "%s %s: not in the tables\n", rows.row[i].table, rows.row[i].gpu);
            return 1;
        }
        sum += wrong(&rows.row[i]);
        print_row(&rows.row[i], json, i == 0);
    }
    printf(json ? "\n], \"groups\": [" : "\n");
    groups = print_groups(&rows, json);
    if (json)
        printf("\n], \"rows_mean_abs_error_percent\": %.1f, \"groups_mean_abs_error_percent\": "
               "%.1f}\n",
               100 * sum / rows.n, 100 * groups);
    else
        printf("all: mean error %.1f %% over rows, %.1f %% over tables and GPUs\n",
               100 * sum / rows.n, 100 * groups);
    pred_tables_free(&tables);
    return 0;
}
