/* The emulated GPU: its parts are timed waits, and nothing is computed. */
#include "config.h"

#include "gpu.h"

#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define SLICE_NS 100000000u /* how late a stop may be noticed */

struct emulated {
    struct gpu gpu;
    struct gpu_timeline timeline;
    const atomic_int *stop;
    uint64_t begin_ns, computed_ns; /* of the present step */
};

static struct emulated *emulated_of(struct gpu *gpu)
{
    return (struct emulated *)(void *)gpu;
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000u),
                          .tv_nsec = (long)(at_ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

/* Until so long after a moment, or a stop. */
static void wait_after(const struct emulated *emulated, uint64_t since_ns, double seconds)
{
    uint64_t end = since_ns + (uint64_t)(seconds * 1e9), now = clock_monotonic_ns();

    while (now < end && atomic_load_explicit(emulated->stop, memory_order_relaxed) == 0) {
        sleep_until(end - now > SLICE_NS ? now + SLICE_NS : end);
        now = clock_monotonic_ns();
    }
}

static int emulated_copy(struct gpu *gpu, unsigned slot, const float *samples)
{
    const struct emulated *emulated = emulated_of(gpu);

    (void)slot;
    (void)samples;
    wait_after(emulated, clock_monotonic_ns(), emulated->timeline.copy_s);
    return 0;
}

static int emulated_begin(struct gpu *gpu, unsigned slot)
{
    struct emulated *emulated = emulated_of(gpu);

    (void)slot;
    emulated->begin_ns = emulated->computed_ns = clock_monotonic_ns();
    return 0;
}

static int emulated_compute(struct gpu *gpu)
{
    struct emulated *emulated = emulated_of(gpu);

    wait_after(emulated, emulated->begin_ns, emulated->timeline.compute_s);
    emulated->computed_ns = clock_monotonic_ns();
    return 0;
}

/* The gradients really travel by the ring of the ranks, in a size of its own: this only makes the
 * exchange last as long as the whole one would. */
static int emulated_exchange(struct gpu *gpu)
{
    const struct emulated *emulated = emulated_of(gpu);

    wait_after(emulated, emulated->computed_ns, emulated->timeline.exchange_s);
    return 0;
}

static void emulated_close(struct gpu *gpu)
{
    free(emulated_of(gpu));
}

static const struct gpu_ops WITHOUT_COPIES = {
    .kind = "emulated",
    .copy = emulated_copy,
    .begin = emulated_begin,
    .compute = emulated_compute,
    .exchange = emulated_exchange,
    .close = emulated_close,
};

static const struct gpu_ops WITH_COPIES = {
    .kind = "emulated",
    .copies = true,
    .copy = emulated_copy,
    .begin = emulated_begin,
    .compute = emulated_compute,
    .exchange = emulated_exchange,
    .close = emulated_close,
};

struct gpu *gpu_emulated_open(const struct gpu_timeline *timeline, const struct gpu_owner *owner)
{
    struct emulated *emulated = calloc(1, sizeof *emulated);

    if (emulated == NULL) {
        owner->complain("out of memory");
        return NULL;
    }
    emulated->gpu.ops = timeline->copy_s > 0.0 ? &WITH_COPIES : &WITHOUT_COPIES;
    emulated->timeline = *timeline;
    emulated->stop = owner->stop;
    return &emulated->gpu;
}
