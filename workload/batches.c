/* The bounded queue of batches between loader threads and the training loop. */
#include "batches.h"

#include "clock.h"

#include <stdlib.h>

static void *ordinary_alloc(void *of, size_t bytes)
{
    (void)of;
    return calloc(1, bytes);
}

static void ordinary_release(void *of, void *memory)
{
    (void)of;
    free(memory);
}

int batches_init(struct batches *queue, unsigned depth, unsigned size, size_t sample_floats,
                 const struct batches_memory *memory)
{
    static const struct batches_memory ordinary = {ordinary_alloc, ordinary_release, NULL};

    *queue = (struct batches){.depth = depth,
                              .size = size,
                              .sample_floats = sample_floats,
                              .memory = memory != NULL ? *memory : ordinary};
    if (pthread_mutex_init(&queue->lock, NULL) != 0)
        return -1;
    if (pthread_cond_init(&queue->room, NULL) != 0 ||
        pthread_cond_init(&queue->allowed_more, NULL) != 0 ||
        pthread_cond_init(&queue->ready, NULL) != 0)
        return -1;
    queue->ring = calloc(depth, sizeof *queue->ring);
    if (queue->ring == NULL)
        return -1;
    for (unsigned i = 0; i < depth; i++) {
        queue->ring[i].samples =
            queue->memory.alloc(queue->memory.of, size * sample_floats * sizeof(float));
        if (queue->ring[i].samples == NULL) {
            batches_free(queue);
            return -1;
        }
    }
    return 0;
}

void batches_free(struct batches *queue)
{
    for (unsigned i = 0; queue->ring != NULL && i < queue->depth; i++)
        if (queue->ring[i].samples != NULL)
            queue->memory.release(queue->memory.of, queue->ring[i].samples);
    free(queue->ring);
    queue->ring = NULL;
    (void)pthread_cond_destroy(&queue->room);
    (void)pthread_cond_destroy(&queue->allowed_more);
    (void)pthread_cond_destroy(&queue->ready);
    (void)pthread_mutex_destroy(&queue->lock);
}

void batches_allow(struct batches *queue, unsigned loaders)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->allowed = loaders;
    (void)pthread_cond_broadcast(&queue->room); /* so that those no longer allowed go and park */
    (void)pthread_cond_broadcast(&queue->allowed_more);
    (void)pthread_mutex_unlock(&queue->lock);
}

void batches_stop(struct batches *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    queue->stopped = true;
    (void)pthread_cond_broadcast(&queue->room);
    (void)pthread_cond_broadcast(&queue->allowed_more);
    (void)pthread_cond_broadcast(&queue->ready);
    (void)pthread_mutex_unlock(&queue->lock);
}

static bool has_room(const struct batches *queue)
{
    return queue->next_claim < queue->next_take + queue->depth;
}

/* With the lock held: wait until this loader may claim. */
static bool wait_for_room(struct batches *queue, unsigned loader)
{
    while (!queue->stopped && (loader >= queue->allowed || !has_room(queue))) {
        uint64_t start = clock_monotonic_ns();

        if (loader >= queue->allowed) {
            (void)pthread_cond_wait(&queue->allowed_more, &queue->lock);
        } else {
            (void)pthread_cond_wait(&queue->room, &queue->lock);
            queue->waiting_ns += clock_monotonic_ns() - start;
        }
    }
    return !queue->stopped;
}

bool batches_claim(struct batches *queue, unsigned loader, struct batch_place *place)
{
    bool claimed;

    (void)pthread_mutex_lock(&queue->lock);
    claimed = wait_for_room(queue, loader);
    if (claimed) {
        place->batch = &queue->ring[queue->next_claim % queue->depth];
        place->sample = place->batch->samples + queue->claimed * queue->sample_floats;
        if (++queue->claimed == queue->size) {
            queue->claimed = 0;
            queue->next_claim++;
        }
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return claimed;
}

void batches_fill(struct batches *queue, const struct batch_place *place)
{
    (void)pthread_mutex_lock(&queue->lock);
    if (++place->batch->filled == queue->size)
        (void)pthread_cond_signal(&queue->ready);
    (void)pthread_mutex_unlock(&queue->lock);
}

const struct batch *batches_take(struct batches *queue)
{
    const struct batch *batch = NULL;
    struct batch *head;

    (void)pthread_mutex_lock(&queue->lock);
    head = &queue->ring[queue->next_take % queue->depth];
    while (!queue->stopped && head->filled < queue->size)
        (void)pthread_cond_wait(&queue->ready, &queue->lock);
    if (!queue->stopped) {
        queue->taken = true;
        batch = head;
    }
    (void)pthread_mutex_unlock(&queue->lock);
    return batch;
}

void batches_release(struct batches *queue)
{
    (void)pthread_mutex_lock(&queue->lock);
    if (queue->taken) {
        queue->ring[queue->next_take % queue->depth].filled = 0;
        queue->next_take++;
        queue->taken = false;
        (void)pthread_cond_broadcast(&queue->room);
    }
    (void)pthread_mutex_unlock(&queue->lock);
}
