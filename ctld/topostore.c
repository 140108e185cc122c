/* Topologies by digest, in memory and on disk. See topostore.h. */
#include "config.h"

#include "topostore.h"

#include "log.h"
#include "offload.h"
#include "wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASK_AGAIN_MS 5000u
#define ASKED_MAX    16u
#define QUEUE_MAX    64u

struct topo_entry {
    char digest[TOPO_DIGEST_MAX];
    struct topo *topo;
    unsigned references; /* the store's own not counted */
    uint64_t used;       /* order of use, for making room */
};

struct asked { /* a digest that somebody was asked for, or that is being read */
    char digest[TOPO_DIGEST_MAX];
    uint64_t at_ms;
};

struct topostore {
    struct workers *workers;
    struct warnonce *warned;
    topostore_ready ready;
    void *arg;
    int directory; /* -1: memory only */
    struct topo_entry *entries[TOPOSTORE_MAX];
    size_t nentries;
    uint64_t uses;
    struct asked asked[ASKED_MAX];
    unsigned next_asked;
};

/* One topology being read or written by the thread. */
struct job {
    struct work work;
    struct topostore *store; /* the loop's alone */
    int directory;           /* of its own; -1: none */
    char digest[TOPO_DIGEST_MAX];
    char *xml; /* NULL: read it from the file */
    size_t length;
    /* result */
    struct topo *topo;
    char error[256];
};

/* A digest is lower-case hex and nothing else, so that it may name a file. */
static bool digest_ok(const char *digest)
{
    size_t length = strlen(digest);

    return length >= 16 && length < TOPO_DIGEST_MAX && strspn(digest, "0123456789abcdef") == length;
}

/* ---- files --------------------------------------------------------------------------------- */

static int open_directory(const char *state_dir)
{
    int state, directory;

    if (mkdir(state_dir, 0755) < 0 && errno != EEXIST)
        return -1;
    state = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (state < 0)
        return -1;
    directory = -1;
    if (mkdirat(state, "topologies", 0755) == 0 || errno == EEXIST)
        directory = openat(state, "topologies", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    (void)close(state);
    return directory;
}

static void file_name(const char *digest, char name[TOPO_DIGEST_MAX + 8])
{
    (void)snprintf(name, TOPO_DIGEST_MAX + 8, "%s.xml", digest);
}

static int write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, data, length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        length -= (size_t)n;
    }
    return 0;
}

/* The oldest files go when there are too many. */
static void trim_files(int directory)
{
    for (;;) {
        int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
        char oldest[NAME_MAX + 1] = "";
        struct timespec oldest_time = {0, 0};
        unsigned count = 0;
        struct dirent *entry;

        if (dir == NULL) {
            if (copy >= 0)
                (void)close(copy);
            return;
        }
        while ((entry = readdir(dir)) != NULL) {
            struct stat st;

            if (entry->d_name[0] == '.' ||
                fstatat(directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                continue;
            count++;
            if (oldest[0] == '\0' || st.st_mtim.tv_sec < oldest_time.tv_sec ||
                (st.st_mtim.tv_sec == oldest_time.tv_sec &&
                 st.st_mtim.tv_nsec < oldest_time.tv_nsec)) {
                oldest_time = st.st_mtim;
                (void)snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
            }
        }
        (void)closedir(dir);
        if (count < TOPOSTORE_MAX || unlinkat(directory, oldest, 0) < 0)
            return;
    }
}

static void save(int directory, const char *digest, const char *xml, size_t length)
{
    char name[TOPO_DIGEST_MAX + 8], temporary[TOPO_DIGEST_MAX + 16];
    int fd;

    if (directory < 0)
        return;
    trim_files(directory);
    file_name(digest, name);
    (void)snprintf(temporary, sizeof(temporary), ".%s.new", name);
    fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) {
        log_warning("cannot write topology %s into StateDir: %s; it is kept in memory only", digest,
                    strerror(errno));
        return;
    }
    if (write_all(fd, xml, length) < 0 || fsync(fd) < 0) {
        log_warning("cannot write topology %s into StateDir: %s; it is kept in memory only", digest,
                    strerror(errno));
        (void)close(fd);
        (void)unlinkat(directory, temporary, 0);
        return;
    }
    if (close(fd) < 0 || renameat(directory, temporary, directory, name) < 0) {
        log_warning("cannot keep topology %s in StateDir: %s; it is kept in memory only", digest,
                    strerror(errno));
        (void)unlinkat(directory, temporary, 0);
    }
}

static char *read_whole(int fd, size_t *length)
{
    struct stat st;
    size_t size, done = 0;
    char *data;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        st.st_size > (off_t)WIRE_LARGE_FRAME)
        return NULL;
    size = (size_t)st.st_size;
    data = malloc(size);
    while (data != NULL && done < size) {
        ssize_t n = read(fd, data + done, size - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            free(data);
            return NULL;
        }
        done += (size_t)n;
    }
    *length = done;
    return data;
}

static char *load(int directory, const char *digest, size_t *length)
{
    char name[TOPO_DIGEST_MAX + 8];
    char *data;
    int fd;

    if (directory < 0)
        return NULL;
    file_name(digest, name);
    fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    data = read_whole(fd, length);
    (void)close(fd);
    return data;
}

static bool file_exists(int directory, const char *digest)
{
    char name[TOPO_DIGEST_MAX + 8];

    file_name(digest, name);
    return directory >= 0 && faccessat(directory, name, R_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void forget_file(int directory, const char *digest)
{
    char name[TOPO_DIGEST_MAX + 8];

    file_name(digest, name);
    (void)unlinkat(directory, name, 0);
}

/* ---- the thread's part ------------------------------------------------------------------------
 */

static void discard(struct work *work)
{
    struct job *job = (struct job *)work;

    if (job->directory >= 0)
        (void)close(job->directory);
    topo_free(job->topo);
    free(job->xml);
    free(job);
}

static void read_topology(struct work *work)
{
    struct job *job = (struct job *)work;
    bool from_file = job->xml == NULL;
    char actual[TOPO_DIGEST_MAX];

    if (from_file)
        job->xml = load(job->directory, job->digest, &job->length);
    if (job->xml == NULL) {
        (void)snprintf(job->error, sizeof(job->error), "its file cannot be read");
        return;
    }
    topo_digest(job->xml, job->length, actual);
    if (strcmp(actual, job->digest) != 0)
        (void)snprintf(job->error, sizeof(job->error), "the text's digest is %s", actual);
    else
        job->topo = topo_from_xml(job->xml, job->length, job->error, sizeof(job->error));
    if (job->topo != NULL && !from_file)
        save(job->directory, job->digest, job->xml, job->length);
    else if (job->topo == NULL && from_file)
        forget_file(job->directory, job->digest); /* so that somebody is asked next time */
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void entry_free(struct topo_entry *entry)
{
    topo_free(entry->topo);
    free(entry);
}

/* Room for one more: the longest unused entry that nobody refers to goes. */
static bool make_room(struct topostore *store)
{
    size_t victim = store->nentries;

    if (store->nentries < TOPOSTORE_MAX)
        return true;
    for (size_t i = 0; i < store->nentries; i++)
        if (store->entries[i]->references == 0 &&
            (victim == store->nentries || store->entries[i]->used < store->entries[victim]->used))
            victim = i;
    if (victim == store->nentries)
        return false;
    entry_free(store->entries[victim]);
    store->entries[victim] = store->entries[--store->nentries];
    return true;
}

struct topo_entry *topostore_get(struct topostore *store, const char *digest)
{
    for (size_t i = 0; i < store->nentries; i++) {
        struct topo_entry *entry = store->entries[i];

        if (strcmp(entry->digest, digest) == 0) {
            entry->references++;
            entry->used = ++store->uses;
            return entry;
        }
    }
    return NULL;
}

void topostore_release(struct topo_entry *entry)
{
    if (entry != NULL)
        entry->references--;
}

const struct topo *topostore_topo(const struct topo_entry *entry)
{
    return entry->topo;
}

/* Takes the topology over; NULL in error on success. */
static const char *add(struct topostore *store, const char *digest, struct topo *topo)
{
    struct topo_entry *entry;

    if (!make_room(store)) {
        topo_free(topo);
        return "too many different ones are in use";
    }
    entry = calloc(1, sizeof(*entry));
    if (entry == NULL) {
        topo_free(topo);
        return "out of memory";
    }
    (void)snprintf(entry->digest, sizeof(entry->digest), "%s", digest);
    entry->topo = topo;
    entry->used = ++store->uses;
    store->entries[store->nentries++] = entry;
    return NULL;
}

static void warn_unused(struct topostore *store, const char *digest, const char *trouble)
{
    char sentence[TOPO_DIGEST_MAX + 300];

    (void)snprintf(sentence, sizeof(sentence), "topology %s is not used: %s", digest, trouble);
    warnonce_log(store->warned, digest, sentence);
}

static void topology_read(struct work *work)
{
    struct job *job = (struct job *)work;
    struct topostore *store = job->store;
    struct topo_entry *known = topostore_get(store, job->digest);
    const char *trouble = job->error;

    topostore_release(known);
    if (known == NULL && job->topo != NULL) {
        trouble = add(store, job->digest, job->topo);
        job->topo = NULL;
    }
    if (known == NULL && trouble != NULL)
        warn_unused(store, job->digest, trouble);
    else if (known == NULL)
        store->ready(job->digest, store->arg);
    discard(work);
}

static bool submit(struct topostore *store, const char *digest, const char *xml, size_t length)
{
    struct job *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return false;
    job->work = (struct work){.run = read_topology, .done = topology_read, .discard = discard};
    job->store = store;
    job->directory = store->directory >= 0 ? fcntl(store->directory, F_DUPFD_CLOEXEC, 3) : -1;
    (void)snprintf(job->digest, sizeof(job->digest), "%s", digest);
    job->length = length;
    if (xml != NULL) {
        job->xml = malloc(length);
        if (job->xml != NULL)
            memcpy(job->xml, xml, length);
    }
    if ((xml != NULL && job->xml == NULL) || !workers_submit(store->workers, &job->work)) {
        discard(&job->work);
        return false;
    }
    return true;
}

bool topostore_put(struct topostore *store, const char *digest, const char *xml, size_t length)
{
    return digest_ok(digest) && length > 0 && length <= WIRE_LARGE_FRAME &&
           submit(store, digest, xml, length);
}

bool topostore_wants(struct topostore *store, const char *digest, uint64_t now_ms)
{
    struct asked *asked;

    if (!digest_ok(digest))
        return false;
    for (unsigned i = 0; i < ASKED_MAX; i++)
        if (strcmp(store->asked[i].digest, digest) == 0 &&
            now_ms - store->asked[i].at_ms < ASK_AGAIN_MS)
            return false;
    asked = &store->asked[store->next_asked];
    store->next_asked = (store->next_asked + 1) % ASKED_MAX;
    (void)snprintf(asked->digest, sizeof(asked->digest), "%s", digest);
    asked->at_ms = now_ms;
    return !file_exists(store->directory, digest) || !submit(store, digest, NULL, 0);
}

struct topostore *topostore_new(struct event_base *base, const char *state_dir,
                                struct warnonce *warned, topostore_ready ready, void *arg)
{
    struct topostore *store = calloc(1, sizeof(*store));

    if (store == NULL)
        return NULL;
    store->warned = warned;
    store->ready = ready;
    store->arg = arg;
    store->directory = -1;
    store->workers = workers_new(base, 1, QUEUE_MAX);
    if (store->workers == NULL) {
        free(store);
        return NULL;
    }
    if (state_dir[0] == '\0')
        return store;
    store->directory = open_directory(state_dir);
    if (store->directory < 0)
        log_warning("cannot use StateDir %s for topologies: %s; they are kept in memory only and "
                    "asked for again after a restart",
                    state_dir, strerror(errno));
    return store;
}

void topostore_free(struct topostore *store)
{
    if (store == NULL)
        return;
    workers_free(store->workers);
    for (size_t i = 0; i < store->nentries; i++)
        entry_free(store->entries[i]);
    if (store->directory >= 0)
        (void)close(store->directory);
    free(store);
}
