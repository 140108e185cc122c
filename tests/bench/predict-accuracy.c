/*
 * predict-accuracy TRAIN.csv TEST.csv [--json]
 *
 * Fits each application's step times on the first table and prints how far the predictions for the
 * second are off, beside two published models fitted on the same rows.
 */
#include "baselines.h"
#include "steps.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum model { FLOPS, POLLUX, OURS, NMODELS };
static const char *const NAME[NMODELS] = {"flops_ring", "pollux_7", "adloader"};

struct error {
    double mean, median; /* of |predicted / measured - 1| */
};

struct result {
    size_t train, test;
    struct error error[NMODELS];
    double covered; /* share of measured times within one predicted standard deviation */
    double fit_s;   /* of ours, CPU seconds */
};

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static struct error summarise(double *off, size_t n)
{
    struct error e = {0, 0};

    qsort(off, n, sizeof(*off), by_value);
    for (size_t i = 0; i < n; i++)
        e.mean += off[i] / (double)n;
    e.median = n % 2 ? off[n / 2] : (off[n / 2 - 1] + off[n / 2]) / 2;
    return e;
}

static bool baseline_error(const struct baseline *b, const struct app_steps *train,
                           const struct app_steps *test, double *off, struct error *error)
{
    double x[16];

    if (baseline_fit(b, train->steps, train->n, x) != 0)
        return false;
    for (size_t i = 0; i < test->n; i++)
        off[i] = fabs(b->step_s(x, &test->steps[i]) / test->steps[i].step_s - 1);
    *error = summarise(off, test->n);
    return true;
}

static bool our_error(const struct app_steps *train, const struct app_steps *test, double *off,
                      struct result *r)
{
    clock_t begin = clock();
    struct pred_step_model *model = pred_step_fit(train->steps, train->n);
    size_t covered = 0;

    r->fit_s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (model == NULL)
        return false;
    for (size_t i = 0; i < test->n; i++) {
        struct pred_step_time time;

        if (pred_step_predict(model, &test->steps[i], &time) != 0)
            time = (struct pred_step_time){.step_s = NAN};
        off[i] = fabs(time.step_s / test->steps[i].step_s - 1);
        covered += fabs(log(time.step_s / test->steps[i].step_s)) <= time.rel_sd;
    }
    r->covered = (double)covered / (double)test->n;
    r->error[OURS] = summarise(off, test->n);
    pred_step_model_free(model);
    return true;
}

static bool evaluate(const struct app_steps *train, const struct app_steps *test, struct result *r)
{
    double *off = calloc(test->n, sizeof(*off));
    bool ok = off != NULL && baseline_error(&BASELINE_FLOPS, train, test, off, &r->error[FLOPS]) &&
              baseline_error(&BASELINE_POLLUX, train, test, off, &r->error[POLLUX]) &&
              our_error(train, test, off, r);

    free(off);
    r->train = train->n;
    r->test = test->n;
    return ok;
}

static void print_text(const char *app, const struct result *r)
{
    printf("%-12s %6zu %6zu", app, r->train, r->test);
    for (unsigned m = 0; m < NMODELS; m++)
        printf("   %6.1f %6.1f", 100 * r->error[m].mean, 100 * r->error[m].median);
    printf("   %5.0f %6.2f\n", 100 * r->covered, r->fit_s);
}

static void print_json(const char *app, const struct result *r, bool first)
{
    printf("%s\n  {\"app\": \"%s\", \"train_points\": %zu, \"test_points\": %zu", first ? "" : ",",
           app, r->train, r->test);
    for (unsigned m = 0; m < NMODELS; m++)
        printf(", \"%s\": {\"mean_abs_error_percent\": %.3f, \"median_abs_error_percent\": %.3f}",
               NAME[m], 100 * r->error[m].mean, 100 * r->error[m].median);
    printf(", \"within_one_sd_percent\": %.1f, \"fit_cpu_s\": %.3f}", 100 * r->covered, r->fit_s);
}

int main(int argc, char **argv)
{
    struct steps train, test;
    bool json = argc == 4 && strcmp(argv[3], "--json") == 0, first = true;
    int rc = 0;

    if (argc != 3 && !json) {
        fprintf(stderr, "usage: %s TRAIN.csv TEST.csv [--json]\n", argv[0]);
        return 2;
    }
    if (!steps_read(&train, argv[1]) || !steps_read(&test, argv[2]))
        return 2;
    if (json)
        printf("{\"apps\": [");
    else
        printf("error of the step time, %%: mean and median of |predicted / measured - 1|\n"
               "%-12s %6s %6s   %13s   %13s   %13s   %5s %6s\n",
               "app", "train", "test", "flops+ring", "pollux-7", "adloader", "in sd", "fit s");
    for (size_t i = 0; i < test.n; i++) {
        const struct app_steps *known = steps_app(&train, test.apps[i].name);
        struct result r = {0};

        if (test.apps[i].n == 0)
            continue;
        if (known == NULL || !evaluate(known, &test.apps[i], &r)) {
            fprintf(stderr, "%s: not enough of it in %s to fit\n", test.apps[i].name, argv[1]);
            rc = 1;
            continue;
        }
        if (json)
            print_json(test.apps[i].name, &r, first);
        else
            print_text(test.apps[i].name, &r);
        first = false;
        fflush(stdout);
    }
    if (json)
        printf("\n]}\n");
    steps_free(&train);
    steps_free(&test);
    return rc;
}
