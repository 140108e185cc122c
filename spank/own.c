/* What Slurm gave the step on this node: see own.h. */
#include "config.h"

#include "own.h"

#include "procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool own_is_unconfined(const struct cpus *own, const struct own_grant *grant, unsigned machine_cpus)
{
    struct cpus cores = CPUS_EMPTY;
    unsigned granted = grant->cpus, have = cpus_count(own);
    if (grant->abstract_cores != NULL && cpus_parse(&cores, grant->abstract_cores) == 0) {
        unsigned of_cores = cpus_count(&cores) * grant->threads_per_core;
        if (of_cores > granted)
            granted = of_cores;
    }
    cpus_free(&cores);
    if (granted == 0)
        return have >= machine_cpus && machine_cpus > 1;
    return have > granted;
}

unsigned own_threads_per_core(const char *root, unsigned cpu)
{
    char path[PATH_MAX], text[256];
    struct cpus siblings = CPUS_EMPTY;
    snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list",
             root, cpu);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 1;
    text[n] = '\0';
    unsigned count = cpus_parse(&siblings, text) == 0 ? cpus_count(&siblings) : 1;
    cpus_free(&siblings);
    return count > 0 ? count : 1;
}

static int read_rank(const struct procfs *fs, struct rank *rank, struct cpus *own)
{
    struct procfs_stat stat;
    if (procfs_process_stat(fs, rank->pid, &stat) < 0 ||
        cpus_get_affinity(rank->pid, &rank->home) < 0)
        return -1;
    rank->start_ticks = stat.start_ticks;
    return cpus_or(own, &rank->home);
}

int own_read(struct rank *ranks, size_t nranks, struct cpus *own)
{
    struct procfs fs;
    int rc = -1;
    if (procfs_open(&fs, "") < 0)
        return -1;
    for (size_t i = 0; i < nranks; i++)
        if (read_rank(&fs, &ranks[i], own) == 0)
            rc = 0;
    int saved = errno;
    procfs_close(&fs);
    errno = saved;
    return rc;
}
