/*
 * From whom an assignment borrows: what its agent needs to get in touch with the lenders' agents,
 * so that a loan ends with its lender even without the controller.
 */
#ifndef ADLOADER_LOANS_H
#define ADLOADER_LOANS_H

#include "msg.h"
#include "registry.h"

/*
 * Fill assign's loans from its CPUs: those that are another member's loader cores. Cores of the
 * admin's pool have no lender. The caller releases them with loans_free(). 0, or -1: ENOMEM, or
 * ENOBUFS, more lenders than a message can name; assign has no loans then.
 */
int loans_fill(const struct member *borrower, struct msg_assign *assign);
void loans_free(struct msg_assign *assign);

/*
 * Fingerprint of whose cores are borrowed there, 0: nobody's. The same cores from another lender (a
 * step has ended and its batch script has them again) are another loan, and must be said anew.
 */
uint64_t loans_mark(const struct member *borrower, const struct recon_place *place);

#endif
