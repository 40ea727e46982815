/* router_score: softmax or sigmoid of a token's logits, one warp per token, in double. */
#include "ops/cuda/common/sums.cuh"

__global__ static void softmax_kernel(struct mt_router_score_forward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    int64_t experts = a.logits.dim[1];
    if (i >= a.logits.dim[0]) return;
    double highest = -INFINITY;
    for (int64_t j = cuda_lane(); j < experts; j += 32) highest = fmax(highest, cuda_get2(a.logits, i, j));
    highest = warp_max(highest);
    double sum = 0.0;
    for (int64_t j = cuda_lane(); j < experts; j += 32) sum += exp(cuda_get2(a.logits, i, j) - highest);
    sum = warp_sum(sum);
    // A lane writes what only itself reads: probs may be logits.
    for (int64_t j = cuda_lane(); j < experts; j += 32) {
        cuda_put2(a.probs, i, j, exp(cuda_get2(a.logits, i, j) - highest) / sum);
    }
}

__global__ static void sigmoid_kernel(struct mt_router_score_forward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    if (i >= a.logits.dim[0]) return;
    for (int64_t j = cuda_lane(); j < a.logits.dim[1]; j += 32) {
        cuda_put2(a.probs, i, j, 1.0 / (1.0 + exp(-cuda_get2(a.logits, i, j))));
    }
}

__global__ static void backward_kernel(struct mt_router_score_backward_args a)
{
    cuda_follow();
    int64_t i = cuda_warp();
    int64_t experts = a.probs.dim[1];
    if (i >= a.probs.dim[0]) return;
    double mean = 0.0; // of g under p
    for (int64_t j = cuda_lane(); j < experts; j += 32) {
        mean += cuda_get2(a.probs, i, j) * cuda_get2(a.dprobs, i, j);
    }
    mean = warp_sum(mean);
    for (int64_t j = cuda_lane(); j < experts; j += 32) {
        double p = cuda_get2(a.probs, i, j);
        double g = cuda_get2(a.dprobs, i, j);
        double dz = a.kind == MT_SCORE_SOFTMAX ? p * (g - mean) : g * p * (1.0 - p);
        cuda_give2(a.dlogits, i, j, dz, a.accumulate);
    }
}

enum mt_status mt_cuda_router_score_forward(struct mt_device *device, const void *args)
{
    const struct mt_router_score_forward_args *a =
        static_cast<const struct mt_router_score_forward_args *>(args);
    if (mt_tensor_count(&a->logits) == 0) return MT_OK;
    auto kernel = a->kind == MT_SCORE_SOFTMAX ? softmax_kernel : sigmoid_kernel;
    dim3 blocks(cuda_warp_blocks(a->logits.dim[0]));
    return cuda_launch(device, "router_score forward", kernel, blocks, CUDA_THREADS, 0, *a);
}

enum mt_status mt_cuda_router_score_backward(struct mt_device *device, const void *args)
{
    const struct mt_router_score_backward_args *a =
        static_cast<const struct mt_router_score_backward_args *>(args);
    if (mt_tensor_count(&a->probs) == 0) return MT_OK;
    return cuda_launch(device, "router_score backward", backward_kernel,
                       dim3(cuda_warp_blocks(a->probs.dim[0])), CUDA_THREADS, 0, *a);
}
