/* axpby: y = factor alpha x + beta y; with beta 0 what y held is never read. */
#include "ops/cuda/common/rows.cuh"

__global__ static void axpby_kernel(struct mt_axpby_args a, int64_t rows, int64_t width)
{
    int64_t column = cuda_thread();
    if (column >= width) return;
    double alpha = (double)a.alpha * (cuda_present(a.factor) ? cuda_get1(a.factor, 0) : 1.0);
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        int64_t at = cuda_row_offset(a.y, row) + column;
        double value = alpha * cuda_get(a.x, cuda_row_offset(a.x, row) + column);
        if (a.beta != 0.0f) value += (double)a.beta * cuda_get(a.y, at);
        cuda_put(a.y, at, value);
    }
}

enum mt_status mt_cuda_axpby(struct mt_device *device, const struct mt_axpby_args *a)
{
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    int64_t rows = cuda_row_count(&a->y);
    int64_t width = cuda_row_width(&a->y);
    axpby_kernel<<<cuda_grid(rows, width), CUDA_THREADS, 0, cuda_stream(device)>>>(*a, rows, width);
    return cuda_launched(device, "axpby");
}
