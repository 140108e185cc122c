/*
 * The scene of the agent's tests: a training program of real processes and threads
 * (agent_victim.c), an agent on it, and the test itself as the controller. Masks are read from
 * /proc/PID/task/TID/status, not with the code under test. All fail the running cmocka test when
 * something does not happen.
 */
#ifndef TESTS_AGENT_SCENE_H
#define TESTS_AGENT_SCENE_H

#include "agent.h"
#include "msg.h"
#include "wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define PATIENCE_MS    10000   /* for what must happen; only failing tests wait so long */
#define LONG_LEASE_MS  600000u /* so that a loaded machine is no reason to fail */
#define SHORT_LEASE_MS 600u

uint64_t now_ms(void);

struct victim {
    pid_t pid;
    FILE *to, *from;
};

void victim_start(struct victim *v, const char *socket);
int victim_do(struct victim *v, char command); /* its answer */
void victim_stop(struct victim *v);

/* Masks as the kernel tells them: a list, or "gone". */
void read_mask(pid_t pid, pid_t tid, char *list, size_t size);
void expect_mask(pid_t pid, pid_t tid, const char *want);
void await_mask(pid_t pid, pid_t tid, const char *want);

struct scene {
    char dir[64], socket[128], second_socket[128], client_socket[128];
    bool shares; /* the folder is another scene's */
    unsigned number;
    int listener, second, peer; /* second: -1 there is one controller */
    uint32_t lease_ms;
    uint8_t in[WIRE_SMALL_FRAME];
    size_t in_length, in_used;
    struct victim victim;
    struct rank rank;
    struct agent_step step;
    struct agent *agent;
};

struct scene_setup {
    const char *dir;  /* of another scene on the same node, NULL: a new one */
    const char *cpus; /* that the step owns */
    unsigned step;    /* its number, of job 12 */
    bool two_controllers;
};

/* Has this process CPUs 0 and 1? Without them there is no scene. */
bool scene_possible(void);

/* In a zeroed struct. The agent has been started when it returns. */
void scene_begin(struct scene *s, const struct scene_setup *setup);
void scene_end(struct scene *s);

int listen_at(const char *path);

/* ---- the test as the controller ---- */

void accept_agent(struct scene *s);
void accept_agent_at_second(struct scene *s);
void hang_up(struct scene *s);

/* Send what was written into w. */
void say(struct scene *s, int written, struct wire_writer *w);

/* The next frame, or false at the end of the stream; that of a type, others are passed over. */
bool hear(struct scene *s, struct wire_view *view);
void hear_type(struct scene *s, enum msg_type type, struct wire_view *view);

/* CHALLENGE, and the answer to it; release m. */
void greet(struct scene *s, struct msg_register *m);
void welcome(struct scene *s);
void register_agent(struct scene *s); /* from accept_agent() to welcome() */

/* cpus NULL: own placement. loan: NULL none. */
void send_assign(struct scene *s, uint64_t seq, const char *cpus, const struct msg_loan *loan);
void hear_ack(struct scene *s, uint64_t seq, struct msg_ack *ack);
void assign(struct scene *s, uint64_t seq, const char *cpus, struct msg_ack *ack);
void renew(struct scene *s);

/* Answer that many reports, as a controller does; the last one is left in m. */
void serve(struct scene *s, unsigned reports, struct msg_report *m);

#endif
