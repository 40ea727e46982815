/* rank_sum: a thread adds up a column. */
#include "ops/cuda/common/common.cuh"

__global__ static void rank_sum_kernel(struct mt_rank_sum_args a)
{
    int64_t i = cuda_thread();
    if (i >= a.y.dim[0]) return;
    const float *x = static_cast<const float *>(a.x.data);
    float *y = static_cast<float *>(a.y.data);
    double sum = 0.0;
    for (int64_t r = 0; r < a.x.dim[0]; r++) sum += (double)(r == a.own ? y[i] : x[r * a.x.stride[0] + i]);
    y[i] = (float)sum;
}

enum mt_status mt_cuda_rank_sum(struct mt_device *device, const struct mt_rank_sum_args *a)
{
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    unsigned blocks = (unsigned)((a->y.dim[0] + CUDA_THREADS - 1) / CUDA_THREADS);
    rank_sum_kernel<<<blocks, CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "rank_sum");
}
