/*
 * The agent's state and its parts, for the files of the agent alone: agent_place.c brings the
 * loaders to their CPUs, agent_talk.c speaks with the controller, agent.c is the thread that does
 * either when it is time. All but agent.h's functions run in that thread.
 */
#ifndef ADLOADER_AGENT_STATE_H
#define ADLOADER_AGENT_STATE_H

#include "agent.h"
#include "bind.h"
#include "clients.h"
#include "clock.h"
#include "cpulock.h"
#include "cpuset.h"
#include "credential.h"
#include "link.h"
#include "loan.h"
#include "nodedir.h"
#include "nvml.h"
#include "sample.h"
#include "worktime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define BACKOFF_MIN_MS    50u
#define LOCK_RETRY_MIN_MS 5u   /* until CPUs that others have locked are tried again */
#define TICK_MS           250u /* how often a suspension is looked for where that is urgent */
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

static inline uint64_t boot_ms(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* A value spread around ms by a quarter, so that thousands of agents do not move in step. */
static inline uint64_t jittered(struct agent *a, uint64_t ms)
{
    a->random ^= a->random << 13;
    a->random ^= a->random >> 7;
    a->random ^= a->random << 17;
    return ms - ms / 4 + a->random % (ms / 2 + 1);
}

/* The moment nearest to at_ms on the grid of ticks, where what can wait is done together. */
static inline uint64_t with_tick(const struct agent *a, uint64_t at_ms)
{
    return (at_ms - a->tick_phase + TICK_MS / 2) / TICK_MS * TICK_MS + a->tick_phase;
}

/* When something is done again that is done every interval_ms. */
static inline uint64_t again(const struct agent *a, uint64_t now, uint32_t interval_ms)
{
    return interval_ms < 2 * TICK_MS ? now + interval_ms : with_tick(a, now + interval_ms);
}

static inline void lower(uint64_t *at, uint64_t to)
{
    if (to < *at)
        *at = to;
}

/* ---- agent_place.c ---- */

/* Own placement or the CPUs, as far as others have left them. The result: how many loader tasks,
 * and how many of them are not where they should be. */
void agent_place(struct agent *a, bool own, const struct cpus *cpus, struct bind_result *result);
/* Back to the placement that Slurm gave. */
void agent_go_home(struct agent *a, const char *why);
/* Find tasks that are new and bring them where the others are. */
void agent_scan(struct agent *a, enum tasks_depth depth, struct bind_result *result);

/* CPUs that others had may be free now. */
void agent_try_locks(struct agent *a);
/* What is not lent is for nobody else: from the start of the step until it is suspended or ends. */
void agent_lock_own(struct agent *a);
/* Locks of what the loaders have left are released. */
void agent_unlock_left(struct agent *a);

/* What clients of the step are told of its placement; to be freed. */
void agent_describe(const struct agent *a, struct msg_client_change *change);
void agent_tell_clients(struct agent *a);

void agent_listen_for_borrowers(struct agent *a);
void agent_loan_work(struct agent *a, const struct pollfd *fds, unsigned n);
/*
 * What others have borrowed is free when this returns, if they answer. Of one that does not, the
 * cpuset is narrowed over its head.
 */
void agent_end_loans(struct agent *a);

/* ---- agent_talk.c ---- */

void agent_connect_now(struct agent *a, uint64_t now);
/* The connection is of no use any more. The tasks stay as they are until the lease runs out. */
void agent_lose(struct agent *a, const char *why);
void agent_link_work(struct agent *a, short revents);
/* The credential is finished: it goes out if the connection that it was for is still there. */
void agent_credential_work(struct agent *a);

/* Threads that were announced are scanned for in a moment. */
void agent_scan_announced(struct agent *a, bool announced);
/* Those that tell so often how far they are that they are not waited for. */
void agent_hear_clients(struct agent *a);
void agent_send_report(struct agent *a);
void agent_say_goodbye(struct agent *a);
/* Figures of the tasks for the summary. */
void agent_publish(struct agent *a);

#endif
