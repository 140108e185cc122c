/*
 * Random reads of a folder's files by 1, 4, 16 and 64 at once: latency of one alone, bandwidth of
 * the best. Past the page cache by O_DIRECT where the file system can, else by asking the kernel to
 * drop what was read, which it may not do: that is said.
 */
#include "config.h"

#include "cal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX   2000u
#define ENTRIES_MAX 100000u
#define BLOCK       (128u << 10) /* about one ImageNet picture */
#define ALIGNMENT   4096u

struct file {
    int fd;
    off_t size;
};

struct folder {
    struct file files[FILES_MAX];
    unsigned n;
    bool direct;
    off_t bytes;
};

static int open_file(int dir, const char *name, bool *direct)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int fd = *direct ? openat(dir, name, flags | O_DIRECT) : -1;

    if (fd < 0) {
        fd = openat(dir, name, flags);
        if (fd >= 0)
            *direct = false;
    }
    return fd;
}

/* Files of at least one block; at most as many as there may be open. */
static bool open_folder(const char *path, struct folder *folder)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    unsigned seen = 0;
    long most = sysconf(_SC_OPEN_MAX) - 32;

    if (dir == NULL)
        return false;
    folder->direct = true;
    while ((entry = readdir(dir)) != NULL && folder->n < FILES_MAX && (long)folder->n < most &&
           seen++ < ENTRIES_MAX) {
        struct stat st;
        int fd;

        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode) || st.st_size < (off_t)BLOCK)
            continue;
        fd = open_file(dirfd(dir), entry->d_name, &folder->direct);
        if (fd < 0)
            continue;
        folder->files[folder->n++] = (struct file){fd, st.st_size};
        folder->bytes += st.st_size;
    }
    closedir(dir);
    return true;
}

static void close_folder(struct folder *folder)
{
    for (unsigned i = 0; i < folder->n; i++)
        close(folder->files[i].fd);
    free(folder);
}

struct reader {
    struct folder *folder;
    uint64_t random;
    void *block;
};

static void *start_reader(unsigned thread, void *data)
{
    struct reader *r = calloc(1, sizeof(*r));

    if (r == NULL || posix_memalign(&r->block, ALIGNMENT, BLOCK) != 0) {
        free(r);
        return NULL;
    }
    r->folder = data;
    r->random = (thread + 1) * 0x9e3779b97f4a7c15u;
    return r;
}

static void stop_reader(void *state)
{
    struct reader *r = state;

    free(r->block);
    free(r);
}

static double read_one(void *state)
{
    struct reader *r = state;
    const struct file *file;
    off_t blocks, at;
    ssize_t n;

    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    file = &r->folder->files[(r->random >> 33) % r->folder->n];
    blocks = file->size / (off_t)BLOCK;
    at = (off_t)((r->random >> 20) % (uint64_t)blocks) * (off_t)BLOCK;
    do
        n = pread(file->fd, r->block, BLOCK, at);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return -1;
    if (!r->folder->direct)
        (void)posix_fadvise(file->fd, at, BLOCK, POSIX_FADV_DONTNEED);
    return 1;
}

static void measure(const struct cal_voice *voice, struct folder *folder, double seconds,
                    struct pred_calibration *out)
{
    static const unsigned AT_ONCE[] = {1, 4, 16, 64};
    const struct cal_work work = {start_reader, read_one, stop_reader, folder, false};
    double best = 0;

    for (unsigned i = 0; i < sizeof(AT_ONCE) / sizeof(AT_ONCE[0]); i++) {
        double rate = cal_parallel(&work, AT_ONCE[i], seconds / 4);

        if (isnan(rate)) {
            cal_missing("  %2u at once: a read failed", AT_ONCE[i]);
            continue;
        }
        cal_say(voice, "  %2u at once %8.0f reads/s %8.1f MB/s", AT_ONCE[i], rate,
                rate * BLOCK / 1e6);
        if (AT_ONCE[i] == 1 && rate > 0)
            out->storage_latency_s = 1 / rate;
        best = fmax(best, rate);
    }
    if (best > 0)
        out->storage_bytes_per_s = best * BLOCK;
}

void cal_storage(const struct cal_voice *voice, const char *path, double seconds,
                 struct pred_calibration *out)
{
    struct folder *folder = calloc(1, sizeof(*folder));
    char *full;

    if (folder == NULL || !open_folder(path, folder)) {
        cal_missing("storage: %s cannot be read: %s", path, strerror(errno));
        free(folder);
        return;
    }
    cal_say(voice, "storage: %s, %u files of %.2f GB, reads of %u KiB%s", path, folder->n,
            (double)folder->bytes / 1e9, BLOCK >> 10,
            folder->direct ? ""
                           : "; this file system cannot bypass the page cache, which may help");
    if (folder->n == 0) {
        cal_missing("  not measured: no files of at least %u KiB in it", BLOCK >> 10);
    } else {
        measure(voice, folder, seconds, out);
        full = realpath(path, NULL);
        snprintf(out->storage, sizeof(out->storage), "%s", full != NULL ? full : path);
        free(full);
    }
    close_folder(folder);
}
