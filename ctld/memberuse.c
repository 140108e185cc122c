/* What one member did, summed up. See memberuse.h. */
#include "config.h"

#include "memberuse.h"

#include <math.h>
#include <string.h>

#define UNSEEN_MS 60000u /* a longer time between reports is not counted: we do not know it */

void memberuse_begin(struct member_use *use, uint64_t now_ms)
{
    memset(use, 0, sizeof(*use));
    use->at_ms = now_ms;
}

static void count_cores(struct record_use *sum, unsigned cores, double seconds)
{
    if (seconds <= 0)
        return;
    if (sum->cores_known_s <= 0 || cores < sum->cores_min)
        sum->cores_min = cores;
    if (sum->cores_known_s <= 0 || cores > sum->cores_max)
        sum->cores_max = cores;
    sum->cores_s += cores * seconds;
    sum->cores_known_s += seconds;
}

/* Seconds since the last time, which becomes now. */
static double advance(struct member_use *use, uint64_t now_ms)
{
    uint64_t passed = now_ms > use->at_ms ? now_ms - use->at_ms : 0;

    use->at_ms = now_ms;
    return passed > UNSEEN_MS ? 0 : (double)passed / 1000;
}

void memberuse_report(struct member_use *use, const struct msg_report *report, unsigned cores,
                      enum record_verdict verdict, uint64_t now_ms)
{
    struct record_use *sum = &use->sum;
    double seconds = advance(use, now_ms), interval = (double)report->interval_ms / 1000;

    if (report->tasks > 0) {
        use->loaders = true;
        count_cores(sum, cores, seconds);
    }
    sum->loader_core_s += report->loader_cpu_s;
    sum->verdict_s[verdict] += (float)seconds;
    if (isfinite(report->gpu_busy)) {
        sum->gpu_busy_s += report->gpu_busy * interval;
        sum->gpu_known_s += interval;
    }
    if (isfinite(report->wait_s) && isfinite(report->busy_s)) {
        sum->wait_s += report->wait_s;
        sum->loop_s += report->wait_s + report->busy_s;
    }
    if (isfinite(report->samples)) {
        sum->samples += report->samples;
        sum->samples_known = true;
    }
    sum->drift = report->drift;
}

/* Goodbyes of today's agents leave these unknown; where one tells them, they are the whole. */
static void take_whole(struct record_use *sum, const struct msg_goodbye *goodbye)
{
    if (goodbye->loader_cpu_s > sum->loader_core_s)
        sum->loader_core_s = goodbye->loader_cpu_s;
    if (isfinite(goodbye->samples) && goodbye->samples > sum->samples) {
        sum->samples = goodbye->samples;
        sum->samples_known = true;
    }
    if (isfinite(goodbye->wait_s) && isfinite(goodbye->busy_s) &&
        goodbye->wait_s + goodbye->busy_s > sum->loop_s) {
        sum->wait_s = goodbye->wait_s;
        sum->loop_s = goodbye->wait_s + goodbye->busy_s;
    }
    if (goodbye->drift > sum->drift)
        sum->drift = goodbye->drift;
}

void memberuse_end(struct member_use *use, const struct msg_goodbye *goodbye, unsigned cores,
                   unsigned moves, uint64_t life_ms, uint64_t now_ms)
{
    struct record_use *sum = &use->sum;

    if (goodbye != NULL) {
        life_ms = goodbye->age_ms;
        take_whole(sum, goodbye);
        if (sum->loader_core_s > 0)
            use->loaders = true;
        if (use->loaders)
            count_cores(sum, cores, advance(use, now_ms));
    }
    sum->members = 1;
    sum->moves = moves;
    sum->life_s = (double)life_ms / 1000;
}
