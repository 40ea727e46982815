/* joint_mass, one warp per token, in double; formulas in ref. */
#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/objective/token_sums.cuh"

__device__ static double row_sum(const struct mt_tensor &probs, int64_t i)
{
    double sum = 0.0;
    for (int64_t j = cuda_lane(); j < probs.dim[1]; j += 32) sum += cuda_get2(probs, i, j);
    return warp_sum(sum);
}

/* What the chosen have, not divided by anything; in every lane. */
__device__ static double chosen_sum(const struct mt_tensor &probs, const struct mt_tensor &expert, int64_t i)
{
    double sum = 0.0;
    for (int64_t s = cuda_lane(); s < expert.dim[1]; s += 32) {
        int32_t chosen = cuda_int2(expert, i, s);
        if (chosen >= 0) sum += cuda_get2(probs, i, chosen);
    }
    return warp_sum(sum);
}

__device__ static double mass_of(const struct mt_tensor &probs, const struct mt_tensor &expert,
                                 bool normalise, int64_t i)
{
    double mass = chosen_sum(probs, expert, i);
    return normalise ? mass / row_sum(probs, i) : mass;
}

__global__ static void forward_kernel(struct mt_joint_mass_forward_args a)
{
    int64_t i = cuda_warp();
    if (i >= a.probs.dim[0]) return;
    double product = 0.0;
    if (token_counts(a.mask, i))
        product = mass_of(a.probs, a.expert, a.normalise_rows, i) *
                  mass_of(a.other_probs, a.other_expert, a.normalise_rows, i);
    if (cuda_lane() == 0) cuda_put1(a.product, i, product);
}

__global__ static void backward_kernel(struct mt_joint_mass_backward_args a)
{
    int64_t i = cuda_warp();
    if (i >= a.probs.dim[0] || !token_counts(a.mask, i)) return;
    double pull = cuda_get1(a.dproduct, 0) * mass_of(a.other_probs, a.other_expert, a.normalise_rows, i);
    if (a.normalise_rows) {
        double sum = row_sum(a.probs, i);
        pull /= sum;
        double less = pull * chosen_sum(a.probs, a.expert, i) / sum;
        for (int64_t j = cuda_lane(); j < a.probs.dim[1]; j += 32) cuda_give2(a.dprobs, i, j, -less, true);
        __syncwarp();
    }
    // A token's slots have different experts: no two lanes write to one place.
    for (int64_t s = cuda_lane(); s < a.expert.dim[1]; s += 32) {
        int32_t chosen = cuda_int2(a.expert, i, s);
        if (chosen >= 0) cuda_give2(a.dprobs, i, chosen, pull, true);
    }
}

enum mt_status mt_cuda_joint_mass_forward(struct mt_device *device,
                                          const struct mt_joint_mass_forward_args *a)
{
    if (a->probs.dim[0] == 0) return MT_OK;
    forward_kernel<<<cuda_warp_blocks(a->probs.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "joint_mass forward");
}

enum mt_status mt_cuda_joint_mass_backward(struct mt_device *device,
                                           const struct mt_joint_mass_backward_args *a)
{
    if (a->probs.dim[0] == 0) return MT_OK;
    backward_kernel<<<cuda_warp_blocks(a->probs.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "joint_mass backward");
}
