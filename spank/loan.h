/*
 * Direct contact between the agents of lenders and borrowers on a node. Each agent listens on a
 * socket in the node's directory (nodedir.h), so only root's processes reach it. A borrower is
 * connected to each of its lenders for as long as its loaders may be on their CPUs; the end of the
 * connection is the end of the loan, whoever ends it and however: also a kill -9 of the lender's
 * step daemon closes it. No controller is needed for that.
 *
 *     borrower    "borrow JOB STEP CPUS"    on connecting, and when the CPUs change
 *     lender      "go"                      the borrower leaves and then closes
 *     lender      "mine"                    the same, from one that does not end: it has another
 *                                           word on the CPUs than the borrower's controller
 *     an owner    "mine JOB STEP CPUS"      to any agent, over a connection of its own: whoever has
 *                                           loaders there that does not own the CPUs leaves
 *
 * A lender that does not know the CPUs as its own, or has too many borrowers, closes at once.
 */
#ifndef ADLOADER_LOAN_H
#define ADLOADER_LOAN_H

#include "cpus.h"
#include "msg.h"
#include "nodedir.h"

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define LOAN_BORROWERS_MAX 64u
#define LOAN_POLL_MAX      (1u + LOAN_BORROWERS_MAX + MSG_LOANS_MAX)

struct loans {
    const struct nodedir *node; /* not owned */
    uint32_t job, step;
    const struct cpus *own; /* what may be borrowed from us; not owned */
    int listener;           /* -1: nobody can borrow */
    struct loan_borrower {
        int fd;
        uint32_t job, step; /* 0.0 until it has said it */
        struct cpus cpus;
    } borrowers[LOAN_BORROWERS_MAX];
    unsigned nborrowers;
    struct loan_lender {
        int fd;
        uint32_t job, step;
        struct cpus cpus;
        bool over; /* to be closed when our tasks have left */
    } lenders[MSG_LOANS_MAX];
    unsigned nlenders;
    bool evicted; /* an owner said "mine": cleared by who has read it */
};

/* Without descriptors; then loans_listen() lets others borrow. 0, or -1 with errno. */
void loans_init(struct loans *l, const struct nodedir *node, uint32_t job, uint32_t step,
                const struct cpus *own);
int loans_listen(struct loans *l);
void loans_free(struct loans *l);

/* Remove sockets of this directory that nobody listens on any more. */
void loans_sweep(const struct nodedir *node);

/* ---- as a borrower ---- */

/*
 * Get in touch with the lender, or tell it of other CPUs. Does not wait. 0: as long as nothing else
 * comes from there the CPUs may be used; -1: there is nobody.
 */
int loans_borrow(struct loans *l, const struct msg_loan *loan);

/* Our tasks have left all but these loans' CPUs: end the others. loans may be NULL with n 0. */
void loans_keep(struct loans *l, const struct msg_loan *loans, unsigned n);

/* ---- as a lender ---- */

/* Ask all borrowers to go, and let in no more until loans_listen(). */
void loans_recall(struct loans *l);

/* Take these CPUs back: ask their borrowers to go. Does not wait. Returns how many there are. */
unsigned loans_reclaim(struct loans *l, const struct cpus *cpus);

/* Say to all agents of the node that these CPUs are ours. */
void loans_claim(const struct loans *l, const struct cpus *cpus);

/* Wait until they have gone or ms have passed. Returns how many have not; they stay in borrowers.
 */
unsigned loans_wait(struct loans *l, unsigned ms);

/* ---- both ---- */

/* Fill entries for poll(), at most LOAN_POLL_MAX; returns how many. */
unsigned loans_poll(const struct loans *l, struct pollfd *fds);

/*
 * Handle what poll() found in the same entries. CPUs of loans that are over are added to ended: the
 * caller leaves them and then calls loans_keep_living(). *gone: a borrower's connection has ended.
 */
void loans_ready(struct loans *l, const struct pollfd *fds, unsigned n, struct cpus *ended,
                 bool *gone);
void loans_keep_living(struct loans *l);

#endif
