/* Time: monotonic for intervals, wall clock for people. */
#include "clock.h"

#include <time.h>

/* Neither clock can fail: both exist on every Linux and the pointer is valid. */
static struct timespec now(clockid_t clock)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(clock, &t);
    return t;
}

uint64_t clock_monotonic_ns(void)
{
    struct timespec t = now(CLOCK_MONOTONIC);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_monotonic_ms(void)
{
    return clock_monotonic_ns() / 1000000u;
}

uint64_t clock_wall_s(void)
{
    return (uint64_t)now(CLOCK_REALTIME).tv_sec;
}
