/*
 * The machines' topologies by digest: nodes of one kind share one. Kept as plain numbers in memory
 * and as XML in StateDir/topologies, so that a restarted controller need not ask again. Bounded in
 * number and size; files are written whole or not at all, and a file that does not match its
 * digest is not used.
 */
#ifndef ADLOADER_TOPOSTORE_H
#define ADLOADER_TOPOSTORE_H

#include "topo.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOPOSTORE_MAX 256u

struct topo_entry;
struct topostore;

/* state_dir may be "" or not writable: then memory only (said once in the log). NULL: ENOMEM. */
struct topostore *topostore_new(const char *state_dir);
void topostore_free(struct topostore *store);

/* A reference to a known topology, from memory or file, or NULL. */
struct topo_entry *topostore_get(struct topostore *store, const char *digest);

/*
 * Take an exported topology. Returns a reference, or NULL with a sentence in error: the XML is not
 * what digest says, cannot be read, or there is no room.
 */
struct topo_entry *topostore_put(struct topostore *store, const char *digest, const char *xml,
                                 size_t length, char *error, size_t error_size);

void topostore_release(struct topo_entry *entry); /* NULL is fine */
const struct topo *topostore_topo(const struct topo_entry *entry);

/* Whether somebody should be asked for it now: unknown, and nobody was asked in the last seconds.
 */
bool topostore_wants(struct topostore *store, const char *digest, uint64_t now_ms);

/* A digest is lower-case hex and nothing else, so that it may name a file. */
bool topostore_digest_ok(const char *digest);

#endif
