/* The step's control group: see stepgroup.h. */
#include "config.h"

#include "stepgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CGROUP_FILE_SIZE    16384
#define MOUNTINFO_SIZE      65536
#define GROUP_DEPTH_MAX     8
#define GROUP_DIRECTORY_MAX 512

/* ---- /proc/PID/cgroup: lines "id:controllers:path" ---- */

struct cgroup_line {
    char *controllers, *path;
};

/* Split off the next line of text; false at the end. */
static bool next_line(char **text, struct cgroup_line *line)
{
    while (**text != '\0') {
        char *start = *text;
        char *end = strchr(start, '\n');
        *text = end != NULL ? end + 1 : start + strlen(start);
        if (end != NULL)
            *end = '\0';
        char *first = strchr(start, ':');
        char *second = first != NULL ? strchr(first + 1, ':') : NULL;
        if (second == NULL)
            continue;
        *second = '\0';
        line->controllers = first + 1;
        line->path = second + 1;
        return true;
    }
    return false;
}

/*
 * Cut a task's path at the step's directory: the component "step_...", and "user" after it, which
 * keeps slurmstepd itself (in "slurm" beside it) out. False if the path has no such component.
 */
static bool cut_at_step(char *path)
{
    char *step = strstr(path, "/step_");
    if (step == NULL)
        return false;
    char *end = strchr(step + 1, '/');
    if (end == NULL)
        return true;
    if (strncmp(end, "/user", 5) == 0 && (end[5] == '/' || end[5] == '\0'))
        end += 5;
    *end = '\0';
    return true;
}

static int read_groups(const struct procfs *fs, pid_t pid, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%d/cgroup", (int)pid);
    return procfs_read_file(fs, path, text, size) < 0 ? -1 : 0;
}

/* ---- where a hierarchy is mounted ---- */

/* Is name one of the comma-separated words of list? */
static bool has_word(const char *list, const char *name, size_t length)
{
    for (const char *p = list; *p != '\0';) {
        size_t word = strcspn(p, ",");
        if (word == length && strncmp(p, name, length) == 0)
            return true;
        p += word;
        if (*p == ',')
            p++;
    }
    return false;
}

/* Does the mount (type and super options of mountinfo) carry the hierarchy of these controllers? */
static bool carries(const char *type, const char *super, const char *controllers)
{
    if (controllers[0] == '\0')
        return strcmp(type, "cgroup2") == 0;
    return strcmp(type, "cgroup") == 0 && has_word(super, controllers, strcspn(controllers, ","));
}

/*
 * Mount point and mounted part ("root") of the hierarchy. A mountinfo line reads
 * "id parent major:minor root point options [tags] - type source super".
 */
static int find_mount(const struct procfs *fs, const char *controllers, char *root, char *point,
                      size_t size)
{
    char *text = malloc(MOUNTINFO_SIZE);
    if (text == NULL)
        return -1;
    int rc = -1;
    if (procfs_read_file(fs, "self/mountinfo", text, MOUNTINFO_SIZE) < 0)
        goto out;
    char *saved = NULL;
    for (char *line = strtok_r(text, "\n", &saved); line != NULL && rc < 0;
         line = strtok_r(NULL, "\n", &saved)) {
        char *tail = strstr(line, " - ");
        char type[32], super[512];
        if (tail == NULL || sscanf(tail + 3, "%31s %*s %511s", type, super) != 2 ||
            !carries(type, super, controllers))
            continue;
        *tail = '\0';
        char format[64];
        snprintf(format, sizeof format, "%%*s %%*s %%*s %%%zus %%%zus", size - 1, size - 1);
        if (sscanf(line, format, root, point) == 2)
            rc = 0;
    }
out:
    free(text);
    return rc;
}

/* The directory of path in the hierarchy; -1 if it is not mounted or lies outside of what is. */
static int locate(struct stepgroup *group, const struct procfs *fs)
{
    char root[PATH_MAX / 2], point[PATH_MAX / 2];
    if (find_mount(fs, group->controllers, root, point, sizeof root) < 0)
        return -1;
    const char *path = group->path;
    size_t root_length = strlen(root);
    if (strcmp(root, "/") != 0) { /* only a part is mounted, as in a container */
        if (strncmp(path, root, root_length) != 0 || path[root_length] != '/')
            return -1;
        path += root_length;
    }
    int n = snprintf(group->directory, sizeof group->directory, "%s%s%s", fs->root, point, path);
    if (n < 0 || (size_t)n >= sizeof group->directory)
        return -1;
    return access(group->directory, F_OK);
}

/* Is a hierarchy one that cpusets are in: version 1's of its own, or version 2's with the files? */
static bool has_cpusets(const struct stepgroup *group)
{
    char path[PATH_MAX + 16];
    if (group->controllers[0] != '\0' && !has_word(group->controllers, "cpuset", strlen("cpuset")))
        return false;
    snprintf(path, sizeof path, "%s/cpuset.cpus", group->directory);
    return access(path, F_OK) == 0;
}

static int find(struct stepgroup *group, const struct procfs *fs, pid_t pid, bool cpusets)
{
    char *text = malloc(CGROUP_FILE_SIZE);
    int rc = -1;
    if (text == NULL || read_groups(fs, pid, text, CGROUP_FILE_SIZE) < 0)
        goto out;
    char *cursor = text;
    struct cgroup_line line;
    while (rc < 0 && next_line(&cursor, &line)) {
        if (!cut_at_step(line.path) || strlen(line.path) >= sizeof group->path ||
            strlen(line.controllers) >= sizeof group->controllers)
            continue;
        snprintf(group->controllers, sizeof group->controllers, "%s", line.controllers);
        snprintf(group->path, sizeof group->path, "%s", line.path);
        rc = locate(group, fs);
        if (rc == 0 && cpusets && !has_cpusets(group))
            rc = -1;
    }
out:
    if (rc < 0)
        group->path[0] = '\0';
    free(text);
    return rc;
}

int stepgroup_find(struct stepgroup *group, const struct procfs *fs, pid_t pid)
{
    return find(group, fs, pid, false);
}

int stepgroup_find_cpuset(struct stepgroup *group, const struct procfs *fs, pid_t pid)
{
    return find(group, fs, pid, true);
}

bool stepgroup_contains(const struct stepgroup *group, const struct procfs *fs, pid_t pid)
{
    char text[4096];
    if (read_groups(fs, pid, text, sizeof text) < 0)
        return false;
    char *cursor = text;
    struct cgroup_line line;
    size_t length = strlen(group->path);
    while (next_line(&cursor, &line)) {
        if (strcmp(line.controllers, group->controllers) != 0)
            continue;
        return strncmp(line.path, group->path, length) == 0 &&
               (line.path[length] == '\0' || line.path[length] == '/');
    }
    return false;
}

/* ---- the hierarchy of CPU time ---- */

/* Version 2's where that has the files, else version 1's. */
static bool controls_cpu(const struct stepgroup *group)
{
    char path[PATH_MAX + 16];
    if (group->controllers[0] != '\0')
        return has_word(group->controllers, "cpu", strlen("cpu"));
    snprintf(path, sizeof path, "%s/cpu.max", group->directory);
    return access(path, F_OK) == 0;
}

int stepgroup_cpu(struct stepgroup_cpu *cpu, const struct procfs *fs, pid_t pid)
{
    char *text = malloc(CGROUP_FILE_SIZE);
    struct stepgroup *group = malloc(sizeof *group);
    struct cgroup_line line;
    int rc = -1;
    if (text == NULL || group == NULL || read_groups(fs, pid, text, CGROUP_FILE_SIZE) < 0)
        goto out;
    char *cursor = text;
    while (rc < 0 && next_line(&cursor, &line)) {
        if (strlen(line.path) >= sizeof group->path ||
            strlen(line.controllers) >= sizeof group->controllers)
            continue;
        snprintf(group->controllers, sizeof group->controllers, "%s", line.controllers);
        snprintf(group->path, sizeof group->path, "%s", line.path);
        if (locate(group, fs) < 0 || !controls_cpu(group))
            continue;
        rc = 0;
        cpu->unified = line.controllers[0] == '\0';
        snprintf(cpu->directory, sizeof cpu->directory, "%s", group->directory);
        cpu->top = strlen(group->directory) - strlen(group->path);
    }
out:
    free(group);
    free(text);
    return rc;
}

/* ---- its processes ---- */

struct listing {
    pid_t *pids;
    size_t n, max;
    unsigned directories;
    bool more;
};

static void add_pid(struct listing *list, const char *text)
{
    pid_t pid = procfs_parse_id(text);
    if (pid < 0)
        return;
    if (list->n == list->max)
        list->more = true;
    else
        list->pids[list->n++] = pid;
}

/* Read one cgroup.procs file, a number a line, in chunks. */
static int read_procs(int directory, struct listing *list)
{
    int fd = openat(directory, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    char buf[2048], number[16];
    size_t digits = 0;
    ssize_t n;
    while (!list->more && (n = read(fd, buf, sizeof buf)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        for (ssize_t i = 0; i < n; i++) {
            if (buf[i] != '\n') {
                if (digits < sizeof number - 1)
                    number[digits++] = buf[i];
                continue;
            }
            number[digits] = '\0';
            digits = 0;
            add_pid(list, number);
        }
    }
    if (digits > 0) {
        number[digits] = '\0';
        add_pid(list, number);
    }
    close(fd);
    return 0;
}

static int walk(int directory, unsigned depth, struct listing *list)
{
    if (++list->directories > GROUP_DIRECTORY_MAX || depth > GROUP_DEPTH_MAX) {
        list->more = true;
        close(directory);
        return 0;
    }
    int rc = read_procs(directory, list);
    DIR *dir = fdopendir(directory);
    if (dir == NULL) {
        close(directory);
        return -1;
    }
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        int below =
            openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            (void)walk(below, depth + 1, list); /* a group that vanishes meanwhile is empty */
    }
    closedir(dir);
    return rc;
}

ssize_t stepgroup_list(const struct stepgroup *group, pid_t *pids, size_t max, bool *more)
{
    struct listing list = {.pids = pids, .max = max};
    int fd = open(group->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = walk(fd, 0, &list);
    *more = list.more;
    return rc < 0 && list.n == 0 ? -1 : (ssize_t)list.n;
}
