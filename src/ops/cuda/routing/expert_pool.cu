/*
 * expert_pool: a block per sequence, a thread per expert, which counts those that come before its own; scores
 * are rounded as ref's are, so that both choose the same. pool_mask: a warp per token.
 */
#include "ops/cuda/elementwise/philox.cuh"

__device__ static float pool_score(const struct mt_expert_pool_args &a, int64_t b, int64_t j, double rows)
{
    float mean = (float)(cuda_get2(a.sum, b, j) / rows);
    double bias = cuda_present(a.bias) ? cuda_get1(a.bias, j) : 0.0;
    return (float)((double)mean + bias);
}

/* ref_comes_before: score falling, index rising, NaN last. */
__device__ static bool comes_before(float x, int64_t x_place, float y, int64_t y_place)
{
    if (isnan(x) != isnan(y)) return isnan(y);
    if (!isnan(x) && x != y) return x > y;
    return x_place < y_place;
}

__global__ static void pool_kernel(struct mt_expert_pool_args a)
{
    int64_t b = blockIdx.x;
    int64_t experts = a.sum.dim[1];
    uint64_t sizes = (uint64_t)(experts - a.least + 1);
    uint64_t word = cuda_random_word(a.seed, a.stream, a.first + (uint64_t)b);
    int64_t size = a.least + (int64_t)((word * sizes) >> 32);
    double rows = fmax(cuda_get1(a.rows, b), 1.0);
    for (int64_t j = threadIdx.x; j < experts; j += CUDA_THREADS) {
        float own = pool_score(a, b, j, rows);
        int64_t before = 0;
        for (int64_t m = 0; m < experts; m++) before += comes_before(pool_score(a, b, m, rows), m, own, j);
        cuda_int_row(a.pool, b)[j] = before < size ? 1 : 0;
    }
}

enum mt_status mt_cuda_expert_pool(struct mt_device *device, const struct mt_expert_pool_args *a)
{
    if (a->sum.dim[0] == 0) return MT_OK;
    pool_kernel<<<(unsigned)a->sum.dim[0], CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "expert_pool");
}

__global__ static void mask_kernel(struct mt_pool_mask_args a)
{
    int64_t i = cuda_warp();
    if (i >= a.x.dim[0]) return;
    const int32_t *pool = cuda_int_row(a.pool, cuda_present(a.segment) ? cuda_int1(a.segment, i) : 0);
    for (int64_t j = cuda_lane(); j < a.x.dim[1]; j += 32) {
        if (pool[j] == 0) cuda_put2(a.x, i, j, (double)a.value);
    }
}

enum mt_status mt_cuda_pool_mask(struct mt_device *device, const struct mt_pool_mask_args *a)
{
    if (mt_tensor_count(&a->x) == 0) return MT_OK;
    mask_kernel<<<cuda_warp_blocks(a->x.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "pool_mask");
}
