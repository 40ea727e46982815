/*
 * rmsnorm, one block per row, which holds a row of up to 8192 aligned elements in registers and reads it
 * once. The weight's gradient is summed by a second pass over fixed slices of rows and a third that adds the
 * slices in order: no float atomics, the same bits every time.
 */
#include "ops/cuda/common/wide.cuh"

#define ROW_THREADS    256
#define DWEIGHT_SLICES 64
#define EIGHTS         4 // of a row, in each thread's registers at the most

// ------------------------------------------------------------------ kernels

/* The sum over the block, in every thread; a fixed tree, so the order never changes. */
__device__ static float block_sum(float value)
{
    __shared__ float partial[ROW_THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    __syncthreads(); // a previous sum may still be read
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0.0f;
    for (int i = 0; i < ROW_THREADS / 32; i++) total += partial[i];
    return total;
}

__global__ static void forward_kernel(struct cuda_view x, struct cuda_view residual, struct cuda_view sum,
                                      struct cuda_view weight, struct cuda_view y, float *rstds,
                                      int64_t width, float epsilon)
{
    int64_t row = blockIdx.x;
    float squares = 0.0f;
    const struct cuda_view h = residual.data != NULL ? sum : x;
    for (int64_t j = threadIdx.x; j < width; j += ROW_THREADS) {
        float value = cuda_load(x, row, j);
        if (residual.data != NULL) {
            cuda_store(sum, row, j, value + cuda_load(residual, row, j));
            value = cuda_load(sum, row, j); // as stored: what others will see
        }
        squares += value * value;
    }
    float rstd = rsqrtf(block_sum(squares) / (float)width + epsilon);
    for (int64_t j = threadIdx.x; j < width; j += ROW_THREADS) {
        cuda_store(y, row, j, cuda_load(h, row, j) * rstd * cuda_load(weight, 0, j));
    }
    if (rstds != NULL && threadIdx.x == 0) rstds[row] = rstd;
}

__global__ static void backward_kernel(struct cuda_view dy, struct cuda_view x, struct cuda_view weight,
                                       const float *rstds, struct cuda_view dx, int64_t width,
                                       bool accumulate)
{
    int64_t row = blockIdx.x;
    float dot = 0.0f;
    for (int64_t j = threadIdx.x; j < width; j += ROW_THREADS) {
        dot += cuda_load(dy, row, j) * cuda_load(weight, 0, j) * cuda_load(x, row, j);
    }
    float rstd = rstds[row];
    float pull = rstd * rstd * rstd * block_sum(dot) / (float)width;
    for (int64_t j = threadIdx.x; j < width; j += ROW_THREADS) {
        float value = rstd * cuda_load(dy, row, j) * cuda_load(weight, 0, j) - cuda_load(x, row, j) * pull;
        cuda_store(dx, row, j, accumulate ? cuda_load(dx, row, j) + value : value);
    }
}

/* partials[slice, column] = Σ over the slice's rows of dy · x · rstd. */
__global__ static void dweight_slices_kernel(struct cuda_view dy, struct cuda_view x, const float *rstds,
                                             float *partials, int64_t rows, int64_t width)
{
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    int64_t slice_rows = (rows + DWEIGHT_SLICES - 1) / DWEIGHT_SLICES;
    int64_t start = (int64_t)blockIdx.y * slice_rows;
    int64_t end = start + slice_rows < rows ? start + slice_rows : rows;
    float sum = 0.0f;
    for (int64_t row = start; row < end; row++) {
        sum += cuda_load(dy, row, column) * cuda_load(x, row, column) * rstds[row];
    }
    partials[(int64_t)blockIdx.y * width + column] = sum;
}

__global__ static void dweight_sum_kernel(const float *partials, float *dweight, int64_t width)
{
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    float sum = dweight[column];
    for (int64_t slice = 0; slice < DWEIGHT_SLICES; slice++) sum += partials[slice * width + column];
    dweight[column] = sum;
}

// ------------------------------------------------------------------ rows in registers

/* Column of a thread's eight number `part`; past the end where there is none. */
__device__ static inline int64_t eight_column(int part)
{
    return ((int64_t)part * blockDim.x + threadIdx.x) * CUDA_WIDE;
}

template <int PARTS>
__global__ static void __launch_bounds__(ROW_THREADS) wide_forward_kernel(struct mt_rmsnorm_forward_args a)
{
    cuda_follow();
    __shared__ float partial[CUDA_WARPS];
    int64_t row = blockIdx.x;
    int64_t width = a.x.dim[1];
    float h[PARTS][CUDA_WIDE] = {};
    float squares[1] = {0.0f};
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        int64_t j = eight_column(part);
        if (j >= width) continue;
        wide_load2(a.x, {row, j}, h[part]);
        if (cuda_present(a.residual)) {
            float other[CUDA_WIDE];
            wide_load2(a.residual, {row, j}, other);
#pragma unroll
            for (int c = 0; c < CUDA_WIDE; c++) h[part][c] += other[c];
            wide_store2(a.sum, {row, j}, h[part]);
            wide_round(a.sum.dtype, h[part]); // as stored: what others will see
        }
#pragma unroll
        for (int c = 0; c < CUDA_WIDE; c++) squares[0] = fmaf(h[part][c], h[part][c], squares[0]);
    }
    wide_block_sums<1>(squares, partial);
    float rstd = rsqrtf(squares[0] / (float)width + a.epsilon);
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        int64_t j = eight_column(part);
        if (j >= width) continue;
        float weight[CUDA_WIDE];
        wide_load(a.weight.data, a.weight.dtype, j, weight);
#pragma unroll
        for (int c = 0; c < CUDA_WIDE; c++) h[part][c] *= rstd * weight[c];
        wide_store2(a.y, {row, j}, h[part]);
    }
    if (cuda_present(a.rstd) && threadIdx.x == 0) static_cast<float *>(a.rstd.data)[row] = rstd;
}

template <int PARTS>
__global__ static void __launch_bounds__(ROW_THREADS) wide_backward_kernel(struct mt_rmsnorm_backward_args a)
{
    __shared__ float partial[CUDA_WARPS];
    int64_t row = blockIdx.x;
    int64_t width = a.x.dim[1];
    float pushed[PARTS][CUDA_WIDE] = {}; // dy · weight
    float x[PARTS][CUDA_WIDE] = {};
    float dot[1] = {0.0f};
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        int64_t j = eight_column(part);
        if (j >= width) continue;
        float weight[CUDA_WIDE];
        wide_load2(a.dy, {row, j}, pushed[part]);
        wide_load2(a.x, {row, j}, x[part]);
        wide_load(a.weight.data, a.weight.dtype, j, weight);
#pragma unroll
        for (int c = 0; c < CUDA_WIDE; c++) {
            pushed[part][c] *= weight[c];
            dot[0] = fmaf(pushed[part][c], x[part][c], dot[0]);
        }
    }
    wide_block_sums<1>(dot, partial);
    float rstd = static_cast<const float *>(a.rstd.data)[row];
    float pull = rstd * rstd * rstd * dot[0] / (float)width;
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
        int64_t j = eight_column(part);
        if (j >= width) continue;
        float dx[CUDA_WIDE] = {};
        if (a.accumulate) wide_load2(a.dx, {row, j}, dx);
#pragma unroll
        for (int c = 0; c < CUDA_WIDE; c++) dx[c] += rstd * pushed[part][c] - x[part][c] * pull;
        wide_store2(a.dx, {row, j}, dx);
    }
}

/* True when a row fits the registers of a block. */
static bool fits(int64_t width)
{
    return width > 0 && width <= (int64_t)EIGHTS * ROW_THREADS * CUDA_WIDE;
}

static bool is_one_part(int64_t width)
{
    return width <= (int64_t)ROW_THREADS * CUDA_WIDE;
}

// ------------------------------------------------------------------ launchers

enum mt_status mt_cuda_rmsnorm_forward(struct mt_device *device, const struct mt_rmsnorm_forward_args *a)
{
    int64_t rows = a->x.dim[0];
    if (rows == 0) return MT_OK;
    unsigned threads = wide_row_threads(a->x.dim[1]);
    bool wide = fits(a->x.dim[1]) && cuda_is_wide(&a->x) && cuda_is_wide(&a->residual) &&
                cuda_is_wide(&a->sum) && cuda_is_wide(&a->weight) && cuda_is_wide(&a->y);
    if (wide) {
        auto kernel = is_one_part(a->x.dim[1]) ? wide_forward_kernel<1> : wide_forward_kernel<EIGHTS>;
        return cuda_launch(device, "rmsnorm forward", kernel, dim3((unsigned)rows), threads, 0, *a);
    }
    forward_kernel<<<(unsigned)rows, ROW_THREADS, 0, cuda_stream(device)>>>(
        cuda_view_of(&a->x), cuda_view_of(&a->residual), cuda_view_of(&a->sum), cuda_view_of(&a->weight),
        cuda_view_of(&a->y), static_cast<float *>(a->rstd.data), a->x.dim[1], a->epsilon);
    return cuda_launched(device, "rmsnorm forward");
}

size_t mt_cuda_rmsnorm_backward_scratch(const struct mt_device *, const struct mt_rmsnorm_backward_args *a)
{
    return mt_tensor_present(&a->dweight) ? DWEIGHT_SLICES * (size_t)a->x.dim[1] * sizeof(float) : 0;
}

enum mt_status mt_cuda_rmsnorm_backward(struct mt_device *device, const struct mt_rmsnorm_backward_args *a)
{
    int64_t rows = a->x.dim[0];
    int64_t width = a->x.dim[1];
    if (rows == 0) return MT_OK;
    cudaStream_t stream = cuda_stream(device);
    const float *rstds = static_cast<const float *>(a->rstd.data);
    // The weight's gradient first: dx may overwrite dy.
    if (mt_tensor_present(&a->dweight)) {
        float *partials = static_cast<float *>(device->scratch.data);
        unsigned column_blocks = (unsigned)((width + 127) / 128);
        dweight_slices_kernel<<<dim3(column_blocks, DWEIGHT_SLICES), 128, 0, stream>>>(
            cuda_view_of(&a->dy), cuda_view_of(&a->x), rstds, partials, rows, width);
        dweight_sum_kernel<<<column_blocks, 128, 0, stream>>>(partials, static_cast<float *>(a->dweight.data),
                                                              width);
    }
    unsigned threads = wide_row_threads(width);
    bool wide = fits(width) && cuda_is_wide(&a->dy) && cuda_is_wide(&a->x) && cuda_is_wide(&a->weight) &&
                cuda_is_wide(&a->dx);
    if (wide && is_one_part(width)) {
        wide_backward_kernel<1><<<(unsigned)rows, threads, 0, stream>>>(*a);
        return cuda_launched(device, "rmsnorm backward");
    }
    if (wide) {
        wide_backward_kernel<EIGHTS><<<(unsigned)rows, threads, 0, stream>>>(*a);
        return cuda_launched(device, "rmsnorm backward");
    }
    backward_kernel<<<(unsigned)rows, ROW_THREADS, 0, stream>>>(cuda_view_of(&a->dy), cuda_view_of(&a->x),
                                                                cuda_view_of(&a->weight), rstds,
                                                                cuda_view_of(&a->dx), width, a->accumulate);
    return cuda_launched(device, "rmsnorm backward");
}
