/* Reading /proc: see procfs.h. */
#include "config.h"

#include "procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PATH_SIZE     128
#define STAT_SIZE     1024
#define STATUS_SIZE   4096
#define KERNEL_THREAD 0x00200000UL /* PF_KTHREAD in stat's flags */

int procfs_open(struct procfs *fs, const char *root)
{
    char path[sizeof fs->root + 8];
    int n = snprintf(fs->root, sizeof fs->root, "%s", root);
    if (n < 0 || (size_t)n >= sizeof fs->root) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(path, sizeof path, "%s/proc", fs->root);
    fs->tick_hz = sysconf(_SC_CLK_TCK);
    if (fs->tick_hz <= 0)
        fs->tick_hz = 100;
    fs->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fs->fd < 0 ? -1 : 0;
}

void procfs_close(struct procfs *fs)
{
    if (fs->fd >= 0)
        close(fs->fd);
    fs->fd = -1;
}

ssize_t procfs_read_file(const struct procfs *fs, const char *path, char *buf, size_t size)
{
    int fd = openat(fs->fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t length = 0;
    while (length + 1 < size) {
        ssize_t n = read(fd, buf + length, size - 1 - length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int saved = errno;
            close(fd);
            errno = saved;
            return -1;
        }
        if (n == 0)
            break;
        length += (size_t)n;
    }
    close(fd);
    buf[length] = '\0';
    return (ssize_t)length;
}

/* The same of a file that the kernel makes up as a whole: what fits comes with the first read. */
static ssize_t read_whole(const struct procfs *fs, const char *path, char *buf, size_t size)
{
    int fd = openat(fs->fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n;
    do {
        n = read(fd, buf, size - 1);
    } while (n < 0 && errno == EINTR);
    int saved = errno;
    close(fd);
    errno = saved;
    if (n >= 0)
        buf[n] = '\0';
    return n;
}

pid_t procfs_parse_id(const char *text)
{
    if (!isdigit((unsigned char)text[0]))
        return -1;
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || value == 0 || value > INT_MAX)
        return -1;
    return (pid_t)value;
}

/* ---- stat ---- */

/* The numbers after the name: state is field 3, and so on as proc(5) counts them. */
enum {
    FIELD_PPID = 4,
    FIELD_FLAGS = 9,
    FIELD_UTIME = 14,
    FIELD_STIME = 15,
    FIELD_THREADS = 20,
    FIELD_START = 22,
    FIELD_STACK = 28
};

int procfs_parse_stat(const char *text, size_t length, struct procfs_stat *stat)
{
    /* the name may hold anything, parentheses and spaces too: it ends at the last ')' */
    const char *open_paren = memchr(text, '(', length);
    const char *close_paren = memrchr(text, ')', length);
    if (open_paren == NULL || close_paren == NULL || close_paren < open_paren)
        goto bad;
    size_t name = (size_t)(close_paren - open_paren - 1);
    if (name >= sizeof stat->comm)
        name = sizeof stat->comm - 1;
    memcpy(stat->comm, open_paren + 1, name);
    stat->comm[name] = '\0';

    size_t rest = length - (size_t)(close_paren + 1 - text);
    char numbers[STAT_SIZE];
    if (rest < 3 || rest >= sizeof numbers)
        goto bad;
    memcpy(numbers, close_paren + 1, rest);
    numbers[rest] = '\0';
    if (numbers[0] != ' ' || numbers[2] != ' ')
        goto bad;
    stat->state = numbers[1];
    stat->cpu_ticks = stat->stack = 0;
    const char *p = numbers + 2;
    for (int field = FIELD_PPID; field <= FIELD_STACK; field++) {
        char *end;
        errno = 0;
        long long value = strtoll(p, &end, 10);
        if (field > FIELD_START && end == p)
            break; /* what comes after is a help where it is there */
        if (field > FIELD_START)
            errno = 0; /* limits may be too large for a signed number */
        if (end == p || errno != 0)
            goto bad;
        p = end;
        if (field == FIELD_PPID)
            stat->ppid = (pid_t)value;
        else if (field == FIELD_FLAGS)
            stat->kernel_thread = ((unsigned long)value & KERNEL_THREAD) != 0;
        else if ((field == FIELD_UTIME || field == FIELD_STIME) && value > 0)
            stat->cpu_ticks += (uint64_t)value;
        else if (field == FIELD_THREADS)
            stat->threads = value > 0 ? (uint32_t)value : 0;
        else if (field == FIELD_START)
            stat->start_ticks = (uint64_t)value;
        else if (field == FIELD_STACK)
            stat->stack = value > 0 ? (uint64_t)value : 0;
    }
    return 0;
bad:
    errno = EBADMSG;
    return -1;
}

static int read_stat(const struct procfs *fs, const char *path, struct procfs_stat *stat)
{
    char text[STAT_SIZE];
    ssize_t length = read_whole(fs, path, text, sizeof text);
    if (length < 0)
        return -1;
    return procfs_parse_stat(text, (size_t)length, stat);
}

int procfs_process_stat(const struct procfs *fs, pid_t pid, struct procfs_stat *stat)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%d/stat", (int)pid);
    return read_stat(fs, path, stat);
}

int procfs_thread_stat(const struct procfs *fs, pid_t pid, pid_t tid, struct procfs_stat *stat)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%d/task/%d/stat", (int)pid, (int)tid);
    return read_stat(fs, path, stat);
}

/* ---- schedstat and io ---- */

int procfs_schedstat_open(const struct procfs *fs, pid_t pid, pid_t tid)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%d/task/%d/schedstat", (int)pid, (int)tid);
    return openat(fs->fd, path, O_RDONLY | O_CLOEXEC);
}

int procfs_schedstat_read(int fd, uint64_t *run_ns, uint64_t *wait_ns)
{
    char text[PATH_SIZE];
    ssize_t n;
    do {
        n = pread(fd, text, sizeof text - 1, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -1;
    text[n] = '\0';
    char *end;
    errno = 0;
    *run_ns = strtoull(text, &end, 10);
    const char *second = end;
    *wait_ns = strtoull(second, &end, 10);
    if (n == 0 || end == second || errno != 0) {
        errno = EBADMSG;
        return -1;
    }
    return 0;
}

int procfs_read_bytes(const struct procfs *fs, pid_t pid, uint64_t *bytes)
{
    static const char key[] = "\nread_bytes: ";
    char path[PATH_SIZE], text[STAT_SIZE];
    snprintf(path, sizeof path, "%d/io", (int)pid);
    if (read_whole(fs, path, text, sizeof text) < 0)
        return -1;
    const char *found = strstr(text, key);
    if (found == NULL) {
        errno = EBADMSG;
        return -1;
    }
    *bytes = strtoull(found + sizeof key - 1, NULL, 10);
    return 0;
}

static bool find_number(const char *text, const char *key, uint64_t *value)
{
    const char *found = strstr(text, key);
    if (found != NULL)
        *value = strtoull(found + strlen(key), NULL, 10);
    return found != NULL;
}

int procfs_thread_io(const struct procfs *fs, pid_t pid, pid_t tid, uint64_t *read_bytes,
                     uint64_t *written_bytes)
{
    char path[PATH_SIZE], text[STAT_SIZE];
    snprintf(path, sizeof path, "%d/task/%d/io", (int)pid, (int)tid);
    if (read_whole(fs, path, text, sizeof text) < 0)
        return -1;
    if (find_number(text, "rchar: ", read_bytes) && find_number(text, "\nwchar: ", written_bytes))
        return 0;
    errno = EBADMSG;
    return -1;
}

/* ---- open files ---- */

/* NVIDIA's are /dev/nvidia0 and so on; its control file alone, which many tools open, says nothing.
 * AMD's is /dev/kfd. */
static bool is_gpu_file(const char *target)
{
    static const char nvidia[] = "/dev/nvidia";
    return strcmp(target, "/dev/kfd") == 0 || (strncmp(target, nvidia, sizeof nvidia - 1) == 0 &&
                                               isdigit((unsigned char)target[sizeof nvidia - 1]));
}

unsigned procfs_gpu_files(const struct procfs *fs, pid_t pid)
{
    enum { FILES_MAX = 512 };
    char path[PATH_SIZE], target[64];
    pid_t fds[FILES_MAX]; /* file 0 is no id, and no GPU */
    unsigned found = 0;
    bool more;
    snprintf(path, sizeof path, "%d/fd", (int)pid);
    ssize_t n = procfs_list(fs, path, fds, FILES_MAX, &more);
    for (ssize_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%d/fd/%d", (int)pid, (int)fds[i]);
        ssize_t length = readlinkat(fs->fd, path, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        found += is_gpu_file(target);
    }
    return found;
}

/* What kind of socket it is the kernel tells as an attribute of the link. */
static bool is_tcp(const struct procfs *fs, const char *entry)
{
    char path[sizeof fs->root + PATH_SIZE + 8], protocol[16];
    snprintf(path, sizeof path, "%s/proc/%s", fs->root, entry);
    ssize_t n = getxattr(path, "system.sockprotoname", protocol, sizeof protocol);
    return n >= 3 && memcmp(protocol, "TCP", 3) == 0;
}

static bool same_link(const struct procfs *fs, const char *entry, const char *target, size_t length)
{
    char other[64];
    ssize_t n = readlinkat(fs->fd, entry, other, sizeof other);
    return n == (ssize_t)length && memcmp(other, target, length) == 0;
}

bool procfs_has_own_tcp(const struct procfs *fs, pid_t pid, pid_t parent)
{
    enum { FILES_MAX = 512 };
    static const char socket[] = "socket:[";
    char path[PATH_SIZE], parents[PATH_SIZE], target[64];
    pid_t fds[FILES_MAX];
    bool more;
    snprintf(path, sizeof path, "%d/fd", (int)pid);
    ssize_t n = procfs_list(fs, path, fds, FILES_MAX, &more);
    for (ssize_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%d/fd/%d", (int)pid, (int)fds[i]);
        snprintf(parents, sizeof parents, "%d/fd/%d", (int)parent, (int)fds[i]);
        ssize_t length = readlinkat(fs->fd, path, target, sizeof target);
        if (length < (ssize_t)sizeof socket || memcmp(target, socket, sizeof socket - 1) != 0)
            continue;
        if (!same_link(fs, parents, target, (size_t)length) && is_tcp(fs, path))
            return true;
    }
    return false;
}

/* ---- which program ---- */

int procfs_program(const struct procfs *fs, pid_t pid, dev_t *dev, ino_t *ino, char *name,
                   size_t size)
{
    char path[PATH_SIZE], target[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%d/exe", (int)pid);
    if (fstatat(fs->fd, path, &st, 0) < 0)
        return -1;
    ssize_t n = readlinkat(fs->fd, path, target, sizeof target - 1);
    if (n < 0)
        return -1;
    target[n] = '\0';
    const char *slash = strrchr(target, '/');
    snprintf(name, size, "%s", slash != NULL ? slash + 1 : target);
    *dev = st.st_dev;
    *ino = st.st_ino;
    return 0;
}

ssize_t procfs_command_line(const struct procfs *fs, pid_t pid, char *buf, size_t size)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%d/cmdline", (int)pid);
    return procfs_read_file(fs, path, buf, size);
}

/* ---- PID namespaces ---- */

/* Innermost id in the NSpid line of a status file, and how many namespaces it lists. */
static pid_t innermost_id(const struct procfs *fs, const char *path, unsigned *levels)
{
    static const char key[] = "\nNSpid:";
    char text[STATUS_SIZE];
    if (procfs_read_file(fs, path, text, sizeof text) < 0)
        return -1;
    const char *p = strstr(text, key);
    if (p == NULL)
        return -1;
    p += sizeof key - 1;
    pid_t last = -1;
    *levels = 0;
    for (;;) {
        while (*p == ' ' || *p == '\t')
            p++;
        if (!isdigit((unsigned char)*p))
            return last;
        char *end;
        unsigned long value = strtoul(p, &end, 10);
        if (value == 0 || value > INT_MAX)
            return -1;
        last = (pid_t)value;
        (*levels)++;
        p = end;
    }
}

pid_t procfs_tid_from_inner(const struct procfs *fs, pid_t pid, pid_t inner)
{
    enum { THREADS_MAX = 4096 };
    char path[PATH_SIZE];
    unsigned levels = 0;
    snprintf(path, sizeof path, "%d/status", (int)pid);
    if (innermost_id(fs, path, &levels) < 0)
        return -1;
    if (levels <= 1) { /* same namespace: the number is already ours, if it is a thread of pid */
        snprintf(path, sizeof path, "%d/task/%d", (int)pid, (int)inner);
        return faccessat(fs->fd, path, F_OK, 0) == 0 ? inner : -1;
    }
    pid_t *tids = malloc(THREADS_MAX * sizeof *tids);
    if (tids == NULL)
        return -1;
    bool more;
    snprintf(path, sizeof path, "%d/task", (int)pid);
    ssize_t n = procfs_list(fs, path, tids, THREADS_MAX, &more);
    pid_t found = -1;
    for (ssize_t i = 0; i < n && found < 0; i++) {
        snprintf(path, sizeof path, "%d/task/%d/status", (int)pid, (int)tids[i]);
        if (innermost_id(fs, path, &levels) == inner)
            found = tids[i];
    }
    free(tids);
    return found;
}

/* ---- children ---- */

/* Numbers parted by spaces, as they come in pieces: one may lie in two of them. */
struct numbers {
    pid_t *ids;
    size_t n, max;
    uint64_t value;
    bool within, more;
};

static void end_number(struct numbers *list)
{
    if (list->within && list->value > 0 && list->value <= INT_MAX) {
        if (list->n == list->max)
            list->more = true;
        else
            list->ids[list->n++] = (pid_t)list->value;
    }
    list->within = false;
    list->value = 0;
}

static void take_piece(struct numbers *list, const char *piece, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)piece[i])) {
            end_number(list);
            continue;
        }
        list->within = true;
        if (list->value <= INT_MAX)
            list->value = list->value * 10 + (uint64_t)(piece[i] - '0');
    }
}

ssize_t procfs_children(const struct procfs *fs, pid_t pid, pid_t tid, pid_t *ids, size_t max,
                        bool *more)
{
    char path[PATH_SIZE], piece[STATUS_SIZE];
    struct numbers list = {.ids = ids, .max = max};
    snprintf(path, sizeof path, "%d/task/%d/children", (int)pid, (int)tid);
    int fd = openat(fs->fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n;
    while (!list.more && (n = read(fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        take_piece(&list, piece, (size_t)n);
    }
    end_number(&list);
    close(fd);
    *more = list.more;
    return (ssize_t)list.n;
}

/* ---- directories ---- */

ssize_t procfs_list(const struct procfs *fs, const char *directory, pid_t *ids, size_t max,
                    bool *more)
{
    *more = false;
    int fd =
        openat(fs->fd, directory[0] != '\0' ? directory : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    size_t n = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        pid_t id = procfs_parse_id(entry->d_name);
        if (id < 0)
            continue;
        if (n == max) {
            *more = true;
            break;
        }
        ids[n++] = id;
    }
    closedir(dir);
    return (ssize_t)n;
}
