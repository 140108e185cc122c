/*
 * Placement: turns counts into cores on one node, a pure function over topo.h's plain numbers.
 *
 * In order: a member keeps what it holds; prefers its claim (own cores); then cores near its GPUs
 * (PCI locality), then the same NUMA domain, the same L3, and the nearest by distance; whole cores
 * before SMT siblings, siblings of a core never split between jobs while whole cores are free;
 * faster cores before slower ones; lowest OS number last. Deterministic.
 */
#ifndef ADLOADER_PLACE_H
#define ADLOADER_PLACE_H

#include "cpus.h"
#include "topo.h"

#include <stddef.h>

struct place_member {
    unsigned job;      /* members of one job may share a core's siblings */
    unsigned count;    /* PUs wanted */
    struct cpus claim; /* PUs of its own that the pool holds in its name */
    struct cpus held;  /* PUs in force */
    struct cpus near;  /* PUs local to its GPUs; empty: unknown */
    struct cpus cpus;  /* result; the caller frees */
};

/*
 * Divide pool. The sum of counts must not exceed its size. Returns 0 with every member's cpus
 * filled with exactly count PUs of the pool, disjoint; -1 with errno EINVAL or ENOMEM (all results
 * empty).
 */
int place_loaders(const struct topo *topo, const struct cpus *pool, struct place_member *members,
                  size_t nmembers);

/*
 * Choose count main cores out of own (whole cores where possible: all own siblings of a chosen core
 * count as one PU each), near the GPUs, spread over the NUMA domains of the GPUs; prefer taken
 * (main cores already kept by an overlapping member of the same job) when share is set, avoid
 * them otherwise. Result: PUs, at most all of own.
 */
int place_main(const struct topo *topo, const struct cpus *own, unsigned count,
               const struct cpus *near, const struct cpus *taken, bool share,
               struct cpus *main_cpus);

/* Of cpus, how many are in near: 0..1; NAN when near is empty (unknown). */
double place_local_share(const struct cpus *cpus, const struct cpus *near);

#endif
