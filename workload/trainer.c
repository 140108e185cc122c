/* The training loop of a rank. */
#include "config.h"

#include "trainer.h"

#include "adloader.h"
#include "batches.h"
#include "clock.h"
#include "feed.h"
#include "gpu_rank.h"
#include "loader.h"
#include "log.h"
#include "monitor.h"
#include "progress.h"
#include "record.h"
#include "ring.h"
#include "sampler.h"
#include "store.h"
#include "summary.h"
#include "workers.h"
#include "world.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Behind the gradients in the exchanged buffer: how many ranks wish what. */
enum vote { VOTE_STOP, VOTE_FAILED, VOTE_TIME, VOTE_COUNT };

enum end { END_NOT_YET, END_DONE, END_SIGNAL, END_FAILED, END_PEER_FAILED, END_PEER_LOST };

struct trainer {
    struct run_options *options;
    struct world world;
    struct gpu *gpu; /* NULL without */
    struct gpu_expectation expected;
    struct feed *feed;
    struct ring *ring;
    adloader_t *client;
    struct loader *loader;
    struct batches *queue;
    struct progress *progress;
    struct totals start; /* the moment that training began */
    uint64_t start_ns, start_wall_s;
    uint64_t steps;   /* to do; 0: until the time is over */
    float *buffer;    /* gradients, then votes */
    size_t gradients; /* 0: the GPUs sum theirs by themselves */
    atomic_int stop;  /* a signal's number */
    bool gpu_failed;
    enum end end;
};

/* ---- one step -------------------------------------------------------------------------------- */

/* What a rank brings to the exchange; small whole numbers, so that sums are exact and can be
 * checked. */
static float gradient(unsigned rank, uint64_t step)
{
    return (float)((rank % 64 + 1) * (1 + step % 7));
}

static float gradient_sum(unsigned ranks, uint64_t step)
{
    float sum = 0.0f;

    for (unsigned rank = 0; rank < ranks; rank++)
        sum += gradient(rank, step);
    return sum;
}

static void produce_gradients(struct trainer *trainer, uint64_t step)
{
    float value = gradient(trainer->world.rank, step);

    for (size_t i = 0; i < trainer->gradients; i++)
        trainer->buffer[i] = value;
}

static int check_gradients(const struct trainer *trainer, uint64_t step)
{
    float expected = gradient_sum(trainer->world.ranks, step);
    const size_t places[] = {0, trainer->gradients / 2, trainer->gradients - 1};

    for (size_t i = 0; trainer->gradients > 0 && i < sizeof places / sizeof places[0]; i++) {
        float found = trainer->buffer[places[i]];

        if (found < expected || found > expected) {
            log_error("rank %u: gradient %zu of step %" PRIu64
                      " is %g after the exchange instead of %g",
                      trainer->world.rank, places[i], step, (double)found, (double)expected);
            return -1;
        }
    }
    return 0;
}

static bool has_failed(const struct trainer *trainer)
{
    return trainer->gpu_failed || loader_failed(trainer->loader) || feed_failed(trainer->feed);
}

static void vote(struct trainer *trainer)
{
    const struct run_options *options = trainer->options;
    float *votes = trainer->buffer + trainer->gradients;
    double elapsed = 1e-9 * (double)(clock_monotonic_ns() - trainer->start_ns);

    votes[VOTE_STOP] = atomic_load(&trainer->stop) != 0 ? 1.0f : 0.0f;
    votes[VOTE_FAILED] = has_failed(trainer) ? 1.0f : 0.0f;
    votes[VOTE_TIME] = options->seconds > 0.0 && elapsed >= options->seconds ? 1.0f : 0.0f;
}

/*
 * The exchange: gradients and votes are summed over the ranks; GPUs that sum their gradients
 * themselves have begun to, and it is waited for. When the votes have come, all ranks have: so no
 * GPU waits for one that is lost. 0 or -1: a rank is lost.
 */
static int exchange(struct trainer *trainer, uint64_t step)
{
    bool alone = trainer->world.ranks == 1 || !trainer->options->train;

    vote(trainer);
    if (!alone) {
        progress_enter(trainer->progress, PHASE_EXCHANGE);
        produce_gradients(trainer, step);
        if (ring_sum(trainer->ring, trainer->buffer, trainer->gradients + VOTE_COUNT) < 0)
            return -1;
        if (check_gradients(trainer, step) < 0)
            return -1;
    }
    if (trainer->gpu == NULL || trainer->buffer[trainer->gradients + VOTE_FAILED] > 0.0f)
        return 0;
    if (trainer->gpu->ops->sums || !alone)
        progress_enter(trainer->progress, PHASE_EXCHANGE);
    if (trainer->gpu->ops->exchange(trainer->gpu) < 0)
        trainer->gpu_failed = true;
    return 0;
}

/* Why the loop ends after this step, by the votes of all ranks. */
static enum end count_votes(const struct trainer *trainer, uint64_t done)
{
    const float *votes = trainer->buffer + trainer->gradients;

    if (has_failed(trainer))
        return END_FAILED;
    if (votes[VOTE_FAILED] > 0.0f)
        return END_PEER_FAILED;
    if (trainer->steps > 0 && done >= trainer->steps)
        return END_DONE;
    if (votes[VOTE_TIME] > 0.0f)
        return END_DONE;
    if (votes[VOTE_STOP] > 0.0f)
        return atomic_load(&trainer->stop) != 0 ? END_SIGNAL : END_PEER_FAILED;
    return END_NOT_YET;
}

/* The slot of the next batch; -1: none will come any more (the votes will say why). */
static int get_batch(struct trainer *trainer)
{
    progress_enter(trainer->progress, PHASE_WAIT);
    return feed_take(trainer->feed);
}

/* The passes of a step; without a batch, a GPU that sums gradients still takes part in that.
 * Returns whether the step is complete. */
static bool train_on(struct trainer *trainer, int slot)
{
    struct gpu *gpu = trainer->gpu;
    bool complete = slot >= 0, begun;

    if (gpu == NULL || (!complete && !gpu->ops->sums))
        return complete;
    progress_enter(trainer->progress, PHASE_COMPUTE);
    begun = gpu->ops->begin(gpu, complete ? (unsigned)slot : GPU_NO_BATCH) == 0;
    trainer->gpu_failed = !begun || gpu->ops->compute(gpu) < 0;
    return complete && !trainer->gpu_failed && atomic_load(&trainer->stop) == 0;
}

static void report(struct trainer *trainer)
{
    struct totals now = progress_now(trainer->progress);

    adloader_progress(trainer->client, (double)now.samples, now.seconds[PHASE_WAIT],
                      now.seconds[PHASE_COMPUTE] + now.seconds[PHASE_EXCHANGE]);
}

static enum end step(struct trainer *trainer, uint64_t number)
{
    int slot = get_batch(trainer);
    bool complete = train_on(trainer, slot);

    if (exchange(trainer, number) < 0)
        return END_PEER_LOST;
    progress_enter(trainer->progress, PHASE_OTHER);
    if (slot >= 0)
        feed_release(trainer->feed, (unsigned)slot);
    if (complete)
        progress_step(trainer->progress, trainer->options->batch);
    report(trainer);
    return count_votes(trainer, number + 1);
}

static void loop(struct trainer *trainer)
{
    trainer->start = progress_now(trainer->progress);
    trainer->start_ns = clock_monotonic_ns();
    trainer->start_wall_s = clock_wall_s();
    for (uint64_t number = 0; trainer->end == END_NOT_YET; number++)
        trainer->end = step(trainer, number);
    progress_enter(trainer->progress, PHASE_OTHER);
}

/* ---- the end --------------------------------------------------------------------------------- */

static int exit_status(const struct trainer *trainer)
{
    switch (trainer->end) {
    case END_DONE:
        return 0;
    case END_SIGNAL:
        return 128 + atomic_load(&trainer->stop);
    case END_PEER_FAILED:
    case END_PEER_LOST:
        return 3;
    case END_NOT_YET:
    case END_FAILED:
        break;
    }
    return 1;
}

static const char *end_name(const struct trainer *trainer)
{
    const struct run_options *options = trainer->options;

    switch (trainer->end) {
    case END_DONE:
        return options->steps > 0 ? "steps" : options->samples > 0 ? "samples" : "seconds";
    case END_SIGNAL:
        return "signal";
    case END_PEER_FAILED:
        return "peer-stopped";
    case END_PEER_LOST:
        return "peer-lost";
    case END_NOT_YET:
    case END_FAILED:
        break;
    }
    return "failed";
}

/* Every rank's figures, gathered over the ring if it still stands; complete says whether. */
static struct rank_figures *gather(struct trainer *trainer, const struct rank_figures *own,
                                   bool *complete)
{
    struct rank_figures *all = calloc(trainer->world.ranks, sizeof *all);

    *complete = trainer->world.ranks == 1;
    if (all == NULL)
        return NULL;
    if (trainer->ring != NULL && trainer->end != END_PEER_LOST) {
        all[trainer->world.rank] = *own;
        *complete = ring_gather(trainer->ring, all, sizeof *all) == 0;
    }
    if (!*complete || trainer->world.ranks == 1)
        all[0] = *own;
    return all;
}

static int summarise(struct trainer *trainer, const struct record *record)
{
    struct totals now = progress_now(trainer->progress);
    struct loader_totals loader;
    struct rank_figures own, *all;
    struct summary summary = {
        .options = trainer->options,
        .world = &trainer->world,
        .loader = &loader,
        .record = record,
        .step_s = trainer->expected.step_s,
        .device = trainer->gpu == NULL || trainer->gpu->name[0] == '\0' ? NULL : trainer->gpu->name,
        .predicted = trainer->expected.predicted ? &trainer->expected.step : NULL,
        .start_wall_s = trainer->start_wall_s,
        .loaders_max = workers_max(trainer->options),
        .ended = end_name(trainer),
        .exit_status = exit_status(trainer)};

    loader_totals(trainer->loader, &loader);
    own = summary_figures(&trainer->start, &now, &loader);
    all = gather(trainer, &own, &summary.complete);
    if (all == NULL) {
        log_error("summary: out of memory");
        return 1;
    }
    summary.ranks = all;
    if (summary_print(&summary) < 0)
        log_warning("standard output is gone: %s", strerror(errno));
    if (summary_write(&summary) < 0 && summary.exit_status == 0)
        summary.exit_status = 1;
    free(all);
    return summary.exit_status;
}

/* ---- putting it together ----------------------------------------------------------------------
 */

/* Whole steps of all ranks; the last one may bring more samples than were asked for. */
static uint64_t steps_to_do(const struct run_options *options, unsigned ranks)
{
    uint64_t each = (uint64_t)options->batch * ranks;

    return options->samples > 0 ? (options->samples + each - 1) / each : options->steps;
}

/* With all ranks met, or none to meet: the loop and the summary. */
static int run_together(struct trainer *trainer, struct monitor *monitor,
                        const struct record *record)
{
    if (trainer->gpu != NULL && gpu_rank_join(trainer->gpu, trainer->ring, &trainer->world) < 0) {
        monitor_stop(monitor);
        return 1;
    }
    trainer->feed = feed_start(trainer->queue, trainer->gpu, trainer->options->repeat_batch);
    if (trainer->feed == NULL) {
        monitor_stop(monitor);
        return 1;
    }
    loop(trainer);
    monitor_stop(monitor);
    feed_stop(trainer->feed);
    return summarise(trainer, record);
}

/* With the loaders running: the monitor, the other ranks, the rest. */
static int run_with_loaders(struct trainer *trainer, unsigned mask_size)
{
    struct record record = {0};
    struct monitor *monitor = monitor_start(&(struct monitor_config){.options = trainer->options,
                                                                     .rank = trainer->world.rank,
                                                                     .mask_size = mask_size,
                                                                     .client = trainer->client,
                                                                     .loader = trainer->loader,
                                                                     .queue = trainer->queue,
                                                                     .progress = trainer->progress,
                                                                     .record = &record,
                                                                     .stop = &trainer->stop});
    int status;

    if (monitor == NULL)
        return 1;
    if (trainer->options->train)
        trainer->ring = ring_join(&trainer->world, trainer->options->join_timeout_s,
                                  trainer->options->peer_timeout_s, &trainer->stop);
    if (trainer->ring != NULL || !trainer->options->train) {
        status = run_together(trainer, monitor, &record);
    } else {
        monitor_stop(monitor);
        status = atomic_load(&trainer->stop) != 0 ? 128 + atomic_load(&trainer->stop) : 3;
    }
    ring_leave(trainer->ring);
    record_free(&record);
    return status;
}

static int run_with_queue(struct trainer *trainer, struct store *store, struct sampler *sampler)
{
    unsigned mask_size = workers_mask_size();
    int status;

    trainer->loader =
        loader_new(&(struct loader_config){.store = store,
                                           .sampler = sampler,
                                           .queue = trainer->queue,
                                           .client = trainer->client,
                                           .seed = trainer->options->seed,
                                           .threads_max = workers_max(trainer->options),
                                           .side = trainer->options->crop,
                                           .tokens = trainer->options->tokens,
                                           .dct_scaling = trainer->options->dct_scaling});
    if (trainer->loader == NULL) {
        log_error("out of memory for the loader pool");
        return 1;
    }
    (void)loader_set_workers(trainer->loader,
                             workers_wanted(trainer->options, mask_size, trainer->client));
    status = run_with_loaders(trainer, mask_size);
    loader_free(trainer->loader);
    return status;
}

static void *gpu_alloc(void *gpu, size_t bytes)
{
    return ((struct gpu *)gpu)->ops->alloc(gpu, bytes);
}

static void gpu_release(void *gpu, void *memory)
{
    ((struct gpu *)gpu)->ops->release(gpu, memory);
}

static int make_queue(const struct trainer *trainer, struct batches *queue)
{
    const struct run_options *options = trainer->options;
    size_t floats = options_sample_floats(options);
    const struct batches_memory memory = {gpu_alloc, gpu_release, trainer->gpu};
    bool pinned = trainer->gpu != NULL && trainer->gpu->ops->alloc != NULL;

    if (batches_init(queue, options->queue, options->batch, floats, pinned ? &memory : NULL) == 0)
        return 0;
    log_error("out of memory for %u batches of %u samples (%.0f MB): a smaller --batch or "
              "--queue is needed",
              options->queue, options->batch,
              1e-6 * options->queue * options->batch * (double)(floats * sizeof(float)));
    return -1;
}

static int run_with_store(struct trainer *trainer, struct store *store)
{
    struct sampler sampler;
    struct batches queue;
    struct progress progress;
    int status = 1;

    if (sampler_init(&sampler, store->count, trainer->world.rank, trainer->world.ranks,
                     trainer->options->seed) < 0) {
        log_error("out of memory for the order of %" PRIu32 " samples", store->count);
        return 1;
    }
    if (make_queue(trainer, &queue) == 0) {
        if (progress_init(&progress) < 0) {
            log_error("out of memory");
        } else {
            trainer->queue = &queue;
            trainer->progress = &progress;
            status = run_with_queue(trainer, store, &sampler);
            progress_free(&progress);
        }
        batches_free(&queue);
    }
    sampler_free(&sampler);
    return status;
}

static int run_with_gpu(struct trainer *trainer)
{
    char error[FILES_ERROR_MAX];
    struct store store;
    int status = 1;

    if (store_open(&trainer->options->data, &store, error) < 0) {
        log_error("%s", error);
        return 1;
    }
    if ((store.samples == SAMPLE_TOKENS) != (trainer->options->tokens > 0))
        log_error("%s: the samples are %s and the model takes %s", trainer->options->data.folder,
                  store.samples == SAMPLE_TOKENS ? "texts" : "pictures",
                  trainer->options->tokens > 0 ? "texts" : "pictures");
    else if (store_prepare(&store, &trainer->stop, error) < 0)
        log_error("%s", error);
    else
        status = run_with_store(trainer, &store);
    store_close(&store);
    return status;
}

int trainer_run(struct run_options *options)
{
    struct trainer trainer = {.options = options};
    int status = 1;

    if (world_find(options->rank, options->ranks, options->master, &trainer.world) < 0)
        return 2;
    if (options->train) {
        trainer.gpu = gpu_rank_open(options, &trainer.world, &trainer.stop, &trainer.expected);
        if (trainer.gpu == NULL)
            return 1;
    }
    trainer.steps = steps_to_do(options, trainer.world.ranks);
    if (trainer.gpu == NULL || !trainer.gpu->ops->sums)
        trainer.gradients = (size_t)(options->gradient_bytes / sizeof(float));
    trainer.buffer = calloc(trainer.gradients + VOTE_COUNT, sizeof *trainer.buffer);
    trainer.client = adloader_open();
    if (trainer.buffer == NULL || trainer.client == NULL)
        log_error("out of memory");
    else
        status = run_with_gpu(&trainer);
    adloader_close(trainer.client);
    if (trainer.gpu != NULL)
        trainer.gpu->ops->close(trainer.gpu);
    free(trainer.buffer);
    return status;
}
