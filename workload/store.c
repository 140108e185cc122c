/* Where samples are and how they are read. */
#include "config.h"

#include "store.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct store_pack {
    int fd;
    uint32_t first; /* sample */
    struct pack_index index;
};

static int fail(char *error, const char *what, const char *path)
{
    (void)snprintf(error, FILES_ERROR_MAX, "cannot %s %s: %s", what, path, strerror(errno));
    return -1;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* pack-00000.bin -> pack-00000.idx */
static char *index_path(const char *data_path)
{
    char *path = strdup(data_path), *dot = path == NULL ? NULL : strrchr(path, '.');

    if (dot != NULL)
        (void)strcpy(dot, ".idx"); /* as long as ".bin" */
    return path;
}

static int open_pack(const char *path, struct store_pack *pack, char *error)
{
    char *index = index_path(path);
    struct stat status;
    int rc = -1;

    pack->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (pack->fd < 0 || fstat(pack->fd, &status) < 0)
        (void)fail(error, "open", path);
    else if (index == NULL)
        (void)snprintf(error, FILES_ERROR_MAX, "out of memory");
    else
        rc = pack_index_read(index, (uint64_t)status.st_size, &pack->index, error);
    free(index);
    return rc;
}

static int add_pack(struct store *store, uint32_t number, char *error)
{
    struct store_pack *pack = &store->packs[number];
    const char *path = store->files.paths[number];

    if (open_pack(path, pack, error) < 0)
        return -1;
    pack->first = store->count;
    if (number > 0 && pack->index.format != store->samples) {
        (void)snprintf(error, FILES_ERROR_MAX, "%s: its samples are of another format than before",
                       path);
        return -1;
    }
    store->samples = pack->index.format;
    if (pack->index.count > FILES_COUNT_MAX - store->count) {
        (void)snprintf(error, FILES_ERROR_MAX, "%s: more samples than %u", path, FILES_COUNT_MAX);
        return -1;
    }
    store->count += pack->index.count;
    return 0;
}

static int open_packs(struct store *store, char *error)
{
    store->packs = calloc(store->files.count, sizeof *store->packs);
    if (store->packs == NULL) {
        (void)snprintf(error, FILES_ERROR_MAX, "out of memory");
        return -1;
    }
    for (uint32_t i = 0; i < store->files.count; i++)
        store->packs[i].fd = -1;
    for (uint32_t i = 0; i < store->files.count; i++)
        if (add_pack(store, i, error) < 0)
            return -1;
    return 0;
}

static int open_samples(struct store *store, char *error)
{
    static const enum sample_format samples[] = {
        [STORE_JPEG] = SAMPLE_JPEG, [STORE_RAW] = SAMPLE_RAW, [STORE_TOKENS] = SAMPLE_TOKENS};
    static const struct files_kind kinds[] = {
        [STORE_JPEG] = {{".jpg", ".jpeg"}, "make-data %s --images N"},
        [STORE_RAW] = {{".raw", NULL}, "make-data %s --images N --format raw"},
        [STORE_TOKENS] = {{".tokens", NULL}, "make-data %s --images N --format tokens"},
        [STORE_PACKED] = {{".bin", NULL}, "make-data %s --images N --pack 1000"},
    };

    if (files_list(store->config.folder, &kinds[store->config.format], &store->files, error) < 0)
        return -1;
    if (store->config.format == STORE_PACKED)
        return open_packs(store, error);
    store->samples = samples[store->config.format];
    store->count = store->files.count;
    return 0;
}

int store_open(const struct store_config *config, struct store *store, char *error)
{
    *store = (struct store){.config = *config};
    if (throttle_init(&store->throttle, config->bytes_per_s, config->latency_s) < 0) {
        (void)snprintf(error, FILES_ERROR_MAX, "out of memory");
        return -1;
    }
    if (open_samples(store, error) == 0)
        return 0;
    store_close(store);
    return -1;
}

void store_close(struct store *store)
{
    for (uint32_t i = 0; store->packs != NULL && i < store->files.count; i++) {
        if (store->packs[i].fd >= 0)
            (void)close(store->packs[i].fd);
        pack_index_free(&store->packs[i].index);
    }
    free(store->packs);
    files_free(&store->files);
    throttle_free(&store->throttle);
    *store = (struct store){0};
}

/* ---- reading ------------------------------------------------------------------------------- */

/* The pack that holds a sample: the last one that begins at or before it. */
static uint32_t pack_of(const struct store *store, uint32_t index)
{
    uint32_t low = 0, high = store->files.count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (store->packs[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int read_sample(struct store *store, uint32_t index, struct file_bytes *bytes, char *error)
{
    bool cold = store->config.cache == STORE_DROP;
    const struct store_pack *pack;
    struct pack_entry entry;
    uint32_t number;

    if (store->packs == NULL)
        return file_read_whole(store->files.paths[index], cold, bytes, error);
    number = pack_of(store, index);
    pack = &store->packs[number];
    entry = pack->index.entries[index - pack->first];
    return file_read_part(pack->fd, store->files.paths[number], entry.offset, entry.length, cold,
                          bytes, error);
}

int store_read(struct store *store, uint32_t index, struct file_bytes *bytes, char *error)
{
    uint64_t asked_ns = clock_monotonic_ns();

    if (read_sample(store, index, bytes, error) < 0)
        return -1;
    throttle_wait(&store->throttle, asked_ns, bytes->length);
    return 0;
}

void store_name(const struct store *store, uint32_t index, char *text, size_t size)
{
    uint32_t number;

    if (store->packs == NULL) {
        (void)snprintf(text, size, "%s", store->files.paths[index]);
        return;
    }
    number = pack_of(store, index);
    (void)snprintf(text, size, "sample %u of %s", index - store->packs[number].first,
                   store->files.paths[number]);
}

/* ---- before training ----------------------------------------------------------------------- */

/* Not through the emulated storage: what is warmed is what an earlier epoch has read. A sample that
 * cannot be read is told when it is its turn. */
static void warm(struct store *store, const atomic_int *stop)
{
    struct file_bytes bytes = {0};
    char ignored[FILES_ERROR_MAX];

    for (uint32_t i = 0; i < store->count && atomic_load(stop) == 0; i++)
        (void)read_sample(store, i, &bytes, ignored);
    file_bytes_free(&bytes);
}

static int write_back(const struct store *store, char *error)
{
    int fd = open(store->config.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

    if (fd < 0)
        return fail(error, "open", store->config.folder);
    if (syncfs(fd) < 0)
        rc = fail(error, "write back the file system of", store->config.folder);
    (void)close(fd);
    return rc;
}

int store_prepare(struct store *store, const atomic_int *stop, char *error)
{
    if (store->config.cache == STORE_WARM)
        warm(store, stop);
    return store->config.cache == STORE_DROP ? write_back(store, error) : 0;
}
