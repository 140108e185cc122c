/* The agent's thread: see agent.h. */
#include "config.h"

#include "agent.h"

#include "bind.h"
#include "clients.h"
#include "clock.h"
#include "cpulock.h"
#include "cpuset.h"
#include "credential.h"
#include "exported.h"
#include "link.h"
#include "loan.h"
#include "log.h"
#include "nodedir.h"
#include "nvml.h"
#include "quota.h"
#include "sample.h"
#include "thread.h"
#include "worktime.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES       (256u * 1024u)
#define BACKOFF_MIN_MS    50u
#define BACKOFF_MAX_MS    2000u
#define BACKOFF_FRESH_MS  400u   /* the most in the first while after a controller was lost: */
#define FRESH_LOSS_MS     10000u /* it is probably being restarted */
#define CONNECT_MS        1000u  /* for the connection itself */
#define SLACK_MS          200u   /* that an answer to a report may be late */
#define HANDSHAKE_MS      5000u  /* from connected to welcome: munged may be busy at both ends */
#define GOODBYE_MS        120u   /* for the controller to take the goodbye and close */
#define DEFAULT_LEASE_MS  5000u
#define DEFAULT_REPORT_MS 1000u
#define ANNOUNCE_MS       5u   /* announcements come in bursts: one scan for all of a burst */
#define UNDECIDED_MS      70u  /* until a task too young to be told is looked at again */
#define RECALL_MS         100u /* for borrowers to leave when the step ends */
#define TICK_MS           250u /* how often a suspension is looked for, and what can wait is done */
#define QUOTA_REPORTS     30u  /* a quota is looked at anew at so many */
#define LOCK_RETRY_MIN_MS 5u   /* until CPUs that others have locked are tried again, */
#define LOCK_RETRY_MAX_MS 1000u /* growing */
#define CLAIM_MS          1000u /* for the controllers to make strangers leave our CPUs */
#define NEVER             UINT64_MAX

/* Intervals that a controller may ask for. */
enum { INTERVAL_MIN_MS = 50, INTERVAL_MAX_MS = 600000 };

enum phase {
    PHASE_APART,     /* no connection; the next attempt is at retry_ms */
    PHASE_GREETING,  /* connecting, or waiting for the challenge */
    PHASE_WELCOMING, /* registered, waiting for the welcome */
    PHASE_MANAGED,   /* a controller decides */
    PHASE_STOPPED,   /* the step is suspended: takes no part */
    PHASE_DISMISSED  /* refused for good */
};

struct agent {
    /* shared with the host's threads */
    pthread_t thread;
    int wake; /* eventfd */
    atomic_bool leaving;
    pthread_mutex_t summary_lock;
    struct agent_summary summary;

    /* the thread's own */
    struct args args;
    struct msg_register about;
    uint64_t started_ms;
    struct tasks tasks;
    struct binder binder;
    struct sampler sampler;
    struct nvml *nvml; /* NULL: no GPUs */
    struct clients clients;
    struct link link;
    struct link_address known[ARGS_ENDPOINTS_MAX];
    bool looked_up;        /* all of them were */
    uint64_t silent_at_ms; /* when another one is tried, NEVER there is none */
    struct nodedir node;
    struct cpuset cpuset;
    struct cpulock cpulock;
    struct loans loans;

    /* where the loaders are to be; others' locks may keep them from some of it for a while */
    bool want_own;
    struct cpus want;
    struct cpus kept; /* own CPUs that are not lent, as the controller says; only if kept_said */
    bool kept_said;
    uint64_t locks_at_ms;          /* when the missing locks are tried again, NEVER none is */
    uint64_t lock_retry_ms;        /* and after how long if they are missing still */
    uint64_t occupied_since_ms;    /* that others are on CPUs of ours that we want, 0 nobody is */
    bool claimed;                  /* all agents of the node were told */
    bool outside;                  /* it has been said that the cpusets do not follow */
    struct credential *credential; /* being made for a registration, NULL none */
    bool credential_stale;         /* the connection that it was for is lost */
    bool disbelieved;              /* see disbelieve(); said already */

    enum phase phase;
    unsigned endpoint; /* of args.controllers, the one in use or next */
    uint64_t backoff_ms;
    uint64_t lost_ms;   /* when a controller that managed us was lost, 0 never */
    bool silent;        /* the loss of contact has been logged */
    bool other_version; /* the controller's, when it was last heard */
    bool blind;         /* that the tasks cannot be listed has been logged */
    uint64_t retry_ms, phase_deadline_ms;
    uint64_t lease_until_ms; /* NEVER: there is nothing that a silence could end */
    uint64_t report_at_ms, scan_at_ms, tick_at_ms;
    uint32_t lease_ms, report_ms, scan_ms;
    uint64_t held_seq;
    uint32_t workers;
    uint32_t reports;
    struct worktime scans, reporting; /* what they take */
    double cpu_limit;                 /* cores, by quota; NAN none */
    uint64_t random, tick_phase;      /* agents that start together do not tick together */
};

/* ---- small things ---- */

static uint64_t boot_ms(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* A value spread around ms by a quarter, so that thousands of agents do not move in step. */
static uint64_t jittered(struct agent *a, uint64_t ms)
{
    a->random ^= a->random << 13;
    a->random ^= a->random >> 7;
    a->random ^= a->random << 17;
    return ms - ms / 4 + a->random % (ms / 2 + 1);
}

/* The moment nearest to at_ms at which the agent is awake anyway. */
static uint64_t with_tick(const struct agent *a, uint64_t at_ms)
{
    return (at_ms - a->tick_phase + TICK_MS / 2) / TICK_MS * TICK_MS + a->tick_phase;
}

/* When something is done again that is done every interval_ms. */
static uint64_t again(const struct agent *a, uint64_t now, uint32_t interval_ms)
{
    return interval_ms < 2 * TICK_MS ? now + interval_ms : with_tick(a, now + interval_ms);
}

static uint32_t bounded(uint32_t ms)
{
    return ms < INTERVAL_MIN_MS ? INTERVAL_MIN_MS : ms > INTERVAL_MAX_MS ? INTERVAL_MAX_MS : ms;
}

static void lower(uint64_t *at, uint64_t to)
{
    if (to < *at)
        *at = to;
}

/* ---- placement ---- */

static void publish(struct agent *a)
{
    pthread_mutex_lock(&a->summary_lock);
    a->summary.loader_cpu_s = a->sampler.loader_cpu_s;
    a->summary.drift = a->binder.drift;
    a->summary.failed = a->binder.failed;
    a->summary.cut = a->summary.cut || a->tasks.cut;
    pthread_mutex_unlock(&a->summary_lock);
}

/* For the last word to the user: on how many CPUs the loaders have been. */
static void note_change(struct agent *a)
{
    bool home = a->binder.own || cpus_is_empty(&a->binder.assigned);
    unsigned cores = cpus_count(home ? &a->about.own : &a->binder.assigned);
    pthread_mutex_lock(&a->summary_lock);
    if (a->binder.generation != a->summary.changes) {
        if (a->summary.changes == 0 || cores < a->summary.cores_min)
            a->summary.cores_min = cores;
        if (cores > a->summary.cores_max)
            a->summary.cores_max = cores;
    }
    a->summary.changes = a->binder.generation;
    pthread_mutex_unlock(&a->summary_lock);
}

static void describe(const struct agent *a, struct msg_client_change *change)
{
    *change = (struct msg_client_change){.workers = a->workers,
                                         .managed = a->phase == PHASE_MANAGED && !a->binder.own};
    if (!a->binder.own)
        (void)cpus_copy(&change->cpus, &a->binder.assigned); /* without memory: no list */
}

static void tell_clients(struct agent *a)
{
    struct msg_client_change change;
    describe(a, &change);
    clients_tell(&a->clients, &change);
    msg_client_change_free(&change);
}

/* ---- cpusets, where Slurm confines the step ---- */

static const struct cpus *assigned(const struct agent *a)
{
    return a->binder.own ? NULL : &a->binder.assigned;
}

/* Before tasks are bound: what is assigned must be allowed. */
static void open_cpuset(struct agent *a, const struct cpus *cpus)
{
    if (!a->cpuset.available || cpuset_widen(&a->cpuset, cpus) == 0) {
        a->outside = false;
        return;
    }
    if (errno == EAGAIN || errno == EBUSY) /* another step starts: soon */
        lower(&a->scan_at_ms, clock_monotonic_ms() + UNDECIDED_MS);
    else if (!a->outside)
        log_info("the step's cpusets cannot be widened to all of its CPUs: %s", strerror(errno));
    a->outside = true;
}

/* After they have left. */
static void close_cpuset(struct agent *a)
{
    if (cpuset_narrow(&a->cpuset, assigned(a)) < 0)
        log_info("the step's cpusets cannot be narrowed: %s; tried again", strerror(errno));
}

/* Have others rewritten them? And has a dead step left its own widened? */
static void check_cpusets(struct agent *a)
{
    struct cpus allowed = CPUS_EMPTY;
    if (cpuset_check(&a->cpuset, assigned(a)))
        binder_redo(&a->binder, &a->tasks);
    else if (assigned(a) != NULL && cpuset_allowed(&a->cpuset, &allowed) == 0 &&
             !cpus_is_subset(assigned(a), &allowed) && nodedir_starting(&a->node, a->about.job))
        lower(&a->scan_at_ms, clock_monotonic_ms() + UNDECIDED_MS);
    cpus_free(&allowed);
    (void)cpuset_mend(&a->node, &a->tasks.fs);
}

/* A step without tasks is on its way out; all else is for admins, once. */
static void tell_blind(struct agent *a, int error)
{
    if (error == ESRCH || error == ENOENT || a->blind) {
        log_debug("the step's tasks cannot be listed: %s", strerror(error));
        return;
    }
    log_warning("the step's tasks cannot be listed: %s; tried again", strerror(error));
    a->blind = true;
}

/* Find tasks that are new and bring them where the others are. */
static void scan(struct agent *a, enum tasks_depth depth, struct bind_result *result)
{
    uint64_t now = clock_monotonic_ms(), from_ns = clock_monotonic_ns();
    if (tasks_scan(&a->tasks, depth, boot_ms()) < 0)
        tell_blind(a, errno);
    else
        a->blind = false;
    if (a->clients.npending > 0) {
        clients_announce(&a->clients, &a->tasks);
        tasks_classify(&a->tasks, boot_ms());
    }
    if (depth == TASKS_FULL) {
        a->scan_at_ms = again(a, now, a->scan_ms);
        check_cpusets(a);
    }
    binder_apply(&a->binder, &a->tasks, result);
    if (depth == TASKS_FULL)
        worktime_add(&a->scans, clock_monotonic_ns() - from_ns);
    if (a->tasks.undecided)
        lower(&a->scan_at_ms, now + UNDECIDED_MS);
}

/* ---- whose CPUs they are, on the node's own word (cpulock.h) ---- */

/* Own CPUs on which nobody else may be with this placement. */
static int wanted_shared(const struct agent *a, struct cpus *shared)
{
    if (a->phase == PHASE_STOPPED || a->about.unconfined)
        return 0;
    if (a->want_own && !a->kept_said)
        return cpus_copy(shared, &a->about.own);
    if (cpus_copy(shared, &a->want) < 0 || (a->kept_said && cpus_or(shared, &a->kept) < 0))
        return -1;
    cpus_and(shared, &a->about.own);
    return 0;
}

static void try_locks_later(struct agent *a)
{
    uint64_t now = clock_monotonic_ms();
    a->locks_at_ms = now + a->lock_retry_ms;
    if (a->lock_retry_ms < LOCK_RETRY_MAX_MS)
        a->lock_retry_ms *= 2;
}

/*
 * Others have loaders on CPUs of ours: ask them to leave, first our borrowers, then everybody. Who
 * does not answer loses them; Slurm gave them to us. False: from now on that is so.
 */
static bool ask_back(struct agent *a, const struct cpus *occupied)
{
    uint64_t now = clock_monotonic_ms();
    unsigned asked = loans_reclaim(&a->loans, occupied);
    if (a->occupied_since_ms == 0)
        a->occupied_since_ms = now;
    uint64_t age = now - a->occupied_since_ms;
    if (age >= CLAIM_MS && !a->claimed) {
        log_info("others are on CPUs of this step: all of the node are told");
        loans_claim(&a->loans, occupied);
        a->claimed = true;
        a->lock_retry_ms = LOCK_RETRY_MIN_MS;
    }
    if (age < (asked > 0 ? RECALL_MS : CLAIM_MS + RECALL_MS))
        return true;
    for (unsigned i = 0; i < a->loans.nborrowers; i++)
        if (cpus_intersects(&a->loans.borrowers[i].cpus, occupied))
            cpuset_take(&a->node, a->loans.borrowers[i].job, a->loans.borrowers[i].step, occupied);
    return false;
}

/*
 * Lock what the wanted placement needs. What cannot be had is added to missing: others' CPUs that
 * somebody else is on, and own ones that a borrower has not left yet.
 */
static int lock_wanted(struct agent *a, struct cpus *missing)
{
    struct cpus shared = CPUS_EMPTY, foreign = CPUS_EMPTY, occupied = CPUS_EMPTY;
    int rc = wanted_shared(a, &shared);
    if (rc == 0)
        rc = cpulock_take(&a->cpulock, &shared, false, &occupied);
    if (rc == 0 && !a->want_own)
        rc = cpus_copy(&foreign, &a->want);
    cpus_andnot(&foreign, &a->about.own);
    if (rc == 0)
        rc = cpulock_take(&a->cpulock, &foreign, true, missing);
    bool all = cpus_is_empty(&occupied) && cpus_is_empty(missing);
    if (cpus_is_empty(&occupied)) {
        a->occupied_since_ms = 0;
        a->claimed = false;
    } else if (ask_back(a, &occupied) && rc == 0) {
        rc = cpus_or(missing, &occupied);
    }
    if (all)
        a->locks_at_ms = NEVER;
    else
        try_locks_later(a);
    cpus_free(&shared);
    cpus_free(&foreign);
    cpus_free(&occupied);
    return rc;
}

/* Locks of what the loaders have left are released. */
static void unlock_left(struct agent *a)
{
    struct cpus shared = CPUS_EMPTY;
    if (wanted_shared(a, &shared) == 0)
        cpulock_keep(&a->cpulock, &shared, a->binder.own ? NULL : &a->binder.assigned);
    cpus_free(&shared);
}

/*
 * Where the loaders may be now: the wanted placement without what is missing. Who is on own
 * placement stays there, since Slurm put it there. 0, or -1: no memory.
 */
static int allowed_now(const struct agent *a, const struct cpus *missing, bool *own,
                       struct cpus *cpus)
{
    *own = a->want_own;
    if (a->want_own && (a->binder.own || !cpus_intersects(missing, &a->about.own)))
        return 0;
    if (cpus_copy(cpus, a->want_own ? &a->about.own : &a->want) < 0)
        return -1;
    cpus_andnot(cpus, missing);
    *own = a->want_own && cpus_is_empty(cpus);
    return 0;
}

/* Bind: the tasks known now at once, then those that a scan finds. */
static void bind_now(struct agent *a, bool own, const struct cpus *cpus, struct bind_result *result)
{
    if (!own)
        open_cpuset(a, cpus);
    if (binder_target(&a->binder, own, cpus) < 0) {
        log_warning("no memory for an assignment: the loaders stay where they are");
        result->failed = 1;
        return;
    }
    binder_apply(&a->binder, &a->tasks, result);
    scan(a, TASKS_NEWCOMERS, result);
    close_cpuset(a);
    unlock_left(a);
    note_change(a);
}

/* Bring the loaders to what is wanted, as far as others let us; the rest follows when they do. */
static void settle(struct agent *a, struct bind_result *result)
{
    struct cpus missing = CPUS_EMPTY, cpus = CPUS_EMPTY;
    bool own;
    if (lock_wanted(a, &missing) < 0 || allowed_now(a, &missing, &own, &cpus) < 0) {
        log_warning("no memory for an assignment: the loaders stay where they are");
        result->failed = 1;
    } else {
        bind_now(a, own, &cpus, result);
        if (!cpus_is_empty(&missing) && result->failed == 0)
            result->failed = 1;
    }
    cpus_free(&missing);
    cpus_free(&cpus);
}

static void place(struct agent *a, bool own, const struct cpus *cpus, struct bind_result *result)
{
    struct cpus want = CPUS_EMPTY;
    *result = (struct bind_result){0, 0};
    if (!own && cpus_copy(&want, cpus) < 0) {
        log_warning("no memory for an assignment: the loaders stay where they are");
        result->failed = 1;
        return;
    }
    cpus_move(&a->want, &want);
    a->want_own = own;
    a->lock_retry_ms = LOCK_RETRY_MIN_MS;
    settle(a, result);
}

/* Others may have left meanwhile. */
static void try_locks(struct agent *a)
{
    struct bind_result result = {0, 0};
    uint32_t before = a->binder.generation;
    settle(a, &result);
    if (a->binder.generation != before)
        tell_clients(a);
}

/* What is not lent is for nobody else: from the start of the step until it is suspended or ends. */
static void lock_own(struct agent *a)
{
    struct cpus missing = CPUS_EMPTY;
    if (lock_wanted(a, &missing) < 0)
        log_debug("no memory to lock the step's CPUs");
    cpus_free(&missing);
}

static void go_home(struct agent *a, const char *why)
{
    struct bind_result result;
    a->kept_said = false;
    if (!a->binder.own) {
        log_info("loaders back on own placement: %s", why);
        a->workers = 0;
        place(a, true, NULL, &result);
        tell_clients(a);
    } else {
        a->want_own = true;
        cpus_free(&a->want);
        lock_own(a);
    }
    loans_keep(&a->loans, NULL, 0);
}

/* ---- the connection ---- */

static void schedule_retry(struct agent *a, uint64_t now)
{
    a->endpoint = (a->endpoint + 1) % a->args.ncontrollers;
    if (a->endpoint == 0) { /* all were tried */
        bool fresh = a->lost_ms > 0 && now - a->lost_ms < FRESH_LOSS_MS;
        uint64_t most = fresh ? BACKOFF_FRESH_MS : BACKOFF_MAX_MS;
        a->retry_ms = now + jittered(a, a->backoff_ms);
        a->backoff_ms = a->backoff_ms * 2 > most ? most : a->backoff_ms * 2;
    } else {
        a->retry_ms = now;
    }
}

/* The connection is of no use any more. The tasks stay as they are until the lease runs out. */
static void lose(struct agent *a, const char *why)
{
    char name[ARGS_TEXT_MAX + 16];
    bool was_managed = a->phase == PHASE_MANAGED;
    if (was_managed || !a->silent)
        log_info("no controller at %s: %s",
                 args_endpoint_name(&a->args.controllers[a->endpoint], name, sizeof name), why);
    a->silent = true;
    link_close(&a->link);
    a->credential_stale = true;
    a->phase = PHASE_APART;
    if (a->binder.own)
        a->lease_until_ms = NEVER;
    if (was_managed) { /* the same one first: it may be restarting */
        a->lost_ms = clock_monotonic_ms();
        a->backoff_ms = BACKOFF_MIN_MS;
        a->retry_ms = a->lost_ms + jittered(a, BACKOFF_MIN_MS);
    } else {
        schedule_retry(a, clock_monotonic_ms());
    }
}

static void lose_errno(struct agent *a)
{
    lose(a, errno == ECONNRESET ? "the connection was closed" : strerror(errno));
}

/*
 * Where the other controllers are is found out at once: when the first one is lost, there may be no
 * time to look up names.
 */
static void look_up_all(struct agent *a)
{
    for (unsigned i = 0; i < a->args.ncontrollers && !a->looked_up; i++)
        link_look_up(&a->args.controllers[i], &a->known[i]);
    a->looked_up = true;
}

static void connect_now(struct agent *a, uint64_t now)
{
    if (a->args.ncontrollers > 1)
        look_up_all(a);
    /* looking up a name can take long: not while a lease could run out meanwhile */
    if (link_open(&a->link, &a->args.controllers[a->endpoint], &a->known[a->endpoint],
                  a->binder.own) < 0) {
        lose_errno(a);
        return;
    }
    a->phase = PHASE_GREETING;
    a->phase_deadline_ms = now + CONNECT_MS;
}

static void send_frame(struct agent *a, int written, struct wire_writer *frame)
{
    if (written < 0)
        log_warning("a message could not be written: %s", strerror(errno));
    else if (link_send(&a->link, frame) < 0)
        lose_errno(a);
    wire_writer_free(frame);
}

/* ---- what the controller says ---- */

static int fill_register(struct agent *a, const struct msg_challenge *challenge)
{
    struct msg_register *m = &a->about;
    memcpy(m->nonce, challenge->nonce, sizeof m->nonce);
    m->age_ms = clock_monotonic_ms() - a->started_ms;
    m->held_valid = a->held_seq > 0;
    m->held_is_own = a->binder.own;
    m->held_seq = a->held_seq;
    (void)exported_digest(a->args.rundir, m->topology_digest, sizeof m->topology_digest);
    if (!a->binder.own)
        return cpus_copy(&m->held, &a->binder.assigned);
    cpus_clear_all(&m->held);
    return 0;
}

static void ask_credential(struct agent *a, const struct wire_writer *frame)
{
    if (a->credential != NULL) {
        lose(a, "munged on this node has not answered an earlier request yet");
        return;
    }
    a->credential = credential_start(frame->data, frame->length, a->args.munge_socket);
    a->credential_stale = false;
    if (a->credential == NULL)
        lose_errno(a);
}

/* The credential is finished: it goes out if the connection that it was for is still there. */
static void credential_work(struct agent *a)
{
    struct wire_writer frame = {0};
    char error[MSG_TEXT_MAX];
    char *text = credential_take(a->credential, error, sizeof error);
    a->credential = NULL;
    if (a->credential_stale) {
        free(text);
        return;
    }
    if (text == NULL) {
        lose(a, error);
        return;
    }
    int written = msg_credential_write(&frame, text);
    free(text);
    send_frame(a, written, &frame);
}

/* Somebody else where the controller should be: worth a warning, once. */
static void disbelieve(struct agent *a, const char *why)
{
    char name[ARGS_TEXT_MAX + 16];
    if (!a->disbelieved)
        log_warning("what listens at %s is not root's controller: %s; see who holds that address",
                    args_endpoint_name(&a->args.controllers[a->endpoint], name, sizeof name), why);
    a->disbelieved = true;
    lose(a, why);
}

/*
 * Is whoever listens there of our own user, root that is? On a Unix socket the kernel says so. Over
 * TCP only such a one can open our credential, and has to repeat the secret in it (on_welcome).
 */
static bool is_trusted(struct agent *a, const struct msg_challenge *challenge)
{
    struct msg_register *m = &a->about;
    struct ucred peer;
    socklen_t length = sizeof peer;
    m->proof_wanted = !a->args.controllers[a->endpoint].local;
    if (m->proof_wanted)
        return challenge->credential_wanted &&
               getrandom(m->proof, sizeof m->proof, 0) == (ssize_t)sizeof m->proof;
    return getsockopt(a->link.fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
           (peer.uid == 0 || peer.uid == getuid());
}

static void on_challenge(struct agent *a, const struct wire_view *view)
{
    struct msg_challenge challenge;
    struct wire_writer frame = {0};
    if (a->phase != PHASE_GREETING || msg_challenge_read(view, &challenge) < 0) {
        lose(a, "its greeting makes no sense");
        return;
    }
    if (challenge.standby) {
        lose(a, "it stands by for another");
        return;
    }
    if (!is_trusted(a, &challenge)) {
        disbelieve(a, challenge.credential_wanted ? "its user is another one"
                                                  : "it wants no credential");
        return;
    }
    if (fill_register(a, &challenge) < 0 || msg_register_write(&frame, &a->about) < 0) {
        lose(a, strerror(errno));
        wire_writer_free(&frame);
        return;
    }
    a->phase = PHASE_WELCOMING;
    a->phase_deadline_ms = clock_monotonic_ms() + HANDSHAKE_MS;
    if (challenge.credential_wanted) {
        ask_credential(a, &frame);
        wire_writer_free(&frame);
    } else {
        send_frame(a, 0, &frame);
    }
}

static void send_topology(struct agent *a)
{
    struct exported xml;
    struct wire_writer frame = {0};
    if (exported_open(&xml, a->args.rundir) < 0) {
        log_debug("no exported topology to send: %s", strerror(errno));
        return;
    }
    struct msg_topology m = {.xml = xml.text, .xml_length = xml.length};
    memcpy(m.digest, a->about.topology_digest, sizeof m.digest);
    int written = msg_topology_write(&frame, &m);
    exported_close(&xml);
    send_frame(a, written, &frame);
}

static void renew(struct agent *a, uint32_t lease_ms)
{
    if (lease_ms > 0)
        a->lease_ms = bounded(lease_ms);
    uint64_t now = clock_monotonic_ms();
    a->lease_until_ms = now + a->lease_ms;
    if (a->args.ncontrollers > 1) {
        uint64_t half = a->lease_ms / 2, two = 2u * a->report_ms + SLACK_MS;
        a->silent_at_ms = now + (half > two ? half : two);
    }
}

static void on_welcome(struct agent *a, const struct wire_view *view)
{
    struct msg_welcome welcome;
    if (a->phase != PHASE_WELCOMING || msg_welcome_read(view, &welcome) < 0) {
        lose(a, "its welcome makes no sense");
        return;
    }
    if (a->about.proof_wanted &&
        (!welcome.proven || memcmp(welcome.proof, a->about.proof, sizeof welcome.proof) != 0)) {
        disbelieve(a, "it could not open our credential");
        return;
    }
    uint64_t now = clock_monotonic_ms();
    struct bind_result result;
    a->phase = PHASE_MANAGED;
    a->backoff_ms = BACKOFF_MIN_MS;
    a->silent = false;
    a->report_ms = bounded(welcome.report_ms);
    a->scan_ms = bounded(welcome.scan_ms);
    renew(a, welcome.lease_ms);
    log_debug("registered with controller %s, lease %u ms", welcome.server, (unsigned)a->lease_ms);
    pthread_mutex_lock(&a->summary_lock);
    a->summary.registered = true;
    pthread_mutex_unlock(&a->summary_lock);
    scan(a, TASKS_FULL, &result);
    a->sampler.last_ms = a->sampler.last_ms == 0 ? now : a->sampler.last_ms;
    a->report_at_ms = again(a, now, (uint32_t)jittered(a, a->report_ms));
    if (welcome.topology_wanted && a->about.topology_digest[0] != '\0')
        send_topology(a);
}

static void acknowledge(struct agent *a, uint64_t seq, const struct bind_result *result)
{
    struct msg_ack ack = {.seq = seq, .tasks = result->tasks, .failed = result->failed};
    struct wire_writer frame = {0};
    ack.status = result->failed == 0              ? MSG_ACK_APPLIED
                 : result->failed < result->tasks ? MSG_ACK_PARTIAL
                                                  : MSG_ACK_FAILED;
    int written = msg_ack_write(&frame, &ack);
    send_frame(a, written, &frame);
}

/* Without the CPUs whose lenders cannot be reached: they are about to end. Returns how many. */
static unsigned reach_lenders(struct agent *a, struct msg_assign *assign)
{
    unsigned missing = 0;
    for (unsigned i = 0; i < assign->nloans; i++) {
        const struct msg_loan *loan = &assign->loans[i];
        if (loans_borrow(&a->loans, loan) == 0)
            continue;
        log_debug("no contact with step %u.%u, which is to lend: nothing is borrowed from it",
                  (unsigned)loan->job, (unsigned)loan->step);
        missing += cpus_count(&loan->cpus);
        cpus_andnot(&assign->cpus, &loan->cpus);
    }
    return missing;
}

static void on_assign(struct agent *a, const struct wire_view *view)
{
    struct msg_assign assign;
    struct bind_result result = {0, 0};
    if (a->phase != PHASE_MANAGED || msg_assign_read(view, &assign) < 0) {
        lose(a, "its assignment makes no sense");
        return;
    }
    /* where it is unknown what Slurm gave the step, or its user has bound its tasks, nothing is
     * taken from it nor given */
    bool own = assign.own || a->about.unconfined || a->about.cpu_bind[0] != '\0';
    unsigned missing = own ? 0 : reach_lenders(a, &assign);
    a->kept_said = assign.keep_valid;
    cpus_move(&a->kept, &assign.keep);
    place(a, own, &assign.cpus, &result);
    loans_keep(&a->loans, assign.loans, own ? 0 : assign.nloans);
    if (own != assign.own)
        result.failed = result.tasks > 0 ? result.tasks : 1;
    else if (missing > 0 && result.failed == 0)
        result.failed = 1;
    a->held_seq = assign.seq;
    a->workers = assign.workers;
    memcpy(a->about.state, assign.state, assign.state_length);
    a->about.state_length = assign.state_length;
    renew(a, assign.lease_ms);
    acknowledge(a, assign.seq, &result);
    log_debug("assignment %llu: %u loader tasks, %u not as wanted: %s",
              (unsigned long long)assign.seq, result.tasks, result.failed, assign.reason);
    msg_assign_free(&assign);
    tell_clients(a);
}

static void on_renew(struct agent *a, const struct wire_view *view)
{
    struct msg_renew m;
    if (a->phase != PHASE_MANAGED || msg_renew_read(view, &m) < 0)
        lose(a, "its renewal makes no sense");
    else
        renew(a, m.lease_ms);
    if (a->phase != PHASE_MANAGED || m.verdict[0] == '\0')
        return;
    pthread_mutex_lock(&a->summary_lock);
    memcpy(a->summary.verdict, m.verdict, sizeof a->summary.verdict);
    pthread_mutex_unlock(&a->summary_lock);
}

static void on_refuse(struct agent *a, const struct wire_view *view)
{
    struct msg_refuse m;
    if (msg_refuse_read(view, &m) < 0) {
        lose(a, "its refusal makes no sense");
        return;
    }
    lose(a, m.text);
    if (m.code == MSG_REFUSED_STANDBY) { /* then an earlier one serves */
        a->endpoint = 0;
        return;
    }
    if (m.retry_ms > 0) {
        lower(&a->retry_ms, NEVER - 1);
        uint64_t earliest = clock_monotonic_ms() + jittered(a, bounded(m.retry_ms));
        if (a->retry_ms < earliest)
            a->retry_ms = earliest;
        return;
    }
    log_info("refused by the controller: %s", m.text);
    a->phase = PHASE_DISMISSED;
    go_home(a, "refused by the controller");
}

static void hear(struct agent *a, const struct wire_view *view)
{
    switch (view->type) {
    case MSG_CHALLENGE:
        on_challenge(a, view);
        break;
    case MSG_WELCOME:
        on_welcome(a, view);
        break;
    case MSG_ASSIGN:
        on_assign(a, view);
        break;
    case MSG_RENEW:
        on_renew(a, view);
        break;
    case MSG_REFUSE:
        on_refuse(a, view);
        break;
    default:
        lose(a, "it sends messages that are not for an agent");
    }
}

/* Another version does not go away by itself: it is told even where the loss has been. */
static void lose_sense(struct agent *a, int error)
{
    bool other = error == EPROTONOSUPPORT;
    if (other && !a->other_version)
        a->silent = false;
    a->other_version = other;
    lose(a, other ? "it speaks another version of the protocol" : "it sends what is no message");
}

static void link_work(struct agent *a, short revents)
{
    struct wire_view view;
    if (link_ready(&a->link, revents) < 0) {
        lose_errno(a);
        return;
    }
    while (a->link.fd >= 0) {
        int got = link_next(&a->link, &view);
        if (got == 0)
            return;
        if (got < 0)
            lose_sense(a, errno);
        else
            hear(a, &view);
    }
}

/* ---- lenders and borrowers ---- */

/* Loans are over: the loaders leave those CPUs, whatever the controller says or does not say. */
static void give_back(struct agent *a, const struct cpus *ended)
{
    struct cpus rest = CPUS_EMPTY;
    struct bind_result result;
    if (a->want_own || !cpus_intersects(&a->want, ended)) {
        loans_keep_living(&a->loans);
        return;
    }
    log_debug("a loan is over: the loaders leave its CPUs");
    if (cpus_copy(&rest, &a->want) < 0) {
        go_home(a, "a loan is over, and there is no memory for what is left");
        return;
    }
    cpus_andnot(&rest, ended);
    place(a, false, &rest, &result);
    cpus_free(&rest);
    loans_keep_living(&a->loans);
    tell_clients(a);
}

/* Our controller had another word: it hears anew what we hold. */
static void tell_of_eviction(struct agent *a)
{
    a->loans.evicted = false;
    if (a->phase == PHASE_MANAGED)
        lose(a, "an owner of borrowed CPUs has them back; registering anew");
}

static void loan_work(struct agent *a, const struct pollfd *fds, unsigned n)
{
    struct cpus ended = CPUS_EMPTY;
    bool gone = false;
    loans_ready(&a->loans, fds, n, &ended, &gone);
    give_back(a, &ended);
    cpus_free(&ended);
    if (a->loans.evicted)
        tell_of_eviction(a);
    if (gone) { /* it may have died */
        (void)cpuset_mend(&a->node, &a->tasks.fs);
        if (a->locks_at_ms != NEVER)
            a->locks_at_ms = 0;
    }
}

static void listen_for_borrowers(struct agent *a)
{
    if (a->node.fd >= 0 && loans_listen(&a->loans) < 0)
        log_info("no socket for borrowers: %s; nothing can be borrowed from this step",
                 strerror(errno));
}

/*
 * What others have borrowed is free when this returns, if they answer. Of one that does not, the
 * cpuset is narrowed over its head.
 */
static void end_loans(struct agent *a)
{
    loans_recall(&a->loans);
    if (loans_wait(&a->loans, RECALL_MS) == 0)
        return;
    for (unsigned i = 0; i < a->loans.nborrowers; i++) {
        const struct loan_borrower *b = &a->loans.borrowers[i];
        log_info("step %u.%u does not give back what it has borrowed", (unsigned)b->job,
                 (unsigned)b->step);
        cpuset_take(&a->node, b->job, b->step, &b->cpus);
    }
}

/* ---- what the agent says by itself ---- */

/* Share of time that the training loop computed rather than waited, of what it told; NAN unknown.
 */
static void note_progress(struct agent *a, const struct msg_report *m)
{
    pthread_mutex_lock(&a->summary_lock);
    if (isfinite(m->wait_s) && isfinite(m->busy_s)) {
        a->summary.wait_s += m->wait_s;
        a->summary.loop_s += m->wait_s + m->busy_s;
    } else if (isfinite(m->gpu_busy)) {
        a->summary.wait_s += (1 - m->gpu_busy) * (double)m->interval_ms / 1000;
        a->summary.loop_s += (double)m->interval_ms / 1000;
    }
    pthread_mutex_unlock(&a->summary_lock);
}

/* Threads that were announced are scanned for in a moment. */
static void scan_announced(struct agent *a, bool announced)
{
    if (announced)
        lower(&a->scan_at_ms, clock_monotonic_ms() + ANNOUNCE_MS);
}

/* Those that tell so often how far they are that they are not waited for. */
static void hear_clients(struct agent *a)
{
    bool announced = false;
    clients_hear(&a->clients, &a->tasks, &announced);
    scan_announced(a, announced);
}

static void report(struct agent *a)
{
    struct msg_report m = {.gpu_busy = nvml_busy(a->nvml)};
    struct wire_writer frame = {0};
    uint64_t now = clock_monotonic_ms(), from_ns = clock_monotonic_ns();
    hear_clients(a); /* it is to be as new as the rest */
    binder_check(&a->binder, &a->tasks, now);
    sampler_take(&a->sampler, &a->tasks, now, boot_ms(), &m);
    clients_progress(&a->clients, &m.samples, &m.wait_s, &m.busy_s);
    m.drift = a->binder.drift;
    m.failed = a->binder.failed;
    m.left_alone = binder_left_alone(&a->tasks);
    if (a->reports++ % QUOTA_REPORTS == 0 && a->tasks.nranks > 0)
        a->cpu_limit = quota_cores(&a->tasks.fs, a->tasks.ranks[0].pid);
    m.cpu_limit = a->cpu_limit;
    m.held_seq = a->held_seq;
    m.held_is_own = a->binder.own;
    note_progress(a, &m);
    int written = msg_report_write(&frame, &m);
    send_frame(a, written, &frame);
    publish(a);
    worktime_add(&a->reporting, clock_monotonic_ns() - from_ns);
}

/* Let the controller take the last bytes: a close with unread ones could take them back. */
static void drain(struct link *link)
{
    uint64_t until = clock_monotonic_ms() + GOODBYE_MS;
    (void)shutdown(link->fd, SHUT_WR);
    for (uint64_t now = clock_monotonic_ms(); now < until; now = clock_monotonic_ms()) {
        struct pollfd fd = {.fd = link->fd, .events = POLLIN};
        char rest[4096];
        if (poll(&fd, 1, (int)(until - now)) <= 0 || recv(link->fd, rest, sizeof rest, 0) <= 0)
            return;
    }
}

static void say_goodbye(struct agent *a)
{
    struct msg_goodbye m = {.age_ms = clock_monotonic_ms() - a->started_ms,
                            .samples = NAN,
                            .wait_s = NAN,
                            .busy_s = NAN};
    struct wire_writer frame = {0};
    if (a->phase != PHASE_MANAGED)
        return;
    m.loader_cpu_s = a->sampler.loader_cpu_s;
    m.drift = a->binder.drift;
    m.failed = a->binder.failed;
    int written = msg_goodbye_write(&frame, &m);
    send_frame(a, written, &frame);
    if (a->link.fd >= 0)
        drain(&a->link);
}

/* ---- suspension ---- */

/* Are all ranks stopped? Slurm suspends a step so; its daemon goes on. */
static bool is_stopped(const struct agent *a)
{
    bool any = false;
    for (size_t i = 0; i < a->tasks.nranks; i++) {
        struct procfs_stat stat;
        const struct rank *rank = &a->tasks.ranks[i];
        if (procfs_process_stat(&a->tasks.fs, rank->pid, &stat) < 0 ||
            stat.start_ticks != rank->start_ticks)
            continue;
        if (stat.state != 'T')
            return false;
        any = true;
    }
    return any;
}

/* A suspended step lends and owns nothing: its CPUs may be given to other jobs now. */
static void look_if_stopped(struct agent *a, uint64_t now)
{
    bool stopped = is_stopped(a);
    if (stopped && a->phase != PHASE_STOPPED && a->phase != PHASE_DISMISSED) {
        log_info("the step is suspended: it takes no part until it is resumed");
        end_loans(a);
        go_home(a, "the step is suspended");
        say_goodbye(a);
        link_close(&a->link);
        a->credential_stale = true;
        a->lease_until_ms = a->locks_at_ms = NEVER;
        a->phase = PHASE_STOPPED;
        unlock_left(a);
    } else if (!stopped && a->phase == PHASE_STOPPED) {
        log_info("the step is resumed");
        listen_for_borrowers(a);
        a->phase = PHASE_APART;
        lock_own(a);
        a->backoff_ms = BACKOFF_MIN_MS;
        a->retry_ms = now;
    }
}

/* ---- another controller ---- */

/* It says nothing: while the lease still runs, another one may take us as we are. */
static void try_another(struct agent *a)
{
    lose(a, "it has said nothing for half a lease; trying another");
    a->endpoint = (a->endpoint + 1) % a->args.ncontrollers;
}

/* ---- time ---- */

/* Is it worth looking whether the step is suspended? */
static bool concerned(const struct agent *a)
{
    return a->phase == PHASE_STOPPED || a->phase == PHASE_MANAGED || a->loans.nlenders > 0 ||
           a->loans.nborrowers > 0;
}

/* Does anybody need to know the tasks? Without a controller and on own placement nobody does. */
static bool watching(const struct agent *a)
{
    return a->phase == PHASE_MANAGED || !a->binder.own;
}

static uint64_t next_event(const struct agent *a)
{
    uint64_t at = a->lease_until_ms;
    if (a->phase == PHASE_APART)
        lower(&at, a->retry_ms);
    if (a->phase == PHASE_GREETING || a->phase == PHASE_WELCOMING)
        lower(&at, a->phase_deadline_ms);
    if (a->phase == PHASE_MANAGED)
        lower(&at, a->report_at_ms);
    if (watching(a))
        lower(&at, a->scan_at_ms);
    if (concerned(a))
        lower(&at, a->tick_at_ms);
    lower(&at, a->locks_at_ms);
    if (a->phase == PHASE_MANAGED)
        lower(&at, a->silent_at_ms);
    return at;
}

static void lease_over(struct agent *a)
{
    if (a->link.fd >= 0)
        lose(a, "it has said nothing for the length of a lease");
    a->lease_until_ms = NEVER;
    go_home(a, "no word from a controller for the length of a lease");
}

static void timers(struct agent *a)
{
    struct bind_result result;
    uint64_t now = clock_monotonic_ms();
    if (now >= a->lease_until_ms)
        lease_over(a);
    if (concerned(a) && now >= a->tick_at_ms) {
        a->tick_at_ms = with_tick(a, now + TICK_MS);
        look_if_stopped(a, now);
        hear_clients(a);
    }
    if ((a->phase == PHASE_GREETING || a->phase == PHASE_WELCOMING) && now >= a->phase_deadline_ms)
        lose(a, "no answer in time");
    if (now >= a->locks_at_ms)
        try_locks(a);
    if (a->phase == PHASE_MANAGED && now >= a->silent_at_ms)
        try_another(a);
    if (a->phase == PHASE_APART && now >= a->retry_ms)
        connect_now(a, now);
    if (watching(a) && now >= a->scan_at_ms)
        scan(a, TASKS_FULL, &result);
    if (a->phase == PHASE_MANAGED && now >= a->report_at_ms) {
        report(a);
        a->report_at_ms = again(a, now, a->report_ms);
    }
}

/* ---- the thread ---- */

static int timeout_until(uint64_t at)
{
    uint64_t now = clock_monotonic_ms();
    if (at == NEVER)
        return -1;
    if (at <= now)
        return 0;
    return at - now > INTERVAL_MAX_MS ? INTERVAL_MAX_MS : (int)(at - now);
}

static void client_work(struct agent *a, const struct pollfd *fds, unsigned n)
{
    struct msg_client_change greet;
    bool announced = false;
    describe(a, &greet);
    clients_ready(&a->clients, fds, n, &a->tasks, &greet, &announced);
    msg_client_change_free(&greet);
    scan_announced(a, announced);
}

static void wait_and_work(struct agent *a)
{
    struct pollfd fds[3 + 1 + CLIENTS_MAX + LOAN_POLL_MAX];
    fds[0] = (struct pollfd){.fd = a->wake, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = a->link.fd, .events = link_events(&a->link)};
    fds[2] = (struct pollfd){.fd = a->credential != NULL ? credential_fd(a->credential) : -1,
                             .events = POLLIN};
    unsigned n = clients_poll(&a->clients, !concerned(a), fds + 3);
    struct pollfd *loans = fds + 3 + n;
    unsigned nloans = loans_poll(&a->loans, loans);
    int ready = poll(fds, 3 + n + nloans, timeout_until(next_event(a)));
    if (ready < 0 && errno != EINTR) {
        log_warning("poll: %s", strerror(errno));
        (void)poll(NULL, 0, 1000); /* whatever it is, do not spin */
    }
    if (ready <= 0)
        return;
    client_work(a, fds + 3,
                n); /* before what tells clients: those that are gone are dropped then */
    loan_work(a, loans, nloans);
    if (fds[1].fd >= 0 && fds[1].fd == a->link.fd && fds[1].revents != 0)
        link_work(a, fds[1].revents);
    if (fds[2].fd >= 0 && fds[2].revents != 0)
        credential_work(a);
}

static void release(struct agent *a)
{
    link_close(&a->link);
    loans_free(&a->loans);
    cpuset_free(&a->cpuset);
    cpulock_free(&a->cpulock);
    nodedir_close(&a->node);
    credential_abandon(a->credential);
    clients_free(&a->clients);
    binder_free(&a->binder);
    tasks_free(&a->tasks);
    cpus_free(&a->want);
    cpus_free(&a->kept);
    msg_register_free(&a->about);
}

/* What the agents of the node share, and what Slurm confines the step to. */
static void join_node(struct agent *a)
{
    if (nodedir_open(&a->node, a->args.rundir, a->about.node) < 0)
        log_info("no directory for the node below %s: %s; nothing can be borrowed from this step, "
                 "nor by it",
                 a->args.rundir, strerror(errno));
    loans_sweep(&a->node);
    listen_for_borrowers(a);
    for (size_t i = 0; i < a->tasks.nranks && !a->cpuset.available; i++)
        cpuset_init(&a->cpuset, &a->tasks.fs, a->tasks.ranks[i].pid, &a->node, a->about.job,
                    a->about.step);
    (void)cpuset_mend(&a->node, &a->tasks.fs);
    lock_own(a);
}

static void say_worktimes(const struct agent *a)
{
    log_debug("scans took %.3f ms in the median, %.3f at most; reports %.3f and %.3f",
              worktime_median_ms(&a->scans), worktime_longest_ms(&a->scans),
              worktime_median_ms(&a->reporting), worktime_longest_ms(&a->reporting));
}

static void *run(void *argument)
{
    struct agent *a = argument;
    a->nvml = nvml_start(NVML_LIBRARY, (const char(*)[MSG_GPU_MAX])a->about.gpus, a->about.ngpus);
    (void)pthread_setname_np(pthread_self(), "adl-agent");
    join_node(a);
    while (!atomic_load(&a->leaving)) {
        timers(a);
        if (!atomic_load(&a->leaving))
            wait_and_work(a);
    }
    end_loans(a);
    go_home(a, "the step ends"); /* loaders that outlive their rank for a moment, too */
    say_goodbye(a);
    say_worktimes(a);
    publish(a);
    nvml_stop(a->nvml);
    release(a);
    return NULL;
}

/* ---- from outside ---- */

static int copy_about(struct msg_register *to, const struct msg_register *from)
{
    *to = *from;
    to->own = to->held = CPUS_EMPTY;
    return cpus_copy(&to->own, &from->own);
}

static struct agent *create(const struct agent_step *step)
{
    struct agent *a = calloc(1, sizeof *a);
    if (a == NULL)
        return NULL;
    a->args = step->args;
    a->started_ms = clock_monotonic_ms();
    a->random = ((uint64_t)getpid() << 32) ^ clock_monotonic_ns() ^ step->about.job;
    a->random = a->random != 0 ? a->random : 1;
    a->tick_phase = jittered(a, 4 * TICK_MS) % TICK_MS;
    a->backoff_ms = BACKOFF_MIN_MS;
    a->lease_ms = DEFAULT_LEASE_MS;
    a->report_ms = a->scan_ms = DEFAULT_REPORT_MS;
    a->lease_until_ms = a->silent_at_ms = a->locks_at_ms = NEVER;
    a->lock_retry_ms = LOCK_RETRY_MIN_MS;
    a->want_own = true;
    binder_init(&a->binder);
    link_init(&a->link);
    clients_init(&a->clients, -1, step->about.uid);
    (void)pthread_mutex_init(&a->summary_lock, NULL);
    a->tasks.fs.fd = a->wake = a->node.fd = a->node.locks = -1;
    cpulock_init(&a->cpulock, &a->node);
    loans_init(&a->loans, &a->node, step->about.job, step->about.step, &a->about.own);
    if (copy_about(&a->about, &step->about) == 0 &&
        tasks_init(&a->tasks, "", step->ranks, step->nranks, getpid()) == 0 &&
        (a->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0)
        return a;
    int saved = errno;
    release(a);
    free(a);
    errno = saved;
    return NULL;
}

struct agent *agent_start(const struct agent_step *step)
{
    struct agent *a = create(step);
    if (a == NULL)
        return NULL;
    a->clients.listener = step->listener;
    int rc = thread_start(&a->thread, STACK_BYTES, run, a);
    if (rc == 0)
        return a;
    a->clients.listener = -1;
    close(a->wake);
    release(a);
    free(a);
    errno = rc;
    return NULL;
}

void agent_leave(struct agent *a)
{
    uint64_t one = 1;
    atomic_store(&a->leaving, true);
    if (write(a->wake, &one, sizeof one) < 0) /* full: it is awake */
        return;
}

bool agent_join(struct agent *a, unsigned ms)
{
    struct timespec until;
    if (clock_gettime(CLOCK_REALTIME, &until) < 0)
        return false;
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    if (pthread_timedjoin_np(a->thread, NULL, &until) != 0)
        return false;
    close(a->wake);
    (void)pthread_mutex_destroy(&a->summary_lock);
    free(a);
    return true;
}

void agent_summary(struct agent *a, struct agent_summary *summary)
{
    pthread_mutex_lock(&a->summary_lock);
    *summary = a->summary;
    pthread_mutex_unlock(&a->summary_lock);
}
