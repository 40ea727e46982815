/*
 * balance_quantile: a warp per token for its threshold and margins, then a block per expert that selects
 * among its margins, a byte of their keys at a time. A key is an integer that orders as the number does, NaN
 * below all, so that the number selected is the same however it is found.
 */
#include "ops/cuda/common/common.cuh"

/* Numbers of a type as keys. */
template <typename Number> struct ordered;

template <> struct ordered<float> {
    typedef unsigned key;
    static constexpr int bits = 32;
    __device__ static key of(float value)
    {
        key raw = __float_as_uint(value + 0.0f); // -0 is 0
        if (isnan(value)) return 0;
        return (raw >> 31) != 0 ? ~raw : raw | 0x80000000u;
    }
    __device__ static float value(key k)
    {
        if (k == 0) return nanf("");
        return __uint_as_float((k >> 31) != 0 ? k & 0x7fffffffu : ~k);
    }
};

template <> struct ordered<double> {
    typedef unsigned long long key;
    static constexpr int bits = 64;
    __device__ static key of(double value)
    {
        key raw = (key)__double_as_longlong(value + 0.0);
        if (isnan(value)) return 0;
        return (raw >> 63) != 0 ? ~raw : raw | 1ull << 63;
    }
    __device__ static double value(key k)
    {
        if (k == 0) return nan("");
        return __longlong_as_double((long long)((k >> 63) != 0 ? k & ~(1ull << 63) : ~k));
    }
};

__device__ static bool counts(const struct mt_balance_quantile_args &a, int64_t i)
{
    return !cuda_present(a.mask) || cuda_int1(a.mask, i) != 0;
}

/* The largest score that `slots` others stand before; equal scores are stepped over together. */
template <typename Number>
__device__ static Number threshold_of(const struct mt_balance_quantile_args &a, int64_t i)
{
    typedef typename ordered<Number>::key key;
    key last = ~(key)0;
    int left = a.slots + 1;
    while (true) {
        key best = 0;
        int equal = 0;
        for (int64_t j = cuda_lane(); j < a.probs.dim[1]; j += 32) {
            double bias = cuda_present(a.bias) ? cuda_get1(a.bias, j) : 0.0;
            key own = ordered<Number>::of((Number)(cuda_get2(a.probs, i, j) + bias));
            if (own >= last || own < best) continue;
            equal = own == best ? equal + 1 : 1;
            best = own;
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            key other = __shfl_xor_sync(CUDA_EVERY, best, offset);
            int others = __shfl_xor_sync(CUDA_EVERY, equal, offset);
            if (other == best) equal += others;
            if (other > best) equal = others;
            if (other > best) best = other;
        }
        left -= equal;
        last = best;
        if (left <= 0 || best == 0) return ordered<Number>::value(best);
    }
}

template <typename Number> __global__ static void margin_kernel(struct mt_balance_quantile_args a)
{
    int64_t i = cuda_warp();
    if (i >= a.probs.dim[0]) return;
    bool own = counts(a, i); // the same for the warp
    double threshold = own ? (double)threshold_of<Number>(a, i) : 0.0;
    Number *margin = static_cast<Number *>(a.margin.data);
    for (int64_t j = cuda_lane(); j < a.probs.dim[1]; j += 32)
        margin[j * a.margin.stride[0] + i] = own ? (Number)(cuda_get2(a.probs, i, j) - threshold) : (Number)0;
}

/* One block per expert. */
template <typename Number>
__global__ static void __launch_bounds__(CUDA_THREADS) select_kernel(struct mt_balance_quantile_args a)
{
    typedef typename ordered<Number>::key key;
    __shared__ int found[256];
    __shared__ int unmasked;
    __shared__ long long left;
    __shared__ key prefix;
    int64_t tokens = a.probs.dim[0];
    const Number *margin = static_cast<const Number *>(a.margin.data) + blockIdx.x * a.margin.stride[0];
    if (threadIdx.x == 0) unmasked = 0;
    __syncthreads();
    int own = 0;
    for (int64_t i = threadIdx.x; i < tokens; i += CUDA_THREADS) own += counts(a, i);
    atomicAdd(&unmasked, own);
    __syncthreads();
    if (threadIdx.x == 0) {
        long long before = (long long)unmasked * a.slots / a.probs.dim[1];
        left = before < unmasked ? before : unmasked - 1;
        prefix = 0;
    }
    for (int shift = ordered<Number>::bits - 8; shift >= 0; shift -= 8) {
        found[threadIdx.x] = 0;
        __syncthreads();
        for (int64_t i = threadIdx.x; i < tokens; i += CUDA_THREADS) {
            key k = ordered<Number>::of(margin[i]);
            bool fits = shift == ordered<Number>::bits - 8 || k >> (shift + 8) == prefix;
            if (fits && counts(a, i)) atomicAdd(&found[k >> shift & 255], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int byte = 255;
            for (; byte > 0 && left >= found[byte]; byte--) left -= found[byte];
            prefix = prefix << 8 | (key)byte;
        }
        __syncthreads();
    }
    if (threadIdx.x != 0) return;
    double selected = unmasked > 0 ? (double)ordered<Number>::value(prefix) : 0.0;
    cuda_put1(a.sum, blockIdx.x, unmasked * selected);
    if (blockIdx.x == 0) cuda_put1(a.rows, 0, unmasked);
}

template <typename Number> static void launch(cudaStream_t stream, const struct mt_balance_quantile_args *a)
{
    int64_t tokens = a->probs.dim[0];
    if (tokens > 0) margin_kernel<Number><<<cuda_warp_blocks(tokens), CUDA_THREADS, 0, stream>>>(*a);
    select_kernel<Number><<<(unsigned)a->probs.dim[1], CUDA_THREADS, 0, stream>>>(*a);
}

enum mt_status mt_cuda_balance_quantile(struct mt_device *device, const struct mt_balance_quantile_args *a)
{
    if (a->probs.dtype == MT_F64) {
        launch<double>(cuda_stream(device), a);
    } else {
        launch<float>(cuda_stream(device), a);
    }
    return cuda_launched(device, "balance_quantile");
}
