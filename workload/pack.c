/* Packed samples. */
#include "config.h"

#include "pack.h"

#include "replacefile.h"

#include "little.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADER       24u
#define ENTRY        16u
#define PACK_VERSION 1u

static const char MAGIC[8] = {'A', 'D', 'L', 'P', 'A', 'C', 'K', '1'};

static int refuse(char *error, const char *path, const char *why)
{
    (void)snprintf(error, FILES_ERROR_MAX, "%s: %s", path, why);
    return -1;
}

/* ---- the index ----------------------------------------------------------------------------- */

static int parse_entries(const char *path, const uint8_t *at, uint64_t data_bytes,
                         struct pack_index *index, char *error)
{
    for (uint32_t i = 0; i < index->count; i++, at += ENTRY) {
        struct pack_entry entry = {little_get(at, 8), little_get(at + 8, 8)};

        if (entry.length < 1 || entry.length > FILES_BYTES_MAX || entry.offset > data_bytes ||
            entry.length > data_bytes - entry.offset)
            return refuse(error, path, "an entry lies outside of the packed data");
        index->entries[i] = entry;
    }
    return 0;
}

static int parse_index(const char *path, const struct file_bytes *bytes, uint64_t data_bytes,
                       struct pack_index *index, char *error)
{
    uint64_t count, format;

    if (bytes->length < HEADER || memcmp(bytes->data, MAGIC, sizeof MAGIC) != 0)
        return refuse(error, path, "not an index of packed samples");
    format = little_get(bytes->data + 8, 4);
    if (little_get(bytes->data + 12, 4) != PACK_VERSION || format >= SAMPLE_FORMATS)
        return refuse(error, path, "an index of another version of adltrain");
    count = little_get(bytes->data + 16, 8);
    if (count < 1 || count > FILES_COUNT_MAX || bytes->length - HEADER != count * ENTRY)
        return refuse(error, path, "an index that is cut or too long");
    index->format = (enum sample_format)format;
    index->count = (uint32_t)count;
    index->entries = calloc(count, sizeof *index->entries);
    if (index->entries == NULL)
        return refuse(error, path, "out of memory");
    return parse_entries(path, bytes->data + HEADER, data_bytes, index, error);
}

int pack_index_read(const char *path, uint64_t data_bytes, struct pack_index *index, char *error)
{
    struct file_bytes bytes = {0};
    int rc = file_read(path, &bytes, error);

    *index = (struct pack_index){0};
    if (rc == 0)
        rc = parse_index(path, &bytes, data_bytes, index, error);
    if (rc < 0)
        pack_index_free(index);
    file_bytes_free(&bytes);
    return rc;
}

void pack_index_free(struct pack_index *index)
{
    free(index->entries);
    *index = (struct pack_index){0};
}

int pack_index_write(const char *path, const struct pack_index *index, char *error)
{
    size_t length = HEADER + (size_t)index->count * ENTRY;
    uint8_t *data = malloc(length);
    int rc;

    if (data == NULL)
        return refuse(error, path, "out of memory");
    memcpy(data, MAGIC, sizeof MAGIC);
    little_put(data + 8, index->format, 4);
    little_put(data + 12, PACK_VERSION, 4);
    little_put(data + 16, index->count, 8);
    for (uint32_t i = 0; i < index->count; i++) {
        little_put(data + HEADER + (size_t)i * ENTRY, index->entries[i].offset, 8);
        little_put(data + HEADER + (size_t)i * ENTRY + 8, index->entries[i].length, 8);
    }
    rc = file_write_atomically(path, data, length, error);
    free(data);
    return rc;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void writer_close(struct pack_writer *writer)
{
    if (writer->file != NULL)
        (void)fclose(writer->file);
    if (writer->temporary != NULL)
        (void)unlink(writer->temporary);
    free(writer->temporary);
    free(writer->path);
    pack_index_free(&writer->index);
    *writer = (struct pack_writer){0};
}

static int writer_fail(struct pack_writer *writer, const char *what, char *error)
{
    (void)snprintf(error, FILES_ERROR_MAX, "cannot %s %s: %s", what, writer->path, strerror(errno));
    writer_close(writer);
    return -1;
}

int pack_writer_open(struct pack_writer *writer, const char *path, enum sample_format format,
                     uint32_t capacity, char *error)
{
    *writer = (struct pack_writer){.capacity = capacity, .index = {.format = format}};
    writer->path = strdup(path);
    writer->index.entries = calloc(capacity, sizeof *writer->index.entries);
    if (writer->path == NULL || writer->index.entries == NULL ||
        asprintf(&writer->temporary, "%s.%ld.tmp", path, (long)getpid()) < 0) {
        writer->temporary = NULL;
        writer_close(writer);
        return refuse(error, path, "out of memory");
    }
    if (!replacefile_allowed(path)) {
        (void)snprintf(error, FILES_ERROR_MAX, "cannot write %s: %s", path,
                       replacefile_error(errno));
        free(writer->temporary);
        writer->temporary = NULL;
        writer_close(writer);
        return -1;
    }
    writer->file = fopen(writer->temporary, "wxe"); /* no other's file, no link */
    return writer->file == NULL ? writer_fail(writer, "create", error) : 0;
}

int pack_writer_add(struct pack_writer *writer, const void *data, size_t length, char *error)
{
    struct pack_index *index = &writer->index;

    if (index->count == writer->capacity) {
        errno = ENOSPC;
        return writer_fail(writer, "add to", error);
    }
    if (fwrite(data, 1, length, writer->file) != length)
        return writer_fail(writer, "write", error);
    index->entries[index->count++] = (struct pack_entry){writer->bytes, length};
    writer->bytes += length;
    return 0;
}

int pack_writer_finish(struct pack_writer *writer, const char *index_path, char *error)
{
    FILE *file = writer->file;
    int rc;

    writer->file = NULL;
    if (fclose(file) != 0)
        return writer_fail(writer, "write", error);
    /* an old index must never meet new data */
    if (unlink(index_path) < 0 && errno != ENOENT)
        return writer_fail(writer, "replace the index of", error);
    if (rename(writer->temporary, writer->path) < 0)
        return writer_fail(writer, "put in place", error);
    free(writer->temporary);
    writer->temporary = NULL;
    rc = pack_index_write(index_path, &writer->index, error);
    writer_close(writer);
    return rc;
}

void pack_writer_abandon(struct pack_writer *writer)
{
    writer_close(writer);
}
