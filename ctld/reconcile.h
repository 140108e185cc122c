/*
 * From targets to assignments, shrink before grow: a pure state machine for one node.
 *
 * Each member has a target (what the decision wants for it) and `held` (CPUs on which its loaders
 * may be: the last acknowledged assignment and all that are under way). Level-triggered: after any
 * change,
 *
 *     next = target less everything that others hold
 *
 * and where next differs from what was last sent, it is sent and added to held. The ACK of the last
 * one sent makes held equal to it. So a CPU is never granted before its former holder confirmed
 * that it has left; and since every grant is computed from the present state, messages may be lost,
 * repeated and overtaken without harm.
 *
 * A holder that does not answer in time (overdue) no longer keeps a CPU from the member that got it
 * from Slurm; all others wait until its lease has run out.
 *
 * Precondition: the targets of a node's members are disjoint, and so are their loader sets.
 */
#ifndef ADLOADER_RECONCILE_H
#define ADLOADER_RECONCILE_H

#include "cpus.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where loaders are: on Slurm's own placement, or on a list of CPUs. */
struct recon_place {
    bool own;
    struct cpus cpus; /* with own: the member's own loader CPUs, for information */
};

struct recon_member {
    struct cpus loader;        /* own loader CPUs (claims.h): what own placement occupies */
    struct recon_place target; /* wanted */
    struct recon_place sent;   /* last sent; valid if ever_sent */
    struct cpus held;          /* explicit CPUs that its loaders may be on */
    uint64_t seq;              /* of sent */
    uint64_t sent_ms;          /* when */
    bool held_own;             /* its loaders may be on own placement */
    bool ever_sent;
    bool in_flight; /* sent and not acknowledged */
    bool overdue;   /* for too long: see above */
    bool gone;      /* no longer connected; held until its lease has run out */
};

void recon_member_free(struct recon_member *member);

/* A connection begins: the member says that its loaders are on own placement, or on held. */
int recon_begin(struct recon_member *member, bool own, const struct cpus *held);

/* Everything that the member may occupy, into out. */
int recon_occupied(const struct recon_member *member, struct cpus *out);

/* The set tables that recon_next() needs, for one state of a node. */
struct recon_view {
    struct cpus once, twice;             /* occupied by at least one, at least two members */
    struct cpus fresh_once, fresh_twice; /* the same without overdue and gone members */
};

int recon_view_make(struct recon_view *view, struct recon_member *const *members, size_t nmembers);
void recon_view_free(struct recon_view *view);

/* What the member should be told now. next is the caller's, zero-initialised or reused. */
int recon_next(const struct recon_view *view, const struct recon_member *member,
               struct recon_place *next);

bool recon_place_equal(const struct recon_place *a, const struct recon_place *b);
int recon_place_copy(struct recon_place *to, const struct recon_place *from);
void recon_place_free(struct recon_place *place);

/* next has been handed to the connection. */
int recon_sent(struct recon_member *member, const struct recon_place *next, uint64_t seq,
               uint64_t now_ms);

/* True if this acknowledges the last one sent, so that others may now grow. */
bool recon_ack(struct recon_member *member, uint64_t seq);

#endif
