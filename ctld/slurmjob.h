/*
 * Changing one text of one job in Slurm, by a helper process of the controller.
 *
 * libslurm ends its process when slurm.conf is missing or wrong, sleeps while slurmctld changes
 * hosts, and waits for MessageTimeout and longer when a daemon does not answer. So it is linked
 * into a program of its own, adloader-slurmjob, that the controller starts when there is something
 * to write, kills when it takes too long, and does not need for anything else; nor does the
 * controller need libslurm to be there, or to be of one version, in order to start.
 *
 * The two speak over a socket pair of type SOCK_SEQPACKET that is the helper's standard input: one
 * request, one reply, as these structs stand in memory. Both ends check size and version, since
 * the helper's file may be replaced while a controller runs.
 */
#ifndef ADLOADER_SLURMJOB_H
#define ADLOADER_SLURMJOB_H

#include "record.h"

#include <stdint.h>

#define SLURMJOB_PROGRAM     "adloader-slurmjob"
#define SLURMJOB_VERSION     0x41444c01u
#define SLURMJOB_IDLE_S      60 /* without a request the helper ends: the next reads slurm.conf anew */
#define SLURMJOB_REASON_SIZE 256
#define SLURMJOB_FOUND_SIZE                                                                        \
    4096 /* of a longer text of somebody else only the beginning is told                           \
          */

enum slurmjob_field { SLURMJOB_ADMIN_COMMENT, SLURMJOB_COMMENT };

/* Set the field to text if it reads as expected and that run has this restart count. */
struct slurmjob_request {
    uint32_t version, serial;
    uint32_t job;
    uint32_t restart; /* count of that run as the text says it */
    uint32_t field;   /* enum slurmjob_field */
    int64_t moment_s; /* wall clock: the run of the job that this second lies in is meant */
    char expected[RECORD_TEXT_SIZE]; /* "": nothing */
    char text[RECORD_TEXT_SIZE];
};

enum slurmjob_outcome {
    SLURMJOB_DONE = 1,    /* it now reads so */
    SLURMJOB_CHANGED,     /* it reads otherwise than expected: see found; or see restart */
    SLURMJOB_WAIT,        /* this job's record cannot be written yet: it is ending */
    SLURMJOB_UNREACHABLE, /* slurmctld or slurmdbd does not answer; holds for other jobs as well */
    SLURMJOB_DENIED,      /* this user may not; holds for other jobs as well */
    SLURMJOB_IMPOSSIBLE   /* and never will be possible for this job */
};

struct slurmjob_reply {
    uint32_t version, serial;
    uint32_t outcome;                  /* enum slurmjob_outcome */
    uint32_t at_end;                   /* 1: it was or has to be done in slurmdbd */
    uint32_t restart, restart_known;   /* the run's restart count, if Slurm told (1) */
    char found[SLURMJOB_FOUND_SIZE];   /* of CHANGED: what the field reads */
    char reason[SLURMJOB_REASON_SIZE]; /* of all but DONE and CHANGED: a sentence */
};

/* Do it; slurmjob.c, in the helper alone. May take long, and may end the process. */
void slurmjob_init(void);
void slurmjob_update(const struct slurmjob_request *request, struct slurmjob_reply *reply);

#endif
