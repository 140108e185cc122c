/* What brings batches to the GPU. */
#include "config.h"

#include "feed.h"

#include "log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum slot_state { SLOT_FREE, SLOT_FULL };

struct feed {
    struct batches *queue;
    struct gpu *gpu;
    bool threaded, repeat;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum slot_state slots[GPU_SLOTS];
    unsigned next; /* slot to be taken */
    bool ended, failed, stopping;
};

/* False: nobody will need it any more. */
static bool await_free(struct feed *feed, unsigned slot)
{
    bool wanted;

    (void)pthread_mutex_lock(&feed->lock);
    while (feed->slots[slot] != SLOT_FREE && !feed->stopping)
        (void)pthread_cond_wait(&feed->changed, &feed->lock);
    wanted = !feed->stopping;
    (void)pthread_mutex_unlock(&feed->lock);
    return wanted;
}

static void note(struct feed *feed, enum slot_state *state, enum slot_state value)
{
    (void)pthread_mutex_lock(&feed->lock);
    *state = value;
    (void)pthread_cond_broadcast(&feed->changed);
    (void)pthread_mutex_unlock(&feed->lock);
}

static void end(struct feed *feed, bool failed)
{
    (void)pthread_mutex_lock(&feed->lock);
    feed->ended = true;
    feed->failed = failed;
    (void)pthread_cond_broadcast(&feed->changed);
    (void)pthread_mutex_unlock(&feed->lock);
}

/* The batch's place in memory is free for another; one that is not let go is taken again. */
static void let_go(struct feed *feed)
{
    if (!feed->repeat)
        batches_release(feed->queue);
}

static void *bring(void *argument)
{
    struct feed *feed = argument;
    bool failed = false;

    for (unsigned slot = 0; !failed && await_free(feed, slot); slot = (slot + 1) % GPU_SLOTS) {
        const struct batch *batch = batches_take(feed->queue);

        if (batch == NULL)
            break;
        failed = feed->gpu->ops->copy(feed->gpu, slot, batch->samples) < 0;
        let_go(feed);
        if (!failed)
            note(feed, &feed->slots[slot], SLOT_FULL);
    }
    end(feed, failed);
    return NULL;
}

struct feed *feed_start(struct batches *queue, struct gpu *gpu, bool repeat)
{
    struct feed *feed = calloc(1, sizeof *feed);
    int rc;

    if (feed == NULL || pthread_mutex_init(&feed->lock, NULL) != 0 ||
        pthread_cond_init(&feed->changed, NULL) != 0) {
        log_error("out of memory");
        free(feed);
        return NULL;
    }
    feed->queue = queue;
    feed->gpu = gpu;
    feed->repeat = repeat;
    feed->threaded = gpu != NULL;
    if (!feed->threaded)
        return feed;
    rc = pthread_create(&feed->thread, NULL, bring, feed);
    if (rc != 0) {
        log_error("cannot start the thread that feeds the GPU: %s", strerror(rc));
        free(feed);
        return NULL;
    }
    (void)pthread_setname_np(feed->thread, "adl-feed");
    return feed;
}

/* Without a GPU. */
static int take_directly(struct feed *feed)
{
    const struct batch *batch = batches_take(feed->queue);

    let_go(feed);
    return batch == NULL ? -1 : 0;
}

int feed_take(struct feed *feed)
{
    unsigned slot = feed->next;
    bool full;

    if (!feed->threaded)
        return take_directly(feed);
    (void)pthread_mutex_lock(&feed->lock);
    while (feed->slots[slot] != SLOT_FULL && !feed->ended)
        (void)pthread_cond_wait(&feed->changed, &feed->lock);
    full = feed->slots[slot] == SLOT_FULL;
    (void)pthread_mutex_unlock(&feed->lock);
    if (!full)
        return -1;
    feed->next = (slot + 1) % GPU_SLOTS;
    return (int)slot;
}

void feed_release(struct feed *feed, unsigned slot)
{
    if (feed->threaded)
        note(feed, &feed->slots[slot], SLOT_FREE);
}

bool feed_failed(struct feed *feed)
{
    bool failed;

    (void)pthread_mutex_lock(&feed->lock);
    failed = feed->failed;
    (void)pthread_mutex_unlock(&feed->lock);
    return failed;
}

void feed_stop(struct feed *feed)
{
    if (feed == NULL)
        return;
    batches_stop(feed->queue);
    if (feed->threaded) {
        (void)pthread_mutex_lock(&feed->lock);
        feed->stopping = true;
        (void)pthread_cond_broadcast(&feed->changed);
        (void)pthread_mutex_unlock(&feed->lock);
        (void)pthread_join(feed->thread, NULL);
    }
    (void)pthread_cond_destroy(&feed->changed);
    (void)pthread_mutex_destroy(&feed->lock);
    free(feed);
}
