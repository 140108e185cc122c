/*
 * A real controller on a private socket, and agents and tools that a test plays itself: they speak
 * through common/msg, apply what they are told to pretended loaders, and every application is held
 * against the rule that matters (no CPU in the hands of two members that did not get it from
 * Slurm).
 */
#ifndef TESTS_FAKE_AGENTS_H
#define TESTS_FAKE_AGENTS_H

#include "cpus.h"
#include "msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct controller {
    pid_t pid;
    char dir[64];
    char conf[96], socket[96], log[96], pid_file[96], state[96];
    /* for TCP */
    unsigned port;
    char munge_socket[96];
    pid_t munged;
};

/* A munged of our own. False: there is none on this machine. */
bool controller_start_munged(struct controller *c);
/* A TCP port that nobody listens on. */
unsigned free_port(void);

/* A folder and a configuration with quick times, and the lines of extra. */
void controller_prepare(struct controller *c, const char *extra);
void controller_write_conf(const struct controller *c, const char *extra);
/* In the foreground, until it answers. */
void controller_start(struct controller *c);
/* Send a signal and reap; returns the wait status. */
int controller_end(struct controller *c, int signal);
/* For cmocka: after a failed test, end what it left running and show its log. */
int controller_teardown(void **state);
/* End it if it runs, show its log if show, remove the folder. */
void controller_discard(struct controller *c, bool show);
/* Whether the log holds that text, or will within a second. */
bool controller_logs(const struct controller *c, const char *text);
/* In how many lines of the log the text stands now. */
unsigned controller_log_count(const struct controller *c, const char *text);
size_t controller_open_files(const struct controller *c);

struct agent {
    /* who, set before agent_register() */
    uint32_t job, step, uid, tasks, restart;
    char node[64];
    char own[256];
    struct hints hints;
    uint64_t age_ms;
    bool unconfined;
    char digest[MSG_DIGEST_MAX]; /* of the node's topology */
    /* how it behaves */
    bool mute;                /* takes assignments but never acknowledges */
    bool deaf;                /* does not read at all */
    bool tcp;                 /* connects over TCP, with a credential */
    unsigned tasks_of_loader; /* loader tasks that it reports */
    double use_cores;         /* and what they use */
    double gpu_busy;          /* NAN: unknown */
    /* puts the loaders somewhere, in place of doing as told; false: not all of what was assigned */
    bool (*apply)(struct agent *a, const struct msg_assign *assign);
    void *arg; /* apply's */
    /* what is */
    int fd;
    bool registered, refused, ended;
    struct cpus own_cpus;
    struct cpus loaders; /* CPUs that its loaders are on now */
    bool on_own;         /* own placement */
    uint64_t seq;
    unsigned assigns, renewals;
    struct msg_challenge challenge;
    struct msg_welcome welcome;
    struct msg_refuse refusal;
    uint8_t state[MSG_STATE_MAX];
    size_t state_length;
    char reason[MSG_TEXT_MAX];
    char loans[256]; /* of the last assignment: "1.0:0-3 2.0:7" */
    uint8_t *input;
    size_t input_length, input_capacity;
};

/* A member with one loader-free task, not yet connected. */
void agent_init(struct agent *a, uint32_t job, uint32_t step, const char *node, const char *own);
void agent_free(struct agent *a);

/* Connect and read the challenge. */
void agent_connect(const struct controller *c, struct agent *a);
/* REGISTER with what it holds (if it was assigned something before) and wait for the answer. */
void agent_register(const struct controller *c, struct agent *a);
/* The node's topology, as it says in its digest or not. */
void agent_send_topology(struct agent *a, const char *digest, const char *xml, size_t length);
void agent_report(struct agent *a, unsigned interval_ms);
void agent_goodbye(struct agent *a);
void agent_hang_up(struct agent *a); /* without a word; what it holds it keeps */

/* Let all of them read and answer for that long, or until the condition holds. True: it held. */
bool agents_pump(struct agent *const *agents, size_t n, unsigned timeout_ms,
                 bool (*condition)(struct agent *const *agents, size_t n));
void agents_settle(struct agent *const *agents, size_t n); /* until nothing has come for 150 ms */

/* Everybody reports each interval_ms for that long. */
void agents_run(struct agent *const *agents, size_t n, unsigned interval_ms, unsigned total_ms);

/* The list of CPUs its loaders are on: "own", or the list. */
const char *agent_at(const struct agent *a, char *buf, size_t size);

/* Ask; returns the answer, or the refusal's text after "refused: ". The caller frees. */
char *controller_ask(const struct controller *c, const char *what, const char *job);
char *controller_ask_tcp(const struct controller *c, const char *what, const char *job);

/* Send a registration as bytes: as it is, or in a credential. */
void agent_send(const struct controller *c, struct agent *a, const void *frame, size_t length);

/* Checks that no CPU is used by two of them unless one got it from Slurm. */
void agents_check_disjoint(struct agent *const *agents, size_t n);

#endif
