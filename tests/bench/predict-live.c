/*
 * predict-live ADLTRAIN DATA CALIBRATION [SECONDS] [--json]
 *
 * Runs adltrain (a data set of `adltrain make-data`) on 1 and on 2 real cores, with an emulated GPU
 * that loaders cannot feed and with one that they can on two cores, and prints the measured rate
 * beside what was predicted: from the node's calibration and the GPU's rate alone, and by the
 * learner after having watched the run on 1 core, or on 2, for SECONDS (default 30). As root the
 * runs get a higher priority, since other programs on these cores would be measured, too.
 */
#include "config.h"

#include "calibration.h"
#include "cpus.h"
#include "predictor.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CORES_MAX 2u
#define LOADERS   4u
#define BATCH     "32"
#define WARM_UP   3u /* lines of progress left out */

struct watched {
    double rate; /* mean samples/s after the warm-up */
    unsigned lines;
    struct pred_learner learner;
};

static bool bind_first(unsigned n)
{
    struct cpus allowed = CPUS_EMPTY, some = CPUS_EMPTY;
    bool ok = cpus_get_affinity(0, &allowed) == 0 && cpus_count(&allowed) >= n;
    long cpu = -1;

    for (unsigned i = 0; ok && i < n; i++) {
        cpu = cpus_next(&allowed, (unsigned long)(cpu + 1));
        ok = cpu >= 0 && cpus_set(&some, (unsigned)cpu) == 0;
    }
    ok = ok && cpus_set_affinity(0, &some) == 0;
    cpus_free(&allowed);
    cpus_free(&some);
    return ok;
}

/* Where the kernel schedules by sessions (autogroup), priority counts within one only: the session
 * of its own gets it, too. What is not allowed is left. */
static void hurry(void)
{
    FILE *group;

    (void)setpriority(PRIO_PROCESS, 0, -15);
    if (setsid() < 0 || (group = fopen("/proc/self/autogroup", "we")) == NULL)
        return;
    (void)fputs("-15", group);
    (void)fclose(group);
}

/* adltrain with its lines of progress in a pipe. */
static FILE *start(char **argv, unsigned cores, double gpu_rate, double seconds, pid_t *child)
{
    char rate[32], time[32], loaders[16];
    int ends[2];

    snprintf(rate, sizeof(rate), "%.1f", gpu_rate);
    snprintf(time, sizeof(time), "%.1f", seconds + WARM_UP);
    snprintf(loaders, sizeof(loaders), "%u", LOADERS);
    if (pipe(ends) != 0)
        return NULL;
    *child = fork();
    if (*child == 0) {
        hurry();
        if (bind_first(cores) && dup2(ends[1], STDOUT_FILENO) >= 0 &&
            dup2(ends[1], STDERR_FILENO) >= 0 && close(ends[0]) == 0)
            execl(argv[1], argv[1], "run", "--data", argv[2], "--batch", BATCH, "--gpu-rate", rate,
                  "--gradient-bytes", "4K", "--fixed-loaders", "--loaders", loaders, "--seconds",
                  time, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (*child < 0) {
        close(ends[0]);
        return NULL;
    }
    return fdopen(ends[0], "r");
}

static double number_after(const char *line, const char *key)
{
    const char *at = strstr(line, key);

    return at != NULL ? strtod(at + strlen(key), NULL) : NAN;
}

/* A line of progress as a report: what an agent with the client library would send. */
static struct pred_observation report(const char *line, unsigned cores, double interval)
{
    double wait = number_after(line, " wait=");

    return (struct pred_observation){
        .interval_s = interval,
        .cores = cores,
        .tasks = LOADERS,
        .workers = LOADERS,
        .loader_cpu_s = number_after(line, " loader_cpu_cores=") * interval,
        .queue_s = NAN,
        .io_wait = NAN,
        .gpu_busy = NAN,
        .samples = number_after(line, " samples_per_s=") * interval,
        .wait_s = wait * interval,
        .busy_s = (1 - wait) * interval,
        .read_bytes = NAN,
    };
}

static bool watch(char **argv, unsigned cores, double gpu_rate, double seconds, struct watched *w)
{
    struct pred_job job;
    char line[1024];
    double last = 0;
    pid_t child;
    int status;
    FILE *out = start(argv, cores, gpu_rate, seconds, &child);

    pred_job_init(&job);
    pred_learner_init(&w->learner);
    w->rate = 0;
    w->lines = 0;
    if (out == NULL)
        return false;
    while (fgets(line, sizeof(line), out) != NULL) {
        double now = number_after(line, " t_s="), rate = number_after(line, " samples_per_s=");
        struct pred_observation o;

        if (isnan(now) || !(now > last))
            continue;
        o = report(line, cores, now - last);
        last = now;
        if (++w->lines <= WARM_UP)
            continue;
        w->rate += (rate - w->rate) / (w->lines - WARM_UP);
        pred_learner_observe(&w->learner, &job, &o);
    }
    fclose(out);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && w->lines > WARM_UP;
}

static double learned_rate(const struct pred_learner *learner, unsigned cores)
{
    struct pred_curve curve;
    struct pred_job job;
    double rate;

    pred_job_init(&job);
    if (pred_learner_curve(learner, &job, CORES_MAX, &curve) != 0)
        return NAN;
    rate = curve.rate[cores];
    pred_curve_free(&curve);
    return rate;
}

static double calibrated_rate(const struct pred_calibration *c, double gpu_rate, unsigned cores)
{
    struct pred_curve curve;
    struct pred_job job;
    double rate;

    pred_job_init(&job);
    job.core_rate = (struct pred_value){c->jpeg_rate, 0.25, PRED_STATIC};
    job.beta = (struct pred_value){c->jpeg_beta >= 0 ? c->jpeg_beta : 0, 0.5, PRED_STATIC};
    job.gpu_rate = (struct pred_value){gpu_rate, 0.05, PRED_STATIC};
    if (pred_curve_static(&job, CORES_MAX, &curve) != 0)
        return NAN;
    rate = curve.rate[cores];
    pred_curve_free(&curve);
    return rate;
}

static void print_row(bool json, bool first, double gpu_rate, unsigned cores, double measured,
                      const double *predicted)
{
    if (json)
        printf("%s\n  {\"gpu_rate_samples_per_s\": %.1f, \"cores\": %u, "
               "\"measured_samples_per_s\": %.1f, "
               "\"from_calibration\": %.1f, \"after_one_core\": %.1f, \"after_two_cores\": %.1f}",
               first ? "" : ",", gpu_rate, cores, measured, predicted[0], predicted[1],
               predicted[2]);
    else
        printf("%8.0f %6u %9.1f   %9.1f %+5.0f %%   %9.1f %+5.0f %%   %9.1f %+5.0f %%\n", gpu_rate,
               cores, measured, predicted[0], 100 * (predicted[0] / measured - 1), predicted[1],
               100 * (predicted[1] / measured - 1), predicted[2],
               100 * (predicted[2] / measured - 1));
}

static bool evaluate(char **argv, const struct pred_calibration *c, double gpu_rate, double seconds,
                     bool json, bool first)
{
    struct watched w[CORES_MAX + 1];

    for (unsigned cores = 1; cores <= CORES_MAX; cores++)
        if (!watch(argv, cores, gpu_rate, seconds, &w[cores])) {
            fprintf(stderr, "%s on %u cores failed\n", argv[1], cores);
            return false;
        }
    for (unsigned cores = 1; cores <= CORES_MAX; cores++) {
        const double predicted[3] = {calibrated_rate(c, gpu_rate, cores),
                                     learned_rate(&w[1].learner, cores),
                                     learned_rate(&w[2].learner, cores)};

        print_row(json, first && cores == 1, gpu_rate, cores, w[cores].rate, predicted);
    }
    return true;
}

int main(int argc, char **argv)
{
    bool json = argc > 4 && strcmp(argv[argc - 1], "--json") == 0;
    double seconds = argc > 4 + (json ? 1 : 0) ? strtod(argv[4], NULL) : 30;
    struct pred_calibration c;
    char error[512];

    if (argc < 4 || !(seconds >= 5 && seconds <= 600)) {
        fprintf(stderr, "usage: %s ADLTRAIN DATA CALIBRATION [SECONDS] [--json]\n", argv[0]);
        return 2;
    }
    if (pred_calibration_read(&c, argv[3], error, sizeof(error)) != 0 || !(c.jpeg_rate > 0)) {
        fprintf(stderr, "%s\n", c.jpeg_rate > 0 ? error : "the calibration has no jpeg_rate");
        return 2;
    }
    if (json)
        printf("{\"watched_s\": %.0f, \"runs\": [", seconds);
    else
        printf("%8s %6s %9s   %17s   %17s   %17s\n", "GPU/s", "cores", "measured",
               "from calibration", "after 1 core", "after 2 cores");
    if (!evaluate(argv, &c, 10 * c.jpeg_rate, seconds, json, true) ||
        !evaluate(argv, &c, 1.4 * c.jpeg_rate, seconds, json, false))
        return 1;
    if (json)
        printf("\n]}\n");
    return 0;
}
