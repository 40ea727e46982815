/* row_noise: one block per row finds its nearest neighbour, then multiplies. Sums in double, fixed trees. */
#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/elementwise/philox.cuh"

/* |w_i - w_m|² by one warp, in every lane; m == i: |w_i|². */
__device__ static double squared_distance(const struct mt_tensor &weight, int64_t i, int64_t m)
{
    double sum = 0.0;
    for (int64_t j = cuda_lane(); j < weight.dim[1]; j += 32) {
        double difference = cuda_get2(weight, i, j) - (m == i ? 0.0 : cuda_get2(weight, m, j));
        sum += difference * difference;
    }
    return warp_sum(sum);
}

/* In every thread. */
__device__ static double epsilon_of(const struct mt_tensor &weight, int64_t i)
{
    double nearest = INFINITY;
    for (int64_t m = threadIdx.x / 32; m < weight.dim[0]; m += CUDA_WARPS)
        if (m != i) nearest = fmin(nearest, squared_distance(weight, i, m));
    nearest = -block_max(-nearest);
    double length = squared_distance(weight, i, i);
    return isfinite(nearest) && length > 0.0 ? 0.5 * sqrt(nearest / length) : 0.0;
}

__global__ static void noise_kernel(struct mt_row_noise_args a)
{
    int64_t i = blockIdx.x;
    int64_t width = a.weight.dim[1];
    double epsilon = a.amount > 0.0f ? (double)a.amount * epsilon_of(a.weight, i) : 0.0;
    for (int64_t j = threadIdx.x; j < width; j += CUDA_THREADS) {
        uint32_t word = cuda_random_word(a.seed, a.stream, (uint64_t)(i * width + j));
        double factor = 1.0 + epsilon * (2.0 * (double)cuda_random_unit(word) - 1.0);
        cuda_give2(a.y, i, j, cuda_get2(a.x, i, j) * factor, a.accumulate);
    }
}

enum mt_status mt_cuda_row_noise(struct mt_device *device, const struct mt_row_noise_args *a)
{
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    noise_kernel<<<(unsigned)a->weight.dim[0], CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "row_noise");
}
