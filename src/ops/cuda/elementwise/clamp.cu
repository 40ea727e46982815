/* clamp: y = min(max(x, -limit), limit), NaN stays NaN; backward dx = dy where |x| <= limit, else 0. */
#include "ops/cuda/common/common.cuh"

__global__ static void forward_kernel(struct mt_clamp_forward_args a)
{
    int64_t column = cuda_thread();
    double limit = (double)a.limit;
    if (column >= a.x.dim[1]) return;
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        double value = cuda_get2(a.x, row, column);
        if (value < -limit) value = -limit;
        if (value > limit) value = limit;
        cuda_put2(a.y, row, column, value);
    }
}

__global__ static void backward_kernel(struct mt_clamp_backward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.x.dim[1]) return;
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        bool inside = fabs(cuda_get2(a.x, row, column)) <= (double)a.limit;
        cuda_put2(a.dx, row, column, inside ? cuda_get2(a.dy, row, column) : 0.0);
    }
}

enum mt_status mt_cuda_clamp_forward(struct mt_device *device, const struct mt_clamp_forward_args *a)
{
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    forward_kernel<<<cuda_grid(a->x.dim[0], a->x.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "clamp forward");
}

enum mt_status mt_cuda_clamp_backward(struct mt_device *device, const struct mt_clamp_backward_args *a)
{
    if (mt_tensor_count(&a->dx) == 0) return MT_OK;
    backward_kernel<<<cuda_grid(a->x.dim[0], a->x.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "clamp backward");
}
