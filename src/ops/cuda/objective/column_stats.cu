/*
 * column_stats: x' = x / D, D = Σ_m x_m with normalise_rows, else 1; sums of x', of x'² and of (Σ_j x'_j)²
 * over the tokens of each segment. A block takes a slice of tokens: its warps make D of each token, then its
 * threads add up columns.
 */
#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/objective/token_sums.cuh"

// ------------------------------------------------------------------ forward

#define CHUNK 128 // tokens of a slice whose divisors are in shared memory at a time

/* Columns of the sums: n of x', n of x'², one of (Σ x')², one that counts. */
struct column_statistic {
    struct mt_column_stats_forward_args a;

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

/* Some of a slice's tokens. */
struct token_chunk {
    double divisor[CHUNK]; // D, with normalise_rows
    double total[CHUNK];   // Σ_j x'_j
    bool counts[CHUNK];
};

/* Tokens [start, start + CHUNK) of the range, those of segment b; returns how many there are. */
__device__ static int load_chunk(const struct mt_column_stats_forward_args &a, const struct token_cut &cut,
                                 const struct token_range &range, int64_t b, int64_t start,
                                 struct token_chunk *chunk)
{
    int64_t left = range.end - start;
    int tokens = left < CHUNK ? (int)left : CHUNK;
    __syncthreads(); // the chunk before has been read
    if (a.normalise_rows || cuda_present(a.row_squares)) {
        for (int t = (int)threadIdx.x / 32; t < tokens; t += CUDA_WARPS) {
            bool counts = token_is_in(cut, start + t, b);
            double total = counts ? row_total(a.x, start + t) : 0.0;
            if (cuda_lane() != 0) continue;
            chunk->divisor[t] = total;
            chunk->total[t] = a.normalise_rows ? total / total : total;
            chunk->counts[t] = counts;
        }
    } else {
        for (int t = (int)threadIdx.x; t < tokens; t += CUDA_THREADS) {
            chunk->total[t] = 0.0;
            chunk->counts[t] = token_is_in(cut, start + t, b);
        }
    }
    __syncthreads();
    return tokens;
}

/* What one thread adds up: of a column, and of tokens as a whole. */
struct thread_sums {
    double sum, squares;
    double row_squares, rows;
};

/* This thread's part of the chunk's tokens. F32: of x, whose type is then no question at every element. */
template <bool F32>
__device__ static void add_chunk(const struct mt_column_stats_forward_args &a,
                                 const struct token_chunk *chunk, int64_t start, int tokens, int64_t column,
                                 struct thread_sums *own)
{
    const struct mt_tensor &x = a.x;
#pragma unroll 8
    for (int t = (int)threadIdx.x / TOKEN_STRIP; t < tokens; t += TOKEN_PARTS) {
        int64_t at = (start + t) * x.stride[0] + column;
        double value = F32 ? (double)static_cast<const float *>(x.data)[at] : cuda_get(x, at);
        if (a.normalise_rows) value /= chunk->divisor[t];
        value = chunk->counts[t] ? value : 0.0;
        own->sum += value;
        own->squares += value * value;
    }
}

/* The chunk's (Σ x')², and how many tokens count. */
__device__ static void add_rows(const struct token_chunk *chunk, int tokens, struct thread_sums *own)
{
    for (int t = (int)threadIdx.x; t < tokens; t += CUDA_THREADS) {
        if (!chunk->counts[t]) continue;
        own->row_squares += chunk->total[t] * chunk->total[t];
        own->rows += 1.0;
    }
}

template <bool F32>
__global__ static void __launch_bounds__(CUDA_THREADS)
    slices_kernel(struct mt_column_stats_forward_args a, struct token_cut cut, int64_t slice_tokens,
                  double *partials)
{
    cuda_follow();
    __shared__ struct token_chunk chunk;
    __shared__ double shared[CUDA_THREADS];
    struct token_range range = token_range_of(cut, slice_tokens);
    int64_t n = a.x.dim[1];
    for (int64_t b = blockIdx.y; b < cut.segments; b += gridDim.y) {
        double *target = token_partials(cut, range, b, partials);
        if (target == NULL) continue;
        struct thread_sums own = {0.0, 0.0, 0.0, 0.0};
        for (int64_t strip = 0; strip == 0 || strip < n; strip += TOKEN_STRIP) {
            int64_t column = strip + threadIdx.x % TOKEN_STRIP;
            own.sum = 0.0;
            own.squares = 0.0;
            for (int64_t start = range.start; start < range.end; start += CHUNK) {
                int tokens = load_chunk(a, cut, range, b, start, &chunk);
                if (column < n) add_chunk<F32>(a, &chunk, start, tokens, column, &own);
                if (strip == 0) add_rows(&chunk, tokens, &own);
            }
            double sum = token_part_sum(own.sum, shared);
            double squares = token_part_sum(own.squares, shared);
            if (threadIdx.x >= TOKEN_STRIP || column >= n) continue;
            target[column] = sum;
            target[n + column] = squares;
        }
        double row_squares = block_sum(own.row_squares);
        double rows = block_sum(own.rows);
        if (threadIdx.x != 0) continue;
        target[2 * n] = row_squares;
        target[2 * n + 1] = rows;
    }
}

size_t mt_cuda_column_stats_forward_scratch(const struct mt_device *,
                                            const struct mt_column_stats_forward_args *a)
{
    return token_sums_bytes(a->sum.dim[0], 2 * a->x.dim[1] + 2);
}

enum mt_status mt_cuda_column_stats_forward(struct mt_device *device,
                                            const struct mt_column_stats_forward_args *a)
{
    struct token_cut cut = {a->mask, a->segment, a->x.dim[0], a->sum.dim[0], 2 * a->x.dim[1] + 2};
    if (cut.segments == 0) return MT_OK;
    double *partials = static_cast<double *>(device->scratch.data);
    struct token_launch launch = token_launch_of(cut);
    auto kernel = a->x.dtype == MT_F32 ? slices_kernel<true> : slices_kernel<false>;
    enum mt_status status = MT_OK;
    if (launch.slices > 0)
        status = cuda_launch(device, "column_stats forward", kernel, launch.grid, CUDA_THREADS, 0, *a, cut,
                             launch.slice, partials);
    if (status != MT_OK) return status;
    return token_finish(device, "column_stats forward", column_statistic{*a}, cut, partials, launch.slices);
}

// ------------------------------------------------------------------ backward

/*
 * With R = Σ_j x'_j and g_j = dsum_j + 2 x'_j dsquares_j + 2 R drow_squares: dx_j = g_j, or with
 * normalise_rows (g_j - Σ_m g_m x'_m) / D.
 */
__global__ static void backward_kernel(struct mt_column_stats_backward_args a)
{
    cuda_follow();
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

#define BACKWARD_TOKENS 16 // of a block

/* The same, where no element of a row looks at the others: R is not asked for. A thread keeps to its column.
 */
__global__ static void __launch_bounds__(CUDA_THREADS)
    elements_backward_kernel(struct mt_column_stats_backward_args a)
{
    cuda_follow();
    int64_t j = (int64_t)blockIdx.y * TOKEN_STRIP + threadIdx.x % TOKEN_STRIP;
    if (j >= a.x.dim[1]) return;
    int64_t start = (int64_t)blockIdx.x * BACKWARD_TOKENS;
    int64_t end = start + BACKWARD_TOKENS < a.x.dim[0] ? start + BACKWARD_TOKENS : a.x.dim[0];
    int64_t known = -1; // the segment of the gradients below
    double dsum = 0.0;
    double dsquares = 0.0;
    for (int64_t i = start + threadIdx.x / TOKEN_STRIP; i < end; i += TOKEN_PARTS) {
        int64_t b = token_segment(a.segment, i);
        if (b != known) {
            dsum = cuda_get2(a.dsum, b, j);
            dsquares = optional2(a.dsquares, b, j);
            known = b;
        }
        double g = dsum;
        if (cuda_present(a.dsquares)) g += 2.0 * cuda_get2(a.x, i, j) * dsquares;
        cuda_give2(a.dx, i, j, token_counts(a.mask, i) ? g : 0.0, a.accumulate);
    }
}

enum mt_status mt_cuda_column_stats_backward(struct mt_device *device,
                                             const struct mt_column_stats_backward_args *a)
{
    if (mt_tensor_count(&a->dx) == 0) return MT_OK;
    if (!a->normalise_rows && !mt_tensor_present(&a->drow_squares)) {
        dim3 grid((unsigned)((a->x.dim[0] + BACKWARD_TOKENS - 1) / BACKWARD_TOKENS),
                  (unsigned)((a->x.dim[1] + TOKEN_STRIP - 1) / TOKEN_STRIP));
        return cuda_launch(device, "column_stats backward", elements_backward_kernel, grid, CUDA_THREADS, 0,
                           *a);
    }
    return cuda_launch(device, "column_stats backward", backward_kernel, dim3(cuda_warp_blocks(a->x.dim[0])),
                       CUDA_THREADS, 0, *a);
}
