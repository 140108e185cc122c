/*
 * The job's record in Slurm's accounting, from the members' reports to the written text.
 *
 * While a member lives its use is summed up; when it ends the use goes into the record of its job,
 * and when a step's last member has ended the record is written (slurmjob.h): at once if possible,
 * so that the job still runs. What is there already, from earlier steps or an earlier life of this
 * controller, is read first and merged; a text of somebody else is left alone and the record
 * dropped. Writes are queued in memory, merged for a job, limited in rate, tried again with growing
 * pauses, and given up with a line in the log. Nothing here blocks, and nothing else waits for it.
 *
 * A member whose connection was lost is held back for a while, in case that it comes back. What is
 * not written when the controller ends is kept in StateDir for the next life (spool.h).
 */
#ifndef ADLOADER_RECORDER_H
#define ADLOADER_RECORDER_H

#include "msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctld;
struct member;

struct recorder_counts { /* since the start, for metrics; all but pending of records */
    uint64_t written, written_at_end, foreign, dropped, failures;
    unsigned pending; /* jobs with something to write */
};

/* -1 on lack of memory. Without it all other calls do nothing. */
int recorder_init(struct ctld *ctld);
void recorder_fini(struct ctld *ctld);

/* What happens to a member, told by agent.c: it is linked and filled when it registered, and
 * still is when it has gone. goodbye NULL: the connection was lost. */
void recorder_registered(struct ctld *ctld, struct member *member);
void recorder_report(struct ctld *ctld, struct member *member, const struct msg_report *report);
void recorder_gone(struct ctld *ctld, struct member *member, const struct msg_goodbye *goodbye);

/* The open sums of a member within the state that its agent keeps for our next life: see
 * memberuse.h. */
size_t recorder_save(const struct member *member, uint8_t *buf, size_t size);
size_t recorder_load(struct member *member, const uint8_t *buf, size_t length, uint64_t now_ms);

void recorder_get_counts(const struct ctld *ctld, struct recorder_counts *counts);

#endif
