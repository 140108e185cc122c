/*
 * The linear relaxation of a choice problem: each item may mix its levels. Primal simplex with
 * generalised upper bounds (Dantzig and Van Slyke 1967): each item has a key level that takes what
 * its other levels in the basis leave, so the basis has one column a row, however many items
 * there are. Levels are priced on the fly; nothing is set up for those that never matter.
 */
#ifndef ADLOADER_ALLOC_LP_H
#define ADLOADER_ALLOC_LP_H

#include "alloc_choice.h"

struct lp;

/* Memory for a problem, used again for every call on it. NULL: ENOMEM. */
struct lp *lp_new(const struct choice *choice);
void lp_free(struct lp *lp);

/*
 * Solve with each item's levels restricted to low[i]..high[i]. False when even all low levels do
 * not fit. The bound is right even where rounding or the limit on steps end the search early, since
 * it is computed from the prices alone.
 */
bool lp_solve(struct lp *lp, const unsigned *low, const unsigned *high);

double lp_bound(const struct lp *lp);
const double *lp_prices(const struct lp *lp); /* a row, not negative */

/* The lowest and highest level that an item mixes; equal when it does not. *mean: their mix. */
void lp_levels(const struct lp *lp, size_t item, unsigned *low, unsigned *high, double *mean);

/* Work done so far, in multiply-adds. */
double lp_work(const struct lp *lp);

#endif
