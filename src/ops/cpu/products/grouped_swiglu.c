/*
 * grouped_swiglu: the sums, then swiglu, as the device has them: a level may have products of its own and
 * another's swiglu.
 */
#include "ops/cpu/level.h"

/* What grouped_sum needs; swiglu needs nothing. */
static size_t sum_scratch(const struct mt_device *device, const struct mt_grouped_sum_args *sum)
{
    mt_op_scratch_fn scratch = mt_op_choose(device, MT_OP_grouped_sum, sum)->scratch;
    return scratch != NULL ? scratch(device, sum) : 0;
}

size_t MT_CPU(grouped_swiglu_scratch)(const struct mt_device *device, const struct mt_grouped_swiglu_args *a)
{
    size_t gate = sum_scratch(device, &a->gate);
    size_t up = sum_scratch(device, &a->up);
    return gate > up ? gate : up;
}

void MT_CPU(grouped_swiglu)(struct mt_device *device, const struct mt_grouped_swiglu_args *a)
{
    const struct mt_swiglu_forward_args swiglu = {.gate = a->gate.y, .up = a->up.y, .y = a->y};
    cpu_run(device, MT_OP_grouped_sum, &a->gate);
    cpu_run(device, MT_OP_grouped_sum, &a->up);
    cpu_run(device, MT_OP_swiglu_forward, &swiglu);
}

size_t MT_CPU(grouped_swiglu_backward_scratch)(const struct mt_device *device,
                                               const struct mt_grouped_swiglu_backward_args *a)
{
    return sum_scratch(device, &a->sum);
}

void MT_CPU(grouped_swiglu_backward)(struct mt_device *device,
                                     const struct mt_grouped_swiglu_backward_args *a)
{
    const struct mt_swiglu_backward_args swiglu = {
        .dy = a->sum.y, .gate = a->gate, .up = a->up, .dgate = a->dgate, .dup = a->dup, .y = a->sum.y};
    cpu_run(device, MT_OP_grouped_sum, &a->sum);
    cpu_run(device, MT_OP_swiglu_backward, &swiglu);
}
