/*
 * A file's content replaced as a whole: readers see the old or the new one, and a failure leaves
 * the old one.
 */
#ifndef ADLOADER_REPLACEFILE_H
#define ADLOADER_REPLACEFILE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * May path be replaced? Only if nothing is there, or a regular file: root's /dev/null renamed over
 * would become a file, and where a link leads is not for its name to say. errno: EISDIR, or EEXIST
 * for all else that is no regular file.
 */
bool replacefile_allowed(const char *path);

/*
 * Would replacefile() find path replaceable and its folder writable? For those who ask before long
 * work; nothing is made. errno: as above, or of the folder.
 */
bool replacefile_ready(const char *path);

/*
 * Write data beside path, in a new file that only its owner may write and all may read, and rename
 * it over path; durable: after an fsync. 0, or -1 with errno as above or of what failed, and
 * nothing is left beside it.
 */
int replacefile(const char *path, const void *data, size_t length, bool durable);

/* errno of these two in words. */
const char *replacefile_error(int error);

#endif
