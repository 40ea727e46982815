/* dispatch: rows[r] = x[slot_of_row[r] / k]. Backward: dx[i] = Σ_s drows[row_of_slot[i,s]], in the order of
 * s. */
#include "ops/cuda/common.cuh"

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

enum mt_status mt_cuda_dispatch_forward(struct mt_device *device, const void *args)
{
    const struct mt_dispatch_forward_args *a = static_cast<const struct mt_dispatch_forward_args *>(args);
    if (mt_tensor_count(&a->rows) == 0) return MT_OK;
    forward_kernel<<<cuda_grid(a->rows.dim[0], a->rows.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "dispatch forward");
}

enum mt_status mt_cuda_dispatch_backward(struct mt_device *device, const void *args)
{
    const struct mt_dispatch_backward_args *a = static_cast<const struct mt_dispatch_backward_args *>(args);
    if (mt_tensor_count(&a->dx) == 0) return MT_OK;
    backward_kernel<<<cuda_grid(a->dx.dim[0], a->dx.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "dispatch backward");
}
