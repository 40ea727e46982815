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
    struct mt_swiglu_forward_args swiglu = {a->gate.y, a->up.y, a->y, 0.0f, 0.0f};
    enum mt_status status = mt_cuda_grouped_sum(device, &a->gate);
    if (status == MT_OK) status = mt_cuda_grouped_sum(device, &a->up);
    return status == MT_OK ? mt_cuda_swiglu_forward(device, &swiglu) : status;
}

/* One expert has all rows, and no pair: cuBLAS fills the device better than tiles of both products do. */
static bool is_dense(const struct mt_device *, const struct mt_grouped_swiglu_args *a)
{
    return !mt_tensor_present(&a->gate.offsets) && a->gate.count == 1 && a->up.count == 1 &&
           mt_tensor_present(&a->gate.terms[0].weight[0]) && mt_tensor_present(&a->up.terms[0].weight[0]) &&
           !mt_tensor_present(&a->gate.terms[0].mask_y) && !mt_tensor_present(&a->up.terms[0].mask_y);
}

static struct mt_gemm_args gemm_of(const struct mt_grouped_sum_args *sum)
{
    struct mt_gemm_args one = {};
    one.a = sum->terms[0].x;
    one.b = sum->terms[0].weight[0];
    one.c = sum->y;
    one.transpose_b = sum->terms[0].transpose_weight;
    one.alpha = sum->terms[0].alpha;
    return one;
}

static size_t dense_bytes(const struct mt_device *device, const struct mt_grouped_swiglu_args *a)
{
    struct mt_gemm_args gate = gemm_of(&a->gate);
    struct mt_gemm_args up = gemm_of(&a->up);
    size_t first = mt_cuda_gemm_scratch(device, &gate);
    size_t second = mt_cuda_gemm_scratch(device, &up);
    return first > second ? first : second;
}

static enum mt_status run_dense(struct mt_device *device, const struct mt_grouped_swiglu_args *a, void *)
{
    struct mt_gemm_args gate = gemm_of(&a->gate);
    struct mt_gemm_args up = gemm_of(&a->up);
    struct mt_swiglu_forward_args swiglu = {a->gate.y, a->up.y, a->y, 0.0f, 0.0f};
    enum mt_status status = mt_cuda_gemm(device, &gate);
    if (status == MT_OK) status = mt_cuda_gemm(device, &up);
    return status == MT_OK ? mt_cuda_swiglu_forward(device, &swiglu) : status;
}

static const struct cuda_variant<struct mt_grouped_swiglu_args> dense = {
    is_dense, dense_bytes, run_dense
};
static const struct cuda_variant<struct mt_grouped_swiglu_args> sums = {
    NULL, sums_bytes, run_sums
};
static const struct cuda_variant<struct mt_grouped_swiglu_args> *const variants[] = {
    &cuda_thin_swiglu, &dense, &cuda_hopper_swiglu, &sums
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
