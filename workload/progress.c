/* What the training loop has done so far and what it is at. */
#include "progress.h"

#include "clock.h"

int progress_init(struct progress *progress)
{
    *progress = (struct progress){.phase = PHASE_OTHER, .since_ns = clock_monotonic_ns()};
    return pthread_mutex_init(&progress->lock, NULL) == 0 ? 0 : -1;
}

void progress_free(struct progress *progress)
{
    (void)pthread_mutex_destroy(&progress->lock);
}

/* With the lock held: book the time of the current phase up to now. */
static void book(struct progress *progress)
{
    uint64_t now = clock_monotonic_ns();

    progress->done.seconds[progress->phase] += 1e-9 * (double)(now - progress->since_ns);
    progress->since_ns = now;
}

void progress_enter(struct progress *progress, enum phase phase)
{
    (void)pthread_mutex_lock(&progress->lock);
    book(progress);
    progress->phase = phase;
    (void)pthread_mutex_unlock(&progress->lock);
}

void progress_step(struct progress *progress, uint64_t samples)
{
    (void)pthread_mutex_lock(&progress->lock);
    progress->done.samples += samples;
    progress->done.steps++;
    (void)pthread_mutex_unlock(&progress->lock);
}

struct totals progress_now(struct progress *progress)
{
    struct totals totals;

    (void)pthread_mutex_lock(&progress->lock);
    book(progress);
    totals = progress->done;
    (void)pthread_mutex_unlock(&progress->lock);
    return totals;
}

double totals_elapsed(const struct totals *totals)
{
    double sum = 0.0;

    for (int phase = 0; phase < PHASE_COUNT; phase++)
        sum += totals->seconds[phase];
    return sum;
}

double totals_share(const struct totals *from, const struct totals *to, enum phase phase)
{
    double elapsed = totals_elapsed(to) - totals_elapsed(from);

    return elapsed > 0.0 ? (to->seconds[phase] - from->seconds[phase]) / elapsed : 0.0;
}
