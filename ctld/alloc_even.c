/* The even split: what a site would do that knows nothing about its jobs. */
#include "config.h"

#include "alloc_internal.h"

#include <errno.h>
#include <stdlib.h>

/* One node's members, each with the same number of cores as far as their bounds allow. */
static void even_node(const struct part *part, size_t node, unsigned *count)
{
    unsigned left = part->problem->nodes[part->nodes[node]].pool;

    for (size_t i = 0; i < part->nmembers; i++) {
        const struct alloc_member *m = &part->problem->members[part->members[i]];

        if (part->node[i] != node)
            continue;
        count[i] = m->min < left ? m->min : left;
        left -= count[i];
    }
    while (left > 0) {
        size_t least = part->nmembers;

        for (size_t i = 0; i < part->nmembers; i++) {
            const struct alloc_member *m = &part->problem->members[part->members[i]];

            if (part->node[i] == node && (m->max == 0 || count[i] < m->max) &&
                (least == part->nmembers || count[i] < count[least]))
                least = i;
        }
        if (least == part->nmembers)
            return;
        count[least]++;
        left--;
    }
}

int part_even(const struct part *part, unsigned *count)
{
    for (size_t n = 0; n < part->nnodes; n++)
        even_node(part, n, count);
    return 0;
}
