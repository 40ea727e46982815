/*
 * dispatch: rows[r] = x[slot_of_row[r] / k]. Backward: dx[i] = Σ_s drows[row_of_slot[i,s]], in the order of
 * s. One block per row where eights of elements can be moved at once.
 */
#include "ops/cuda/wide.cuh"

// ------------------------------------------------------------------ single elements

__global__ static void forward_kernel(struct mt_dispatch_forward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.rows.dim[1]) return;
    for (int64_t r = blockIdx.y; r < a.rows.dim[0]; r += gridDim.y) {
        int32_t slot = cuda_int1(a.slot_of_row, r);
        if (slot >= 0) cuda_put2(a.rows, r, column, cuda_get2(a.x, slot / a.slots, column));
    }
}

__global__ static void backward_kernel(struct mt_dispatch_backward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.dx.dim[1]) return;
    for (int64_t i = blockIdx.y; i < a.dx.dim[0]; i += gridDim.y) {
        double sum = a.accumulate ? cuda_get2(a.dx, i, column) : 0.0;
        for (int64_t s = 0; s < a.row_of_slot.dim[1]; s++) {
            int32_t row = cuda_int2(a.row_of_slot, i, s);
            if (row >= 0) sum += cuda_get2(a.drows, row, column);
        }
        cuda_put2(a.dx, i, column, sum);
    }
}

// ------------------------------------------------------------------ eights

__global__ static void wide_forward_kernel(struct mt_dispatch_forward_args a)
{
    int64_t r = blockIdx.x;
    int32_t slot = cuda_int1(a.slot_of_row, r);
    if (slot < 0) return;
    int64_t token = slot / a.slots;
    for (int64_t j = threadIdx.x * CUDA_WIDE; j < a.rows.dim[1]; j += (int64_t)blockDim.x * CUDA_WIDE) {
        float value[CUDA_WIDE];
        wide_load2(a.x, {token, j}, value);
        wide_store2(a.rows, {r, j}, value);
    }
}

__global__ static void wide_backward_kernel(struct mt_dispatch_backward_args a)
{
    int64_t i = blockIdx.x;
    for (int64_t j = threadIdx.x * CUDA_WIDE; j < a.dx.dim[1]; j += (int64_t)blockDim.x * CUDA_WIDE) {
        float sum[CUDA_WIDE] = {};
        if (a.accumulate) wide_load2(a.dx, {i, j}, sum);
        for (int64_t s = 0; s < a.row_of_slot.dim[1]; s++) {
            int32_t row = cuda_int2(a.row_of_slot, i, s);
            if (row < 0) continue;
            float value[CUDA_WIDE];
            wide_load2(a.drows, {row, j}, value);
#pragma unroll
            for (int c = 0; c < CUDA_WIDE; c++) sum[c] += value[c];
        }
        wide_store2(a.dx, {i, j}, sum);
    }
}

// ------------------------------------------------------------------ launchers

enum mt_status mt_cuda_dispatch_forward(struct mt_device *device, const void *args)
{
    const struct mt_dispatch_forward_args *a = static_cast<const struct mt_dispatch_forward_args *>(args);
    cudaStream_t stream = cuda_stream(device);
    int64_t rows = a->rows.dim[0];
    int64_t width = a->rows.dim[1];
    if (mt_tensor_count(&a->rows) == 0) return MT_OK;
    if (cuda_is_wide(&a->x) && cuda_is_wide(&a->rows)) {
        wide_forward_kernel<<<(unsigned)rows, wide_row_threads(width), 0, stream>>>(*a);
    } else {
        forward_kernel<<<cuda_grid(rows, width), CUDA_THREADS, 0, stream>>>(*a);
    }
    return cuda_launched(device, "dispatch forward");
}

enum mt_status mt_cuda_dispatch_backward(struct mt_device *device, const void *args)
{
    const struct mt_dispatch_backward_args *a = static_cast<const struct mt_dispatch_backward_args *>(args);
    cudaStream_t stream = cuda_stream(device);
    int64_t tokens = a->dx.dim[0];
    int64_t width = a->dx.dim[1];
    if (mt_tensor_count(&a->dx) == 0) return MT_OK;
    if (cuda_is_wide(&a->drows) && cuda_is_wide(&a->dx)) {
        wide_backward_kernel<<<(unsigned)tokens, wide_row_threads(width), 0, stream>>>(*a);
    } else {
        backward_kernel<<<cuda_grid(tokens, width), CUDA_THREADS, 0, stream>>>(*a);
    }
    return cuda_launched(device, "dispatch backward");
}
