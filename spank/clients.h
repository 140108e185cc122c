/*
 * The step's own socket, on which the application may tell which of its threads are loaders and how
 * far it is (client library). The kernel names the peer; only processes of the step are heard.
 */
#ifndef ADLOADER_CLIENTS_H
#define ADLOADER_CLIENTS_H

#include "msg.h"
#include "tasks.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CLIENTS_MAX         64
#define CLIENTS_PENDING_MAX 512 /* more between two scans are not heard */
#define CLIENTS_PATH_MAX    108 /* of a Unix socket's address */
#define CLIENTS_FRAME_MAX   512u

struct client {
    int fd;
    pid_t pid;
    uint8_t in[CLIENTS_FRAME_MAX];
    size_t in_length;
    struct msg_client_progress now, last; /* since the client's start; at the last report */
    bool told;                            /* it has reported progress */
    bool stale;                           /* to be closed */
};

struct clients {
    int listener; /* -1: none */
    uid_t uid;
    struct client *list[CLIENTS_MAX];
    unsigned n;
    struct announcement {
        pid_t pid, tid;
        bool on;
    } pending[CLIENTS_PENDING_MAX]; /* heard since the last scan */
    unsigned npending;
    struct msg_client_progress past; /* of clients that are gone, not yet reported */
    bool past_told;
    bool progressed; /* any client ever reported progress */
};

/* Where the socket of a step is: the same answer before and after its creation. 0, -1 too long. */
int clients_path(const char *rundir, const char *node, uint32_t job, uint32_t step, char *path,
                 size_t size);

/*
 * Create the socket at path, for uid alone (0600), replacing a stale one. The directory is made
 * if it is missing and must belong to us and be writable by nobody else. Returns the listening
 * descriptor, or -1 with a sentence in error.
 */
int clients_listen(const char *path, uid_t uid, char *error, size_t error_size);

/*
 * Remove the sockets of steps in rundir that nobody listens on any more: of slurmstepds that were
 * killed. Returns how many.
 */
unsigned clients_sweep(const char *rundir);

/* How many of them there are; -1 with errno: rundir cannot be read. */
int clients_leftovers(const char *rundir);

void clients_init(struct clients *c, int listener, uid_t uid);
void clients_free(struct clients *c);

/*
 * Fill entries for poll(), at most CLIENTS_MAX + 1; returns how many. With chatty false, those that
 * report their progress, which they do many times a second, wake nobody: what they say, new loaders included, is
 * heard by clients_hear().
 */
unsigned clients_poll(const struct clients *c, bool chatty, struct pollfd *fds);

/* Hear, without waiting, those that report their progress; as clients_ready(). */
void clients_hear(struct clients *c, const struct tasks *tasks, bool *announced);

/*
 * Handle what poll() found in the same entries. tasks: the inventory to check peers against and to
 * look thread ids up in. *announced is set if an announcement waits for a scan and
 * clients_announce() after it; greet is sent to new clients.
 */
void clients_ready(struct clients *c, const struct pollfd *fds, unsigned n,
                   const struct tasks *tasks, const struct msg_client_change *greet,
                   bool *announced);

/* Enter what was announced into the inventory, which the caller classifies anew. */
void clients_announce(struct clients *c, struct tasks *tasks);

/* Tell all clients. */
void clients_tell(struct clients *c, const struct msg_client_change *change);

/*
 * Progress since the last call: samples summed over clients, seconds averaged over those that
 * reported; NAN if none ever did.
 */
void clients_progress(struct clients *c, double *samples, double *wait_s, double *busy_s);

#endif
