/*
 * logit_summary, one block per row: first the largest key, which holds a logit and its column, then the sum
 * of exponentials in double. The order of both follows from the number of columns alone.
 */
#include "ops/cuda/common/common.cuh"

#define ROW_THREADS 512
#define ROW_WARPS   (ROW_THREADS / 32)

/* Larger for a larger logit, and of equals for the lower column. 0 is below every number's. */
__device__ static unsigned long long key_of(float x, int64_t column)
{
    unsigned bits = __float_as_uint(x + 0.0f); // -0 is 0
    unsigned ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return (unsigned long long)ordered << 32 | (0xffffffffu - (unsigned)column);
}

/* The largest of all threads' keys, in all of them. */
__device__ static unsigned long long block_largest(unsigned long long key)
{
    __shared__ unsigned long long part[ROW_WARPS];
    for (int offset = 16; offset > 0; offset /= 2) {
        unsigned long long other = __shfl_xor_sync(CUDA_EVERY, key, offset);
        key = other > key ? other : key;
    }
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = key;
    __syncthreads();
    for (int w = 0; w < ROW_WARPS; w++) key = part[w] > key ? part[w] : key;
    return key;
}

/* The sum of all threads' values, in thread 0. */
__device__ static double block_sum(double value)
{
    __shared__ double part[ROW_WARPS];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(CUDA_EVERY, value, offset);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = 0.0;
    for (int w = 0; w < ROW_WARPS; w++) sum += part[w];
    return sum;
}

__global__ static void summary_kernel(struct mt_logit_summary_args a)
{
    int64_t r = blockIdx.x;
    int64_t width = a.logits.dim[1];
    const float *x = static_cast<const float *>(a.logits.data) + r * a.logits.stride[0];
    unsigned long long key = 0;
    int found = 0; // a number that is not finite
#pragma unroll 8
    for (int64_t j = threadIdx.x; j < width; j += ROW_THREADS) {
        float value = x[j];
        unsigned long long own = key_of(value, j);
        key = own > key ? own : key;
        found |= !isfinite(value);
    }
    found = __syncthreads_or(found);
    key = block_largest(key);
    int64_t column = found || width == 0 ? -1 : (int64_t)(0xffffffffu - (unsigned)(key & 0xffffffffu));
    int32_t *highest = static_cast<int32_t *>(a.highest.data);
    if (threadIdx.x == 0) highest[r] = (int32_t)column;
    if (!cuda_present(a.log_sum)) return;
    double *log_sum = static_cast<double *>(a.log_sum.data);
    float most = column >= 0 ? x[column] : 0.0f;
    double sum = 0.0;
#pragma unroll 8
    for (int64_t j = threadIdx.x; j < width; j += ROW_THREADS) sum += (double)expf(x[j] - most);
    sum = block_sum(sum);
    if (threadIdx.x == 0) log_sum[r] = column >= 0 ? (double)most + log(sum) : nan("");
}

enum mt_status mt_cuda_logit_summary(struct mt_device *device, const struct mt_logit_summary_args *a)
{
    if (a->logits.dim[0] == 0) return MT_OK;
    if (a->logits.dtype != MT_F32)
        return mt_fail(device->ctx, MT_ERR_DTYPE, "logit_summary on this device takes f32 logits");
    summary_kernel<<<(unsigned)a->logits.dim[0], ROW_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "logit_summary");
}
