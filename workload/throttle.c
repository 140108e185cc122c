/* Emulated storage of a chosen bandwidth and latency. */
#include "throttle.h"

#include <errno.h>
#include <time.h>

int throttle_init(struct throttle *throttle, double bytes_per_s, double latency_s)
{
    *throttle = (struct throttle){.bytes_per_s = bytes_per_s, .latency_s = latency_s};
    return pthread_mutex_init(&throttle->lock, NULL) == 0 ? 0 : -1;
}

void throttle_free(struct throttle *throttle)
{
    (void)pthread_mutex_destroy(&throttle->lock);
}

/* The device's next idle moment, less what it may make up for. */
static uint64_t earliest(const struct throttle *throttle, uint64_t now_ns)
{
    const uint64_t burst = (uint64_t)(THROTTLE_BURST_S * 1e9);
    uint64_t begin = now_ns > burst ? now_ns - burst : 0;

    return throttle->free_ns > begin ? throttle->free_ns : begin;
}

uint64_t throttle_book(struct throttle *throttle, uint64_t now_ns, size_t bytes)
{
    uint64_t latency_ns = (uint64_t)(throttle->latency_s * 1e9), served = now_ns;

    if (throttle->bytes_per_s > 0.0) {
        (void)pthread_mutex_lock(&throttle->lock);
        served =
            earliest(throttle, now_ns) + (uint64_t)(1e9 * (double)bytes / throttle->bytes_per_s);
        throttle->free_ns = served;
        (void)pthread_mutex_unlock(&throttle->lock);
    }
    return (served > now_ns ? served : now_ns) + latency_ns;
}

void throttle_wait(struct throttle *throttle, uint64_t asked_ns, size_t bytes)
{
    uint64_t at_ns;
    struct timespec at;

    if (!(throttle->bytes_per_s > 0.0) && !(throttle->latency_s > 0.0))
        return;
    at_ns = throttle_book(throttle, asked_ns, bytes);
    at = (struct timespec){.tv_sec = (time_t)(at_ns / 1000000000u),
                           .tv_nsec = (long)(at_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}
