/* The training loop of a rank. */
#include "config.h"

#include "trainer.h"

#include "adloader.h"
#include "batches.h"
#include "clock.h"
#include "files.h"
#include "gpu.h"
#include "loader.h"
#include "log.h"
#include "monitor.h"
#include "progress.h"
#include "record.h"
#include "ring.h"
#include "sampler.h"
#include "summary.h"
#include "workers.h"
#include "world.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 3u

/* Behind the gradients in the exchanged buffer: how many ranks wish what. */
enum vote { VOTE_STOP, VOTE_FAILED, VOTE_TIME, VOTE_COUNT };

enum end { END_NOT_YET, END_DONE, END_SIGNAL, END_FAILED, END_PEER_FAILED, END_PEER_LOST };

struct trainer {
    const struct run_options *options;
    struct world world;
    struct gpu gpu;
    struct ring *ring;
    adloader_t *client;
    struct loader *loader;
    struct batches *queue;
    struct progress *progress;
    struct totals start; /* the moment that training began */
    uint64_t start_ns, start_wall_s;
    uint64_t steps; /* to do; 0: until the time is over */
    float *buffer;  /* gradients, then votes */
    size_t gradients;
    atomic_int stop; /* a signal's number */
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

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
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

static void vote(struct trainer *trainer)
{
    const struct run_options *options = trainer->options;
    float *votes = trainer->buffer + trainer->gradients;
    double elapsed = 1e-9 * (double)(clock_monotonic_ns() - trainer->start_ns);

    votes[VOTE_STOP] = atomic_load(&trainer->stop) != 0 ? 1.0f : 0.0f;
    votes[VOTE_FAILED] = loader_failed(trainer->loader) ? 1.0f : 0.0f;
    votes[VOTE_TIME] = options->seconds > 0.0 && elapsed >= options->seconds ? 1.0f : 0.0f;
}

/* The exchange: gradients and votes are summed over the ranks. 0 or -1: a rank is lost. */
static int exchange(struct trainer *trainer, uint64_t step)
{
    bool alone = trainer->world.ranks == 1 || !trainer->options->train;

    vote(trainer);
    if (alone)
        return 0;
    progress_enter(trainer->progress, PHASE_EXCHANGE);
    produce_gradients(trainer, step);
    if (ring_sum(trainer->ring, trainer->buffer, trainer->gradients + VOTE_COUNT) < 0)
        return -1;
    return check_gradients(trainer, step);
}

/* Why the loop ends after this step, by the votes of all ranks. */
static enum end count_votes(const struct trainer *trainer, uint64_t done)
{
    const float *votes = trainer->buffer + trainer->gradients;

    if (loader_failed(trainer->loader))
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

/* False: no batch will come any more (the votes will say why). */
static bool get_batch(struct trainer *trainer)
{
    const struct batch *batch;

    progress_enter(trainer->progress, PHASE_WAIT);
    batch = batches_take(trainer->queue);
    /* The batch is with the GPU now: its place in memory is free for the next one. */
    batches_release(trainer->queue);
    return batch != NULL;
}

static void report(struct trainer *trainer)
{
    struct totals now = progress_now(trainer->progress);

    adloader_progress(trainer->client, (double)now.samples, now.seconds[PHASE_WAIT],
                      now.seconds[PHASE_COMPUTE] + now.seconds[PHASE_EXCHANGE]);
}

static enum end step(struct trainer *trainer, uint64_t number)
{
    bool complete = get_batch(trainer);

    if (complete && trainer->options->train) {
        progress_enter(trainer->progress, PHASE_COMPUTE);
        (void)gpu_step(&trainer->gpu, &trainer->stop);
        complete = atomic_load(&trainer->stop) == 0;
    }
    if (exchange(trainer, number) < 0)
        return END_PEER_LOST;
    progress_enter(trainer->progress, PHASE_OTHER);
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
    struct summary summary = {.options = trainer->options,
                              .world = &trainer->world,
                              .loader = &loader,
                              .record = record,
                              .step_s = trainer->gpu.step_s,
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

static struct gpu choose_gpu(const struct run_options *options)
{
    if (!options->train)
        return (struct gpu){0};
    return options->gpu_rate > 0.0
               ? gpu_with_rate(options->gpu_rate, options->batch)
               : gpu_with_flops(options->flops, options->gpu_flops, options->batch);
}

/* Whole steps of all ranks; the last one may bring more samples than were asked for. */
static uint64_t steps_to_do(const struct run_options *options, unsigned ranks)
{
    uint64_t each = (uint64_t)options->batch * ranks;

    return options->samples > 0 ? (options->samples + each - 1) / each : options->steps;
}

/* With the loaders running: the monitor, the other ranks, the loop, the summary. */
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
    int status = 1;

    if (monitor == NULL)
        return 1;
    if (trainer->options->train)
        trainer->ring = ring_join(&trainer->world, trainer->options->join_timeout_s,
                                  trainer->options->peer_timeout_s, &trainer->stop);
    if (trainer->ring != NULL || !trainer->options->train) {
        loop(trainer);
        monitor_stop(monitor);
        status = summarise(trainer, &record);
    } else {
        monitor_stop(monitor);
        status = atomic_load(&trainer->stop) != 0 ? 128 + atomic_load(&trainer->stop) : 3;
    }
    ring_leave(trainer->ring);
    record_free(&record);
    return status;
}

static int run_with_queue(struct trainer *trainer, const struct files *files,
                          struct sampler *sampler)
{
    unsigned mask_size = workers_mask_size();
    int status;

    trainer->loader =
        loader_new(&(struct loader_config){.files = files,
                                           .sampler = sampler,
                                           .queue = trainer->queue,
                                           .client = trainer->client,
                                           .seed = trainer->options->seed,
                                           .threads_max = workers_max(trainer->options),
                                           .side = trainer->options->crop,
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

static int run_with_files(struct trainer *trainer, const struct files *files)
{
    const struct run_options *options = trainer->options;
    size_t floats = (size_t)CHANNELS * options->crop * options->crop;
    struct sampler sampler;
    struct batches queue;
    struct progress progress;
    int status = 1;

    if (sampler_init(&sampler, files->count, trainer->world.rank, trainer->world.ranks,
                     options->seed) < 0) {
        log_error("out of memory for the order of %" PRIu32 " files", files->count);
        return 1;
    }
    if (batches_init(&queue, options->queue, options->batch, floats) < 0) {
        log_error("out of memory for %u batches of %u samples (%.0f MB): a smaller --batch or "
                  "--queue is needed",
                  options->queue, options->batch,
                  1e-6 * options->queue * options->batch * (double)(floats * sizeof(float)));
    } else if (progress_init(&progress) < 0) {
        log_error("out of memory");
        batches_free(&queue);
    } else {
        trainer->queue = &queue;
        trainer->progress = &progress;
        status = run_with_queue(trainer, files, &sampler);
        progress_free(&progress);
        batches_free(&queue);
    }
    sampler_free(&sampler);
    return status;
}

int trainer_run(const struct run_options *options)
{
    struct trainer trainer = {.options = options, .gpu = choose_gpu(options)};
    char error[FILES_ERROR_MAX];
    struct files files;
    int status = 1;

    if (world_find(options->rank, options->ranks, options->master, &trainer.world) < 0)
        return 2;
    trainer.steps = steps_to_do(options, trainer.world.ranks);
    trainer.gradients = (size_t)(options->gradient_bytes / sizeof(float));
    if (files_list(options->data, &files, error) < 0) {
        log_error("%s", error);
        return 1;
    }
    trainer.buffer = calloc(trainer.gradients + VOTE_COUNT, sizeof *trainer.buffer);
    trainer.client = adloader_open();
    if (trainer.buffer == NULL || trainer.client == NULL)
        log_error("out of memory");
    else
        status = run_with_files(&trainer, &files);
    adloader_close(trainer.client);
    free(trainer.buffer);
    files_free(&files);
    return status;
}
