/* grouped_swiglu and its backward: the sums, then swiglu, where no kernel makes both at once. */
#include "ops/cuda/products/grouped.cuh"

size_t mt_cuda_grouped_swiglu_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_args *a = static_cast<const struct mt_grouped_swiglu_args *>(args);
    if (cuda_hopper_swiglu_fits(device, a)) return cuda_hopper_swiglu_bytes(a);
    size_t gate = mt_cuda_grouped_sum_scratch(device, &a->gate);
    size_t up = mt_cuda_grouped_sum_scratch(device, &a->up);
    return gate > up ? gate : up;
}

enum mt_status mt_cuda_grouped_swiglu(struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_args *a = static_cast<const struct mt_grouped_swiglu_args *>(args);
    if (cuda_hopper_swiglu_fits(device, a)) return cuda_hopper_swiglu(device, a, device->scratch.data);
    struct mt_swiglu_forward_args swiglu = {a->gate.y, a->up.y, a->y};
    enum mt_status status = mt_cuda_grouped_sum(device, &a->gate);
    if (status == MT_OK) status = mt_cuda_grouped_sum(device, &a->up);
    return status == MT_OK ? mt_cuda_swiglu_forward(device, &swiglu) : status;
}

size_t mt_cuda_grouped_swiglu_backward_scratch(const struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_backward_args *a =
        static_cast<const struct mt_grouped_swiglu_backward_args *>(args);
    if (cuda_hopper_swiglu_backward_fits(device, a)) return cuda_hopper_swiglu_backward_bytes(a);
    return mt_cuda_grouped_sum_scratch(device, &a->sum);
}

enum mt_status mt_cuda_grouped_swiglu_backward(struct mt_device *device, const void *args)
{
    const struct mt_grouped_swiglu_backward_args *a =
        static_cast<const struct mt_grouped_swiglu_backward_args *>(args);
    if (cuda_hopper_swiglu_backward_fits(device, a))
        return cuda_hopper_swiglu_backward(device, a, device->scratch.data);
    struct mt_swiglu_backward_args swiglu = {};
    swiglu.dy = a->sum.y;
    swiglu.gate = a->gate;
    swiglu.up = a->up;
    swiglu.dgate = a->dgate;
    swiglu.dup = a->dup;
    swiglu.y = a->sum.y;
    enum mt_status status = mt_cuda_grouped_sum(device, &a->sum);
    return status == MT_OK ? mt_cuda_swiglu_backward(device, &swiglu) : status;
}
