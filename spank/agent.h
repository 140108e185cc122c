/*
 * The agent: one thread in slurmstepd that speaks for a step on its node. It connects to the
 * controller, registers, finds the loader tasks, binds them as told, reports, and puts everything
 * back when it hears nothing for the length of a lease or the step ends. It knows nothing of
 * SPANK: it is started on plain facts, so that a test can start it on its own children.
 */
#ifndef ADLOADER_AGENT_H
#define ADLOADER_AGENT_H

#include "args.h"
#include "msg.h"
#include "tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;

/* What a step is, as seen at its start. */
struct agent_step {
    struct args args;
    struct msg_register about; /* job, step, node, own, hints ...: what is known for good */
    const struct rank *ranks;
    size_t nranks;
    int listener; /* the client socket, -1 none; the agent closes it */
};

/* What became of the step, for a last word to the user. */
struct agent_summary {
    bool registered;  /* a controller had it, at some time */
    unsigned changes; /* assignments that moved the loaders */
    unsigned cores_min, cores_max;
    double loader_cpu_s;
    double wait_s, loop_s; /* waiting for input, of what is known of the GPU or the training loop */
    uint32_t drift, failed;
    bool cut;                   /* there were more processes or threads than are looked at */
    char verdict[MSG_TEXT_MAX]; /* why, the controller's last word; "" none */
};

/*
 * Copy the facts and start the thread, all signals blocked. NULL with errno; the listener then
 * still belongs to the caller. Not a system call in it waits for anybody.
 */
struct agent *agent_start(const struct agent_step *step);

/* The last task has ended: the agent puts tasks back, says goodbye and ends. Does not wait. */
void agent_leave(struct agent *agent);

/*
 * Wait for the end of the thread until ms have passed. True: it has ended and is released. False:
 * it is late (a name or credential look-up may block) and is left to itself; nothing of it may be
 * used any more.
 */
bool agent_join(struct agent *agent, unsigned ms);

/* The state now; callable from any thread before agent_join(). */
void agent_summary(struct agent *agent, struct agent_summary *summary);

#endif
