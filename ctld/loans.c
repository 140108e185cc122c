/* From whom an assignment borrows. See loans.h. */
#include "config.h"

#include "loans.h"

#include <errno.h>

void loans_free(struct msg_assign *assign)
{
    for (unsigned i = 0; i < assign->nloans; i++)
        cpus_free(&assign->loans[i].cpus);
    assign->nloans = 0;
}

static int add(struct msg_assign *assign, const struct member *lender)
{
    struct msg_loan *loan = &assign->loans[assign->nloans];

    if (assign->nloans == MSG_LOANS_MAX) {
        errno = ENOBUFS;
        return -1;
    }
    loan->job = lender->job->id;
    loan->step = lender->step;
    loan->cpus = CPUS_EMPTY;
    assign->nloans++;
    if (cpus_copy(&loan->cpus, &lender->place.loader) < 0)
        return -1;
    cpus_and(&loan->cpus, &assign->cpus);
    return 0;
}

int loans_fill(const struct member *borrower, struct msg_assign *assign)
{
    const struct node *node = borrower->node;
    int rc = 0;

    assign->nloans = 0;
    for (size_t i = 0; i < node->nmembers && rc == 0 && !assign->own; i++) {
        const struct member *lender = node->members[i];

        if (lender != borrower && cpus_intersects(&lender->place.loader, &assign->cpus))
            rc = add(assign, lender);
    }
    if (rc < 0) {
        int saved = errno;

        loans_free(assign);
        errno = saved;
    }
    return rc;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 1099511628211u;
}

uint64_t loans_mark(const struct member *borrower, const struct recon_place *place)
{
    const struct node *node = borrower->node;
    uint64_t hash = 0;

    if (place->own || cpus_is_subset(&place->cpus, &borrower->place.loader))
        return 0;
    for (size_t i = 0; i < node->nmembers; i++) {
        const struct member *lender = node->members[i];
        const struct cpus *cpus = &lender->place.loader;

        if (lender == borrower || !cpus_intersects(cpus, &place->cpus))
            continue;
        hash = mix(mix(hash + 14695981039346656037u, lender->job->id), lender->step);
        for (long c = cpus_next(cpus, 0); c >= 0; c = cpus_next(cpus, (unsigned long)c + 1))
            if (cpus_isset(&place->cpus, (unsigned)c))
                hash = mix(hash, (uint64_t)c);
    }
    return hash;
}
