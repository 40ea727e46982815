/*
 * reduce: blocks, whose number follows from the shape alone, each over its own rows and columns in a fixed
 * order; one more block adds their results in order.
 */
#include "ops/cuda/common/rows.cuh"
#include "ops/cuda/common/wide.cuh"

#define BLOCKS 1024 // at the most

/* The larger; NaN wins, so that it cannot hide behind a number. */
__device__ static double larger(double a, double b)
{
    if (isnan(a) || isnan(b)) return nan("");
    return a > b ? a : b;
}

__device__ static double joined(enum mt_reduce_kind kind, double a, double b)
{
    return kind == MT_REDUCE_MAX_ABS ? larger(a, b) : a + b;
}

__device__ static double counted(enum mt_reduce_kind kind, double x)
{
    switch (kind) {
    case MT_REDUCE_SUM: return x;
    case MT_REDUCE_SUM_SQUARES: return x * x;
    case MT_REDUCE_MAX_ABS: return fabs(x);
    default: return isfinite(x) ? 0.0 : 1.0;
    }
}

/* All threads' values joined, in thread 0. */
__device__ static double block_joined(enum mt_reduce_kind kind, double value)
{
    __shared__ double values[CUDA_THREADS];
    values[threadIdx.x] = value;
    for (int half = CUDA_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < half) {
            values[threadIdx.x] = joined(kind, values[threadIdx.x], values[threadIdx.x + half]);
        }
    }
    return values[0];
}

/* Every block takes every so-manyth stretch of CUDA_THREADS columns, counted through all rows. */
__global__ static void parts_kernel(struct mt_reduce_args a, int64_t rows, int64_t width, double *parts)
{
    int64_t stretches = (width + CUDA_THREADS - 1) / CUDA_THREADS; // of a row
    double total = 0.0;
    for (int64_t piece = blockIdx.x; piece < rows * stretches; piece += gridDim.x) {
        int64_t row = piece / stretches;
        int64_t column = piece % stretches * CUDA_THREADS + threadIdx.x;
        if (column >= width) continue;
        double x = cuda_get(a.x, cuda_row_offset(a.x, row) + column);
        total = joined(a.kind, total, counted(a.kind, x));
    }
    total = block_joined(a.kind, total);
    if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

/* The same over one long row in eights. */
__global__ static void wide_parts_kernel(struct mt_reduce_args a, int64_t eights, double *parts)
{
    double total = 0.0;
    for (int64_t i = (int64_t)blockIdx.x * CUDA_THREADS + threadIdx.x; i < eights;
         i += (int64_t)gridDim.x * CUDA_THREADS) {
        float x[CUDA_WIDE];
        wide_load(a.x.data, a.x.dtype, i * CUDA_WIDE, x);
#pragma unroll
        for (int j = 0; j < CUDA_WIDE; j++) total = joined(a.kind, total, counted(a.kind, (double)x[j]));
    }
    total = block_joined(a.kind, total);
    if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

__global__ static void join_kernel(struct mt_reduce_args a, const double *parts, int count)
{
    double total = 0.0;
    for (int i = (int)threadIdx.x; i < count; i += CUDA_THREADS) total = joined(a.kind, total, parts[i]);
    total = block_joined(a.kind, total);
    if (threadIdx.x != 0) return;
    cuda_put1(a.out, 0, a.accumulate ? joined(a.kind, cuda_get1(a.out, 0), total) : total);
}

size_t mt_cuda_reduce_scratch(const struct mt_device *, const struct mt_reduce_args *)
{
    return cuda_doubles(BLOCKS);
}

enum mt_status mt_cuda_reduce(struct mt_device *device, const struct mt_reduce_args *a)
{
    double *parts = static_cast<double *>(device->scratch.data);
    int64_t pieces = (mt_tensor_count(&a->x) / CUDA_WIDE + CUDA_THREADS - 1) / CUDA_THREADS;
    unsigned blocks = pieces < 1 ? 1 : pieces < BLOCKS ? (unsigned)pieces : BLOCKS;
    if (mt_tensor_is_contiguous(&a->x) && cuda_is_wide(&a->x)) {
        wide_parts_kernel<<<blocks, CUDA_THREADS, 0, cuda_stream(device)>>>(
            *a, mt_tensor_count(&a->x) / CUDA_WIDE, parts);
    } else {
        parts_kernel<<<blocks, CUDA_THREADS, 0, cuda_stream(device)>>>(*a, cuda_row_count(&a->x),
                                                                       cuda_row_width(&a->x), parts);
    }
    join_kernel<<<1, CUDA_THREADS, 0, cuda_stream(device)>>>(*a, parts, (int)blocks);
    return cuda_launched(device, "reduce");
}
