/*
 * The node's topology as somebody else exported it: RUNDIR/topology.xml, and its digest in
 * RUNDIR/topology.digest. The agent hands both on; it never loads a topology itself.
 */
#ifndef ADLOADER_EXPORTED_H
#define ADLOADER_EXPORTED_H

#include <stddef.h>

struct exported {
    char *text; /* not NUL-terminated */
    size_t length;
};

/* The digest, hex; "" and -1 if there is none that makes sense. */
int exported_digest(const char *rundir, char *digest, size_t size);

/* Read the XML; 0, or -1 (errno; EFBIG: larger than a message may be). */
int exported_open(struct exported *xml, const char *rundir);
void exported_close(struct exported *xml);

#endif
