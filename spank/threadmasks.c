/* The masks of a control group's threads: see threadmasks.h. */
#include "config.h"

#include "threadmasks.h"

#include "log.h"
#include "procfs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool ours(pid_t tid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d", (int)tid);
    return access(path, F_OK) == 0;
}

static struct threadmask *add(struct threadmasks *masks)
{
    if (masks->n == THREADMASKS_MAX)
        return NULL;
    if (masks->n == masks->capacity) {
        size_t capacity = masks->capacity > 0 ? masks->capacity * 2 : 64;
        struct threadmask *list = realloc(masks->list, capacity * sizeof *list);
        if (list == NULL)
            return NULL;
        masks->list = list;
        masks->capacity = capacity;
    }
    struct threadmask *entry = &masks->list[masks->n++];
    memset(entry, 0, sizeof *entry);
    return entry;
}

static void read_directory(struct threadmasks *masks, const char *directory, bool version2)
{
    char path[PATH_MAX + 32], line[32];
    snprintf(path, sizeof path, "%s/%s", directory, version2 ? "cgroup.threads" : "tasks");
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        pid_t tid = procfs_parse_id(line);
        struct cpus mask = CPUS_EMPTY;
        if (tid <= 0 || ours(tid) || cpus_get_affinity(tid, &mask) < 0)
            continue;
        struct threadmask *entry = add(masks);
        if (entry == NULL) {
            cpus_free(&mask);
            break;
        }
        entry->tid = tid;
        entry->mask = mask;
    }
    fclose(file);
}

void threadmasks_read(struct threadmasks *masks, const char *directory, bool version2)
{
    char path[PATH_MAX];
    memset(masks, 0, sizeof *masks);
    read_directory(masks, directory, version2);
    DIR *dir = opendir(directory);
    if (dir == NULL)
        return;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL && masks->n < THREADMASKS_MAX) {
        if (strncmp(entry->d_name, "task_", 5) != 0)
            continue;
        int length = snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (length > 0 && (size_t)length < sizeof path)
            read_directory(masks, path, version2);
    }
    closedir(dir);
}

void threadmasks_restore(const struct threadmasks *masks, const struct cpus *allowed)
{
    struct cpus want = CPUS_EMPTY, now = CPUS_EMPTY;
    for (size_t i = 0; i < masks->n; i++) {
        const struct threadmask *entry = &masks->list[i];
        if (cpus_copy(&want, &entry->mask) < 0)
            break;
        cpus_and(&want, allowed);
        if (cpus_is_empty(&want) || cpus_get_affinity(entry->tid, &now) < 0 ||
            cpus_equal(&now, &want))
            continue;
        if (cpus_set_affinity(entry->tid, &want) < 0 && errno != ESRCH)
            log_debug("the mask of task %d cannot be kept: %s", (int)entry->tid, strerror(errno));
    }
    cpus_free(&want);
    cpus_free(&now);
}

void threadmasks_free(struct threadmasks *masks)
{
    for (size_t i = 0; i < masks->n; i++)
        cpus_free(&masks->list[i].mask);
    free(masks->list);
    memset(masks, 0, sizeof *masks);
}
