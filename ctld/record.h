/*
 * The record of a job in Slurm's accounting: what the controller learned of the job's steps, merged
 * and written as one short text,
 *
 *     ADL1:{"s":[{"i":0,"n":1,"t":120.5,"c":341,"k":[1,2.84,4],"m":3,"v":"gpu-bound",...}]}
 *
 * at most RECORD_ONE_STEP_MAX bytes long for a job with one step and RECORD_TEXT_MAX for any job:
 * the steps with the least loader work are folded into one entry when there are too many. Pure: no
 * clock, no sockets, no globals.
 *
 * Keys of the text (adloader(7) explains them to users):
 *   r  restart count of the job, if not 0          s  steps, by number
 *   o  the other steps, folded: as a step, with "j" for their number instead of "i"
 * of a step:
 *   i  number, or "batch", "interactive"           n  nodes merged, if not 1
 *   t  mean lifetime on a node, seconds            c  CPU seconds of the loaders, all nodes
 *   k  loader cores on a node: least, mean, most   m  changes of cores    d  drift, if not 0
 *   v  verdict that held longest                   g  GPU-busy share, if known
 *   w  share of the time that the training loop waited for input, and the seconds that this is
 *      known of, if the application tells          q  samples, if the application tells
 */
#ifndef ADLOADER_RECORD_H
#define ADLOADER_RECORD_H

#include "verdict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORD_PREFIX       "ADL1:"
#define RECORD_STEPS_MAX    6    /* that keep an entry of their own */
#define RECORD_ONE_STEP_MAX 255  /* bytes without the NUL */
#define RECORD_TEXT_MAX     1000 /* the same; Slurm takes a Comment of at most 1024 */
#define RECORD_TEXT_SIZE    (RECORD_TEXT_MAX + 1)
#define RECORD_REASON_SIZE  160

/* What a number of members (steps on nodes) did together. All zero is nothing: it is the neutral
 * element of record_use_add(), which is commutative. Times in seconds. */
struct record_use {
    uint32_t members;
    uint32_t moves, drift;
    uint32_t cores_min, cores_max;  /* valid if cores_known_s > 0 */
    double life_s;                  /* sum of the members' lifetimes */
    double loader_core_s;           /* CPU time of their loaders */
    double cores_s, cores_known_s;  /* integral of loader cores over the time it is known of */
    double wait_s, loop_s;          /* training loops: waiting for input; that and computing */
    double gpu_busy_s, gpu_known_s; /* integral of the GPU-busy share */
    double samples;                 /* counts only if samples_known */
    bool samples_known;             /* of any member */
    float verdict_s[VERDICTS];      /* how long each verdict held */
};

struct record_step {
    uint32_t step; /* Slurm's number, special ones included */
    struct record_use use;
};

struct record {
    uint32_t restart; /* of the job: records of different runs are not merged */
    unsigned nsteps;
    struct record_step steps[RECORD_STEPS_MAX]; /* by number */
    uint32_t others;                            /* steps that are folded into other */
    struct record_use other;
};

void record_use_add(struct record_use *sum, const struct record_use *use);

/* The verdict that held longest; ties go to the first of the enum. */
enum verdict record_use_verdict(const struct record_use *use);

/* Add what one step did. A step that is there already gets it added. */
void record_add_step(struct record *record, uint32_t step, const struct record_use *use);

/* The union of two records of disjoint members: commutative, and exact but for what was folded.
 * sum may be a or b. The restart count is a's. */
void record_merge(struct record *sum, const struct record *a, const struct record *b);

bool record_is_empty(const struct record *record);

/* Write the text, NUL-terminated, folding further steps as needed. Returns its length. */
size_t record_format(const struct record *record, char buf[RECORD_TEXT_SIZE]);

/* Does the text claim to be one of ours? NULL and "" do not. */
bool record_is_ours(const char *text);

/*
 * Read a text of ours, which is not trusted: bounded in size and depth, numbers checked. Keys that
 * are not known here are passed over. 0, or -1 with a reason; *record is then empty.
 */
int record_parse(const char *text, struct record *record, char reason[RECORD_REASON_SIZE]);

enum verdict record_verdict_by_name(const char *name); /* VERDICT_UNKNOWN if not known */

#endif
