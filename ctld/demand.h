/*
 * A member in the predictor's terms: what it declared, what a report observed, its curve, and
 * whether what is known of it has changed so much that a new decision is due. Pure.
 */
#ifndef ADLOADER_DEMAND_H
#define ADLOADER_DEMAND_H

#include "known.h"
#include "msg.h"
#include "predictor.h"
#include "registry.h"
#include "warnonce.h"

#include <stdbool.h>
#include <stdint.h>

/* Look up what is known of the member's model, node and earlier runs, once, when it registers; and
 * keep what it taught when it ends. known may be NULL; what is bad in it is told through warned. */
void demand_know(struct member *member, const struct pred_known *known, struct warnonce *warned);
void demand_teach(const struct member *member, const struct pred_known *known,
                  struct warnonce *warned);

/* What the hints and the registration say, and what was known. */
void demand_job(const struct member *member, struct pred_job *job);

/* Take a report into the member's learner, unless it spans a change of its cores. */
void demand_observe(struct member *member, const struct msg_report *report, uint64_t now_ms);

/* T(c) for c = 0..ncores; 0, or -1 (errno). */
int demand_curve(const struct member *member, unsigned ncores, struct pred_curve *curve);

/* From which number of cores on its curve is flat because of its verdict or a quota, and which of
 * them says so; false: it is not. */
bool demand_cap(const struct member *member, unsigned *cores, enum pred_limit *limit);

/* What the learner knows now is what the next decision uses. */
void demand_remember(struct member *member, bool loaders);

/* Whether it has moved by more than the fraction since demand_remember(). */
bool demand_changed(const struct member *member, bool loaders, double fraction);

/* Whether the state that the agent keeps for us is older than that. */
bool demand_state_stale(const struct member *member, double fraction);

/* The state that an agent keeps for our next life: length of at most size bytes. */
size_t demand_save(const struct member *member, uint8_t *buf, size_t size);

/* The reverse. Whatever cannot be read is left as it was: the member then starts to learn anew. */
void demand_load(struct member *member, const uint8_t *buf, size_t length, uint64_t now_ms);

/* Share of time that its GPUs, or its training loop by its own clock, worked; NAN unknown. */
double demand_busy(const struct msg_report *report, bool *clocked);

/* Take a report into the member's verdict. Returns whether that has changed. */
bool demand_judge(struct member *member, const struct msg_report *report);

/* "gpu-bound", "cpu-starved", ...: why its GPUs wait, or that they do not. */
const char *demand_verdict(const struct member *member);

/* "gpu-bound: what was seen; what would help" */
void demand_words(const struct member *member, char *buf, size_t size);

#endif
