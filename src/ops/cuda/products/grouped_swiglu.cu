/* grouped_swiglu and its backward: the sums, then swiglu, where no kernel makes both at once. */
#include "ops/cuda/products/grouped.cuh"

static size_t sums_bytes(const struct mt_device *device, const struct mt_grouped_swiglu_args *a)
{
    size_t gate = mt_cuda_grouped_sum_scratch(device, &a->gate);
    size_t up = mt_cuda_grouped_sum_scratch(device, &a->up);
    return gate > up ? gate : up;
}

static enum mt_status run_sums(struct mt_device *device, const struct mt_grouped_swiglu_args *a, void *)
{
    struct mt_swiglu_forward_args swiglu = {a->gate.y, a->up.y, a->y};
    enum mt_status status = mt_cuda_grouped_sum(device, &a->gate);
    if (status == MT_OK) status = mt_cuda_grouped_sum(device, &a->up);
    return status == MT_OK ? mt_cuda_swiglu_forward(device, &swiglu) : status;
}

static const struct cuda_variant<struct mt_grouped_swiglu_args> sums = {
    NULL, sums_bytes, run_sums
};
static const struct cuda_variant<struct mt_grouped_swiglu_args> *const variants[] = {
    &cuda_thin_swiglu, &cuda_hopper_swiglu, &sums
};
CUDA_OP(grouped_swiglu, variants)

static size_t sum_bytes(const struct mt_device *device, const struct mt_grouped_swiglu_backward_args *a)
{
    return mt_cuda_grouped_sum_scratch(device, &a->sum);
}

static enum mt_status run_sum(struct mt_device *device, const struct mt_grouped_swiglu_backward_args *a,
                              void *)
{
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

static const struct cuda_variant<struct mt_grouped_swiglu_backward_args> sum = {
    NULL, sum_bytes, run_sum
};
static const struct cuda_variant<struct mt_grouped_swiglu_backward_args> *const backward_variants[] = {
    &cuda_hopper_swiglu_backward, &sum,
};
CUDA_OP(grouped_swiglu_backward, backward_variants)
