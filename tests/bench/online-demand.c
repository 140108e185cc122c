/*
 * online-demand [--json]
 *
 * A simulated step reports once a second, with noise; half way something changes (the page cache
 * warms, augmentation gets heavier, a signal is lost). Prints how far the learned demand in cores
 * is from the true one over time: the mean over seeds of |learned / true - 1|, the reports until it
 * stays within 20 % from the start and after the change with the share of seeds that do, and how
 * often it left [0, machine].
 *
 * "given" rows move the member to the knee of its own curve every five reports, as a controller
 * would; in the others its cores stay.
 */
#include "predictor_sim.h"

#include <stdio.h>
#include <string.h>

#define MACHINE 48u
#define SEEDS   50u
#define REPORTS 120u
#define CHANGE  60u
#define CLOSE   0.20

enum change { NOTHING, CACHE_WARMS, HEAVIER, LIGHTER, SIGNAL_LOST };

static const struct scenario {
    const char *name;
    struct sim sim;
    unsigned cores;
    bool given;
    enum change change;
} SCENARIOS[] = {
    {"CPU only, enough cores",
     {.core_rate = 100, .gpu_rate = 600, .io_rate = INFINITY, .workers = 32, .noise = 0.1},
     16,
     false,
     HEAVIER},
    {"CPU only, squeezed, given",
     {.core_rate = 100, .gpu_rate = 600, .io_rate = INFINITY, .workers = 32, .noise = 0.1},
     2,
     true,
     HEAVIER},
    {"CPU and GPU, squeezed",
     {.core_rate = 100,
      .gpu_rate = 600,
      .io_rate = INFINITY,
      .workers = 32,
      .noise = 0.1,
      .gpu = true},
     4,
     false,
     HEAVIER},
    {"all signals, squeezed",
     {.core_rate = 100,
      .beta = 0.03,
      .gpu_rate = 600,
      .io_rate = INFINITY,
      .workers = 32,
      .noise = 0.1,
      .gpu = true,
      .samples = true,
      .clock = true},
     4,
     false,
     HEAVIER},
    {"all signals, given",
     {.core_rate = 100,
      .beta = 0.05,
      .gpu_rate = 600,
      .io_rate = INFINITY,
      .workers = 32,
      .noise = 0.1,
      .gpu = true,
      .samples = true,
      .clock = true},
     3,
     true,
     LIGHTER},
    {"cold cache that warms",
     {.core_rate = 100, .gpu_rate = 900, .io_rate = 300, .workers = 32, .noise = 0.1, .gpu = true},
     16,
     false,
     CACHE_WARMS},
    {"cold cache that warms, CPU only",
     {.core_rate = 100, .gpu_rate = 900, .io_rate = 300, .workers = 32, .noise = 0.1},
     16,
     false,
     CACHE_WARMS},
    {"signals lost, squeezed",
     {.core_rate = 100,
      .gpu_rate = 600,
      .io_rate = INFINITY,
      .workers = 32,
      .noise = 0.1,
      .gpu = true,
      .samples = true,
      .clock = true},
     4,
     false,
     SIGNAL_LOST},
    {"bursts of 5 s, CPU only",
     {.core_rate = 100,
      .gpu_rate = 600,
      .io_rate = INFINITY,
      .workers = 32,
      .noise = 0.05,
      .burst_on = 2,
      .burst_off = 3},
     24,
     false,
     LIGHTER},
};
#define NSCENARIOS (sizeof(SCENARIOS) / sizeof(SCENARIOS[0]))

static void apply(struct sim *s, enum change change)
{
    switch (change) {
    case CACHE_WARMS:
        s->io_rate = INFINITY;
        break;
    case HEAVIER:
        s->core_rate /= 2;
        break;
    case LIGHTER:
        s->core_rate *= 1.5;
        break;
    case SIGNAL_LOST:
        s->samples = s->clock = s->gpu = false;
        break;
    case NOTHING:
        break;
    }
}

struct course {
    double off[REPORTS];       /* mean over seeds */
    double settled, recovered; /* reports, mean over the seeds that did */
    unsigned settled_seeds, recovered_seeds;
    unsigned outside;
};

/* Reports from `from` until the error stays below CLOSE (to the end of the phase, but for one
 * report in ten, which noise may take over); NAN never. */
static double settled_after(const double *off, unsigned from, unsigned to)
{
    for (unsigned i = from; i + 10 < to; i++) {
        unsigned bad = 0;

        for (unsigned k = i; k < to; k++)
            bad += off[k] > CLOSE;
        if (off[i] <= CLOSE && 10 * bad <= to - i)
            return i - from + 1;
    }
    return NAN;
}

/* A running mean of those that came to it. */
static void count(double reports, double *mean, unsigned *seeds)
{
    if (isnan(reports))
        return;
    ++*seeds;
    *mean += (reports - *mean) / *seeds;
}

static void run(const struct scenario *scenario, uint64_t seed, struct course *course)
{
    struct sim s = scenario->sim;
    struct pred_learner learner;
    struct pred_job job;
    unsigned cores = scenario->cores;
    double off[REPORTS];

    s.random = seed;
    pred_job_init(&job);
    pred_learner_init(&learner);
    for (unsigned i = 0; i < REPORTS; i++) {
        struct pred_observation o;
        struct pred_curve curve;

        if (i == CHANGE)
            apply(&s, scenario->change);
        o = sim_report(&s, cores);
        pred_learner_observe(&learner, &job, &o);
        if (pred_learner_curve(&learner, &job, MACHINE, &curve) != 0)
            continue;
        off[i] = fabs(curve.demand / sim_demand(&s) - 1);
        course->off[i] += off[i] / SEEDS;
        course->outside += !(curve.demand >= 0 && curve.demand <= MACHINE);
        if (scenario->given && i % 5 == 4)
            cores = pred_curve_knee(&curve, 0.02);
        pred_curve_free(&curve);
    }
    count(settled_after(off, 0, CHANGE), &course->settled, &course->settled_seeds);
    count(settled_after(off, CHANGE, REPORTS), &course->recovered, &course->recovered_seeds);
}

static const unsigned AT[] = {2, 5, 10, 20, 30, 59, 62, 65, 70, 80, 90, 119};
#define NAT (sizeof(AT) / sizeof(AT[0]))

static void print_course(const char *name, const struct course *c, bool json, bool first)
{
    if (json) {
        printf(
            "%s\n  {\"scenario\": \"%s\", \"settled_after_reports\": %.1f, \"settled_seeds\": %u, "
            "\"recovered_after_reports\": %.1f, \"recovered_seeds\": %u, \"seeds\": %u, "
            "\"outside_machine\": %u, \"error_percent\": {",
            first ? "" : ",", name, c->settled, c->settled_seeds, c->recovered, c->recovered_seeds,
            SEEDS, c->outside);
        for (size_t k = 0; k < NAT; k++)
            printf("%s\"%u\": %.1f", k > 0 ? ", " : "", AT[k] + 1, 100 * c->off[AT[k]]);
        printf("}}");
        return;
    }
    printf("%-32s", name);
    for (size_t k = 0; k < NAT; k++)
        printf("%5.0f", 100 * c->off[AT[k]]);
    printf("  %5.1f %3u%%  %5.1f %3u%% %8u\n", c->settled, 100 * c->settled_seeds / SEEDS,
           c->recovered, 100 * c->recovered_seeds / SEEDS, c->outside);
}

int main(int argc, char **argv)
{
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;

    if (argc != 1 && !json) {
        fprintf(stderr, "usage: %s [--json]\n", argv[0]);
        return 2;
    }
    if (json) {
        printf("{\"scenarios\": [");
    } else {
        printf("error of the demand, %%, at report (the change is at 61)\n%-32s", "");
        for (size_t k = 0; k < NAT; k++)
            printf("%5u", AT[k] + 1);
        printf("  %10s  %10s %8s\n", "settled", "recovered", "outside");
    }
    for (size_t i = 0; i < NSCENARIOS; i++) {
        struct course course = {.outside = 0};

        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            run(&SCENARIOS[i], seed, &course);
        print_course(SCENARIOS[i].name, &course, json, i == 0);
    }
    if (json)
        printf("\n]}\n");
    return 0;
}
