/* The emulated GPU: a timed wait. */
#include "gpu.h"

#include "clock.h"

#include <errno.h>
#include <time.h>

#define SLICE_NS 100000000u /* how late a stop may be noticed */

struct gpu gpu_with_rate(double samples_per_s, unsigned batch)
{
    return (struct gpu){.step_s = batch / samples_per_s};
}

struct gpu gpu_with_flops(double forward_flops, double gpu_flops, unsigned batch)
{
    return (struct gpu){.step_s = 3.0 * forward_flops * batch / gpu_flops};
}

static void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000u),
                          .tv_nsec = (long)(at_ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

double gpu_step(const struct gpu *gpu, const atomic_int *stop)
{
    uint64_t start = clock_monotonic_ns(), end = start + (uint64_t)(gpu->step_s * 1e9), now = start;

    while (now < end && atomic_load_explicit(stop, memory_order_relaxed) == 0) {
        sleep_until(end - now > SLICE_NS ? now + SLICE_NS : end);
        now = clock_monotonic_ns();
    }
    return 1e-9 * (double)(now - start);
}
