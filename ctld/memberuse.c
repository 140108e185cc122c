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
                      enum verdict verdict, uint64_t now_ms)
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

/* ---- across our restart -------------------------------------------------------------------- */

#define TRAILER_MARK 0xa1u /* the last byte; the one before is the length of all */

enum { /* all that is saved, as floats, in this order */
       SAVED_CORES_MIN,
       SAVED_CORES_MAX,
       SAVED_CORES,
       SAVED_CORES_KNOWN,
       SAVED_LOADER,
       SAVED_WAIT,
       SAVED_LOOP,
       SAVED_GPU_BUSY,
       SAVED_GPU_KNOWN,
       SAVED_SAMPLES, /* negative: unknown */
       SAVED_LOADERS,
       SAVED_VERDICTS,
       SAVED = SAVED_VERDICTS + VERDICTS
};

#define TRAILER_BYTES (SAVED * sizeof(float) + 2)

_Static_assert(TRAILER_BYTES < 256, "its length is a byte");

size_t memberuse_save(const struct member_use *use, uint8_t *buf, size_t size)
{
    const struct record_use *sum = &use->sum;
    float saved[SAVED] = {
        [SAVED_CORES_MIN] = (float)sum->cores_min,
        [SAVED_CORES_MAX] = (float)sum->cores_max,
        [SAVED_CORES] = (float)sum->cores_s,
        [SAVED_CORES_KNOWN] = (float)sum->cores_known_s,
        [SAVED_LOADER] = (float)sum->loader_core_s,
        [SAVED_WAIT] = (float)sum->wait_s,
        [SAVED_LOOP] = (float)sum->loop_s,
        [SAVED_GPU_BUSY] = (float)sum->gpu_busy_s,
        [SAVED_GPU_KNOWN] = (float)sum->gpu_known_s,
        [SAVED_SAMPLES] = sum->samples_known ? (float)sum->samples : -1,
        [SAVED_LOADERS] = use->loaders,
    };

    if (size < TRAILER_BYTES)
        return 0;
    memcpy(saved + SAVED_VERDICTS, sum->verdict_s, sizeof(sum->verdict_s));
    memcpy(buf, saved, sizeof(saved)); /* read back on hosts of this kind alone: by ourselves */
    buf[TRAILER_BYTES - 2] = TRAILER_BYTES;
    buf[TRAILER_BYTES - 1] = TRAILER_MARK;
    return TRAILER_BYTES;
}

static bool makes_sense(const float saved[SAVED])
{
    for (int i = 0; i < SAVED; i++)
        if (!(saved[i] >= (i == SAVED_SAMPLES ? -1.0f : 0.0f) && saved[i] <= 1e15f))
            return false;
    return saved[SAVED_CORES_MIN] <= saved[SAVED_CORES_MAX] && saved[SAVED_CORES_MAX] <= 1e6f;
}

size_t memberuse_load(struct member_use *use, const uint8_t *buf, size_t length)
{
    struct record_use *sum = &use->sum;
    float saved[SAVED];

    if (length < TRAILER_BYTES || buf[length - 1] != TRAILER_MARK ||
        buf[length - 2] != TRAILER_BYTES)
        return length;
    memcpy(saved, buf + length - TRAILER_BYTES, sizeof(saved));
    if (!makes_sense(saved))
        return length - TRAILER_BYTES;
    sum->cores_min = (uint32_t)saved[SAVED_CORES_MIN];
    sum->cores_max = (uint32_t)saved[SAVED_CORES_MAX];
    sum->cores_s = (double)saved[SAVED_CORES];
    sum->cores_known_s = (double)saved[SAVED_CORES_KNOWN];
    sum->loader_core_s = (double)saved[SAVED_LOADER];
    sum->wait_s = (double)saved[SAVED_WAIT];
    sum->loop_s = (double)saved[SAVED_LOOP];
    sum->gpu_busy_s = (double)saved[SAVED_GPU_BUSY];
    sum->gpu_known_s = (double)saved[SAVED_GPU_KNOWN];
    sum->samples_known = saved[SAVED_SAMPLES] >= 0;
    sum->samples = sum->samples_known ? (double)saved[SAVED_SAMPLES] : 0;
    use->loaders = saved[SAVED_LOADERS] > 0;
    memcpy(sum->verdict_s, saved + SAVED_VERDICTS, sizeof(sum->verdict_s));
    return length - TRAILER_BYTES;
}
