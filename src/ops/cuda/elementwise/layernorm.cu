/*
 * layernorm, one block per row, two passes for mean and variance. The weight's and the bias's gradients are
 * column sums over fixed slices of rows.
 */
#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/objective/column_sums.cuh"

__global__ static void forward_kernel(struct mt_layernorm_forward_args a)
{
    int64_t row = blockIdx.x;
    int64_t width = a.x.dim[1];
    bool has_residual = cuda_present(a.residual);
    const struct mt_tensor &h = has_residual ? a.sum : a.x;
    double total = 0.0;
    for (int64_t j = threadIdx.x; j < width; j += CUDA_THREADS) {
        if (has_residual) cuda_put2(a.sum, row, j, cuda_get2(a.x, row, j) + cuda_get2(a.residual, row, j));
        total += cuda_get2(h, row, j); // as stored: what backward will see
    }
    double mean = block_sum(total) / (double)width;
    double squares = 0.0;
    for (int64_t j = threadIdx.x; j < width; j += CUDA_THREADS) {
        double centred = cuda_get2(h, row, j) - mean;
        squares += centred * centred;
    }
    double rstd = 1.0 / sqrt(block_sum(squares) / (double)width + (double)a.epsilon);
    for (int64_t j = threadIdx.x; j < width; j += CUDA_THREADS) {
        double normed = (cuda_get2(h, row, j) - mean) * rstd;
        cuda_put2(a.y, row, j, normed * cuda_get1(a.weight, j) + cuda_get1(a.bias, j));
    }
    if (cuda_present(a.mean) && threadIdx.x == 0) {
        cuda_put1(a.mean, row, mean);
        cuda_put1(a.rstd, row, rstd);
    }
}

__global__ static void backward_kernel(struct mt_layernorm_backward_args a)
{
    int64_t row = blockIdx.x;
    int64_t width = a.x.dim[1];
    double mean = cuda_get1(a.mean, row);
    double rstd = cuda_get1(a.rstd, row);
    double sum_g = 0.0;
    double sum_gn = 0.0;
    for (int64_t j = threadIdx.x; j < width; j += CUDA_THREADS) {
        double g = cuda_get2(a.dy, row, j) * cuda_get1(a.weight, j);
        sum_g += g;
        sum_gn += g * (cuda_get2(a.x, row, j) - mean) * rstd;
    }
    double mean_g = block_sum(sum_g) / (double)width;
    double mean_gn = block_sum(sum_gn) / (double)width;
    for (int64_t j = threadIdx.x; j < width; j += CUDA_THREADS) {
        double normed = (cuda_get2(a.x, row, j) - mean) * rstd;
        double g = cuda_get2(a.dy, row, j) * cuda_get1(a.weight, j);
        cuda_give2(a.dx, row, j, rstd * (g - mean_g - normed * mean_gn), a.accumulate);
    }
}

struct dweight_term {
    struct mt_tensor dy, x, mean, rstd;

    __device__ double operator()(int64_t row, int64_t column) const
    {
        double normed = (cuda_get2(x, row, column) - cuda_get1(mean, row)) * cuda_get1(rstd, row);
        return cuda_get2(dy, row, column) * normed;
    }
};

struct dbias_term {
    struct mt_tensor dy;

    __device__ double operator()(int64_t row, int64_t column) const
    {
        return cuda_get2(dy, row, column);
    }
};

enum mt_status mt_cuda_layernorm_forward(struct mt_device *device, const struct mt_layernorm_forward_args *a)
{
    int64_t rows = a->x.dim[0];
    if (rows == 0) return MT_OK;
    forward_kernel<<<(unsigned)rows, CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "layernorm forward");
}

size_t mt_cuda_layernorm_backward_scratch(const struct mt_device *,
                                          const struct mt_layernorm_backward_args *a)
{
    return column_sums_bytes(a->x.dim[1]);
}

enum mt_status mt_cuda_layernorm_backward(struct mt_device *device,
                                          const struct mt_layernorm_backward_args *a)
{
    int64_t rows = a->x.dim[0];
    int64_t width = a->x.dim[1];
    if (rows == 0) return MT_OK;
    cudaStream_t stream = cuda_stream(device);
    double *partials = static_cast<double *>(device->scratch.data);
    // Column sums first: dx may overwrite dy.
    if (mt_tensor_present(&a->dweight)) {
        column_sums(stream, dweight_term{a->dy, a->x, a->mean, a->rstd}, rows, width, a->dweight, partials);
    }
    if (mt_tensor_present(&a->dbias)) {
        column_sums(stream, dbias_term{a->dy}, rows, width, a->dbias, partials);
    }
    backward_kernel<<<(unsigned)rows, CUDA_THREADS, 0, stream>>>(*a);
    return cuda_launched(device, "layernorm backward");
}
