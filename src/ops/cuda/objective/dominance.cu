/*
 * dominance on n² numbers, in double; formulas in ref. One block per row leaves its sum in scratch, one block
 * adds these up: fixed trees, the same bits every time.
 */
#include "ops/cuda/common/sums.cuh"

__device__ static double entry(const struct mt_tensor &squares, int64_t i, int64_t j)
{
    return sqrt(cuda_get2(squares, i, j));
}

__device__ static double excess(const struct mt_tensor &squares, double alpha, int64_t i, int64_t j,
                                int64_t d)
{
    return entry(squares, i, j) - alpha * entry(squares, d, d);
}

__global__ static void loss_kernel(struct mt_dominance_forward_args a, double *row_sum)
{
    int64_t i = blockIdx.x;
    double alpha = (double)a.alpha;
    double sum = 0.0;
    for (int64_t j = threadIdx.x; j < a.squares.dim[0]; j += CUDA_THREADS) {
        if (i == j) continue;
        sum += fmax(excess(a.squares, alpha, i, j, i), 0.0);
        sum += fmax(excess(a.squares, alpha, i, j, j), 0.0);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) row_sum[i] = sum;
}

/* out = factor · the sum of the rows' sums. */
__global__ static void total_kernel(const double *row_sum, int64_t rows, double factor, struct mt_tensor out)
{
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < rows; i += CUDA_THREADS) sum += row_sum[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) cuda_put1(out, 0, factor * sum);
}

__global__ static void gradient_kernel(struct mt_dominance_backward_args a, double *row_sum)
{
    int64_t i = blockIdx.x;
    int64_t experts = a.squares.dim[0];
    double alpha = (double)a.alpha;
    double share = cuda_get1(a.dloss, 0) / (double)(experts * experts);
    double above = 0.0; // entries of row and column i that exceed α M_ii
    for (int64_t m = threadIdx.x; m < experts; m += CUDA_THREADS) {
        if (m == i) continue;
        above += excess(a.squares, alpha, i, m, i) > 0.0 ? 1.0 : 0.0;
        above += excess(a.squares, alpha, m, i, i) > 0.0 ? 1.0 : 0.0;
    }
    above = block_sum(above);
    double sum = 0.0;
    for (int64_t j = threadIdx.x; j < experts; j += CUDA_THREADS) {
        double slope = -alpha * above;
        if (i != j)
            slope = (excess(a.squares, alpha, i, j, i) > 0.0 ? 1.0 : 0.0) +
                    (excess(a.squares, alpha, i, j, j) > 0.0 ? 1.0 : 0.0);
        double gradient = share * slope;
        double length = entry(a.squares, i, j);
        sum += gradient * gradient;
        if (cuda_present(a.coupling)) cuda_put2(a.coupling, i, j, length > 0.0 ? gradient / length : 0.0);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) row_sum[i] = sum;
}

size_t mt_cuda_dominance_forward_scratch(const struct mt_device *, const struct mt_dominance_forward_args *a)
{
    return cuda_doubles(a->squares.dim[0]);
}

enum mt_status mt_cuda_dominance_forward(struct mt_device *device, const struct mt_dominance_forward_args *a)
{
    int64_t experts = a->squares.dim[0];
    double *row_sum = static_cast<double *>(device->scratch.data);
    cudaStream_t stream = cuda_stream(device);
    loss_kernel<<<(unsigned)experts, CUDA_THREADS, 0, stream>>>(*a, row_sum);
    total_kernel<<<1, CUDA_THREADS, 0, stream>>>(row_sum, experts, 1.0 / (double)(experts * experts),
                                                 a->loss);
    return cuda_launched(device, "dominance forward");
}

size_t mt_cuda_dominance_backward_scratch(const struct mt_device *,
                                          const struct mt_dominance_backward_args *a)
{
    return cuda_doubles(a->squares.dim[0]);
}

enum mt_status mt_cuda_dominance_backward(struct mt_device *device,
                                          const struct mt_dominance_backward_args *a)
{
    int64_t experts = a->squares.dim[0];
    double *row_sum = static_cast<double *>(device->scratch.data);
    cudaStream_t stream = cuda_stream(device);
    gradient_kernel<<<(unsigned)experts, CUDA_THREADS, 0, stream>>>(*a, row_sum);
    if (mt_tensor_present(&a->sum))
        total_kernel<<<1, CUDA_THREADS, 0, stream>>>(row_sum, experts, 1.0, a->sum);
    return cuda_launched(device, "dominance backward");
}
