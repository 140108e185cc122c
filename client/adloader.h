/*
 * libadloader: for loaders that want to cooperate with adloader. Optional: adloader finds and binds
 * the loaders of unchanged programs. A program that links this can announce its loader threads
 * instead of having them guessed, start as many workers as are worth running, follow changes, and
 * report its progress, which makes predictions sharper.
 *
 * Outside Slurm, without --adloader, or without a controller every call is a harmless no-op:
 * nothing blocks, nothing is printed, no signal is raised, the environment is only read. A handle
 * may be used from several threads; calls on one handle are serialised inside.
 */
#ifndef ADLOADER_H
#define ADLOADER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adloader adloader_t;

/*
 * Connect to this step's agent (environment variable ADLOADER_SOCKET). Returns a handle in every
 * case but lack of memory (NULL, which all calls accept too). It reconnects by itself.
 */
adloader_t *adloader_open(void);
void adloader_close(adloader_t *handle);

/* 1 if an agent is connected now, else 0. */
int adloader_connected(adloader_t *handle);

/*
 * The calling thread is a loader from now on (on = 1) or no longer (on = 0). Kept and repeated when
 * the connection is made again. Returns 0, or -1 with errno ENOMEM.
 */
int adloader_loader_thread(adloader_t *handle, int on);

/*
 * How many loader workers are worth running now: the agent's last word, else ADLOADER_WORKERS,
 * else fallback. Never less than 1 if fallback is at least 1.
 */
unsigned adloader_workers(adloader_t *handle, unsigned fallback);

struct adloader_change {
    unsigned workers; /* worth running now; 0: no opinion */
    unsigned cpus;    /* CPUs that the loaders may use now; 0: own placement */
    int managed;      /* 1: a controller decides; 0: Slurm's own placement */
};

/*
 * A descriptor that polls readable when adloader_next_change() has something, for the program's
 * own event loop. It stays the same for the life of the handle; -1 on a NULL handle.
 */
int adloader_fd(adloader_t *handle);

/* 1: change is filled with the newest state; 0: nothing new. Never blocks. */
int adloader_next_change(adloader_t *handle, struct adloader_change *change);

/*
 * Progress of the calling program since its start: samples trained on, seconds that the training
 * loop waited for data, seconds that it computed. Cheap; call it each step, it is sent at most ten
 * times a second.
 */
void adloader_progress(adloader_t *handle, double samples, double wait_s, double busy_s);

/* "1.0.0" */
const char *adloader_version(void);

#ifdef __cplusplus
}
#endif
#endif
