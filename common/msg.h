/*
 * The messages between agent (in slurmstepd), controller, tool and client library, as plain
 * structs, and their encoding in wire.h's frames. Both ends use these functions alone; a decoder
 * checks every bound, so that what it returns may be used without further checks of size.
 *
 * Agent and controller (one stream connection a step and node):
 *
 *     controller  CHALLENGE   at once after accept: nonce, whether a credential is wanted
 *     agent       REGISTER    who this member is, what it owns, what it held before
 *     controller  WELCOME     lease, intervals, whether it lacks the node's topology
 *     agent       TOPOLOGY    the node's hwloc XML, once a digest, when asked for
 *     controller  ASSIGN      loader CPUs from now on (numbered)
 *     agent       ACK         that assignment is applied
 *     agent       REPORT      what the loaders did since the last one
 *     controller  RENEW       answer to a report: the lease runs anew
 *     agent       GOODBYE     the last task is gone; the controller closes
 *     controller  REFUSE      not accepted and why, when to try again; the controller closes
 *
 * Over TCP the REGISTER (or QUERY) frame is not sent as it is: it travels whole inside a munge
 * credential (CREDENTIAL frame), with the challenge's nonce in it, so that it can neither be
 * forged nor sent twice. Over the Unix socket the kernel's peer credentials serve instead.
 *
 * Tool and controller: CHALLENGE, then QUERY, answered by one ANSWER (JSON text) or REFUSE.
 *
 * Client library and agent (a Unix socket a step, no challenge; the kernel names the peer):
 *
 *     client      CLIENT_LOADER    a thread of mine is (or is no longer) a loader
 *     client      CLIENT_PROGRESS  samples so far, time spent waiting for data and computing
 *     agent       CLIENT_CHANGE    workers worth running now; sent on connect and on each change
 */
#ifndef ADLOADER_MSG_H
#define ADLOADER_MSG_H

#include "cpus.h"
#include "hints.h"
#include "wire.h"

#include <stdbool.h>
#include <stdint.h>

enum msg_type {
    MSG_CHALLENGE = 1,
    MSG_CREDENTIAL = 2,
    MSG_REGISTER = 3,
    MSG_WELCOME = 4,
    MSG_TOPOLOGY = 5,
    MSG_ASSIGN = 6,
    MSG_ACK = 7,
    MSG_REPORT = 8,
    MSG_RENEW = 9,
    MSG_GOODBYE = 10,
    MSG_REFUSE = 11,
    MSG_QUERY = 16,
    MSG_ANSWER = 17,
    MSG_CLIENT_LOADER = 32,
    MSG_CLIENT_PROGRESS = 33,
    MSG_CLIENT_CHANGE = 34,
};

#define MSG_NAME_MAX   256 /* bytes of a node, host or version name with its NUL */
#define MSG_BIND_MAX   16  /* bytes of a kind of srun's --cpu-bind with its NUL */
#define MSG_TEXT_MAX   512 /* bytes of a reason with its NUL */
#define MSG_NONCE      16  /* bytes */
#define MSG_STATE_MAX  512 /* bytes of the opaque learned state */
#define MSG_GPUS_MAX   64
#define MSG_GPU_MAX    64  /* bytes of a GPU's name with its NUL */
#define MSG_DIGEST_MAX 65  /* bytes of a topology's digest in hex with its NUL */
#define MSG_LOANS_MAX  256 /* lenders of one assignment */

/* Largest interval or lease, 1 hour; the smallest is 1. */
#define MSG_INTERVAL_MAX_MS 3600000u

/* Slurm's special step numbers (slurm.h; repeated here since common/ does not know Slurm). */
#define MSG_STEP_BATCH       0xfffffffbu
#define MSG_STEP_INTERACTIVE 0xfffffffau
#define MSG_STEP_EXTERN      0xfffffffcu

struct msg_challenge {
    uint8_t nonce[MSG_NONCE];
    bool credential_wanted;
    bool standby;              /* another controller serves: agents need not register here */
    char server[MSG_NAME_MAX]; /* program version, for messages */
};

struct msg_register {
    uint8_t nonce[MSG_NONCE]; /* the challenge's */
    char agent[MSG_NAME_MAX]; /* program version */
    char node[MSG_NAME_MAX];  /* Slurm's NodeName */
    char host[MSG_NAME_MAX];  /* kernel's host name */
    uint32_t job, step;
    uint32_t het_job; /* 0: not part of a het job */
    uint32_t restart; /* Slurm's restart count */
    uint32_t uid;
    uint32_t step_nodes, tasks; /* nodes of the step; tasks of it on this node */
    struct cpus own;            /* CPUs that Slurm gave the step here, OS numbers */
    struct cpus held;           /* loader CPUs in force now; only if held_valid (re-registration) */
    bool held_valid, held_is_own; /* held_is_own: the tasks are on Slurm's own placement */
    uint64_t held_seq;
    char gpus[MSG_GPUS_MAX][MSG_GPU_MAX]; /* PCI ids, UUIDs or indexes as the step sees them */
    unsigned ngpus;
    struct hints hints;
    char topology_digest[MSG_DIGEST_MAX]; /* "": none exported on the node */
    uint64_t age_ms;                      /* since the step's tasks started */
    uint8_t state[MSG_STATE_MAX];         /* what the last ASSIGN carried */
    size_t state_length;
    bool unconfined; /* own is not known to be the step's: take part as a bystander only */
    /* How the user bound the tasks ("map_cpu"), which is then left as it is; "": did not. */
    char cpu_bind[MSG_BIND_MAX];
    /* Over TCP: a secret within the credential, which the welcome has to repeat. */
    uint8_t proof[MSG_NONCE];
    bool proof_wanted;
};

struct msg_welcome {
    char server[MSG_NAME_MAX];
    uint64_t instance; /* of the controller process: changes at its restart */
    uint32_t lease_ms, report_ms, scan_ms;
    bool topology_wanted;
    uint8_t proof[MSG_NONCE]; /* the registration's: who knows it could open the credential */
    bool proven;              /* it is there */
};

struct msg_topology {
    char digest[MSG_DIGEST_MAX];
    const char *xml; /* decoded: points into the frame, not NUL-terminated */
    size_t xml_length;
};

struct msg_loan { /* CPUs of an assignment that are another member's of the node */
    uint32_t job, step;
    struct cpus cpus;
};

struct msg_assign {
    uint64_t seq;      /* grows within a connection; the ACK names it */
    bool own;          /* back to Slurm's own placement; cpus then lists the own loader CPUs */
    struct cpus cpus;  /* for the loaders; empty: none to spare, they stay with the main cores */
    uint32_t workers;  /* worth running now; 0: no opinion */
    uint32_t lease_ms; /* from receipt */
    char reason[MSG_TEXT_MAX];
    uint8_t state[MSG_STATE_MAX];
    size_t state_length;
    struct msg_loan loans[MSG_LOANS_MAX]; /* disjoint parts of cpus; what is in none has no owner */
    unsigned nloans;
    struct cpus keep; /* own CPUs that nobody else may have loaders on; only if keep_valid */
    bool keep_valid;  /* else: with own all of them, without it those in cpus */
};

enum msg_ack_status { MSG_ACK_APPLIED = 0, MSG_ACK_PARTIAL = 1, MSG_ACK_FAILED = 2 };

struct msg_ack {
    uint64_t seq;
    uint32_t status;        /* enum msg_ack_status */
    uint32_t tasks, failed; /* loader tasks bound; of them not as wanted */
};

struct msg_report {
    uint64_t interval_ms; /* that the rates below cover */
    uint32_t tasks;       /* loader tasks (threads) seen now */
    uint32_t workers;     /* loader workers: processes, or threads of a pool, that take samples */
    uint32_t runnable;    /* of the tasks, running or runnable at the scan */
    uint32_t io_wait;     /* of the tasks, in uninterruptible sleep */
    double loader_cpu_s;  /* CPU seconds of the loader tasks in the interval */
    double main_cpu_s;    /* CPU seconds of all other tasks of the step */
    double queue_s;       /* seconds that loader tasks waited for a CPU (schedstat); NAN unknown */
    uint64_t read_bytes;  /* read from storage by the step in the interval */
    double gpu_busy;      /* 0..1, mean of the member's GPUs; NAN unknown */
    double samples;       /* that the application reported in the interval; NAN unknown */
    double wait_s;        /* application's main thread waiting for data; NAN unknown */
    double busy_s;        /* application's main thread in its training step; NAN unknown */
    uint32_t drift;       /* masks found changed by somebody else, since the start */
    uint32_t failed;      /* binds that did not hold, since the start */
    uint64_t held_seq;    /* assignment in force */
    bool held_is_own;
    /* what agents before 1.1 did not tell */
    double main_thread_s; /* that the busiest main thread ran or waited for a CPU; NAN unknown */
    double cpu_limit; /* cores that a bandwidth quota of the step's groups allows; NAN no limit */
    uint32_t orphans; /* workers whose rank is gone */
    uint32_t left_alone; /* loader tasks that keep masks of their own */
};

struct msg_renew {
    uint32_t lease_ms;
    char verdict[MSG_TEXT_MAX]; /* why its GPUs wait, where that has changed; "" no news */
};

struct msg_goodbye {
    uint64_t age_ms;
    double loader_cpu_s;            /* of the whole step */
    double samples, wait_s, busy_s; /* NAN unknown */
    uint32_t drift, failed;
};

enum msg_refusal {
    MSG_REFUSED_VERSION = 1,
    MSG_REFUSED_DENIED = 2,   /* credential or peer */
    MSG_REFUSED_INVALID = 3,  /* a field makes no sense */
    MSG_REFUSED_BUSY = 4,     /* try again after retry_ms */
    MSG_REFUSED_REPLACED = 5, /* another connection registered the same member */
    MSG_REFUSED_UNKNOWN = 6,  /* a query for something that is not here */
    MSG_REFUSED_OFF = 7,      /* not managed here, by configuration */
    MSG_REFUSED_STANDBY = 8,  /* another controller serves */
};

struct msg_refuse {
    uint32_t code;     /* enum msg_refusal */
    uint32_t retry_ms; /* 0: do not try again */
    char text[MSG_TEXT_MAX];
};

struct msg_query {
    uint8_t nonce[MSG_NONCE];
    char what[MSG_NAME_MAX]; /* "status", "explain", "metrics", ... */
    char job[MSG_NAME_MAX];  /* "", "12" or "12.0" */
    char node[MSG_NAME_MAX]; /* "" all */
};

struct msg_client_loader {
    int64_t tid; /* as the client's own PID namespace numbers it */
    bool on;
};

struct msg_client_progress { /* all since the client's start */
    double samples, wait_s, busy_s;
};

struct msg_client_change {
    uint32_t workers; /* worth running now; 0: no opinion */
    bool managed;     /* a controller is deciding; false: own placement */
    struct cpus cpus; /* of the loaders */
};

/* Structs with a struct cpus inside own memory: release with msg_*_free(). */
void msg_register_free(struct msg_register *m);
void msg_assign_free(struct msg_assign *m);
void msg_client_change_free(struct msg_client_change *m);

/*
 * Writers: start a frame in w and fill it; 0, or -1 (ENOMEM, EMSGSIZE; EINVAL: the reader at the
 * other end would refuse a field). Control characters in a reason or a refusal's text become '?'.
 */
int msg_challenge_write(struct wire_writer *w, const struct msg_challenge *m);
int msg_credential_write(struct wire_writer *w, const char *credential);
int msg_register_write(struct wire_writer *w, const struct msg_register *m);
int msg_welcome_write(struct wire_writer *w, const struct msg_welcome *m);
int msg_topology_write(struct wire_writer *w, const struct msg_topology *m);
int msg_assign_write(struct wire_writer *w, const struct msg_assign *m);
int msg_ack_write(struct wire_writer *w, const struct msg_ack *m);
int msg_report_write(struct wire_writer *w, const struct msg_report *m);
int msg_renew_write(struct wire_writer *w, const struct msg_renew *m);
int msg_goodbye_write(struct wire_writer *w, const struct msg_goodbye *m);
int msg_refuse_write(struct wire_writer *w, const struct msg_refuse *m);
int msg_query_write(struct wire_writer *w, const struct msg_query *m);
int msg_answer_write(struct wire_writer *w, const char *json);
int msg_client_loader_write(struct wire_writer *w, const struct msg_client_loader *m);
int msg_client_progress_write(struct wire_writer *w, const struct msg_client_progress *m);
int msg_client_change_write(struct wire_writer *w, const struct msg_client_change *m);

/*
 * Readers: view must be of the type. 0, or -1 (EBADMSG: a field is missing, out of bounds, of the
 * wrong kind or there twice, m then owns nothing; ENOMEM). m is overwritten, not released, first.
 * What is checked beyond sizes: numbers are finite and not negative, enums known, job and interval
 * not 0, loans parts of the assignment, leases and intervals at most MSG_INTERVAL_MAX_MS, gpu_busy
 * at most 1; a node's name consists of letters, digits and . _ - and does not start with a dot, a
 * digest of 0-9a-f (so both may name files), and host, version, GPU and query texts of printable
 * ASCII.
 */
int msg_challenge_read(const struct wire_view *v, struct msg_challenge *m);
int msg_credential_read(const struct wire_view *v, const char **credential, size_t *length);
int msg_register_read(const struct wire_view *v, struct msg_register *m);
int msg_welcome_read(const struct wire_view *v, struct msg_welcome *m);
int msg_topology_read(const struct wire_view *v, struct msg_topology *m);
int msg_assign_read(const struct wire_view *v, struct msg_assign *m);
int msg_ack_read(const struct wire_view *v, struct msg_ack *m);
int msg_report_read(const struct wire_view *v, struct msg_report *m);
int msg_renew_read(const struct wire_view *v, struct msg_renew *m);
int msg_goodbye_read(const struct wire_view *v, struct msg_goodbye *m);
int msg_refuse_read(const struct wire_view *v, struct msg_refuse *m);
int msg_query_read(const struct wire_view *v, struct msg_query *m);
int msg_answer_read(const struct wire_view *v, const char **json, size_t *length);
int msg_client_loader_read(const struct wire_view *v, struct msg_client_loader *m);
int msg_client_progress_read(const struct wire_view *v, struct msg_client_progress *m);
int msg_client_change_read(const struct wire_view *v, struct msg_client_change *m);

/* The rule for node names on the wire, which the configuration file follows too. */
bool msg_is_node_name(const char *text);

/* "12.0", "12.batch", "12.interactive", "12.extern": how people write a step. */
int msg_step_name(uint32_t job, uint32_t step, char *buf, size_t size);

#endif
