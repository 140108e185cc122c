/*
 * CPU bandwidth quotas: masks do not show them, yet what is over a quota is throttled, all threads
 * of the group at once.
 */
#ifndef ADLOADER_QUOTA_H
#define ADLOADER_QUOTA_H

#include "procfs.h"

/*
 * Cores' worth of CPU time that the groups of the process allow (cpu.max, or cfs_quota_us over
 * cfs_period_us): the least of its group's and of all above that are to be seen. NAN: no limit, or
 * none to be seen.
 */
double quota_cores(const struct procfs *fs, pid_t pid);

/* The text of cpu.max: "400000 100000" is 4, "max 100000" NAN. */
double quota_parse(const char *text);

#endif
