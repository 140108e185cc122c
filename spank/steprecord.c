/* What a step has added to its cpusets, on disk: see steprecord.h. */
#include "config.h"

#include "steprecord.h"

#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD      "adloader-cpuset 1"
#define SUFFIX    ".cpuset"
#define NAME_SIZE 64
#define FILES_MAX 4096u

static void file_name(uint32_t job, uint32_t step, char *name, size_t size)
{
    snprintf(name, size, "%" PRIu32 ".%" PRIu32 SUFFIX, job, step);
}

/* This boot's id; a record of an earlier one tells of nothing that is still there. */
static void read_boot(const char *root, char *boot, size_t size)
{
    char path[512];
    boot[0] = '\0';
    snprintf(path, sizeof path, "%s/proc/sys/kernel/random/boot_id", root);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(boot, (int)size, file) == NULL)
        boot[0] = '\0';
    boot[strcspn(boot, "\n")] = '\0';
    fclose(file);
}

/* ---- writing ---- */

static int print(FILE *out, const struct cpuset *set)
{
    char boot[64];
    read_boot(set->root, boot, sizeof boot);
    fprintf(out, HEAD "\nversion2 %d\nholder %d %" PRIu64 " %s\n", set->version2, (int)set->holder,
            set->holder_start, boot[0] != '\0' ? boot : "-");
    for (unsigned i = 0; i < set->nlevels; i++) {
        char *added = cpus_to_string(&set->levels[i].added);
        if (added == NULL)
            return -1;
        fprintf(out, "level %s %s\n", added[0] != '\0' ? added : "-", set->levels[i].directory);
        free(added);
    }
    return fflush(out) == 0 && !ferror(out) ? 0 : -1;
}

int steprecord_write(const struct cpuset *set)
{
    char name[NAME_SIZE], fresh[NAME_SIZE + 4];
    file_name(set->job, set->step, name, sizeof name);
    snprintf(fresh, sizeof fresh, "%s.new", name);
    int fd =
        openat(set->node->fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out == NULL) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    int rc = print(out, set);
    if (fclose(out) != 0)
        rc = -1;
    if (rc == 0)
        rc = renameat(set->node->fd, fresh, set->node->fd, name);
    if (rc < 0) {
        int saved = errno;
        (void)unlinkat(set->node->fd, fresh, 0);
        errno = saved;
    }
    return rc;
}

int steprecord_remove(struct nodedir *node, uint32_t job, uint32_t step)
{
    char name[NAME_SIZE];
    file_name(job, step, name, sizeof name);
    return unlinkat(node->fd, name, 0) < 0 && errno != ENOENT ? -1 : 0;
}

/* ---- reading ---- */

/* "12.0.cpuset"; false: another file. */
static bool parse_name(const char *name, uint32_t *job, uint32_t *step)
{
    int end = -1;
    return sscanf(name, "%" SCNu32 ".%" SCNu32 SUFFIX "%n", job, step, &end) == 2 && end > 0 &&
           name[end] == '\0';
}

static int read_level(char *text, struct steprecord *record)
{
    char *path = strchr(text, ' ');
    if (path == NULL || record->nlevels == CPUSET_LEVELS_MAX)
        return -1;
    *path++ = '\0';
    struct cpuset_level *level = &record->levels[record->nlevels];
    if (path[0] != '/' || strlen(path) >= sizeof level->directory ||
        cpus_parse(&level->added, strcmp(text, "-") == 0 ? "" : text) < 0)
        return -1;
    snprintf(level->directory, sizeof level->directory, "%s", path);
    record->nlevels++;
    return 0;
}

static int read_line(char *line, struct steprecord *record)
{
    int version2, holder;
    if (sscanf(line, "version2 %d", &version2) == 1) {
        record->version2 = version2 != 0;
        return 0;
    }
    if (sscanf(line, "holder %d %" SCNu64 " %63s", &holder, &record->holder_start, record->boot) ==
        3) {
        record->holder = (pid_t)holder;
        return 0;
    }
    return strncmp(line, "level ", 6) == 0 ? read_level(line + 6, record) : -1;
}

static void free_levels(struct steprecord *record)
{
    for (unsigned i = 0; i < CPUSET_LEVELS_MAX; i++)
        cpus_free(&record->levels[i].added);
}

static char *read_text(struct nodedir *node, const char *name)
{
    int fd = openat(node->fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char *text = fd >= 0 ? malloc(STEPRECORD_MAX + 1) : NULL;
    size_t length = 0;
    while (text != NULL && length < STEPRECORD_MAX) {
        ssize_t n = read(fd, text + length, STEPRECORD_MAX - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        length += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    if (text != NULL)
        text[length] = '\0';
    return text;
}

static int read_record(struct nodedir *node, const char *name, struct steprecord *record)
{
    char *text = read_text(node, name), *saved = NULL;
    int rc = -1;
    if (text == NULL)
        return -1;
    char *line = strtok_r(text, "\n", &saved);
    if (line != NULL && strcmp(line, HEAD) == 0)
        for (rc = 0; rc == 0 && (line = strtok_r(NULL, "\n", &saved)) != NULL;)
            rc = read_line(line, record);
    if (rc < 0)
        log_info("%s in the node's directory is no record of cpusets: left alone", name);
    free(text);
    return rc;
}

void steprecord_each(struct nodedir *node, steprecord_fn *fn, void *argument)
{
    int fd = node->fd >= 0 ? openat(node->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct steprecord *record = malloc(sizeof *record);
    const struct dirent *entry;
    unsigned n = 0;
    while (dir != NULL && record != NULL && (entry = readdir(dir)) != NULL && n < FILES_MAX) {
        memset(record, 0, sizeof *record);
        if (!parse_name(entry->d_name, &record->job, &record->step))
            continue;
        n++;
        if (read_record(node, entry->d_name, record) == 0)
            fn(record, argument);
        free_levels(record);
    }
    free(record);
    if (dir != NULL)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

/* ---- whose it is ---- */

bool steprecord_of_this_boot(const struct steprecord *record, const struct procfs *fs)
{
    char boot[64];
    read_boot(fs->root, boot, sizeof boot);
    return boot[0] == '\0' || strcmp(record->boot, boot) == 0;
}

bool steprecord_alive(const struct steprecord *record, const struct procfs *fs)
{
    struct procfs_stat stat;
    return steprecord_of_this_boot(record, fs) &&
           procfs_process_stat(fs, record->holder, &stat) == 0 &&
           stat.start_ticks == record->holder_start && stat.state != 'Z' && stat.state != 'X';
}

struct looking {
    const struct procfs *fs;
    bool found;
};

static void look(const struct steprecord *record, void *argument)
{
    struct looking *l = argument;
    l->found = l->found || !steprecord_alive(record, l->fs);
}

bool steprecord_any_dead(struct nodedir *node, const struct procfs *fs)
{
    struct looking l = {fs, false};
    steprecord_each(node, look, &l);
    return l.found;
}

/* ---- what others need ---- */

struct adding {
    uint32_t job, step;
    const char *directory;
    struct cpus *added;
    int rc;
};

static void add_up(const struct steprecord *record, void *argument)
{
    struct adding *a = argument;
    if (record->job == a->job && record->step == a->step)
        return;
    for (unsigned i = 0; i < record->nlevels && a->rc == 0; i++)
        if (strcmp(record->levels[i].directory, a->directory) == 0)
            a->rc = cpus_or(a->added, &record->levels[i].added);
}

int steprecord_added(struct nodedir *node, uint32_t job, uint32_t step, const char *directory,
                     struct cpus *added)
{
    struct adding a = {job, step, directory, added, 0};
    cpus_clear_all(added);
    steprecord_each(node, add_up, &a);
    return a.rc;
}
