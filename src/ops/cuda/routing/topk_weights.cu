/*
 * topk_weights: w_s = scale · p_s, or with normalise scale · p_s / D, D = Σ_m p_m + ε over the chosen.
 * Backward, chosen expert of slot s: scale · g_s, or scale · (g_s / D - Σ_m g_m p_m / D²).
 */
#include "ops/cuda/common/sums.cuh"

/* The chosen probabilities of token i, added up, plus epsilon; 1 where nothing is normalised. */
__device__ static double divisor(const struct mt_tensor &probs, const struct mt_tensor &expert, int64_t i,
                                 bool normalise, float epsilon)
{
    if (!normalise) return 1.0;
    double sum = 0.0;
    for (int64_t s = 0; s < expert.dim[1]; s++) {
        int32_t e = cuda_int2(expert, i, s);
        if (e >= 0) sum += cuda_get2(probs, i, e);
    }
    return sum + (double)epsilon;
}

/* One warp per token, a lane per slot: of up to 32 slots. The chosen are added up in their order, as below.
 */
__global__ static void warp_forward_kernel(struct mt_topk_weights_forward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    int lane = cuda_lane();
    int slots = (int)a.expert.dim[1];
    if (i >= a.expert.dim[0]) return;
    int32_t e = lane < slots ? cuda_int2(a.expert, i, lane) : -1;
    double p = e >= 0 ? cuda_get2(a.probs, i, e) : 0.0;
    double sum = 0.0;
    for (int s = 0; s < slots; s++) sum += __shfl_sync(CUDA_EVERY, p, s);
    double denominator = a.normalise ? sum + (double)a.epsilon : 1.0;
    if (lane < slots) cuda_put2(a.weight, i, lane, e < 0 ? 0.0 : (double)a.scale * p / denominator);
}

__global__ static void forward_kernel(struct mt_topk_weights_forward_args a)
{
    for (int64_t i = cuda_thread(); i < a.expert.dim[0]; i += cuda_thread_count()) {
        double denominator = divisor(a.probs, a.expert, i, a.normalise, a.epsilon);
        for (int64_t s = 0; s < a.expert.dim[1]; s++) {
            int32_t e = cuda_int2(a.expert, i, s);
            double weight = e < 0 ? 0.0 : (double)a.scale * cuda_get2(a.probs, i, e) / denominator;
            cuda_put2(a.weight, i, s, weight);
        }
    }
}

/* The token's chosen, one after the other: for any number of slots, and experts chosen twice. */
__device__ static void backward_in_order(const struct mt_topk_weights_backward_args &a, int64_t i)
{
    int64_t slots = a.expert.dim[1];
    double denominator = divisor(a.probs, a.expert, i, a.normalise, a.epsilon);
    double dot = 0.0; // Σ g p over the chosen
    for (int64_t s = 0; s < slots; s++) {
        int32_t e = cuda_int2(a.expert, i, s);
        if (e >= 0) dot += cuda_get2(a.dweight, i, s) * cuda_get2(a.probs, i, e);
    }
    double pull = a.normalise ? dot / (denominator * denominator) : 0.0;
    for (int64_t s = 0; s < slots; s++) {
        int32_t e = cuda_int2(a.expert, i, s);
        if (e < 0) continue;
        double dp = (double)a.scale * (cuda_get2(a.dweight, i, s) / denominator - pull);
        cuda_give2(a.dprobs, i, e, dp, true);
    }
}

/* One warp per token: the lanes clear its row, then each fills in one of the chosen. */
__global__ static void backward_kernel(struct mt_topk_weights_backward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    int lane = cuda_lane();
    if (i >= a.expert.dim[0]) return;
    for (int64_t j = lane; j < a.probs.dim[1] && !a.accumulate; j += 32) cuda_put2(a.dprobs, i, j, 0.0);
    __syncwarp();
    // Lanes without a slot have numbers no expert has.
    int32_t e = lane < a.expert.dim[1] ? cuda_int2(a.expert, i, lane) : -1;
    unsigned same = __match_any_sync(CUDA_EVERY, e >= 0 ? e : -1 - lane);
    if (a.expert.dim[1] > 32 || __any_sync(CUDA_EVERY, __popc(same) > 1)) {
        if (lane == 0) backward_in_order(a, i);
        return;
    }
    double p = e >= 0 ? cuda_get2(a.probs, i, e) : 0.0;
    double g = e >= 0 ? cuda_get2(a.dweight, i, lane) : 0.0;
    double denominator = 1.0;
    double pull = 0.0;
    if (a.normalise) {
        denominator = warp_sum(p) + (double)a.epsilon;
        pull = warp_sum(g * p) / (denominator * denominator);
    }
    if (e >= 0) cuda_give2(a.dprobs, i, e, (double)a.scale * (g / denominator - pull), true);
}

enum mt_status mt_cuda_topk_weights_forward(struct mt_device *device, const void *args)
{
    const struct mt_topk_weights_forward_args *a =
        static_cast<const struct mt_topk_weights_forward_args *>(args);
    if (mt_tensor_count(&a->weight) == 0) return MT_OK;
    if (a->expert.dim[1] <= 32)
        return cuda_launch(device, "topk_weights forward", warp_forward_kernel,
                           dim3(cuda_warp_blocks(a->expert.dim[0])), CUDA_THREADS, 0, *a);
    forward_kernel<<<cuda_blocks(a->expert.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "topk_weights forward");
}

enum mt_status mt_cuda_topk_weights_backward(struct mt_device *device, const void *args)
{
    const struct mt_topk_weights_backward_args *a =
        static_cast<const struct mt_topk_weights_backward_args *>(args);
    if (mt_tensor_count(&a->dprobs) == 0) return MT_OK;
    return cuda_launch(device, "topk_weights backward", backward_kernel,
                       dim3(cuda_warp_blocks(a->expert.dim[0])), CUDA_THREADS, 0, *a);
}
