/*
 * grouped_swiglu: gate and up as grouped_sum makes them, then swiglu of what they hold; backward: the sum,
 * then swiglu's backward of what it holds.
 */
#include "ops/ref/ref.h"

enum mt_status mt_ref_grouped_swiglu(struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_args *a = args;
    enum mt_status status = mt_ref_grouped_sum(device, &a->gate);
    if (status == MT_OK) status = mt_ref_grouped_sum(device, &a->up);
    if (status != MT_OK) return status;
    return mt_ref_swiglu_forward(
        device, &(struct mt_swiglu_forward_args){.gate = a->gate.y, .up = a->up.y, .y = a->y});
}

enum mt_status mt_ref_grouped_swiglu_backward(struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_backward_args *a = args;
    enum mt_status status = mt_ref_grouped_sum(device, &a->sum);
    if (status != MT_OK) return status;
    return mt_ref_swiglu_backward(
        device,
        &(struct mt_swiglu_backward_args){
            .dy = a->sum.y, .gate = a->gate, .up = a->up, .dgate = a->dgate, .dup = a->dup, .y = a->sum.y});
}
