/* How a model's FLOPs become matrix products. */
#include "gpu_plan.h"

#define SIDE_MIN  256u
#define SIDE_MAX  4096u /* large enough for any GPU's peak */
#define WHOLE_MAX 1000000u
#define ROWS      8u /* tensor units want multiples of it */

static double product_flops(double rows, double side)
{
    return 2.0 * rows * side * side;
}

static void plan_products(struct gpu_plan *plan, double bucket_flops)
{
    double whole, rest;

    plan->side = SIDE_MAX;
    while (plan->side > SIDE_MIN && product_flops(plan->side, plan->side) > bucket_flops)
        plan->side /= 2;
    whole = bucket_flops / product_flops(plan->side, plan->side);
    plan->whole = whole < WHOLE_MAX ? (unsigned)whole : WHOLE_MAX;
    rest = bucket_flops - plan->whole * product_flops(plan->side, plan->side);
    if (plan->whole < WHOLE_MAX && rest > 0.0)
        plan->rows = ROWS * (unsigned)(rest / product_flops(ROWS, plan->side) + 0.5);
}

struct gpu_plan gpu_plan_make(const struct gpu_work *work)
{
    size_t floats = work->gradient_bytes / sizeof(float);
    size_t bucket = GPU_BUCKET_BYTES / sizeof(float);
    struct gpu_plan plan = {.gradient_floats = floats > 0 ? floats : 1};
    size_t buckets = (plan.gradient_floats + bucket - 1) / bucket;

    plan.buckets = buckets > GPU_BUCKETS_MAX ? GPU_BUCKETS_MAX : (unsigned)buckets;
    plan.bucket_floats = (plan.gradient_floats + plan.buckets - 1) / plan.buckets;
    plan_products(&plan, work->forward_flops * work->batch / plan.buckets);
    plan.forward_traffic = (size_t)(work->traffic_bytes * work->batch / 3.0 / plan.buckets);
    return plan;
}

size_t gpu_plan_floats(const struct gpu_plan *plan, unsigned bucket)
{
    size_t start = plan->bucket_floats * bucket;

    if (start >= plan->gradient_floats)
        return 0;
    return plan->gradient_floats - start < plan->bucket_floats ? plan->gradient_floats - start
                                                               : plan->bucket_floats;
}

double gpu_plan_flops(const struct gpu_plan *plan)
{
    return 3.0 * plan->buckets *
           (plan->whole * product_flops(plan->side, plan->side) +
            product_flops(plan->rows, plan->side));
}
