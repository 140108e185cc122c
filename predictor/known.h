/*
 * All that is known of trainings and nodes before they are measured, for a controller: the tables,
 * the nodes' calibrations and the profiles, behind two questions. What it reads it reads when
 * asked, once for a member's life, not on a hot path; nothing in it fails a job: what cannot be
 * read is told and taken as unknown.
 */
#ifndef ADLOADER_PREDICTOR_KNOWN_H
#define ADLOADER_PREDICTOR_KNOWN_H

#include "hints.h"
#include "predictor.h"

#include <stddef.h>

struct pred_known;

/*
 * Who is told what could not be read or written. about: the file, profile or model that a sentence
 * is about, the same text each time; NULL where the sentence is of an event, which happens once.
 */
typedef void (*pred_tell_fn)(void *arg, const char *about, const char *sentence);

struct pred_tell {
    pred_tell_fn tell;
    void *arg;
};

/*
 * tables: folder of models.csv and gpus.csv; own: folder of an admin's own files of these names, if
 * any; state: StateDir, "" none. NULL without memory.
 */
struct pred_known *pred_known_new(const char *tables, const char *own, const char *state,
                                  const struct pred_tell *tell);
void pred_known_free(struct pred_known *known);

/*
 * What is known of a training with these hints on this node, put into job: model, GPU (as the
 * node's calibration names it), loader, storage, profile. job comes initialised, with gpus,
 * gpus_total and nodes as far as they are known.
 */
void pred_known_job(const struct pred_known *known, const struct hints *hints, unsigned uid,
                    const char *node, double now_s, struct pred_job *job,
                    const struct pred_tell *tell);

/*
 * A member has ended: keep what it taught under its profile or model name, for its user: nobody's
 * runs teach what others start with. (An admin shares a profile by a copy under the name without
 * "+UID".) Returns whether a profile was written. A member that named neither a profile nor a model
 * teaches nothing.
 */
bool pred_known_learn(const struct pred_known *known, const struct hints *hints, unsigned uid,
                      const char *node, unsigned gpus, const struct pred_learner *learner,
                      double now_s, const struct pred_tell *tell);

#endif
