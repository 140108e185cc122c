/* Time: monotonic for intervals and deadlines, so that a jump of the wall clock changes nothing. */
#ifndef ADLOADER_CLOCK_H
#define ADLOADER_CLOCK_H

#include <stdint.h>

uint64_t clock_monotonic_ms(void);
uint64_t clock_monotonic_ns(void);
uint64_t clock_wall_s(void); /* seconds since the epoch, for people and records only */

#endif
