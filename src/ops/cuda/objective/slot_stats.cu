/*
 * slot_stats: the statistics of column_stats for rows given by their k slots, and how many slots chose each
 * expert. Backward: dw_s = dsum_e + 2 w_s dsquares_e + 2 drow_squares Σ_m w_m, e the slot's expert.
 */
#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/objective/token_sums.cuh"

/* Σ of the weights of a token's slots that have an expert. */
__device__ static double token_weight(const struct mt_tensor &expert, const struct mt_tensor &weight,
                                      int64_t i)
{
    double total = 0.0;
    for (int64_t s = 0; s < expert.dim[1]; s++) {
        if (cuda_int2(expert, i, s) >= 0) total += cuda_get2(weight, i, s);
    }
    return total;
}

// ------------------------------------------------------------------ forward

#define CHUNK 1024 // pairs of a slice in shared memory at a time

/* Pairs of a token and a slot, as many of a slice as are looked at at once. */
struct pair_chunk {
    int4 expert[CHUNK / 4]; // four each; -1 where the pair does not count
    double weight[CHUNK];
    bool first[CHUNK]; // the first slot of its token
};

/* What one thread adds up for an expert. */
struct slot_sums {
    int count, first;
    double sum, squares;
};

/* Columns of the sums: n of counts, n of first choices, n of weights, n of their squares, one of squares of
 * rows, one of rows. */
struct slot_statistic {
    struct mt_slot_stats_forward_args a;

    __device__ void store(int64_t b, int64_t column, double sum) const
    {
        int64_t n = a.count.dim[1];
        if (column >= 4 * n) {
            const struct mt_tensor &target = column == 4 * n ? a.row_squares : a.rows;
            if (cuda_present(target)) cuda_put1(target, b, sum);
            return;
        }
        switch (column / n) {
        case 0: put(a.count, b, column % n, sum); break;
        case 1: put(a.first, b, column % n, sum); break;
        case 2: put(a.sum, b, column % n, sum); break;
        default: put(a.squares, b, column % n, sum); break;
        }
    }

    __device__ static void put(const struct mt_tensor &target, int64_t b, int64_t expert, double sum)
    {
        if (cuda_present(target)) cuda_put2(target, b, expert, sum);
    }
};

/* Pairs [start, start + CHUNK) of the range, those of segment b; returns how many fours there are. */
__device__ static int load_chunk(const struct mt_slot_stats_forward_args &a, const struct token_cut &cut,
                                 const struct token_range &range, int64_t b, int64_t start,
                                 struct pair_chunk *chunk)
{
    int64_t slots = a.expert.dim[1];
    int64_t left = (range.end - range.start) * slots - start;
    int pairs = left < CHUNK ? (int)left : CHUNK;
    int32_t *expert = reinterpret_cast<int32_t *>(chunk->expert);
    __syncthreads(); // the chunk before has been read
    for (int p = (int)threadIdx.x; p < (pairs + 3) / 4 * 4; p += CUDA_THREADS) {
        int64_t token = range.start + (start + p) / slots;
        int64_t s = (start + p) % slots;
        bool counts = p < pairs && token_is_in(cut, token, b);
        expert[p] = counts ? cuda_int2(a.expert, token, s) : -1;
        chunk->weight[p] = counts && cuda_present(a.weight) ? cuda_get2(a.weight, token, s) : 0.0;
        chunk->first[p] = s == 0;
    }
    __syncthreads();
    return (pairs + 3) / 4;
}

/* Adds pair p to the sums if it is the expert's. */
__device__ static inline void add_pair(const struct pair_chunk *chunk, int p, bool own,
                                       struct slot_sums *sums)
{
    if (!own) return;
    double weight = chunk->weight[p];
    sums->count++;
    sums->first += chunk->first[p];
    sums->sum += weight;
    sums->squares += weight * weight;
}

/* This thread's part of the range's pairs for expert number `expert`. */
__device__ static struct slot_sums add_range(const struct mt_slot_stats_forward_args &a,
                                             const struct token_cut &cut, const struct token_range &range,
                                             int64_t b, int expert, struct pair_chunk *chunk)
{
    struct slot_sums sums = {0, 0, 0.0, 0.0};
    int64_t pairs = (range.end - range.start) * a.expert.dim[1];
    for (int64_t start = 0; start < pairs; start += CHUNK) {
        int fours = load_chunk(a, cut, range, b, start, chunk);
        for (int i = (int)threadIdx.x / TOKEN_STRIP; i < fours; i += TOKEN_PARTS) {
            int4 four = chunk->expert[i];
            add_pair(chunk, 4 * i, four.x == expert, &sums);
            add_pair(chunk, 4 * i + 1, four.y == expert, &sums);
            add_pair(chunk, 4 * i + 2, four.z == expert, &sums);
            add_pair(chunk, 4 * i + 3, four.w == expert, &sums);
        }
    }
    return sums;
}

/* How many of the range's tokens count; in every thread. */
__device__ static double add_rows(const struct token_cut &cut, const struct token_range &range, int64_t b)
{
    double rows = 0.0;
    for (int64_t i = range.start + threadIdx.x; i < range.end; i += CUDA_THREADS)
        rows += token_is_in(cut, i, b) ? 1.0 : 0.0;
    return block_sum(rows);
}

/* Σ over the range's tokens of the square of their weight; in every thread. */
__device__ static double add_row_squares(const struct mt_slot_stats_forward_args &a,
                                         const struct token_cut &cut, const struct token_range &range,
                                         int64_t b)
{
    double squares = 0.0;
    for (int64_t i = range.start + threadIdx.x; i < range.end; i += CUDA_THREADS) {
        double total = token_is_in(cut, i, b) ? token_weight(a.expert, a.weight, i) : 0.0;
        squares += total * total;
    }
    return block_sum(squares);
}

__global__ static void __launch_bounds__(CUDA_THREADS)
    slices_kernel(struct mt_slot_stats_forward_args a, struct token_cut cut, int64_t slice_tokens,
                  double *partials)
{
    cuda_follow();
    __shared__ struct pair_chunk chunk;
    __shared__ double shared[CUDA_THREADS];
    struct token_range range = token_range_of(cut, slice_tokens);
    int64_t n = a.count.dim[1];
    for (int64_t b = blockIdx.y; b < cut.segments; b += gridDim.y) {
        double *target = token_partials(cut, range, b, partials);
        if (target == NULL) continue;
        for (int64_t strip = 0; strip < n; strip += TOKEN_STRIP) {
            int64_t expert = strip + threadIdx.x % TOKEN_STRIP;
            struct slot_sums own = add_range(a, cut, range, b, (int)expert, &chunk);
            double count = token_part_sum((double)own.count, shared);
            double first = token_part_sum((double)own.first, shared);
            double sum = token_part_sum(own.sum, shared);
            double squares = token_part_sum(own.squares, shared);
            if (threadIdx.x >= TOKEN_STRIP || expert >= n) continue;
            target[expert] = count;
            target[n + expert] = first;
            target[2 * n + expert] = sum;
            target[3 * n + expert] = squares;
        }
        double row_squares = cuda_present(a.row_squares) ? add_row_squares(a, cut, range, b) : 0.0;
        double rows = cuda_present(a.rows) ? add_rows(cut, range, b) : 0.0;
        if (threadIdx.x != 0) continue;
        target[4 * n] = row_squares;
        target[4 * n + 1] = rows;
    }
}

// ------------------------------------------------------------------ backward

__global__ static void backward_kernel(struct mt_slot_stats_backward_args a)
{
    cuda_follow();
    for (int64_t i = cuda_thread(); i < a.expert.dim[0]; i += cuda_thread_count()) {
        bool counts = token_counts(a.mask, i);
        int64_t b = token_segment(a.segment, i);
        double both = 2.0 * token_weight(a.expert, a.weight, i) * optional1(a.drow_squares, b);
        for (int64_t s = 0; s < a.expert.dim[1]; s++) {
            int32_t e = cuda_int2(a.expert, i, s);
            double dw = 0.0;
            if (counts && e >= 0) {
                double w = cuda_get2(a.weight, i, s);
                dw = cuda_get2(a.dsum, b, e) + 2.0 * w * optional2(a.dsquares, b, e) + both;
            }
            cuda_give2(a.dweight, i, s, dw, a.accumulate);
        }
    }
}

size_t mt_cuda_slot_stats_forward_scratch(const struct mt_device *device, const void *args)
{
    (void)device;
    const struct mt_slot_stats_forward_args *a = static_cast<const struct mt_slot_stats_forward_args *>(args);
    return token_sums_bytes(a->count.dim[0], 4 * a->count.dim[1] + 2);
}

enum mt_status mt_cuda_slot_stats_forward(struct mt_device *device, const void *args)
{
    const struct mt_slot_stats_forward_args *a = static_cast<const struct mt_slot_stats_forward_args *>(args);
    struct token_cut cut = {a->mask, a->segment, a->expert.dim[0], a->count.dim[0], 4 * a->count.dim[1] + 2};
    if (cut.segments == 0 || a->count.dim[1] == 0) return MT_OK;
    double *partials = static_cast<double *>(device->scratch.data);
    struct token_launch launch = token_launch_of(cut);
    enum mt_status status = MT_OK;
    if (launch.slices > 0)
        status = cuda_launch(device, "slot_stats forward", slices_kernel, launch.grid, CUDA_THREADS, 0, *a,
                             cut, launch.slice, partials);
    if (status != MT_OK) return status;
    return token_finish(device, "slot_stats forward", slot_statistic{*a}, cut, partials, launch.slices);
}

enum mt_status mt_cuda_slot_stats_backward(struct mt_device *device, const void *args)
{
    const struct mt_slot_stats_backward_args *a =
        static_cast<const struct mt_slot_stats_backward_args *>(args);
    if (mt_tensor_count(&a->dweight) == 0) return MT_OK;
    return cuda_launch(device, "slot_stats backward", backward_kernel, dim3(cuda_blocks(a->expert.dim[0])),
                       CUDA_THREADS, 0, *a);
}
