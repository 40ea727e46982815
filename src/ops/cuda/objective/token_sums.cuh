/*
 * Statistics over tokens: for every segment b and column c, the sum over b's tokens (those the mask leaves
 * in). Tokens are cut into fixed slices, one block each, that leave partial sums; the slices are added in
 * order, then handed to statistic.store(b, c, total). Statistic is a struct with
 *     __device__ void store(int64_t segment, int64_t column, double total) const
 * and, for token_sums, where a thread adds up a column of its slice,
 *     __device__ double value(int64_t token, int64_t column) const
 * Statistics of many columns have a kernel of their own for the first part (slot_stats, column_stats).
 */
#ifndef MT_OPS_CUDA_TOKEN_SUMS_CUH
#define MT_OPS_CUDA_TOKEN_SUMS_CUH

#include "ops/cuda/common/common.cuh"

#define TOKEN_SLICES 256 // each is a loop of dependent additions: many short ones end sooner
#define TOKEN_STRIP  64  // columns a block adds up at a time: each by CUDA_THREADS / TOKEN_STRIP threads
#define TOKEN_PARTS  (CUDA_THREADS / TOKEN_STRIP)

/* False for a token that the mask, if there is one, leaves out. */
__device__ static inline bool token_counts(const struct mt_tensor &mask, int64_t i)
{
    return !cuda_present(mask) || cuda_int1(mask, i) != 0;
}

/* The group of a token: 0 without segments. */
__device__ static inline int64_t token_segment(const struct mt_tensor &segment, int64_t i)
{
    return cuda_present(segment) ? cuda_int1(segment, i) : 0;
}

/* The gradient of an optional statistic [B] or [B,n]: 0 where it is absent. */
__device__ static inline double optional1(const struct mt_tensor &t, int64_t i)
{
    return cuda_present(t) ? cuda_get1(t, i) : 0.0;
}

__device__ static inline double optional2(const struct mt_tensor &t, int64_t i, int64_t j)
{
    return cuda_present(t) ? cuda_get2(t, i, j) : 0.0;
}

/* What the sums run over. */
struct token_cut {
    struct mt_tensor mask;    // i32 [N], or absent
    struct mt_tensor segment; // i32 [N], or absent
    int64_t tokens, segments, columns;
};

static inline size_t token_sums_bytes(int64_t segments, int64_t columns)
{
    return cuda_doubles(TOKEN_SLICES * segments * columns);
}

/* How slices are launched where a block takes one: tokens of a slice, at least as many as keep it busy. */
struct token_launch {
    int64_t slice, slices;
    dim3 grid;
};

static inline struct token_launch token_launch_of(const struct token_cut &cut)
{
    int64_t slice = (cut.tokens + TOKEN_SLICES - 1) / TOKEN_SLICES;
    if (slice < 128) slice = 128;
    int64_t slices = (cut.tokens + slice - 1) / slice;
    dim3 grid((unsigned)slices, (unsigned)(cut.segments < 8192 ? cut.segments : 8192));
    return {slice, slices, grid};
}

/* This block's tokens, [start, end), of segment b. */
struct token_range {
    int64_t start, end;
};

__device__ static inline struct token_range token_range_of(const struct token_cut &cut, int64_t slice_tokens)
{
    int64_t start = (int64_t)blockIdx.x * slice_tokens;
    int64_t end = start + slice_tokens < cut.tokens ? start + slice_tokens : cut.tokens;
    return {start, end};
}

/* Whether token i counts for segment b. */
__device__ static inline bool token_is_in(const struct token_cut &cut, int64_t i, int64_t b)
{
    return token_counts(cut.mask, i) && token_segment(cut.segment, i) == b;
}

/* Whether any token of the range counts for segment b. All threads of the block must call it. */
__device__ static inline bool token_range_counts(const struct token_cut &cut, const struct token_range &range,
                                                 int64_t b)
{
    bool any = false;
    for (int64_t i = range.start + threadIdx.x; i < range.end; i += blockDim.x) {
        any = any || token_is_in(cut, i, b);
    }
    return __syncthreads_or(any) != 0;
}

/*
 * Where a block leaves the sums of segment b of its range; NULL where no token counts, and zeros are left.
 * All threads of the block must call it.
 */
__device__ static inline double *token_partials(const struct token_cut &cut, const struct token_range &range,
                                                int64_t b, double *partials)
{
    double *target = partials + ((int64_t)blockIdx.x * cut.segments + b) * cut.columns;
    if (token_range_counts(cut, range, b)) return target;
    for (int64_t c = threadIdx.x; c < cut.columns; c += blockDim.x) target[c] = 0.0;
    return NULL;
}

/*
 * Adds up what the TOKEN_PARTS threads of each column of a strip have; in every one of them. `shared` has
 * CUDA_THREADS doubles. All threads must call it.
 */
__device__ static inline double token_part_sum(double value, double *shared)
{
    __syncthreads(); // a previous sum may still be read
    shared[threadIdx.x] = value;
    __syncthreads();
    double total = 0.0;
    for (int part = 0; part < TOKEN_PARTS; part++) {
        total += shared[part * TOKEN_STRIP + (int)threadIdx.x % TOKEN_STRIP];
    }
    return total;
}

/* partials [slices, segments, columns]. */
template <typename Statistic>
__global__ static void token_slices_kernel(Statistic statistic, struct token_cut cut, double *partials)
{
    cuda_follow();
    int64_t column = cuda_thread();
    if (column >= cut.columns) return;
    int64_t slice_tokens = (cut.tokens + TOKEN_SLICES - 1) / TOKEN_SLICES;
    int64_t start = (int64_t)blockIdx.z * slice_tokens;
    int64_t end = start + slice_tokens < cut.tokens ? start + slice_tokens : cut.tokens;
    for (int64_t b = blockIdx.y; b < cut.segments; b += gridDim.y) {
        double sum = 0.0;
#pragma unroll 4
        for (int64_t i = start; i < end; i++) {
            if (!token_counts(cut.mask, i) || token_segment(cut.segment, i) != b) continue;
            sum += statistic.value(i, column);
        }
        partials[((int64_t)blockIdx.z * cut.segments + b) * cut.columns + column] = sum;
    }
}

/* A column's slices are shared by TOKEN_PARTS threads, each a stretch of them, added up in order. */
template <typename Statistic>
__global__ static void __launch_bounds__(CUDA_THREADS)
    token_finish_kernel(Statistic statistic, struct token_cut cut, const double *partials, int64_t slices)
{
    cuda_follow();
    __shared__ double shared[CUDA_THREADS];
    int64_t column = (int64_t)blockIdx.x * TOKEN_STRIP + threadIdx.x % TOKEN_STRIP;
    int part = (int)threadIdx.x / TOKEN_STRIP;
    int64_t first = slices * part / TOKEN_PARTS;
    int64_t last = column < cut.columns ? slices * (part + 1) / TOKEN_PARTS : first;
    for (int64_t b = blockIdx.y; b < cut.segments; b += gridDim.y) {
        double total = 0.0;
#pragma unroll 16
        for (int64_t slice = first; slice < last; slice++) {
            total += partials[(slice * cut.segments + b) * cut.columns + column];
        }
        total = token_part_sum(total, shared);
        if (part == 0 && column < cut.columns) statistic.store(b, column, total);
    }
}

/* Adds up the slices; partials [slices, segments, columns]. */
template <typename Statistic>
static enum mt_status token_finish(const struct mt_device *device, const char *what, Statistic statistic,
                                   const struct token_cut &cut, const double *partials, int64_t slices)
{
    dim3 grid((unsigned)((cut.columns + TOKEN_STRIP - 1) / TOKEN_STRIP),
              (unsigned)(cut.segments < 8192 ? cut.segments : 8192));
    return cuda_launch(device, what, token_finish_kernel<Statistic>, grid, CUDA_THREADS, 0, statistic, cut,
                       partials, slices);
}

/* Launches both; partials has token_sums_bytes. */
template <typename Statistic>
static enum mt_status token_sums(const struct mt_device *device, const char *what, Statistic statistic,
                                 const struct token_cut &cut, double *partials)
{
    if (cut.segments == 0 || cut.columns == 0) return MT_OK;
    dim3 grid = cuda_grid(cut.segments, cut.columns);
    enum mt_status status =
        cuda_launch(device, what, token_slices_kernel<Statistic>, dim3(grid.x, grid.y, TOKEN_SLICES),
                    CUDA_THREADS, 0, statistic, cut, partials);
    return status == MT_OK ? token_finish(device, what, statistic, cut, partials, TOKEN_SLICES) : status;
}

#endif
