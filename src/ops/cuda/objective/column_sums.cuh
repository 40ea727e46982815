/*
 * target[column] += Σ over rows of term(row, column): fixed slices of rows, then the slices in order. No
 * float atomics, the same bits every time. Term is a struct with
 *     __device__ double operator()(int64_t row, int64_t column) const
 */
#ifndef MT_OPS_CUDA_COLUMN_SUMS_CUH
#define MT_OPS_CUDA_COLUMN_SUMS_CUH

#include "ops/cuda/common/common.cuh"

#define COLUMN_SLICES 64

/* Bytes of scratch, for any number of rows. */
static inline size_t column_sums_bytes(int64_t width)
{
    return cuda_doubles(COLUMN_SLICES * width);
}

template <typename Term>
__global__ static void column_slices_kernel(Term term, int64_t rows, int64_t width, double *partials)
{
    int64_t column = cuda_thread();
    if (column >= width) return;
    int64_t slice_rows = (rows + COLUMN_SLICES - 1) / COLUMN_SLICES;
    int64_t start = (int64_t)blockIdx.y * slice_rows;
    int64_t end = start + slice_rows < rows ? start + slice_rows : rows;
    double sum = 0.0;
    for (int64_t row = start; row < end; row++) sum += term(row, column);
    partials[(int64_t)blockIdx.y * width + column] = sum;
}

__global__ static void column_finish_kernel(struct mt_tensor target, int64_t width, const double *partials)
{
    int64_t column = cuda_thread();
    if (column >= width) return;
    double sum = cuda_get1(target, column);
    for (int64_t slice = 0; slice < COLUMN_SLICES; slice++) sum += partials[slice * width + column];
    cuda_put1(target, column, sum);
}

/* Launches both; target [width] is accumulated, partials has column_sums_bytes(width). */
template <typename Term>
static void column_sums(cudaStream_t stream, Term term, int64_t rows, int64_t width,
                        const struct mt_tensor &target, double *partials)
{
    if (rows == 0 || width == 0) return;
    unsigned blocks = (unsigned)((width + CUDA_THREADS - 1) / CUDA_THREADS);
    column_slices_kernel<<<dim3(blocks, COLUMN_SLICES), CUDA_THREADS, 0, stream>>>(term, rows, width,
                                                                                   partials);
    column_finish_kernel<<<blocks, CUDA_THREADS, 0, stream>>>(target, width, partials);
}

#endif
