/* Memory bandwidth: all cores copy buffers much larger than their caches. */
#include "config.h"

#include "cal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_MAX (64u << 20)
#define BUFFER_MIN (8u << 20)

struct copier {
    size_t bytes;
    unsigned char *from, *to;
    unsigned char turn;
};

/* At most a quarter of what is free, for all threads together. */
static size_t buffer_size(unsigned threads)
{
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    double most =
        pages > 0 && page > 0 ? (double)pages * (double)page / 4 / (2.0 * threads) : BUFFER_MIN;

    return most > BUFFER_MAX ? BUFFER_MAX : most < BUFFER_MIN ? BUFFER_MIN : (size_t)most;
}

static void stop_copier(void *state)
{
    struct copier *c = state;

    free(c->from);
    free(c->to);
    free(c);
}

static void *start_copier(unsigned thread, void *data)
{
    struct copier *c = calloc(1, sizeof(*c));

    (void)thread;
    if (c == NULL)
        return NULL;
    c->bytes = *(const size_t *)data;
    c->from = malloc(c->bytes);
    c->to = malloc(c->bytes);
    if (c->from == NULL || c->to == NULL) {
        stop_copier(c);
        return NULL;
    }
    memset(c->from, 1, c->bytes);
    memset(c->to, 2, c->bytes);
    return c;
}

static double copy_once(void *state)
{
    struct copier *c = state;
    unsigned char *swap = c->from;

    c->from[0] = c->turn++; /* differs each time, so that no compiler leaves it out */
    memcpy(c->to, c->from, c->bytes);
    c->from = c->to;
    c->to = swap;
    return 2.0 * (double)c->bytes;
}

void cal_memory(const struct cal_voice *voice, unsigned threads, double seconds,
                struct pred_calibration *out)
{
    size_t bytes = buffer_size(threads);
    const struct cal_work work = {start_copier, copy_once, stop_copier, &bytes, true};
    double rate = cal_parallel(&work, threads, seconds);

    cal_say(voice, "memory: %.1f GB/s read and written by %u threads", rate / 1e9, threads);
    if (rate > 0)
        out->memory_bytes_per_s = rate;
}
