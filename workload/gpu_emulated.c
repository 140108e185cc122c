/*
 * The emulated GPU: its parts are timed waits, and nothing is computed. It keeps the device's own
 * time: a step begins when the one before has ended and its batch is there, not when the training
 * loop has woken up and says so, as launches that are queued ahead do on a real one. With two slots
 * the queue is one step long, and a loop that is late by more than a step leaves the device idle.
 */
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
    bool alone;                     /* no other ranks to wait for */
    uint64_t arrived_ns[GPU_SLOTS]; /* the slot's batch; by the thread that brings it */
    uint64_t computed_ns, ended_ns; /* of the present step; 0 before the first */
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

/* Until that moment, or a stop. */
static void wait_until(const struct emulated *emulated, uint64_t end)
{
    uint64_t now = clock_monotonic_ns();

    while (now < end && atomic_load_explicit(emulated->stop, memory_order_relaxed) == 0) {
        sleep_until(end - now > SLICE_NS ? now + SLICE_NS : end);
        now = clock_monotonic_ns();
    }
}

static uint64_t later(uint64_t since_ns, double seconds)
{
    return since_ns + (uint64_t)(seconds * 1e9);
}

static uint64_t later_of(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static int emulated_copy(struct gpu *gpu, unsigned slot, const float *samples)
{
    struct emulated *emulated = emulated_of(gpu);

    (void)samples;
    emulated->arrived_ns[slot] = later(clock_monotonic_ns(), emulated->timeline.copy_s);
    wait_until(emulated, emulated->arrived_ns[slot]);
    return 0;
}

static int emulated_begin(struct gpu *gpu, unsigned slot)
{
    struct emulated *emulated = emulated_of(gpu);
    uint64_t free_ns = emulated->ended_ns != 0 ? emulated->ended_ns : clock_monotonic_ns();

    emulated->computed_ns =
        later(later_of(free_ns, emulated->arrived_ns[slot]), emulated->timeline.compute_s);
    return 0;
}

static int emulated_compute(struct gpu *gpu)
{
    const struct emulated *emulated = emulated_of(gpu);

    wait_until(emulated, emulated->computed_ns);
    return 0;
}

/* The gradients really travel by the ring of the ranks, in a size of its own, and have arrived now:
 * this only makes the exchange last as long as the whole one would. */
static int emulated_exchange(struct gpu *gpu)
{
    struct emulated *emulated = emulated_of(gpu);

    emulated->ended_ns = later(emulated->computed_ns, emulated->timeline.exchange_s);
    if (!emulated->alone)
        emulated->ended_ns = later_of(emulated->ended_ns, clock_monotonic_ns());
    wait_until(emulated, emulated->ended_ns);
    return 0;
}

static void emulated_close(struct gpu *gpu)
{
    free(emulated_of(gpu));
}

static const struct gpu_ops EMULATED = {
    .kind = "emulated",
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
    emulated->gpu.ops = &EMULATED;
    emulated->timeline = *timeline;
    emulated->stop = owner->stop;
    emulated->alone = owner->ranks == 1;
    return &emulated->gpu;
}
