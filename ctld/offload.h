/*
 * Threads for what may take long: the loop hands over a piece of work and goes on; when it is done,
 * the loop is called back. Bounded in number; a thread that never returns keeps nobody from ending.
 *
 * run() is called in a thread and may touch nothing but its own piece of work; done() is called in
 * the loop and then owns it; discard() frees one that nobody waits for any more.
 */
#ifndef ADLOADER_OFFLOAD_H
#define ADLOADER_OFFLOAD_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/queue.h>

struct workers;

struct work { /* the first member of whatever it is about */
    STAILQ_ENTRY(work) link;
    void (*run)(struct work *work);
    void (*done)(struct work *work);
    void (*discard)(struct work *work);
};

/* At most queue_max pieces wait or run. NULL with errno on failure. */
struct workers *workers_new(struct event_base *base, unsigned nthreads, unsigned queue_max);

/* False: too many wait already; the caller keeps it. */
bool workers_submit(struct workers *workers, struct work *work);

/* Threads that are free end now; what is left is freed by the one that comes back last. */
void workers_free(struct workers *workers);

#endif
