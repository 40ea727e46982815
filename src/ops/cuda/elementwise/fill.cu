/* fill: every element becomes one value. */
#include <cmath>

#include "ops/cuda/common/rows.cuh"

__global__ static void fill_kernel(struct mt_fill_args a, int64_t rows, int64_t width)
{
    int64_t column = cuda_thread();
    if (column >= width) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        cuda_put(a.y, cuda_row_offset(a.y, row) + column, (double)a.value);
    }
}

enum mt_status mt_cuda_fill(struct mt_device *device, const void *args)
{
    const struct mt_fill_args *a = static_cast<const struct mt_fill_args *>(args);
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    if (a->value == 0.0f && !std::signbit(a->value) && mt_tensor_is_contiguous(&a->y)) {
        size_t bytes = (size_t)mt_tensor_count(&a->y) * mt_dtype_bytes(a->y.dtype);
        cudaError_t error = cudaMemsetAsync(a->y.data, 0, bytes, cuda_stream(device));
        return cuda_status(device, error, "fill");
    }
    int64_t rows = cuda_row_count(&a->y);
    int64_t width = cuda_row_width(&a->y);
    fill_kernel<<<cuda_grid(rows, width), CUDA_THREADS, 0, cuda_stream(device)>>>(*a, rows, width);
    return cuda_launched(device, "fill");
}
