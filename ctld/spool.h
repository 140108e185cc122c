/*
 * Records that were not written when the controller ended, kept in a file for its next life: a line
 * a job, in the form of the records' own text. Read once, at the start, and removed.
 */
#ifndef ADLOADER_SPOOL_H
#define ADLOADER_SPOOL_H

#include "record.h"

#include <stddef.h>
#include <stdint.h>

struct spooled { /* a job with something to write */
    uint32_t job, restart;
    int64_t moment_s;            /* wall clock, when it ran for sure */
    struct record fresh;         /* in no request yet */
    struct record asked;         /* in a request whose outcome is not known */
    char text[RECORD_TEXT_SIZE]; /* of that request, "" none */
};

struct spool;

/* Begin a new file in the directory; end puts it in the place of the old one, or drops it when
 * nothing was added or a write failed (-1, errno). NULL: it cannot be made, errno. */
struct spool *spool_begin(const char *directory);
void spool_add(struct spool *spool, const struct spooled *spooled);
int spool_end(struct spool *spool);

/* Hand each job of the file to take and remove it. Lines that make no sense are counted in *bad.
 * Returns the number of jobs. */
size_t spool_read(const char *directory, void (*take)(void *arg, const struct spooled *spooled),
                  void *arg, size_t *bad);

#endif
