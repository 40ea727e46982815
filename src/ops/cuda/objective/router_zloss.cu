/*
 * router_zloss, one warp per token: lse = m + log Σ_j exp(z_j - m), m = max z; sum = Σ_i lse², in double.
 * Backward: dz_j = scale · factor · 2 lse · exp(z_j - lse).
 */
#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/objective/token_sums.cuh"

/* In every lane. */
__device__ static double row_lse(const struct mt_tensor &logits, int64_t i)
{
    double highest = -INFINITY;
    for (int64_t j = cuda_lane(); j < logits.dim[1]; j += 32)
        highest = fmax(highest, cuda_get2(logits, i, j));
    highest = warp_max(highest);
    double sum = 0.0;
    for (int64_t j = cuda_lane(); j < logits.dim[1]; j += 32) sum += exp(cuda_get2(logits, i, j) - highest);
    sum = warp_sum(sum);
    return sum == 0.0 ? -INFINITY : highest + log(sum);
}

/* lse [N], 0 for masked tokens. */
__global__ static void lse_kernel(struct mt_router_zloss_forward_args a, double *lse)
{
    cuda_follow();
    int64_t i = cuda_warp();
    if (i >= a.logits.dim[0]) return;
    double value = token_counts(a.mask, i) ? row_lse(a.logits, i) : 0.0;
    if (cuda_lane() != 0) return;
    lse[i] = value;
    if (cuda_present(a.lse)) cuda_put1(a.lse, i, value);
}

struct square_statistic {
    const double *lse;
    struct mt_tensor sum;

    __device__ double value(int64_t i, int64_t column) const
    {
        (void)column;
        return lse[i] * lse[i];
    }

    __device__ void store(int64_t b, int64_t column, double total) const
    {
        (void)column;
        cuda_put1(sum, b, total);
    }
};

__global__ static void backward_kernel(struct mt_router_zloss_backward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    if (i >= a.logits.dim[0]) return;
    bool counts = token_counts(a.mask, i);
    double scale = (double)(cuda_present(a.factor) ? a.scale * (float)cuda_get1(a.factor, 0) : a.scale);
    double lse = counts ? row_lse(a.logits, i) : 0.0;
    for (int64_t j = cuda_lane(); j < a.logits.dim[1]; j += 32) {
        double probability = counts ? exp(cuda_get2(a.logits, i, j) - lse) : 0.0;
        cuda_give2(a.dlogits, i, j, scale * 2.0 * lse * probability, a.accumulate);
    }
}

size_t mt_cuda_router_zloss_forward_scratch(const struct mt_device *,
                                            const struct mt_router_zloss_forward_args *a)
{
    return cuda_doubles(a->logits.dim[0]) + token_sums_bytes(1, 1);
}

enum mt_status mt_cuda_router_zloss_forward(struct mt_device *device,
                                            const struct mt_router_zloss_forward_args *a)
{
    int64_t tokens = a->logits.dim[0];
    char *scratch = static_cast<char *>(device->scratch.data);
    double *lse = reinterpret_cast<double *>(scratch);
    enum mt_status status = MT_OK;
    if (tokens > 0)
        status = cuda_launch(device, "router_zloss forward", lse_kernel, dim3(cuda_warp_blocks(tokens)),
                             CUDA_THREADS, 0, *a, lse);
    if (status != MT_OK) return status;
    struct token_cut cut = {};
    cut.tokens = tokens;
    cut.segments = 1;
    cut.columns = 1;
    return token_sums(device, "router_zloss forward", square_statistic{lse, a->sum}, cut,
                      reinterpret_cast<double *>(scratch + cuda_doubles(tokens)));
}

enum mt_status mt_cuda_router_zloss_backward(struct mt_device *device,
                                             const struct mt_router_zloss_backward_args *a)
{
    if (mt_tensor_count(&a->dlogits) == 0) return MT_OK;
    return cuda_launch(device, "router_zloss backward", backward_kernel,
                       dim3(cuda_warp_blocks(a->logits.dim[0])), CUDA_THREADS, 0, *a);
}
