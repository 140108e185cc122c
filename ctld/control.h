/*
 * When what is done: events mark nodes, marked nodes are decided together at the end of the loop's
 * round, and differences between target and sent go out as ASSIGN messages, shrink before grow.
 *
 *   - a start, an end, a first loader task: at once
 *   - a measurement that moved the demand: not before MinHoldTime after the node's last change
 *   - after our own start: nothing until SettleTime is over and no more agents come back
 */
#ifndef ADLOADER_CONTROL_H
#define ADLOADER_CONTROL_H

#include "registry.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct ctld;

TAILQ_HEAD(node_list, node);
TAILQ_HEAD(member_list, member);
TAILQ_HEAD(ghost_list, ghost);

struct control {
    struct node_list now, due, later;      /* nodes to decide: see enum node_queue */
    struct member_list waiting;            /* for an ACK, longest first */
    struct ghost_list ghosts;              /* in the order in which they end */
    struct event *run;                     /* decides what is in now and due */
    struct event *tick;                    /* looks for what is due */
    struct event *settle;                  /* the end of settling */
    uint64_t settle_end_ms, settle_cap_ms; /* the end is put off until the cap at most */
    unsigned settle_extra_ms; /* from one agent that comes back to the end, if it is the last */
    uint64_t ticked_ms;       /* last tick */
    uint64_t tick_at_ms;      /* next one */
    uint64_t walk;
    bool settling;
    bool taking_over; /* the first that come back may shorten it */
    /* for metrics */
    uint64_t decisions, changes, decide_ns, decide_ns_max;
};

int control_init(struct ctld *ctld);
void control_fini(struct ctld *ctld);

void control_touch(struct ctld *ctld, struct node *node);       /* decide at once */
void control_touch_later(struct ctld *ctld, struct node *node); /* decide after MinHoldTime */
void control_touch_all(struct ctld *ctld);

/* From now on others serve: nothing is decided or sent. All members must have been dropped. */
void control_stand_by(struct ctld *ctld);

/* From now on we do, beginning like after a start. */
void control_serve(struct ctld *ctld);

/* The member is another controller's now. Frees it. */
void control_drop(struct ctld *ctld, struct member *member);

/* An agent came (back): settling may take a little longer. */
void control_registered(struct ctld *ctld, struct member *member);

/*
 * A member leaves: its cores leave the pool at once. If it did not say goodbye, its loaders may
 * occupy borrowed cores until lease_end_ms (0: they do not). Frees the member.
 */
void control_leave(struct ctld *ctld, struct member *member, uint64_t lease_end_ms);

/* Send what may be sent on this node now. */
void control_reconcile(struct ctld *ctld, struct node *node);

/* The member acknowledged; applied tells how well. */
void control_ack(struct ctld *ctld, struct member *member, uint64_t seq);

/* Send the assignment in force again, with what has been learned since. */
void control_refresh(struct ctld *ctld, struct member *member);

#endif
