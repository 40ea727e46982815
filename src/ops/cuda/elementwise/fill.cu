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

/* Zeros, sixteen bytes a thread: follows the kernel before sooner than a memset does. */
__global__ static void clear_kernel(uint4 *y, int64_t count)
{
    cuda_follow();
    for (int64_t i = cuda_thread(); i < count; i += cuda_thread_count()) y[i] = make_uint4(0, 0, 0, 0);
}

static enum mt_status clear(struct mt_device *device, void *y, size_t bytes)
{
    if (bytes % sizeof(uint4) == 0 && reinterpret_cast<uintptr_t>(y) % sizeof(uint4) == 0) {
        int64_t count = (int64_t)(bytes / sizeof(uint4));
        return cuda_launch(device, "fill", clear_kernel, dim3(cuda_blocks(count)), CUDA_THREADS, 0,
                           static_cast<uint4 *>(y), count);
    }
    return cuda_status(device, cudaMemsetAsync(y, 0, bytes, cuda_stream(device)), "fill");
}

enum mt_status mt_cuda_fill(struct mt_device *device, const struct mt_fill_args *a)
{
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    if (a->value == 0.0f && !std::signbit(a->value) && mt_tensor_is_contiguous(&a->y)) {
        size_t bytes = (size_t)mt_tensor_count(&a->y) * mt_dtype_bytes(a->y.dtype);
        return clear(device, a->y.data, bytes);
    }
    int64_t rows = cuda_row_count(&a->y);
    int64_t width = cuda_row_width(&a->y);
    fill_kernel<<<cuda_grid(rows, width), CUDA_THREADS, 0, cuda_stream(device)>>>(*a, rows, width);
    return cuda_launched(device, "fill");
}
