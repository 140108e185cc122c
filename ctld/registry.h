/*
 * What the controller knows: nodes, jobs and members (a step on a node), rebuilt from the agents'
 * registrations; there is no database. Look-ups are O(1); members of a node are ordered by job and
 * step, so that nothing depends on the order of arrival.
 *
 * There may be 100,000 members: what is seldom used is allocated on first use.
 */
#ifndef ADLOADER_REGISTRY_H
#define ADLOADER_REGISTRY_H

#include "conf.h"
#include "cpus.h"
#include "hints.h"
#include "msg.h"
#include "predictor.h"
#include "reconcile.h"
#include "topo.h"
#include "topostore.h"
#include "verdict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct session;
struct member_use;
struct node;
struct job;

enum member_state {
    MEMBER_LEARNING,  /* not known yet whether it loads data: keeps its own cores */
    MEMBER_MANAGED,   /* takes part */
    MEMBER_BYSTANDER, /* see member_is_bystander(): nothing is done to it */
    MEMBER_SETTLING   /* the controller has just started: keeps what it holds */
};

#define HISTORY_MAX 16

struct change { /* one line of a member's history */
    uint64_t at_ms;
    unsigned cores;
    char *cpus;
    char *reason;
};

struct history { /* a ring that grows to HISTORY_MAX */
    unsigned next, count, capacity;
    struct change changes[];
};

struct member {
    /* who */
    struct node *node;
    struct job *job;
    size_t job_slot; /* index in job->members */
    struct session *session;
    uint32_t step, uid, restart, tasks, step_nodes;
    unsigned ngpus;
    char (*gpus)[MSG_GPU_MAX];
    struct hints *own_hints;   /* NULL: it said no more than "on"; see member_hints() */
    struct pred_job *declared; /* what was known when it came; NULL: its hints alone */
    bool unconfined;
    char cpu_bind[MSG_BIND_MAX]; /* how the user bound its tasks; "" did not */
    uint64_t started_ms;         /* when its tasks started, monotonic, may be before our start */
    uint64_t registered_ms;      /* this connection */

    /* what it owns */
    struct cpus own, claim, main;
    struct recon_member place; /* .loader: own loader CPUs; target, sent, held */

    /* what it does */
    struct pred_learner learner;
    uint64_t loaders_seen_ms; /* last report with loader tasks; 0 never */
    uint64_t loaders_new_ms;  /* when they came, after none or none for long; 0 never */
    uint64_t report_ms;       /* last report; 0 none on this connection */
    uint64_t changed_ms;      /* when the assignment in force was acknowledged */
    uint64_t state_sent_ms;   /* when the learned state last went out */
    uint64_t sent_loans;      /* loans_mark() of what was last sent */
    uint32_t loader_tasks, workers, drift, failed_binds;
    float gpu_busy, main_use; /* last report; NAN unknown; cores */
    float quota;              /* cores that a bandwidth quota allows the step; NAN no limit */
    struct verdict_state verdict;
    uint32_t reports;       /* on this connection */
    bool verdict_news;      /* the agent has not been told of the verdict yet */
    bool verdict_told;      /* it has been told of one that says something */
    struct member_use *use; /* for the job's record, owned; NULL none yet */
    bool learned;           /* LearnTime is over and no loader task was seen, or one was */

    /* what was decided */
    enum member_state state;
    unsigned group;                         /* within the problem being solved: see decide.c */
    enum pred_limit limit;                  /* what limits its rate now */
    float demand;                           /* cores; NAN unknown */
    float decided_demand, decided_gpu_rate; /* what the learner knew then; NAN unknown */
    float sent_demand;                      /* and when its state was last sent */
    bool decided_loaders;
    uint16_t decided_cap; /* cores from which its verdict made its curve flat */
    unsigned moves;
    char *reason;
    struct history *history;

    TAILQ_ENTRY(member) waiting; /* for an ACK; linked while place.in_flight */
    uint64_t waiting_since_ms;
    bool is_waiting;
};

struct ghost {          /* what a lost member may still occupy, until its lease has run out */
    struct ghost *next; /* on the same node */
    TAILQ_ENTRY(ghost) by_end;
    struct node *node;
    uint32_t job, step;
    uint64_t until_ms;
    struct recon_member place;
};

enum node_queue {            /* where a node waits for a decision */
                  NODE_IDLE, /* nowhere */
                  NODE_NOW,  /* a step started or ended */
                  NODE_DUE,  /* a measurement asks for it, and its time has come */
                  NODE_LATER /* the same, but not yet */
};

struct node {
    struct node *next; /* of the hash chain */
    char *name;
    struct member **members; /* by job and step */
    size_t nmembers, capacity;
    struct ghost *ghosts;

    char digest[MSG_DIGEST_MAX]; /* of its topology; "" unknown */
    struct topo_entry *topology; /* reference into the store; NULL not there (yet) */
    struct topo *flat;           /* instead, made from the CPUs seen */
    struct cpus pool;            /* loader cores to divide */
    struct cpus free;            /* of them, assigned to nobody */
    const struct conf_node *conf;
    unsigned conf_generation; /* conf is valid if this is the registry's */

    bool claims_stale;
    uint64_t changed_ms; /* last change of a target here */
    uint64_t visit;      /* of the walk that saw it last */
    /* work to do */
    TAILQ_ENTRY(node) todo;
    enum node_queue queue;
    uint64_t due_ms; /* when, while LATER */
};

struct job {
    struct job *next; /* of the hash chain */
    uint32_t id;
    struct member **members;
    size_t nmembers, capacity;
    uint64_t visit;
};

struct registry {
    struct node **nodes;
    size_t nnodes, node_buckets;
    struct job **jobs;
    size_t njobs, job_buckets;
    size_t nmembers;
    uint64_t seed; /* of the hash, so that names cannot be chosen to collide */
    unsigned conf_generation;
    uint64_t problems; /* solved so far */
};

int registry_init(struct registry *registry);
void registry_fini(struct registry *registry);

struct node *registry_node(const struct registry *registry, const char *name);
struct job *registry_job(const struct registry *registry, uint32_t id);
struct member *registry_member(const struct registry *registry, const char *node, uint32_t job,
                               uint32_t step);

/* A new, empty member; node and job are made as needed. NULL: ENOMEM, or EEXIST. */
struct member *registry_add(struct registry *registry, const char *node, uint32_t job,
                            uint32_t step);

/* Unlink and free it; an empty job goes too. The node stays (registry_prune_node). */
void registry_remove(struct registry *registry, struct member *member);

/* Free a node without members, ghosts and work to do. True if it is gone. */
bool registry_prune_node(struct registry *registry, struct node *node);

/* The configuration's entry for the node, or NULL. */
const struct conf_node *registry_node_conf(const struct registry *registry, struct node *node,
                                           const struct conf *conf);

/* The node's topology: the known one, or a flat one made of all CPUs seen there. NULL: ENOMEM. */
const struct topo *registry_node_topo(struct node *node, const struct conf_node *conf);

/* "12.0" */
void member_name(const struct member *member, char *buf, size_t size);

/* What its user said. */
const struct hints *member_hints(const struct member *member);

/* Its CPUs are not known, or its user has bound its tasks: it neither lends nor borrows. */
bool member_is_bystander(const struct member *member);
int member_set_hints(struct member *member, const struct hints *hints); /* -1: ENOMEM */

/* Note a change of the target. Losing the note for lack of memory is not an error. */
void member_note(struct member *member, uint64_t now_ms, const char *reason);

/* Loader tasks were seen within LearnTime. */
bool member_has_loaders(const struct member *member, uint64_t now_ms, const struct conf *conf);

const char *member_state_name(enum member_state state);

#endif
