/* The folder of profiles; see profile.h. One file a profile, named by its key. */
#include "config.h"

#include "profile.h"

#include "profile_text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".profile"

#define TEXT(member) offsetof(struct pred_profile, member), PRED_PROFILE_NAME, 0, 0, NULL
#define NUMBER(member, low, high, comment)                                                         \
    offsetof(struct pred_profile, member), 0, low, high, comment

const struct pred_kv_field PRED_PROFILE_FIELDS[] = {
    {"name", TEXT(name)},
    {"gpu", TEXT(gpu)},
    {"node_type", TEXT(node_type)},
    {"core_rate", NUMBER(core_rate, 1e-12, 1e15, "samples/s of one loader core")},
    {"core_rate_sd", NUMBER(core_rate_sd, 0, 10, "relative uncertainty")},
    {"beta", NUMBER(beta, 0, 0.95, "contention of loader cores, 0 none")},
    {"gpu_rate", NUMBER(gpu_rate, 1e-12, 1e15, "samples/s a GPU when data is never late")},
    {"gpu_rate_sd", NUMBER(gpu_rate_sd, 0, 10, "relative uncertainty")},
    {"demand", NUMBER(demand, 1e-9, PRED_CORES_MAX, "loader cores a GPU")},
    {"demand_sd", NUMBER(demand_sd, 0, 10, "relative uncertainty")},
    {"sample_bytes", NUMBER(sample_bytes, 0, 1e15, "read from storage a sample")},
    {"runs", NUMBER(runs, 0, 1e9, "learned from so many runs")},
    {"updated_s", NUMBER(updated_s, 0, 1e12, "seconds since the epoch")},
    {NULL, 0, 0, 0, 0, NULL},
};

static const char HEAD[] =
    "# adloader: what was learned of one kind of training. Lines may be changed or\n"
    "# taken out; without updated_s it does not age.\n";

static int complain(const char *what, const char *path, char *error, size_t size)
{
    int saved = errno;

    snprintf(error, size, "%s %s: %s", path, what, strerror(saved));
    errno = saved;
    return -1;
}

/* One part of a key in a file's name: case and what is odd in file names do not matter. */
static void append_part(const char *part, char *path, size_t size)
{
    size_t n = strlen(path);

    for (; *part != '\0' && n + 1 < size; part++)
        path[n++] = isalnum((unsigned char)*part)   ? (char)tolower((unsigned char)*part)
                    : strchr("-_.+", *part) != NULL ? *part
                                                    : '_';
    path[n] = '\0';
}

static bool path_of(const char *folder, const char *name, const char *gpu, const char *node_type,
                    char *path, size_t size)
{
    size_t most = strlen(folder) + 3 * PRED_PROFILE_NAME + sizeof(SUFFIX) + 4;

    if (most >= size)
        return false;
    snprintf(path, size, "%s/", folder);
    append_part(name, path, size);
    strncat(path, "@", size - strlen(path) - 1);
    append_part(*gpu != '\0' ? gpu : "any", path, size);
    strncat(path, "@", size - strlen(path) - 1);
    append_part(*node_type != '\0' ? node_type : "any", path, size);
    strncat(path, SUFFIX, size - strlen(path) - 1);
    return true;
}

static enum pred_stored set_aside(const char *path, const char *why, char *error, size_t size)
{
    char aside[4096];

    if (snprintf(aside, sizeof(aside), "%s.corrupt", path) >= (int)sizeof(aside) ||
        rename(path, aside) != 0) {
        complain("is corrupt and cannot be set aside", path, error, size);
        return PRED_STORED_ERROR;
    }
    snprintf(error, size, "%s: %s; set aside as %s", path, why, aside);
    return PRED_STORED_SET_ASIDE;
}

static enum pred_stored read_path(const char *path, struct pred_profile *p, char *error,
                                  size_t size)
{
    char text[PRED_KV_TEXT_MAX], why[256];
    struct pred_profile read;
    long length = pred_kv_read_file(path, text, error, size);

    if (length < 0)
        return errno == ENOENT ? PRED_STORED_NONE : PRED_STORED_ERROR;
    if (pred_kv_parse(text, (size_t)length, PRED_PROFILE_FIELDS, &read, why, sizeof(why)) != 0)
        return set_aside(path, why, error, size);
    if (!pred_profile_init(p, read.name, read.gpu, read.node_type))
        return set_aside(path, "its name, gpu or node_type is missing or odd", error, size);
    *p = read;
    return PRED_STORED_OK;
}

enum pred_stored pred_profile_read(const char *folder, const char *name, const char *gpu,
                                   const char *node_type, struct pred_profile *profile, char *error,
                                   size_t size)
{
    char path[4096];
    enum pred_stored stored;

    if (!pred_profile_init(profile, name, gpu, node_type) ||
        !path_of(folder, name, gpu, node_type, path, sizeof(path))) {
        snprintf(error, size,
                 "'%.64s', '%.64s', '%.64s' cannot name a profile: letters, digits and -_.+ only",
                 name, gpu, node_type);
        return PRED_STORED_ERROR;
    }
    stored = read_path(path, profile, error, size);
    if (stored != PRED_STORED_OK)
        pred_profile_init(profile, name, gpu, node_type);
    return stored;
}

static bool is_profile(const char *name)
{
    size_t n = strlen(name);

    return n > sizeof(SUFFIX) - 1 && name[0] != '.' &&
           strcmp(name + n - (sizeof(SUFFIX) - 1), SUFFIX) == 0;
}

static int by_key(const void *a, const void *b)
{
    const struct pred_profile *left = a, *right = b;
    int order = strcmp(left->name, right->name);

    if (order == 0)
        order = strcmp(left->gpu, right->gpu);
    return order != 0 ? order : strcmp(left->node_type, right->node_type);
}

/* Walks the folder; visit returns false to stop. -1 where it cannot be read; absent is empty. */
static int walk(const char *folder, bool (*visit)(const char *path, void *data), void *data,
                char *error, size_t size)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[4096];
    unsigned seen = 0;

    if (dir == NULL)
        return errno == ENOENT ? 0 : complain("cannot be read", folder, error, size);
    while ((entry = readdir(dir)) != NULL && seen < 4 * PRED_PROFILES_MAX) {
        seen++;
        if (!is_profile(entry->d_name) ||
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path))
            continue;
        if (!visit(path, data))
            break;
    }
    closedir(dir);
    return 0;
}

struct oldest {
    size_t n;
    struct timespec when;
    char path[4096];
};

static bool note_oldest(const char *path, void *data)
{
    struct oldest *o = data;
    struct stat st;

    if (stat(path, &st) != 0)
        return true;
    o->n++;
    if (o->n == 1 || st.st_mtim.tv_sec < o->when.tv_sec) {
        o->when = st.st_mtim;
        snprintf(o->path, sizeof(o->path), "%s", path);
    }
    return true;
}

static int make_room(const char *folder, const char *path, char *error, size_t size)
{
    struct oldest *o;
    int rc;

    if (access(path, F_OK) == 0) /* replaces itself */
        return 0;
    o = calloc(1, sizeof(*o));
    if (o == NULL)
        return complain("cannot be written", path, error, size);
    rc = walk(folder, note_oldest, o, error, size);
    if (rc == 0 && o->n >= PRED_PROFILES_MAX && unlink(o->path) != 0)
        rc = complain("cannot make room for another", o->path, error, size);
    free(o);
    return rc;
}

int pred_profile_write(const char *folder, const struct pred_profile *profile, char *error,
                       size_t size)
{
    char path[4096], text[PRED_KV_TEXT_MAX];

    if (!path_of(folder, profile->name, profile->gpu, profile->node_type, path, sizeof(path))) {
        errno = ENAMETOOLONG;
        return complain("cannot be written", folder, error, size);
    }
    if (mkdir(folder, 0755) != 0 && errno != EEXIST)
        return complain("cannot be made", folder, error, size);
    if (make_room(folder, path, error, size) != 0)
        return -1;
    if (pred_kv_format(PRED_PROFILE_FIELDS, profile, HEAD, text, sizeof(text)) >=
        (int)sizeof(text)) {
        errno = EOVERFLOW;
        return complain("cannot be written", path, error, size);
    }
    /* The controller's loop must not wait for a disk; what a crash leaves is set aside. */
    return pred_kv_write_file(path, text, false, error, size);
}

struct gathered {
    struct pred_profile *profiles;
    size_t n, room, corrupt;
    bool failed;
    char *error;
    size_t size;
};

static bool gather(const char *path, void *data)
{
    struct gathered *g = data;

    if (g->n == g->room) {
        size_t room = g->room > 0 ? 2 * g->room : 32;
        struct pred_profile *more = realloc(g->profiles, room * sizeof(*more));

        if (more == NULL) {
            g->failed = true;
            return false;
        }
        g->profiles = more;
        g->room = room;
    }
    switch (read_path(path, &g->profiles[g->n], g->error, g->size)) {
    case PRED_STORED_OK:
        g->n++;
        break;
    case PRED_STORED_SET_ASIDE:
        g->corrupt++;
        break;
    case PRED_STORED_NONE: /* gone meanwhile */
    case PRED_STORED_ERROR:
        break;
    }
    return g->n < PRED_PROFILES_MAX;
}

int pred_profile_list(const char *folder, struct pred_profile **profiles, size_t *n,
                      size_t *corrupt, char *error, size_t size)
{
    struct gathered g = {.error = error, .size = size};

    error[0] = '\0';
    *profiles = NULL;
    *n = *corrupt = 0;
    if (walk(folder, gather, &g, error, size) != 0 || g.failed) {
        if (g.failed)
            snprintf(error, size, "out of memory");
        free(g.profiles);
        return -1;
    }
    if (g.n > 0)
        qsort(g.profiles, g.n, sizeof(*g.profiles), by_key);
    *profiles = g.profiles;
    *n = g.n;
    *corrupt = g.corrupt;
    return 0;
}

long pred_profile_forget(const char *folder, const char *name, const char *gpu,
                         const char *node_type, char *error, size_t size)
{
    struct pred_profile *profiles;
    size_t n, corrupt;
    long gone = 0;

    if (pred_profile_list(folder, &profiles, &n, &corrupt, error, size) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const struct pred_profile *p = &profiles[i];
        char path[4096];

        if ((name != NULL && strcmp(p->name, name) != 0) ||
            (gpu != NULL && strcmp(p->gpu, gpu) != 0) ||
            (node_type != NULL && strcmp(p->node_type, node_type) != 0))
            continue;
        if (!path_of(folder, p->name, p->gpu, p->node_type, path, sizeof(path)) ||
            unlink(path) != 0) {
            complain("cannot be removed", path, error, size);
            free(profiles);
            return -1;
        }
        gone++;
    }
    free(profiles);
    return gone;
}
