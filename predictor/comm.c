/*
 * Time of the gradient all-reduce.
 *
 * Ring: 2(n-1) steps, each moving 1/n of the bytes: latency 2(n-1) alpha, bandwidth term
 * 2 (n-1)/n * bytes / bus bandwidth (Patarasuk and Yuan, JPDC 69(2), 2009; NCCL's tests define
 * their bus bandwidth by the same factor, doc/PERFORMANCE.md there). Double binary tree: 2 log2(n)
 * steps of latency at nearly the same bandwidth (Sanders, Speck, Traeff, Parallel Computing 35(12),
 * 2009; used by NCCL since 2.4). NCCL chooses the faster by size, and so does pred_sync_s.
 */
#include "terms.h"

#include <math.h>

static double transfer_s(double n, double bytes, const struct pred_link *link)
{
    return link->bus_bytes_per_s > 0 ? 2 * (n - 1) / n * bytes / link->bus_bytes_per_s : 0;
}

static double alpha_s(const struct pred_link *link)
{
    return link->alpha_s > 0 ? link->alpha_s : 0;
}

double pred_ring_s(double n, double bytes, const struct pred_link *link)
{
    if (!(n > 1))
        return 0;
    return 2 * (n - 1) * alpha_s(link) + transfer_s(n, bytes, link);
}

double pred_tree_s(double n, double bytes, const struct pred_link *link)
{
    if (!(n > 1))
        return 0;
    return 2 * ceil(log2(n)) * alpha_s(link) + transfer_s(n, bytes, link);
}

double pred_sync_s(double gpus_in_node, double nodes, double bytes, const struct pred_link *in_node,
                   const struct pred_link *between_nodes)
{
    double inside =
        fmin(pred_ring_s(gpus_in_node, bytes, in_node), pred_tree_s(gpus_in_node, bytes, in_node));
    double between =
        fmin(pred_ring_s(nodes, bytes, between_nodes), pred_tree_s(nodes, bytes, between_nodes));

    return inside + between;
}
