/*
 * The machines' topologies by digest: nodes of one kind share one. Kept as plain numbers in memory
 * and as XML in StateDir/topologies, so that a restarted controller need not ask again. Bounded in
 * number and size; files are written whole or not at all, and a file that does not match its
 * digest is not used. Reading and writing is done by a thread: it takes long, and longer if the
 * text is meant to be trouble.
 */
#ifndef ADLOADER_TOPOSTORE_H
#define ADLOADER_TOPOSTORE_H

#include "topo.h"
#include "warnonce.h"

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPOSTORE_MAX 256u

struct topo_entry;
struct topostore;

/* Called in the loop when a topology has become known: topostore_get() has it. */
typedef void (*topostore_ready)(const char *digest, void *arg);

/* state_dir may be "" or not usable: then memory only (said in the log). Bad topologies are told
 * through warned. NULL with errno. */
struct topostore *topostore_new(struct event_base *base, const char *state_dir,
                                struct warnonce *warned, topostore_ready ready, void *arg);
void topostore_free(struct topostore *store);

/* A reference to a topology that is in memory, or NULL. */
struct topo_entry *topostore_get(struct topostore *store, const char *digest);
void topostore_release(struct topo_entry *entry); /* NULL is fine */
const struct topo *topostore_topo(const struct topo_entry *entry);

/*
 * It is needed and not in memory: read it from its file. True if there is none, so that somebody
 * should be asked for it; in the next seconds nobody else then is.
 */
bool topostore_wants(struct topostore *store, const char *digest, uint64_t now_ms);

/* Take an exported topology. False: too much waits already, or the digest is none. */
bool topostore_put(struct topostore *store, const char *digest, const char *xml, size_t length);

#endif
