/*
 * How long a recurring piece of the agent's own work takes: the last few times, and the longest
 * ever.
 */
#ifndef ADLOADER_WORKTIME_H
#define ADLOADER_WORKTIME_H

#include <stdint.h>

#define WORKTIME_KEPT 64u

struct worktime {
    uint32_t us[WORKTIME_KEPT]; /* the last ones, in a ring */
    uint32_t times;             /* how often, since the start */
    uint32_t longest_us;        /* since the start */
};

void worktime_add(struct worktime *w, uint64_t ns);

/* In milliseconds: the median of those kept, and the longest ever; 0 if there was none. */
double worktime_median_ms(const struct worktime *w);
double worktime_longest_ms(const struct worktime *w);

#endif
