/*
 * grouped_swiglu: the sums, then swiglu, as the device has them: a level may have products of its own and
 * another's swiglu.
 */
#include "ops/cpu/level.h"

static enum mt_status run(struct mt_device *device, enum mt_op op, const void *args)
{
    return mt_op_choose(device, op, args)->run(device, args);
}

/* What grouped_sum needs; swiglu needs nothing. */
static size_t sum_scratch(const struct mt_device *device, const struct mt_grouped_sum_args *sum)
{
    mt_op_scratch_fn scratch = mt_op_choose(device, MT_OP_grouped_sum, sum)->scratch;
    return scratch != NULL ? scratch(device, sum) : 0;
}

size_t MT_CPU(grouped_swiglu_scratch)(const struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_args *a = args;
    size_t gate = sum_scratch(device, &a->gate);
    size_t up = sum_scratch(device, &a->up);
    return gate > up ? gate : up;
}

enum mt_status MT_CPU(grouped_swiglu)(struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_args *a = args;
    const struct mt_swiglu_forward_args swiglu = {.gate = a->gate.y, .up = a->up.y, .y = a->y};
    enum mt_status status = run(device, MT_OP_grouped_sum, &a->gate);
    if (status == MT_OK) status = run(device, MT_OP_grouped_sum, &a->up);
    return status == MT_OK ? run(device, MT_OP_swiglu_forward, &swiglu) : status;
}

size_t MT_CPU(grouped_swiglu_backward_scratch)(const struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_backward_args *a = args;
    return sum_scratch(device, &a->sum);
}

enum mt_status MT_CPU(grouped_swiglu_backward)(struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_backward_args *a = args;
    const struct mt_swiglu_backward_args swiglu = {
        .dy = a->sum.y, .gate = a->gate, .up = a->up, .dgate = a->dgate, .dup = a->dup, .y = a->sum.y};
    enum mt_status status = run(device, MT_OP_grouped_sum, &a->sum);
    return status == MT_OK ? run(device, MT_OP_swiglu_backward, &swiglu) : status;
}
