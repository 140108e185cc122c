/* How long a recurring piece of work takes: see worktime.h. */
#include "config.h"

#include "worktime.h"

#include <stdlib.h>
#include <string.h>

void worktime_add(struct worktime *w, uint64_t ns)
{
    uint64_t us = ns / 1000 < UINT32_MAX ? ns / 1000 : UINT32_MAX;
    w->us[w->times++ % WORKTIME_KEPT] = (uint32_t)us;
    if (us > w->longest_us)
        w->longest_us = (uint32_t)us;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

double worktime_median_ms(const struct worktime *w)
{
    uint32_t sorted[WORKTIME_KEPT];
    size_t n = w->times < WORKTIME_KEPT ? w->times : WORKTIME_KEPT;
    if (n == 0)
        return 0;
    memcpy(sorted, w->us, n * sizeof sorted[0]);
    qsort(sorted, n, sizeof sorted[0], compare);
    return sorted[n / 2] / 1000.0;
}

double worktime_longest_ms(const struct worktime *w)
{
    return w->longest_us / 1000.0;
}
