/*
 * router_orth on the rows of W, in double throughout; formulas in ref. Lengths and products of rows are made
 * first (one warp each), then the loss by one block, or the gradient by one block per row. Sums of rows have
 * fixed trees and are added in order: the same bits every time.
 */
#include "ops/cuda/common/sums.cuh"

#define SHORTEST 1e-12 // what a row's length counts for at the least

/* The rows as they are compared. */
struct orth_rows {
    struct mt_tensor weight; // [n,d]
    bool cosine;
    int64_t size;    // of a group
    double *length;  // [n]: what a row is divided by
    double *product; // [n,n]: of the divided rows; other groups' entries are not filled
    double *row_sum; // [n]: what each row adds to the result
};

static struct orth_rows rows_of(const struct mt_device *device, const struct mt_tensor *weight,
                                enum mt_router_orth_kind kind, int groups)
{
    int64_t experts = weight->dim[0];
    struct orth_rows rows = {};
    rows.weight = *weight;
    rows.cosine = kind == MT_ROUTER_ORTH_COSINE;
    rows.size = experts / (groups > 1 ? groups : 1);
    rows.length = static_cast<double *>(device->scratch.data);
    rows.row_sum = rows.length + experts;
    rows.product = rows.row_sum + experts;
    return rows;
}

static size_t scratch_of(const struct mt_tensor *weight)
{
    int64_t experts = weight->dim[0];
    return cuda_doubles(experts * (experts + 2));
}

__global__ static void length_kernel(struct orth_rows rows)
{
    int64_t e = cuda_warp();
    if (e >= rows.weight.dim[0]) return;
    double sum = 0.0;
    for (int64_t j = cuda_lane(); j < rows.weight.dim[1]; j += 32) {
        double value = cuda_get2(rows.weight, e, j);
        sum += value * value;
    }
    double length = sqrt(warp_sum(sum));
    if (!rows.cosine) length = 1.0;
    if (length <= SHORTEST) length = SHORTEST; // NaN stays
    if (cuda_lane() == 0) rows.length[e] = length;
}

__global__ static void product_kernel(struct orth_rows rows)
{
    int64_t experts = rows.weight.dim[0];
    int64_t pair = cuda_warp();
    if (pair >= experts * experts) return;
    int64_t e = pair / experts;
    int64_t f = pair % experts;
    if (e / rows.size != f / rows.size) return;
    double sum = 0.0;
    for (int64_t j = cuda_lane(); j < rows.weight.dim[1]; j += 32) {
        double of_e = cuda_get2(rows.weight, e, j) / rows.length[e];
        sum += of_e * (cuda_get2(rows.weight, f, j) / rows.length[f]);
    }
    sum = warp_sum(sum);
    if (cuda_lane() == 0) rows.product[pair] = sum;
}

static void compare_rows(cudaStream_t stream, const struct orth_rows &rows)
{
    int64_t experts = rows.weight.dim[0];
    length_kernel<<<cuda_warp_blocks(experts), CUDA_THREADS, 0, stream>>>(rows);
    product_kernel<<<cuda_warp_blocks(experts * experts), CUDA_THREADS, 0, stream>>>(rows);
}

__device__ static double divisor_of(const struct orth_rows &rows)
{
    return rows.cosine ? (double)(rows.weight.dim[0] * rows.size) : 1.0;
}

/* <r_e, r_f> less what it should be. */
__device__ static double excess_of(const struct orth_rows &rows, int64_t e, int64_t f)
{
    return rows.product[e * rows.weight.dim[0] + f] - (e == f ? 1.0 : 0.0);
}

/* One block: the matrix is small. */
__global__ static void loss_kernel(struct orth_rows rows, struct mt_tensor loss)
{
    double sum = 0.0;
    for (int64_t pair = threadIdx.x; pair < rows.weight.dim[0] * rows.size; pair += CUDA_THREADS) {
        int64_t e = pair / rows.size;
        double excess = excess_of(rows, e, e / rows.size * rows.size + pair % rows.size);
        sum += rows.cosine ? excess * excess : fabs(excess);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) cuda_put1(loss, 0, sum / divisor_of(rows));
}

/* One block per row e, its threads over the columns: factor_e Σ_f pull_ef (r_f - kept_ef r_e). */
__global__ static void gradient_kernel(struct orth_rows rows, struct mt_tensor dweight, double scale)
{
    int64_t e = blockIdx.x;
    int64_t from = e / rows.size * rows.size;
    double own = rows.length[e];
    bool turns = rows.cosine && own > SHORTEST; // a row that keeps its length
    double factor = scale * (rows.cosine ? 4.0 : 2.0) / divisor_of(rows) / own;
    double squares = 0.0;
    for (int64_t j = threadIdx.x; j < rows.weight.dim[1]; j += CUDA_THREADS) {
        double pulled = 0.0;
        for (int64_t f = from; f < from + rows.size; f++) {
            double excess = excess_of(rows, e, f);
            double pull = rows.cosine ? excess : (double)((excess > 0.0) - (excess < 0.0));
            double product = rows.product[e * rows.weight.dim[0] + f];
            double along = turns ? product * (cuda_get2(rows.weight, e, j) / own) : 0.0;
            pulled += pull * (cuda_get2(rows.weight, f, j) / rows.length[f] - along);
        }
        double gradient = factor * pulled;
        squares += gradient * gradient;
        if (dweight.data != NULL) cuda_give2(dweight, e, j, gradient, true);
    }
    squares = block_sum(squares);
    if (threadIdx.x == 0) rows.row_sum[e] = squares;
}

__global__ static void squares_kernel(struct orth_rows rows, struct mt_tensor squares)
{
    double sum = 0.0;
    for (int64_t e = threadIdx.x; e < rows.weight.dim[0]; e += CUDA_THREADS) sum += rows.row_sum[e];
    sum = block_sum(sum);
    if (threadIdx.x == 0) cuda_put1(squares, 0, sum);
}

size_t mt_cuda_router_orth_forward_scratch(const struct mt_device *,
                                           const struct mt_router_orth_forward_args *a)
{
    return scratch_of(&a->weight);
}

enum mt_status mt_cuda_router_orth_forward(struct mt_device *device,
                                           const struct mt_router_orth_forward_args *a)
{
    struct orth_rows rows = rows_of(device, &a->weight, a->kind, a->groups);
    compare_rows(cuda_stream(device), rows);
    loss_kernel<<<1, CUDA_THREADS, 0, cuda_stream(device)>>>(rows, a->loss);
    return cuda_launched(device, "router_orth forward");
}

size_t mt_cuda_router_orth_backward_scratch(const struct mt_device *,
                                            const struct mt_router_orth_backward_args *a)
{
    return scratch_of(&a->weight);
}

enum mt_status mt_cuda_router_orth_backward(struct mt_device *device,
                                            const struct mt_router_orth_backward_args *a)
{
    struct orth_rows rows = rows_of(device, &a->weight, a->kind, a->groups);
    cudaStream_t stream = cuda_stream(device);
    compare_rows(stream, rows);
    gradient_kernel<<<(unsigned)a->weight.dim[0], CUDA_THREADS, 0, stream>>>(rows, a->dweight,
                                                                             (double)a->scale);
    if (mt_tensor_present(&a->squares)) {
        squares_kernel<<<1, CUDA_THREADS, 0, stream>>>(rows, a->squares);
    }
    return cuda_launched(device, "router_orth backward");
}
