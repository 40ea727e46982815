/* bias: y = x + bias for every row; backward adds dy's column sums to dbias. */
#include "ops/cuda/objective/column_sums.cuh"

__global__ static void forward_kernel(struct mt_bias_forward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.x.dim[1]) return;
    double bias = cuda_get1(a.bias, column);
    for (int64_t row = blockIdx.y; row < a.x.dim[0]; row += gridDim.y) {
        cuda_put2(a.y, row, column, cuda_get2(a.x, row, column) + bias);
    }
}

enum mt_status mt_cuda_bias_forward(struct mt_device *device, const struct mt_bias_forward_args *a)
{
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    forward_kernel<<<cuda_grid(a->x.dim[0], a->x.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "bias forward");
}

struct dy_term {
    struct mt_tensor dy;

    __device__ double operator()(int64_t row, int64_t column) const
    {
        return cuda_get2(dy, row, column);
    }
};

size_t mt_cuda_bias_backward_scratch(const struct mt_device *, const struct mt_bias_backward_args *a)
{
    return column_sums_bytes(a->dy.dim[1]);
}

enum mt_status mt_cuda_bias_backward(struct mt_device *device, const struct mt_bias_backward_args *a)
{
    column_sums(cuda_stream(device), dy_term{a->dy}, a->dy.dim[0], a->dy.dim[1], a->dbias,
                static_cast<double *>(device->scratch.data));
    return cuda_launched(device, "bias backward");
}
