/* unchosen_backward: one warp per token, which stops where the token has chosen the expert. */
#include "ops/cuda/common/sums.cuh"

__global__ static void unchosen_kernel(struct mt_unchosen_backward_args a)
{
    int64_t i = cuda_warp();
    if (i >= a.dy.dim[0]) return;
    double divisor = a.normalise ? (double)a.epsilon : 1.0;
    for (int64_t s = 0; s < a.expert.dim[1]; s++) {
        int32_t e = cuda_int2(a.expert, i, s);
        if (e == a.number) return; // the whole warp
        if (a.normalise && e >= 0) divisor += cuda_get2(a.probs, i, e);
    }
    double dot = 0.0;
    for (int64_t c = cuda_lane(); c < a.dy.dim[1]; c += 32)
        dot += cuda_get2(a.dy, i, c) * cuda_get2(a.outputs, i, c);
    dot = warp_sum(dot);
    if (cuda_lane() == 0) cuda_give2(a.dprobs, i, a.number, (double)a.scale / divisor * dot, true);
}

enum mt_status mt_cuda_unchosen_backward(struct mt_device *device, const struct mt_unchosen_backward_args *a)
{
    if (a->dy.dim[0] == 0) return MT_OK;
    unchosen_kernel<<<cuda_warp_blocks(a->dy.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "unchosen_backward");
}
