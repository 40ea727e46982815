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

// LANES of a warp share a token, one for each slot.
#define FEW_SLOTS 8

template <int LANES> static dim3 blocks_of(int64_t tokens)
{
    constexpr int64_t tokens_of_block = CUDA_THREADS / LANES;
    return dim3((unsigned)((tokens + tokens_of_block - 1) / tokens_of_block));
}

/* The sum over a token's lanes, in each of them. */
template <int LANES> __device__ static double token_sum(double value)
{
    for (int offset = LANES / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(CUDA_EVERY, value, offset);
    return value;
}

/* Up to LANES slots. The chosen are added up in their order, as below. */
template <int LANES>
__global__ static void __launch_bounds__(CUDA_THREADS)
    slots_forward_kernel(struct mt_topk_weights_forward_args a)
{
    cuda_follow();
    int64_t i = cuda_thread() / LANES;
    int lane = cuda_lane() % LANES;
    int slots = (int)a.expert.dim[1];
    bool is_slot = i < a.expert.dim[0] && lane < slots;
    int32_t e = is_slot ? cuda_int2(a.expert, i, lane) : -1;
    double p = e >= 0 ? cuda_get2(a.probs, i, e) : 0.0;
    double denominator = 1.0;
    if (a.normalise) {
        double sum = 0.0;
        for (int s = 0; s < slots; s++) sum += __shfl_sync(CUDA_EVERY, p, s, LANES);
        denominator = sum + (double)a.epsilon;
    }
    if (is_slot) cuda_put2(a.weight, i, lane, e < 0 ? 0.0 : (double)a.scale * p / denominator);
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

/* The lanes of a token clear its row, then each fills in one of the chosen. */
template <int LANES>
__global__ static void __launch_bounds__(CUDA_THREADS) backward_kernel(struct mt_topk_weights_backward_args a)
{
    cuda_follow();
    int64_t i = cuda_thread() / LANES;
    int lane = cuda_lane() % LANES;
    bool exists = i < a.expert.dim[0];
    if (exists && !a.accumulate) {
        for (int64_t j = lane; j < a.probs.dim[1]; j += LANES) cuda_put2(a.dprobs, i, j, 0.0);
    }
    __syncwarp();
    int32_t e = exists && lane < a.expert.dim[1] ? cuda_int2(a.expert, i, lane) : -1;
    bool repeated = false;
    for (int s = 1; s < LANES; s++) {
        int32_t other = __shfl_sync(CUDA_EVERY, e, lane + s, LANES);
        repeated = repeated || (e >= 0 && other == e);
    }
    if (a.expert.dim[1] > LANES || __any_sync(CUDA_EVERY, repeated)) {
        if (exists && lane == 0) backward_in_order(a, i);
        return;
    }
    double p = e >= 0 ? cuda_get2(a.probs, i, e) : 0.0;
    double g = e >= 0 ? cuda_get2(a.dweight, i, lane) : 0.0;
    double denominator = 1.0;
    double pull = 0.0;
    if (a.normalise) {
        denominator = token_sum<LANES>(p) + (double)a.epsilon;
        pull = token_sum<LANES>(g * p) / (denominator * denominator);
    }
    if (e >= 0) cuda_give2(a.dprobs, i, e, (double)a.scale * (g / denominator - pull), true);
}

enum mt_status mt_cuda_topk_weights_forward(struct mt_device *device,
                                            const struct mt_topk_weights_forward_args *a)
{
    if (mt_tensor_count(&a->weight) == 0) return MT_OK;
    int64_t tokens = a->expert.dim[0];
    if (a->expert.dim[1] <= FEW_SLOTS)
        return cuda_launch(device, "topk_weights forward", slots_forward_kernel<FEW_SLOTS>,
                           blocks_of<FEW_SLOTS>(tokens), CUDA_THREADS, 0, *a);
    if (a->expert.dim[1] <= 32)
        return cuda_launch(device, "topk_weights forward", slots_forward_kernel<32>, blocks_of<32>(tokens),
                           CUDA_THREADS, 0, *a);
    forward_kernel<<<cuda_blocks(a->expert.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "topk_weights forward");
}

enum mt_status mt_cuda_topk_weights_backward(struct mt_device *device,
                                             const struct mt_topk_weights_backward_args *a)
{
    if (mt_tensor_count(&a->dprobs) == 0) return MT_OK;
    int64_t tokens = a->expert.dim[0];
    if (a->expert.dim[1] <= FEW_SLOTS)
        return cuda_launch(device, "topk_weights backward", backward_kernel<FEW_SLOTS>,
                           blocks_of<FEW_SLOTS>(tokens), CUDA_THREADS, 0, *a);
    return cuda_launch(device, "topk_weights backward", backward_kernel<32>, blocks_of<32>(tokens),
                       CUDA_THREADS, 0, *a);
}
