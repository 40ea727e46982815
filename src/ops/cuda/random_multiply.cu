/* random_multiply: y = x m, m an f32 made from the element's own random word, the same as ref's. */
#include "ops/cuda/philox.cuh"

__device__ static float multiplier(const struct mt_random_multiply_args &a, uint64_t element)
{
    float unit = cuda_random_unit(cuda_random_word(a.seed, a.stream, element));
    if (a.kind == MT_RANDOM_JITTER) return fmaf(a.amount, 2.0f * unit - 1.0f, 1.0f);
    return unit < a.amount ? 0.0f : __fdiv_rn(1.0f, 1.0f - a.amount);
}

__global__ static void multiply_kernel(struct mt_random_multiply_args a)
{
    int64_t column = cuda_thread();
    int64_t width = a.x.dim[1];
    if (column >= width) return;
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        float m = multiplier(a, (uint64_t)(row * width + column));
        cuda_put2(a.y, row, column, cuda_get2(a.x, row, column) * (double)m);
    }
}

enum mt_status mt_cuda_random_multiply(struct mt_device *device, const void *args)
{
    const struct mt_random_multiply_args *a = static_cast<const struct mt_random_multiply_args *>(args);
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    multiply_kernel<<<cuda_grid(a->x.dim[0], a->x.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "random_multiply");
}
