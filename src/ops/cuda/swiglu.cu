/* swiglu, one thread per element. */
#include "ops/cuda/common.cuh"

#define THREADS 256

// ------------------------------------------------------------------ kernels

__global__ static void forward_kernel(struct cuda_view gate, struct cuda_view up, struct cuda_view y,
                                      int64_t rows, int64_t width)
{
    int64_t column = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (column >= width) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float g = cuda_load(gate, row, column);
        cuda_store(y, row, column, g / (1.0f + expf(-g)) * cuda_load(up, row, column));
    }
}

__global__ static void backward_kernel(struct cuda_view dy, struct cuda_view gate, struct cuda_view up,
                                       struct cuda_view dgate, struct cuda_view dup, int64_t rows,
                                       int64_t width)
{
    int64_t column = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (column >= width) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float g = cuda_load(gate, row, column);
        float u = cuda_load(up, row, column);
        float d = cuda_load(dy, row, column);
        float sigmoid = 1.0f / (1.0f + expf(-g));
        cuda_store(dgate, row, column, d * u * sigmoid * (1.0f + g * (1.0f - sigmoid)));
        cuda_store(dup, row, column, d * g * sigmoid);
    }
}

// ------------------------------------------------------------------ launchers

static dim3 grid_of(const struct mt_tensor *tensor)
{
    int64_t rows = tensor->dim[0];
    return dim3((unsigned)((tensor->dim[1] + THREADS - 1) / THREADS), (unsigned)(rows < 4096 ? rows : 4096));
}

enum mt_status mt_cuda_swiglu_forward(struct mt_device *device, const void *args)
{
    const struct mt_swiglu_forward_args *a = static_cast<const struct mt_swiglu_forward_args *>(args);
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    forward_kernel<<<grid_of(&a->y), THREADS, 0, cuda_stream(device)>>>(
        cuda_view_of(&a->gate), cuda_view_of(&a->up), cuda_view_of(&a->y), a->y.dim[0], a->y.dim[1]);
    return cuda_launched(device, "swiglu forward");
}

enum mt_status mt_cuda_swiglu_backward(struct mt_device *device, const void *args)
{
    const struct mt_swiglu_backward_args *a = static_cast<const struct mt_swiglu_backward_args *>(args);
    if (mt_tensor_count(&a->dy) == 0) return MT_OK;
    backward_kernel<<<grid_of(&a->dy), THREADS, 0, cuda_stream(device)>>>(
        cuda_view_of(&a->dy), cuda_view_of(&a->gate), cuda_view_of(&a->up), cuda_view_of(&a->dgate),
        cuda_view_of(&a->dup), a->dy.dim[0], a->dy.dim[1]);
    return cuda_launched(device, "swiglu backward");
}
