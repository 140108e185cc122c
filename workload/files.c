/* The files of a data set. */
#include "config.h"

#include "files.h"

#include "replacefile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(char *error, const char *what, const char *path)
{
    (void)snprintf(error, FILES_ERROR_MAX, "cannot %s %s: %s", what, path, strerror(errno));
    return -1;
}

/* ---- listing ----------------------------------------------------------------------------- */

struct listing {
    const struct files_kind *kind;
    struct files *files;
    uint32_t capacity;
    char *error;
};

static int listing_add(struct listing *listing, char *path)
{
    struct files *files = listing->files;

    if (files->count == listing->capacity) {
        uint32_t capacity = listing->capacity == 0 ? 1024 : listing->capacity * 2;
        char **grown = NULL;

        if (files->count < FILES_COUNT_MAX)
            grown = realloc(files->paths, capacity * sizeof *grown);
        if (grown == NULL) {
            (void)snprintf(listing->error, FILES_ERROR_MAX, "too many files (%u) for the memory",
                           files->count);
            free(path);
            return -1;
        }
        files->paths = grown;
        listing->capacity = capacity;
    }
    files->paths[files->count++] = path;
    return 0;
}

static bool is_of_kind(const struct files_kind *kind, const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot != NULL && (strcasecmp(dot, kind->endings[0]) == 0 ||
                           (kind->endings[1] != NULL && strcasecmp(dot, kind->endings[1]) == 0));
}

static int list_folder(struct listing *listing, const char *folder, unsigned depth);

/* What an entry is, links followed: DT_DIR, DT_REG, DT_UNKNOWN for all else; -1 on an error. */
static int kind_of(const struct dirent *entry, const char *path)
{
    struct stat status;

    /* most file systems say it without a look at each of a million files */
    if (entry->d_type == DT_DIR || entry->d_type == DT_REG)
        return entry->d_type;
    if (stat(path, &status) < 0)
        return errno == ENOENT || errno == ELOOP ? DT_UNKNOWN : -1;
    return S_ISDIR(status.st_mode) ? DT_DIR : S_ISREG(status.st_mode) ? DT_REG : DT_UNKNOWN;
}

/* A file of the kind is added, a folder entered, all else passed over. */
static int list_entry(struct listing *listing, const char *folder, const struct dirent *entry,
                      unsigned depth)
{
    const char *name = entry->d_name;
    char *path;
    int kind, rc = 0;

    if (name[0] == '.')
        return 0;
    if (asprintf(&path, "%s/%s", folder, name) < 0) {
        errno = ENOMEM;
        return fail(listing->error, "list", folder);
    }
    kind = kind_of(entry, path);
    if (kind < 0)
        rc = fail(listing->error, "look at", path);
    else if (kind == DT_REG && is_of_kind(listing->kind, name))
        return listing_add(listing, path);
    else if (kind == DT_DIR && depth < FILES_DEPTH_MAX)
        rc = list_folder(listing, path, depth + 1);
    free(path);
    return rc;
}

static int list_folder(struct listing *listing, const char *folder, unsigned depth)
{
    DIR *directory = opendir(folder);
    int rc = 0;

    if (directory == NULL)
        return fail(listing->error, "open the data folder", folder);
    while (rc == 0) {
        struct dirent *entry;

        errno = 0;
        entry = readdir(directory);
        if (entry == NULL) {
            if (errno != 0)
                rc = fail(listing->error, "list", folder);
            break;
        }
        rc = list_entry(listing, folder, entry, depth);
    }
    (void)closedir(directory);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int none_found(const struct files_kind *kind, const char *folder, char *error)
{
    bool two = kind->endings[1] != NULL;
    int n = snprintf(error, FILES_ERROR_MAX, "no %s%s%s file below %s; 'adltrain ",
                     kind->endings[0], two ? " or " : "", two ? kind->endings[1] : "", folder);

    if (n > 0 && n < FILES_ERROR_MAX) {
        const char *mark = strstr(kind->how_to_make, "%s");

        (void)snprintf(error + n, FILES_ERROR_MAX - (size_t)n, "%.*s%s%s' makes some",
                       (int)(mark - kind->how_to_make), kind->how_to_make, folder, mark + 2);
    }
    return -1;
}

int files_list(const char *folder, const struct files_kind *kind, struct files *files, char *error)
{
    struct listing listing = {.kind = kind, .files = files, .error = error};

    *files = (struct files){0};
    if (list_folder(&listing, folder, 0) < 0) {
        files_free(files);
        return -1;
    }
    if (files->count == 0)
        return none_found(kind, folder, error);
    qsort(files->paths, files->count, sizeof *files->paths, by_path);
    return 0;
}

void files_free(struct files *files)
{
    for (uint32_t i = 0; i < files->count; i++)
        free(files->paths[i]);
    free(files->paths);
    *files = (struct files){0};
}

/* ---- reading ----------------------------------------------------------------------------- */

static int bytes_reserve(struct file_bytes *bytes, size_t need)
{
    uint8_t *grown;

    if (need <= bytes->capacity)
        return 0;
    grown = realloc(bytes->data, need);
    if (grown == NULL)
        return -1;
    bytes->data = grown;
    bytes->capacity = need;
    return 0;
}

static int read_all(int fd, const char *path, uint64_t offset, size_t expected,
                    struct file_bytes *bytes, char *error)
{
    bytes->length = 0;
    while (bytes->length < expected) {
        ssize_t n = pread(fd, bytes->data + bytes->length, expected - bytes->length,
                          (off_t)(offset + bytes->length));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(error, "read", path);
        if (n == 0)
            break; /* it became shorter meanwhile: the decoder will say what is missing */
        bytes->length += (size_t)n;
    }
    return 0;
}

/* A file system that cannot is no error: the manual says so. */
static void drop_pages(int fd, uint64_t offset, uint64_t length)
{
    (void)posix_fadvise(fd, (off_t)offset, (off_t)length, POSIX_FADV_DONTNEED);
}

int file_read_part(int fd, const char *path, uint64_t offset, uint64_t length, bool cold,
                   struct file_bytes *bytes, char *error)
{
    int rc;

    if (length > FILES_BYTES_MAX || bytes_reserve(bytes, (size_t)length) < 0) {
        errno = ENOMEM;
        return fail(error, "read", path);
    }
    if (cold)
        drop_pages(fd, offset, length);
    rc = read_all(fd, path, offset, (size_t)length, bytes, error);
    if (cold)
        drop_pages(fd, offset, length);
    return rc;
}

int file_read_whole(const char *path, bool cold, struct file_bytes *bytes, char *error)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = -1;

    if (fd < 0)
        return fail(error, "open", path);
    if (fstat(fd, &status) < 0) {
        (void)fail(error, "look at", path);
    } else if (!S_ISREG(status.st_mode) || status.st_size > FILES_BYTES_MAX) {
        (void)snprintf(error, FILES_ERROR_MAX, "%s is not a file of at most %u bytes", path,
                       FILES_BYTES_MAX);
    } else {
        rc = file_read_part(fd, path, 0, (uint64_t)status.st_size, cold, bytes, error);
    }
    (void)close(fd);
    return rc;
}

int file_read(const char *path, struct file_bytes *bytes, char *error)
{
    return file_read_whole(path, false, bytes, error);
}

void file_bytes_free(struct file_bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct file_bytes){0};
}

/* ---- writing ----------------------------------------------------------------------------- */

int file_write_atomically(const char *path, const void *data, size_t length, char *error)
{
    if (replacefile(path, data, length, false) == 0)
        return 0;
    (void)snprintf(error, FILES_ERROR_MAX, "cannot write %s: %s", path, replacefile_error(errno));
    return -1;
}
