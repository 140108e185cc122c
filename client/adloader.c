/* libadloader: the public calls, their state, and their behaviour under threads and fork. */
#include "config.h"

#include "adloader.h"

#include "agent_link.h"
#include "clock.h"
#include "msg.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROGRESS_INTERVAL_NS 100000000u /* ten messages a second */
#define EVENTS_A_CALL        64         /* an agent that floods us does not hold the caller up */
#define WORKERS_MAX          65536u     /* more than that in the environment is nonsense */

/* A thread that said it is a loader, or takes it back and the agent does not know yet. */
struct announcement {
    pid_t tid;
    bool on, sent;
};

struct adloader {
    pthread_mutex_t lock;
    struct adloader *next, *previous; /* all handles of the process, for fork */
    struct link link;
    struct wire_writer writer;
    struct announcement *announcements;
    size_t nannouncements, capacity;
    struct msg_client_progress progress;
    bool progress_dirty;
    uint64_t progress_at_ns;      /* not sent before */
    struct adloader_change state; /* the agent's last word */
    bool changed;                 /* and the program has not seen it */
    unsigned environment_workers; /* ADLOADER_WORKERS, 0: not said */
};

/* ---- all handles, and fork ----------------------------------------------------------------- */

/*
 * fork() copies a mutex in whatever state another thread holds it, so all handles are locked around
 * it. The child recognises by its PID that a handle is not its own yet (see enter()).
 */
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct adloader *handles;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&handles_lock);
    for (struct adloader *handle = handles; handle != NULL; handle = handle->next)
        (void)pthread_mutex_lock(&handle->lock);
}

static void after_fork(void)
{
    for (struct adloader *handle = handles; handle != NULL; handle = handle->next)
        (void)pthread_mutex_unlock(&handle->lock);
    (void)pthread_mutex_unlock(&handles_lock);
}

static void install_fork_handlers(void)
{
    /* without them a fork is still safe while no other thread is inside a call */
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

static void enlist(struct adloader *handle)
{
    (void)pthread_once(&fork_once, install_fork_handlers);
    (void)pthread_mutex_lock(&handles_lock);
    handle->next = handles;
    if (handles != NULL)
        handles->previous = handle;
    handles = handle;
    (void)pthread_mutex_unlock(&handles_lock);
}

static void delist(struct adloader *handle)
{
    (void)pthread_mutex_lock(&handles_lock);
    if (handle->next != NULL)
        handle->next->previous = handle->previous;
    if (handle->previous != NULL)
        handle->previous->next = handle->next;
    else
        handles = handle->next;
    (void)pthread_mutex_unlock(&handles_lock);
}

/* What the parent announced and achieved is not this process' to say. */
static void start_afresh(struct adloader *handle)
{
    link_after_fork(&handle->link);
    handle->nannouncements = 0;
    handle->progress = (struct msg_client_progress){0};
    handle->progress_dirty = false;
    handle->state = (struct adloader_change){0};
    handle->changed = false;
}

static void enter(struct adloader *handle)
{
    (void)pthread_mutex_lock(&handle->lock);
    if (handle->link.owner != getpid())
        start_afresh(handle);
}

static void leave(struct adloader *handle)
{
    (void)pthread_mutex_unlock(&handle->lock);
}

/* ---- what is to be said -------------------------------------------------------------------- */

static struct announcement *find(struct adloader *handle, pid_t tid)
{
    for (size_t i = 0; i < handle->nannouncements; i++)
        if (handle->announcements[i].tid == tid)
            return &handle->announcements[i];
    return NULL;
}

static void forget(struct adloader *handle, struct announcement *announcement)
{
    *announcement = handle->announcements[--handle->nannouncements];
}

static int announce(struct adloader *handle, pid_t tid, bool on)
{
    struct announcement *announcement = find(handle, tid);

    if (announcement == NULL && !on)
        return 0;
    if (announcement == NULL) {
        if (handle->nannouncements == handle->capacity) {
            size_t capacity = handle->capacity == 0 ? 16 : handle->capacity * 2;
            struct announcement *grown = realloc(handle->announcements, capacity * sizeof *grown);

            if (grown == NULL)
                return -1;
            handle->announcements = grown;
            handle->capacity = capacity;
        }
        announcement = &handle->announcements[handle->nannouncements++];
        *announcement = (struct announcement){.tid = tid};
    } else if (announcement->on == on) {
        return 0;
    }
    announcement->on = on;
    announcement->sent = false;
    return 0;
}

/* A new agent connection knows nothing: repeat what holds, drop what does not. */
static void repeat_announcements(struct adloader *handle)
{
    for (size_t i = handle->nannouncements; i-- > 0;) {
        struct announcement *announcement = &handle->announcements[i];
        /* A thread may have ended without a word, and its number may be another's by now. */
        bool gone = syscall(SYS_tgkill, getpid(), announcement->tid, 0) < 0;

        announcement->sent = false;
        if (gone || !announcement->on)
            forget(handle, announcement);
    }
    handle->progress_dirty = handle->progress.samples > 0.0 || handle->progress.wait_s > 0.0 ||
                             handle->progress.busy_s > 0.0;
    handle->progress_at_ns = 0;
}

static struct announcement *first_unsent(struct adloader *handle)
{
    for (size_t i = 0; i < handle->nannouncements; i++)
        if (!handle->announcements[i].sent)
            return &handle->announcements[i];
    return NULL;
}

/* False: nothing was sent. */
static bool send_announcement(struct adloader *handle, struct announcement *announcement)
{
    struct msg_client_loader message = {.tid = announcement->tid, .on = announcement->on};

    if (msg_client_loader_write(&handle->writer, &message) < 0 ||
        link_send(&handle->link, &handle->writer) < 0)
        return false;
    announcement->sent = true;
    if (!announcement->on)
        forget(handle, announcement);
    return true;
}

static bool send_progress(struct adloader *handle, uint64_t now_ns)
{
    if (msg_client_progress_write(&handle->writer, &handle->progress) < 0 ||
        link_send(&handle->link, &handle->writer) < 0)
        return false;
    handle->progress_dirty = false;
    handle->progress_at_ns = now_ns + PROGRESS_INTERVAL_NS;
    return true;
}

/* As much as the socket takes now; the rest goes with a later call. */
static void send_all(struct adloader *handle)
{
    while (link_idle(&handle->link)) {
        struct announcement *announcement = first_unsent(handle);
        uint64_t now_ns;

        if (announcement != NULL) {
            if (!send_announcement(handle, announcement))
                return;
            continue;
        }
        if (!handle->progress_dirty)
            return;
        now_ns = clock_monotonic_ns();
        if (now_ns < handle->progress_at_ns || !send_progress(handle, now_ns))
            return;
    }
}

/* ---- what is heard ------------------------------------------------------------------------- */

static void set_state(struct adloader *handle, struct adloader_change state)
{
    if (state.workers == handle->state.workers && state.cpus == handle->state.cpus &&
        state.managed == handle->state.managed)
        return;
    handle->state = state;
    handle->changed = true;
}

static void hear(struct adloader *handle, const struct wire_view *view)
{
    struct msg_client_change message;

    if (view->type != MSG_CLIENT_CHANGE)
        return; /* a newer agent may say more than this library knows */
    if (msg_client_change_read(view, &message) < 0) {
        link_reject(&handle->link);
        set_state(handle, (struct adloader_change){0});
        return;
    }
    link_accept(&handle->link);
    set_state(handle,
              (struct adloader_change){.workers = message.workers,
                                       .cpus = message.managed ? cpus_count(&message.cpus) : 0,
                                       .managed = message.managed});
    msg_client_change_free(&message);
}

/* All that can be done now without waiting. */
static void serve(struct adloader *handle)
{
    struct wire_view view;
    bool more = true;

    for (int i = 0; more && i < EVENTS_A_CALL; i++) {
        switch (link_pump(&handle->link, &view)) {
        case LINK_NOTHING:
            more = false;
            break;
        case LINK_CONNECTED:
            repeat_announcements(handle);
            break;
        case LINK_FRAME:
            hear(handle, &view);
            break;
        case LINK_DISCONNECTED:
            set_state(handle, (struct adloader_change){0});
            break;
        }
    }
    send_all(handle);
    link_raise(&handle->link, handle->changed || more);
}

/* ---- the public calls ---------------------------------------------------------------------- */

static unsigned workers_from_environment(void)
{
    const char *text = secure_getenv("ADLOADER_WORKERS");
    unsigned long value;
    char *end;

    if (text == NULL || text[0] < '0' || text[0] > '9')
        return 0;
    errno = 0;
    value = strtoul(text, &end, 10);
    return errno != 0 || *end != '\0' || value > WORKERS_MAX ? 0 : (unsigned)value;
}

adloader_t *adloader_open(void)
{
    struct adloader *handle = calloc(1, sizeof *handle);

    if (handle == NULL)
        return NULL;
    if (pthread_mutex_init(&handle->lock, NULL) != 0) {
        free(handle);
        return NULL;
    }
    handle->environment_workers = workers_from_environment();
    link_init(&handle->link, secure_getenv("ADLOADER_SOCKET"));
    enlist(handle);
    enter(handle);
    serve(handle);
    leave(handle);
    return handle;
}

void adloader_close(adloader_t *handle)
{
    if (handle == NULL)
        return;
    delist(handle);
    enter(handle);
    handle->progress_at_ns = 0; /* the last word is not held back */
    serve(handle);
    leave(handle);
    link_free(&handle->link);
    wire_writer_free(&handle->writer);
    free(handle->announcements);
    (void)pthread_mutex_destroy(&handle->lock);
    free(handle);
}

int adloader_connected(adloader_t *handle)
{
    int connected;

    if (handle == NULL)
        return 0;
    enter(handle);
    serve(handle);
    connected = handle->link.socket >= 0;
    leave(handle);
    return connected;
}

int adloader_loader_thread(adloader_t *handle, int on)
{
    int rc;

    if (handle == NULL)
        return 0;
    enter(handle);
    rc = announce(handle, (pid_t)syscall(SYS_gettid), on != 0);
    serve(handle);
    leave(handle);
    if (rc < 0)
        errno = ENOMEM;
    return rc;
}

unsigned adloader_workers(adloader_t *handle, unsigned fallback)
{
    unsigned workers;

    if (handle == NULL)
        return fallback;
    enter(handle);
    serve(handle);
    workers = handle->state.workers;
    if (workers == 0)
        workers = handle->environment_workers;
    leave(handle);
    return workers == 0 ? fallback : workers;
}

int adloader_fd(adloader_t *handle)
{
    int fd;

    if (handle == NULL)
        return -1;
    enter(handle);
    fd = handle->link.epoll;
    leave(handle);
    return fd;
}

int adloader_next_change(adloader_t *handle, struct adloader_change *change)
{
    int changed;

    if (handle == NULL)
        return 0;
    enter(handle);
    serve(handle);
    changed = handle->changed;
    if (changed) {
        *change = handle->state;
        handle->changed = false;
        serve(handle);
    }
    leave(handle);
    return changed;
}

static bool sensible(double value)
{
    return isfinite(value) && value >= 0.0;
}

void adloader_progress(adloader_t *handle, double samples, double wait_s, double busy_s)
{
    if (handle == NULL || !sensible(samples) || !sensible(wait_s) || !sensible(busy_s))
        return;
    enter(handle);
    handle->progress =
        (struct msg_client_progress){.samples = samples, .wait_s = wait_s, .busy_s = busy_s};
    handle->progress_dirty = true;
    serve(handle);
    leave(handle);
}

const char *adloader_version(void)
{
    return PACKAGE_VERSION;
}
