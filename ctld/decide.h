/*
 * Decide: for some nodes that belong together, from claims and curves over allocation and
 * placement to each member's target. Changes registry entries only; sends nothing.
 */
#ifndef ADLOADER_DECIDE_H
#define ADLOADER_DECIDE_H

#include "conf.h"
#include "registry.h"

#include <stddef.h>
#include <stdint.h>

#define DECIDE_NODES_MAX 256u /* of one component; beyond, a job's members are decided in parts */

struct decide {
    struct registry *registry;
    const struct conf *conf;
    uint64_t now_ms;
    uint64_t walk; /* number of this round, larger than any before */
};

/*
 * The part of the cluster that must be decided together with node: nodes that share a job with
 * one already in it. Fills nodes (room for DECIDE_NODES_MAX), returns how many; nodes seen in this
 * round already give 0.
 */
size_t decide_component(const struct decide *decide, struct node *node, struct node **nodes);

/*
 * Set the targets of all members on these nodes. *changed is how many differ from before. Returns
 * 0, or -1 (ENOMEM): targets are then as they were.
 */
int decide_targets(const struct decide *decide, struct node **nodes, size_t nnodes,
                   size_t *changed);

/* Claims and pool of one node, if they are stale. 0, or -1 (ENOMEM). */
int decide_claims(const struct decide *decide, struct node *node);

/* What the member is to be treated as now. */
enum member_state decide_state(const struct member *member, const struct conf *conf,
                               uint64_t now_ms);

/* CPUs near the member's GPUs (empty: unknown). */
int decide_near(const struct member *member, const struct topo *topo, struct cpus *near);

#endif
