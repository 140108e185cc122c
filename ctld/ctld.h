/*
 * The controller as a whole: what main() sets up and everything else shares. One thread runs all
 * of it in libevent's loop; what may take long is done by workers.h's threads, which touch nothing
 * in here.
 */
#ifndef ADLOADER_CTLD_H
#define ADLOADER_CTLD_H

#include "conf.h"
#include "control.h"
#include "registry.h"
#include "role.h"
#include "topostore.h"
#include "warnonce.h"
#include "wire.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CTLD_VERSION PACKAGE_VERSION /* config.h */

struct queries;
struct server;
struct workers;
struct recorder;
struct pred_known;

struct ctld {
    struct event_base *base;
    struct conf *conf;
    const char *conf_file; /* NULL: the default one */
    struct role_self self;
    struct role *role; /* NULL: not yet, or no more */
    struct registry registry;
    struct topostore *store;
    struct control control;
    struct server *server;
    struct queries *queries;
    struct workers *auth; /* decode credentials */
    struct recorder *recorder;
    struct pred_known *known;  /* models, GPUs, calibrations, profiles */
    struct warnonce warned;    /* of what is bad in those and in topologies */
    struct wire_writer writer; /* for one message at a time */
    uint64_t instance;
    uint64_t started_ms;
    uid_t slurm_uid; /* (uid_t)-1: none */
    /* since the start, for metrics */
    uint64_t registrations, releases, losses, refusals, reports, assignments, acks, queries_total;
};

/* May this user speak as an agent? */
bool ctld_trusts(const struct ctld *ctld, uid_t uid);

#endif
