/*
 * Time of forward and backward pass.
 *
 * The backward pass computes gradients of activations and of weights, two products of the size of
 * the forward one, hence 3 x forward (the rule of Kaplan et al., "Scaling Laws for Neural Language
 * Models", 2020, section 2.1, and of most FLOP accountings). FLOPs are 2 x MACs. Each layer is
 * bound by arithmetic or by memory (roofline: Williams, Waterman, Patterson, CACM 52(4), 2009); a
 * network has layers of both kinds one after the other, so the two times add.
 */
#include "terms.h"

double pred_compute_s(double overhead_s, double batch, double flops_forward, double flops_per_s,
                      double sample_memory_s)
{
    double arithmetic_s = flops_per_s > 0 ? 3 * flops_forward / flops_per_s : 0;

    return overhead_s + batch * (arithmetic_s + sample_memory_s);
}
