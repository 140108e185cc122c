/* CPU bandwidth quotas: see quota.h. */
#include "config.h"

#include "quota.h"

#include "stepgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEVELS_MAX 32

double quota_parse(const char *text)
{
    char *end;
    double quota = strtod(text, &end);
    if (end == text || *end != ' ')
        return (double)NAN;
    double period = strtod(end, &end);
    return quota > 0 && period > 0 ? quota / period : (double)NAN;
}

/* The first line of a file; false if there is none. */
static bool read_line(const char *directory, const char *name, char *line, size_t size)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, line, size - 1);
    close(fd);
    if (n <= 0)
        return false;
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return true;
}

static double level(const char *directory, bool unified)
{
    char quota[64], period[64], both[130];
    if (unified)
        return read_line(directory, "cpu.max", quota, sizeof quota) ? quota_parse(quota)
                                                                    : (double)NAN;
    if (!read_line(directory, "cpu.cfs_quota_us", quota, sizeof quota) ||
        !read_line(directory, "cpu.cfs_period_us", period, sizeof period))
        return (double)NAN;
    snprintf(both, sizeof both, "%s %s", quota, period);
    return quota_parse(both); /* -1 is none */
}

double quota_cores(const struct procfs *fs, pid_t pid)
{
    struct stepgroup_cpu *cpu = malloc(sizeof *cpu);
    double least = (double)NAN;
    if (cpu == NULL || stepgroup_cpu(cpu, fs, pid) < 0) {
        free(cpu);
        return least;
    }
    for (int up = 0; up < LEVELS_MAX && strlen(cpu->directory) >= cpu->top; up++) {
        least = fmin(least, level(cpu->directory, cpu->unified)); /* passes over NAN */
        char *slash = strrchr(cpu->directory, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
    }
    free(cpu);
    return least;
}
