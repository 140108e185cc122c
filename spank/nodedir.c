/* The directory where the step daemons of a node meet: see nodedir.h. */
#include "config.h"

#include "nodedir.h"

#include "clock.h"
#include "log.h"
#include "msg.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_TRY_MS 1
#define NODE_BYTE   ((off_t)1 << 33) /* jobs have the bytes of their numbers */
#define CPU_BYTE    ((off_t)1 << 34) /* of CPU 0, and so on */
#define NAME_SIZE   64

/* Open directory name below parent, making it; it must be ours and nobody else's to write in. */
static int open_own(int parent, const char *name, mode_t mode)
{
    struct stat st;
    if (mkdirat(parent, name, mode) < 0 && errno != EEXIST)
        return -1;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* A node's name as a file's: itself if it can be one, else its hash. */
static void file_name(const char *node, char *name, size_t size)
{
    uint32_t hash = 2166136261u;
    for (const char *p = node; *p != '\0'; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    if (msg_is_node_name(node) && strlen(node) < size)
        snprintf(name, size, "%s", node);
    else
        snprintf(name, size, "%08" PRIx32, hash);
}

int nodedir_open(struct nodedir *dir, const char *rundir, const char *node)
{
    char name[NAME_SIZE];
    int nodes = -1, saved;
    dir->fd = dir->locks = -1;
    int run = open_own(AT_FDCWD, rundir, 0755);
    if (run >= 0)
        nodes = open_own(run, "node", 0700);
    if (nodes >= 0) {
        file_name(node, name, sizeof name);
        dir->fd = open_own(nodes, name, 0700);
    }
    if (dir->fd >= 0)
        dir->locks = openat(dir->fd, "locks", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    saved = errno;
    if (nodes >= 0)
        close(nodes);
    if (run >= 0)
        close(run);
    if (dir->locks >= 0)
        return 0;
    nodedir_close(dir);
    errno = saved;
    return -1;
}

void nodedir_close(struct nodedir *dir)
{
    if (dir->locks >= 0)
        close(dir->locks);
    if (dir->fd >= 0)
        close(dir->fd);
    dir->fd = dir->locks = -1;
}

/* ---- locks ---- */

static int lock_bytes(int fd, off_t first, off_t count, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    return fcntl(fd, F_OFD_SETLK, &lock);
}

static int lock_byte(int fd, off_t byte, short type)
{
    return lock_bytes(fd, byte, 1, type);
}

bool nodedir_lock(struct nodedir *dir, unsigned ms)
{
    uint64_t until = clock_monotonic_ms() + ms;
    if (dir->locks < 0)
        return false;
    while (lock_byte(dir->locks, NODE_BYTE, F_WRLCK) < 0) {
        if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || clock_monotonic_ms() >= until)
            return false;
        (void)poll(NULL, 0, LOCK_TRY_MS);
    }
    return true;
}

void nodedir_unlock(struct nodedir *dir)
{
    if (lock_byte(dir->locks, NODE_BYTE, F_UNLCK) < 0)
        log_debug("the node's lock cannot be released: %s", strerror(errno));
}

void nodedir_start_begin(struct nodedir *dir, uint32_t job)
{
    if (dir->locks >= 0 && lock_byte(dir->locks, (off_t)job, F_RDLCK) < 0)
        log_debug("the start of a step of job %u cannot be marked: %s", (unsigned)job,
                  strerror(errno));
}

void nodedir_start_end(struct nodedir *dir, uint32_t job)
{
    if (dir->locks >= 0)
        (void)lock_byte(dir->locks, (off_t)job, F_UNLCK);
}

bool nodedir_starting(const struct nodedir *dir, uint32_t job)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)job, .l_len = 1};
    return dir->locks >= 0 && fcntl(dir->locks, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool nodedir_lock_cpus(const struct nodedir *dir, unsigned first, unsigned count, bool exclusive)
{
    return dir->locks >= 0 &&
           lock_bytes(dir->locks, CPU_BYTE + first, count, exclusive ? F_WRLCK : F_RDLCK) == 0;
}

void nodedir_unlock_cpus(const struct nodedir *dir, unsigned first, unsigned count)
{
    if (dir->locks >= 0 && lock_bytes(dir->locks, CPU_BYTE + first, count, F_UNLCK) < 0)
        log_debug("locks of CPUs cannot be released: %s", strerror(errno));
}
