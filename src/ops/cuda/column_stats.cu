/*
 * column_stats: x' = x / D, D = Σ_m x_m with normalise_rows, else 1; sums of x', of x'² and of (Σ_j x'_j)²
 * over the tokens of each segment. A warp per token makes D and Σ x'; the sums are token_sums.
 */
#include "ops/cuda/sums.cuh"
#include "ops/cuda/token_sums.cuh"

// ------------------------------------------------------------------ forward

/* Columns of the sums: n of x', n of x'², one of (Σ x')², one that counts. */
struct column_statistic {
    struct mt_column_stats_forward_args a;
    const double *divisor; // [N]
    const double *total;   // [N]: Σ_j x'_j

    __device__ double value(int64_t i, int64_t column) const
    {
        int64_t n = a.x.dim[1];
        if (column == 2 * n) return total[i] * total[i];
        if (column > 2 * n) return 1.0;
        double x = cuda_get2(a.x, i, column % n) / divisor[i];
        return column < n ? x : x * x;
    }

    __device__ void store(int64_t b, int64_t column, double sum) const
    {
        int64_t n = a.x.dim[1];
        if (column < n) {
            cuda_put2(a.sum, b, column, sum);
        } else if (column < 2 * n) {
            if (cuda_present(a.squares)) cuda_put2(a.squares, b, column - n, sum);
        } else if (column == 2 * n) {
            if (cuda_present(a.row_squares)) cuda_put1(a.row_squares, b, sum);
        } else if (cuda_present(a.rows)) {
            cuda_put1(a.rows, b, sum);
        }
    }
};

__device__ static double row_total(const struct mt_tensor &x, int64_t i)
{
    double total = 0.0;
    for (int64_t j = cuda_lane(); j < x.dim[1]; j += 32) total += cuda_get2(x, i, j);
    return warp_sum(total);
}

__global__ static void rows_kernel(struct mt_column_stats_forward_args a, double *divisor, double *total)
{
    int64_t i = cuda_warp();
    if (i >= a.x.dim[0]) return;
    double by = a.normalise_rows ? row_total(a.x, i) : 1.0;
    double sum = 0.0;
    for (int64_t j = cuda_lane(); j < a.x.dim[1]; j += 32) sum += cuda_get2(a.x, i, j) / by;
    sum = warp_sum(sum);
    if (cuda_lane() != 0) return;
    divisor[i] = by;
    total[i] = sum;
}

size_t mt_cuda_column_stats_forward_scratch(const struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_column_stats_forward_args *a =
        static_cast<const struct mt_column_stats_forward_args *>(args);
    return 2 * cuda_doubles(a->x.dim[0]) + token_sums_bytes(a->sum.dim[0], 2 * a->x.dim[1] + 2);
}

enum mt_status mt_cuda_column_stats_forward(struct mt_device *device, const void *args)
{
    const struct mt_column_stats_forward_args *a =
        static_cast<const struct mt_column_stats_forward_args *>(args);
    int64_t tokens = a->x.dim[0];
    cudaStream_t stream = cuda_stream(device);
    char *scratch = static_cast<char *>(device->scratch.data);
    double *divisor = reinterpret_cast<double *>(scratch);
    double *total = reinterpret_cast<double *>(scratch + cuda_doubles(tokens));
    double *partials = reinterpret_cast<double *>(scratch + 2 * cuda_doubles(tokens));
    if (tokens > 0) rows_kernel<<<cuda_warp_blocks(tokens), CUDA_THREADS, 0, stream>>>(*a, divisor, total);
    struct token_cut cut = {a->mask, a->segment, tokens, a->sum.dim[0], 2 * a->x.dim[1] + 2};
    token_sums(stream, column_statistic{*a, divisor, total}, cut, partials);
    return cuda_launched(device, "column_stats forward");
}

// ------------------------------------------------------------------ backward

/*
 * With R = Σ_j x'_j and g_j = dsum_j + 2 x'_j dsquares_j + 2 R drow_squares: dx_j = g_j, or with
 * normalise_rows (g_j - Σ_m g_m x'_m) / D.
 */
__global__ static void backward_kernel(struct mt_column_stats_backward_args a)
{
    int64_t i = cuda_warp();
    int64_t experts = a.x.dim[1];
    if (i >= a.x.dim[0]) return;
    bool counts = token_counts(a.mask, i);
    int64_t b = token_segment(a.segment, i);
    double total = row_total(a.x, i);
    double divisor = a.normalise_rows ? total : 1.0;
    double both = 2.0 * total / divisor * optional1(a.drow_squares, b); // the same for every j
    double pull = 0.0;                                                  // Σ g x'
    for (int64_t j = cuda_lane(); j < experts && a.normalise_rows; j += 32) {
        double x = cuda_get2(a.x, i, j) / divisor;
        pull += (cuda_get2(a.dsum, b, j) + 2.0 * x * optional2(a.dsquares, b, j) + both) * x;
    }
    pull = warp_sum(pull);
    for (int64_t j = cuda_lane(); j < experts; j += 32) {
        double x = cuda_get2(a.x, i, j) / divisor;
        double g = cuda_get2(a.dsum, b, j) + 2.0 * x * optional2(a.dsquares, b, j) + both;
        cuda_give2(a.dx, i, j, counts ? (g - pull) / divisor : 0.0, a.accumulate);
    }
}

enum mt_status mt_cuda_column_stats_backward(struct mt_device *device, const void *args)
{
    const struct mt_column_stats_backward_args *a =
        static_cast<const struct mt_column_stats_backward_args *>(args);
    if (mt_tensor_count(&a->dx) == 0) return MT_OK;
    backward_kernel<<<cuda_warp_blocks(a->x.dim[0]), CUDA_THREADS, 0, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "column_stats backward");
}
