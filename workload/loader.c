/* The pool of loader threads. */
#include "config.h"

#include "loader.h"

#include "augment.h"
#include "clock.h"
#include "jpeg.h"
#include "log.h"
#include "raw.h"
#include "rng.h"
#include "tokens.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SKIPS_NAMED 20 /* bad samples named in the log; the rest is only counted */

struct worker {
    struct loader *loader;
    pthread_t thread;
    unsigned number;
    sem_t running; /* posted once tid is known and the thread announced */
    atomic_int tid;
    /* written by the worker alone, read by everybody */
    atomic_uint_fast64_t samples, skipped, bytes, read_ns, decode_ns, augment_ns, cpu_ns;
};

struct loader {
    struct loader_config config;
    pthread_mutex_t lock;
    struct worker **workers; /* threads_max entries, the first started of them are running */
    unsigned started, allowed;
    bool told_short;
    atomic_uint skips_named;
    atomic_uint_fast64_t failures_in_a_row; /* of all threads together */
    atomic_bool failed;
};

#define NAME_BYTES 4200 /* of a sample: its path, mostly */

/* What a thread keeps between samples. */
struct scratch {
    struct file_bytes bytes;
    struct jpeg_image image;
};

/* ---- one sample -------------------------------------------------------------------------- */

static void add(atomic_uint_fast64_t *counter, uint64_t value)
{
    atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

static void fail(struct loader *loader)
{
    atomic_store(&loader->failed, true);
    batches_stop(loader->config.queue);
}

static void skip(struct worker *worker, uint32_t index, const char *why)
{
    struct loader *loader = worker->loader;
    char name[NAME_BYTES];
    unsigned named = atomic_fetch_add(&loader->skips_named, 1);
    uint64_t failures = atomic_fetch_add(&loader->failures_in_a_row, 1) + 1;

    add(&worker->skipped, 1);
    store_name(loader->config.store, index, name, sizeof name);
    if (named < SKIPS_NAMED)
        log_warning("skipped %s: %s", name, why);
    else if (named == SKIPS_NAMED)
        log_warning("more bad files: from here on they are only counted");
    if (failures == (uint64_t)loader->config.sampler->shard + 1) {
        log_error("no file of the data set could be read for a whole epoch: giving up");
        fail(loader);
    }
}

static int decode(const struct loader_config *config, struct scratch *scratch, char *error)
{
    const struct file_bytes *bytes = &scratch->bytes;

    if (config->store->samples == SAMPLE_RAW)
        return raw_decode(bytes->data, bytes->length, &scratch->image, error);
    return jpeg_decode(bytes->data, bytes->length, config->dct_scaling ? config->side : 0,
                       &scratch->image, error);
}

/* The augmentation of a sample is the same whichever thread makes it. */
static struct rng rng_of(const struct loader_config *config, struct sample sample)
{
    return rng_for(rng_mix(config->seed) + sample.epoch, sample.index);
}

static int prepare_picture(struct worker *worker, struct sample sample, struct scratch *scratch,
                           float *out, char *error)
{
    const struct loader_config *config = &worker->loader->config;
    uint64_t start = clock_monotonic_ns(), decoded;
    struct rng rng = rng_of(config, sample);
    int rc = decode(config, scratch, error);

    decoded = clock_monotonic_ns();
    add(&worker->decode_ns, decoded - start);
    if (rc == 0) {
        struct augment_crop crop = augment_draw(&rng, scratch->image.width, scratch->image.height);

        augment_apply(&scratch->image, &crop, config->side, out);
        add(&worker->augment_ns, clock_monotonic_ns() - decoded);
    }
    return rc;
}

static int prepare_text(struct worker *worker, struct sample sample, struct scratch *scratch,
                        float *out, char *error)
{
    const struct loader_config *config = &worker->loader->config;
    uint64_t start = clock_monotonic_ns();
    struct rng rng = rng_of(config, sample);
    int rc =
        tokens_window(scratch->bytes.data, scratch->bytes.length, &rng, config->tokens, out, error);

    add(&worker->decode_ns, clock_monotonic_ns() - start);
    return rc;
}

/* Read and prepare the sample; false: it was skipped. */
static bool load(struct worker *worker, struct sample sample, struct scratch *scratch, float *out)
{
    struct loader *loader = worker->loader;
    char error[FILES_ERROR_MAX]; /* the largest of all */
    uint64_t start = clock_monotonic_ns();
    int rc;

    _Static_assert(FILES_ERROR_MAX >= JPEG_ERROR_MAX && FILES_ERROR_MAX >= TOKENS_ERROR_MAX,
                   "one buffer for all");
    if (store_read(loader->config.store, sample.index, &scratch->bytes, error) < 0) {
        skip(worker, sample.index, error);
        return false;
    }
    add(&worker->read_ns, clock_monotonic_ns() - start);
    add(&worker->bytes, scratch->bytes.length);
    rc = loader->config.tokens > 0 ? prepare_text(worker, sample, scratch, out, error)
                                   : prepare_picture(worker, sample, scratch, out, error);
    if (rc < 0) {
        skip(worker, sample.index, error);
        return false;
    }
    add(&worker->samples, 1);
    atomic_store_explicit(&loader->failures_in_a_row, 0, memory_order_relaxed);
    return true;
}

static void note_cpu_time(struct worker *worker)
{
    struct timespec now;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0)
        atomic_store_explicit(&worker->cpu_ns,
                              (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                              memory_order_relaxed);
}

/* Fill the place from the first good sample that comes; false: stopped meanwhile. */
static bool fill_place(struct worker *worker, struct scratch *scratch,
                       const struct batch_place *place)
{
    struct loader *loader = worker->loader;

    while (!atomic_load_explicit(&loader->failed, memory_order_relaxed)) {
        struct sample sample = sampler_next(loader->config.sampler);

        if (load(worker, sample, scratch, place->sample)) {
            batches_fill(loader->config.queue, place);
            return true;
        }
    }
    return false;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct loader *loader = worker->loader;
    struct scratch scratch = {0};
    struct batch_place place;

    atomic_store(&worker->tid, (int)gettid());
    if (adloader_loader_thread(loader->config.client, 1) < 0)
        log_warning("loader thread %u could not be announced: %s", worker->number, strerror(errno));
    (void)sem_post(&worker->running);
    while (batches_claim(loader->config.queue, worker->number, &place)) {
        if (!fill_place(worker, &scratch, &place))
            break;
        note_cpu_time(worker);
    }
    (void)adloader_loader_thread(loader->config.client, 0);
    file_bytes_free(&scratch.bytes);
    jpeg_image_free(&scratch.image);
    return NULL;
}

/* ---- the pool ---------------------------------------------------------------------------- */

struct loader *loader_new(const struct loader_config *config)
{
    struct loader *loader = calloc(1, sizeof *loader);

    if (loader == NULL)
        return NULL;
    loader->config = *config;
    loader->workers = calloc(config->threads_max, sizeof(struct worker *));
    if (loader->workers == NULL || pthread_mutex_init(&loader->lock, NULL) != 0) {
        free(loader->workers);
        free(loader);
        errno = ENOMEM;
        return NULL;
    }
    return loader;
}

/* With the lock held: one thread more. 0 or an error number. */
static int start_worker(struct loader *loader)
{
    struct worker *worker = calloc(1, sizeof *worker);
    int rc;

    if (worker == NULL)
        return ENOMEM;
    worker->loader = loader;
    worker->number = loader->started;
    if (sem_init(&worker->running, 0, 0) < 0) {
        free(worker);
        return ENOMEM;
    }
    rc = pthread_create(&worker->thread, NULL, work, worker);
    if (rc != 0) {
        (void)sem_destroy(&worker->running);
        free(worker);
        return rc;
    }
    /* here rather than in the thread, so that it is never seen under another name for long */
    (void)pthread_setname_np(worker->thread, "adl-loader");
    loader->workers[loader->started++] = worker;
    while (sem_wait(&worker->running) < 0 && errno == EINTR)
        continue;
    return 0;
}

unsigned loader_set_workers(struct loader *loader, unsigned workers)
{
    if (workers < 1)
        workers = 1;
    if (workers > loader->config.threads_max)
        workers = loader->config.threads_max;
    (void)pthread_mutex_lock(&loader->lock);
    while (loader->started < workers) {
        int rc = start_worker(loader);

        if (rc != 0) {
            if (!loader->told_short)
                log_warning("only %u of %u loader threads: cannot start one more: %s",
                            loader->started, workers, strerror(rc));
            loader->told_short = true;
            break;
        }
    }
    loader->allowed = workers < loader->started ? workers : loader->started;
    workers = loader->allowed;
    (void)pthread_mutex_unlock(&loader->lock);
    batches_allow(loader->config.queue, workers);
    return workers;
}

unsigned loader_workers(struct loader *loader)
{
    unsigned workers;

    (void)pthread_mutex_lock(&loader->lock);
    workers = loader->allowed;
    (void)pthread_mutex_unlock(&loader->lock);
    return workers;
}

int loader_cpus(struct loader *loader, struct cpus *cpus)
{
    struct cpus one = CPUS_EMPTY;
    int rc = 0;

    cpus_clear_all(cpus);
    (void)pthread_mutex_lock(&loader->lock);
    for (unsigned i = 0; i < loader->allowed && rc == 0; i++) {
        if (cpus_get_affinity(atomic_load(&loader->workers[i]->tid), &one) == 0)
            rc = cpus_or(cpus, &one);
    }
    (void)pthread_mutex_unlock(&loader->lock);
    cpus_free(&one);
    return rc;
}

static double seconds(const atomic_uint_fast64_t *ns)
{
    return 1e-9 * (double)atomic_load_explicit(ns, memory_order_relaxed);
}

void loader_totals(struct loader *loader, struct loader_totals *totals)
{
    struct batches *queue = loader->config.queue;

    *totals = (struct loader_totals){0};
    (void)pthread_mutex_lock(&loader->lock);
    for (unsigned i = 0; i < loader->started; i++) {
        struct worker *worker = loader->workers[i];

        totals->samples += atomic_load_explicit(&worker->samples, memory_order_relaxed);
        totals->skipped += atomic_load_explicit(&worker->skipped, memory_order_relaxed);
        totals->bytes += atomic_load_explicit(&worker->bytes, memory_order_relaxed);
        totals->read_s += seconds(&worker->read_ns);
        totals->decode_s += seconds(&worker->decode_ns);
        totals->augment_s += seconds(&worker->augment_ns);
        totals->cpu_s += seconds(&worker->cpu_ns);
    }
    (void)pthread_mutex_unlock(&loader->lock);
    (void)pthread_mutex_lock(&queue->lock);
    totals->waiting_s = 1e-9 * (double)queue->waiting_ns;
    (void)pthread_mutex_unlock(&queue->lock);
}

bool loader_failed(struct loader *loader)
{
    return atomic_load(&loader->failed);
}

void loader_free(struct loader *loader)
{
    if (loader == NULL)
        return;
    batches_stop(loader->config.queue);
    for (unsigned i = 0; i < loader->started; i++) {
        (void)pthread_join(loader->workers[i]->thread, NULL);
        (void)sem_destroy(&loader->workers[i]->running);
        free(loader->workers[i]);
    }
    (void)pthread_mutex_destroy(&loader->lock);
    free(loader->workers);
    free(loader);
}
