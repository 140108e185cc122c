/*
 * From what is known to limit a member to the shape of its curve: above some number of cores the
 * curve is flat, so that no cores are given for nothing. A verdict says so, or a CPU quota. Pure.
 */
#ifndef ADLOADER_CURVECAP_H
#define ADLOADER_CURVECAP_H

#include "predictor.h"
#include "verdict.h"

#include <stdbool.h>

struct curvecap {
    enum pred_limit limit; /* PRED_LIMIT_UNKNOWN: there is none */
    unsigned cores;        /* more than these bring nothing; at least 1 */
    double rate;           /* samples/s that it does not exceed, measured; NAN unknown */
};

/*
 * Worker-limited: as many cores as there are workers. Limited by storage or by a main thread: what
 * its loaders use now, with as much again to spare so that they stay unhurried and the verdict with
 * them, and never more than they had when that was seen; the rate is the one measured. All other
 * verdicts say nothing against more cores.
 */
void curvecap_of_verdict(const struct verdict_state *verdict, struct curvecap *cap);

/* quota: cores that a bandwidth limit allows the step; beyond them it is only throttled. */
void curvecap_of_quota(double quota, struct curvecap *cap);

/* Make the curve flat where the cap says so, and name the limit there. */
void curvecap_apply(const struct curvecap *cap, struct pred_curve *curve);

#endif
