/* Rows as fp16 numbers that share a power of two: a block has a row in registers and reads it once. */
#include "ops/cuda/grouped.cuh"
#include "ops/cuda/scaled_rows.cuh"
#include "ops/cuda/wide.cuh"

#define MOST_CHUNKS  8 // eights of a thread
#define USUAL_CHUNKS 4 // enough on their way to keep memory busy, few threads to wait for
#define MOST_SHORT   128

struct source_call {
    const void *from[SCALED_MATRICES]; // NULL: zeros
    enum mt_dtype dtype;
    bool aligned;
    int64_t stride;
    int columns, eights; // the latter with the padding
    float factor;
    __half *to;
};

struct scaled_call {
    struct source_call source[SCALED_SOURCES];
    int sources;
    int64_t rows;
    float *factor;
};

/* Eight number `eight` of this block's row; zeros past its end. */
__device__ static inline void read_eight(const struct source_call &s, int eight, float (&value)[CUDA_WIDE])
{
    const void *from = s.from[blockIdx.y];
    int64_t at = blockIdx.x * s.stride + eight * CUDA_WIDE;
    if (from != NULL && s.aligned && eight * CUDA_WIDE + CUDA_WIDE <= s.columns) {
        wide_load(from, s.dtype, at, value);
    } else {
#pragma unroll
        for (int i = 0; i < CUDA_WIDE; i++) {
            bool there = from != NULL && eight * CUDA_WIDE + i < s.columns;
            value[i] = there ? cuda_float_at(from, s.dtype, at + i) : 0.0f;
        }
    }
#pragma unroll
    for (int i = 0; i < CUDA_WIDE; i++) value[i] *= s.factor;
}

__device__ static inline float highest_of(const float (&value)[CUDA_WIDE], float highest)
{
#pragma unroll
    for (int i = 0; i < CUDA_WIDE; i++) highest = fmaxf(highest, fabsf(value[i]));
    return highest;
}

/* The maximum over the block, in every thread. */
__device__ static inline float block_highest(float highest)
{
    __shared__ float partial[CUDA_WARPS];
    for (int offset = 16; offset > 0; offset /= 2)
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, offset));
    if (cuda_lane() == 0) partial[threadIdx.x / 32] = highest;
    __syncthreads();
    for (int warp = 0; warp < (int)blockDim.x / 32; warp++) highest = fmaxf(highest, partial[warp]);
    return highest;
}

__device__ static inline void write_eight(const struct source_call &s, int64_t rows, int eight, float scale,
                                          const float (&value)[CUDA_WIDE])
{
    uint4 *to = reinterpret_cast<uint4 *>(s.to) + (blockIdx.y * rows + blockIdx.x) * s.eights + eight;
    *to = scaled_eight(value, scale);
}

/* A block's row of each source; the first has up to CHUNKS eights for each thread, the others one. */
template <int CHUNKS>
__global__ static void __launch_bounds__(CUDA_THREADS)
    scale_kernel(const __grid_constant__ struct scaled_call call)
{
    float value[CHUNKS][CUDA_WIDE];
    float more[SCALED_SOURCES - 1][CUDA_WIDE];
    float highest = 0.0f;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int eight = c * (int)blockDim.x + (int)threadIdx.x;
        if (eight >= call.source[0].eights) continue;
        read_eight(call.source[0], eight, value[c]);
    }
#pragma unroll
    for (int s = 1; s < SCALED_SOURCES; s++) {
        if (s >= call.sources || (int)threadIdx.x >= call.source[s].eights) continue;
        read_eight(call.source[s], (int)threadIdx.x, more[s - 1]);
        highest = highest_of(more[s - 1], highest);
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (c * (int)blockDim.x + (int)threadIdx.x < call.source[0].eights)
            highest = highest_of(value[c], highest);
    }
    unsigned bits = __float_as_uint(block_highest(highest));
    float scale = scaled_down(bits);
    if (threadIdx.x == 0) call.factor[blockIdx.y * call.rows + blockIdx.x] = scaled_power(bits);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int eight = c * (int)blockDim.x + (int)threadIdx.x;
        if (eight < call.source[0].eights) write_eight(call.source[0], call.rows, eight, scale, value[c]);
    }
#pragma unroll
    for (int s = 1; s < SCALED_SOURCES; s++) {
        if (s < call.sources && (int)threadIdx.x < call.source[s].eights)
            write_eight(call.source[s], call.rows, (int)threadIdx.x, scale, more[s - 1]);
    }
}

// ------------------------------------------------------------------ on the host

static const struct mt_tensor *any_of(const struct scaled_rows *r, int source)
{
    return cuda_uniform(r->source[source].list, r->matrices);
}

static int64_t eights_of(const struct mt_tensor *any)
{
    return (any->dim[1] + CUDA_WIDE - 1) / CUDA_WIDE;
}

bool cuda_scaled_fits(const struct scaled_rows *r)
{
    if (r->sources < 1 || r->sources > SCALED_SOURCES || r->matrices > SCALED_MATRICES) return false;
    if (r->rows < 1 || r->rows > INT32_MAX) return false;
    for (int s = 0; s < r->sources; s++) {
        const struct mt_tensor *any = any_of(r, s);
        int64_t most = s == 0 ? (int64_t)MOST_CHUNKS * CUDA_THREADS * CUDA_WIDE : MOST_SHORT;
        if (any == NULL || any->dim[1] < 1 || any->dim[1] > most) return false;
    }
    return true;
}

size_t cuda_scaled_bytes(const struct scaled_rows *r, int source)
{
    return cuda_halves(r->matrices * r->rows * eights_of(any_of(r, source)) * CUDA_WIDE);
}

size_t cuda_scaled_factor_bytes(const struct scaled_rows *r)
{
    return cuda_floats(r->matrices * r->rows);
}

static struct source_call source_of(const struct scaled_rows *r, int source, void *to)
{
    const struct mt_tensor *any = any_of(r, source);
    struct source_call call = {};
    for (int i = 0; i < r->matrices; i++) {
        const struct mt_tensor *one = &r->source[source].list[i];
        call.from[i] = mt_tensor_present(one) ? one->data : NULL;
    }
    call.dtype = any->dtype;
    call.aligned = any->stride[0] % CUDA_WIDE == 0; // each matrix is
    call.stride = any->stride[0];
    call.columns = (int)any->dim[1];
    call.eights = (int)eights_of(any);
    call.factor = r->source[source].factor;
    call.to = static_cast<__half *>(to);
    return call;
}

enum mt_status cuda_scale_rows(struct mt_device *device, const struct scaled_rows *r, void *memory,
                               float *factor, struct mt_tensor *halves)
{
    struct scaled_call call = {};
    char *to = static_cast<char *>(memory);
    call.sources = r->sources;
    call.rows = r->rows;
    call.factor = factor;
    for (int s = 0; s < r->sources; s++) {
        call.source[s] = source_of(r, s, to);
        halves[s] = mt_tensor_2d(to, MT_BF16, r->rows, (int64_t)call.source[s].eights * CUDA_WIDE);
        to += cuda_scaled_bytes(r, s);
    }
    int64_t eights = call.source[0].eights;
    unsigned threads = wide_row_threads((eights + USUAL_CHUNKS - 1) / USUAL_CHUNKS * CUDA_WIDE);
    int64_t chunks = (eights + threads - 1) / threads;
    dim3 grid((unsigned)r->rows, (unsigned)r->matrices);
    cudaStream_t stream = cuda_stream(device);
    if (chunks <= 2) {
        scale_kernel<2><<<grid, threads, 0, stream>>>(call);
    } else if (chunks <= USUAL_CHUNKS) {
        scale_kernel<USUAL_CHUNKS><<<grid, threads, 0, stream>>>(call);
    } else if (chunks <= 6) {
        scale_kernel<6><<<grid, threads, 0, stream>>>(call);
    } else {
        scale_kernel<MOST_CHUNKS><<<grid, threads, 0, stream>>>(call);
    }
    return cuda_launched(device, "making fp16 numbers of rows");
}
