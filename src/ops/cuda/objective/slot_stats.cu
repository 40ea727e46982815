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

#define STRIP   128 // experts that are looked at at once
#define BATCHES 4   // of pairs, whose loads are under way together

/* What one warp adds up for each expert of a strip. */
struct slot_sums {
    double sum[STRIP], squares[STRIP];
    int count[STRIP], first[STRIP];
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

/* A slot of a token. */
struct slot_pair {
    int expert; // among those of the strip; -1 where it is none of them, or the token does not count
    bool first; // of the token's slots
    double weight;
};

__device__ static struct slot_pair load_pair(const struct mt_slot_stats_forward_args &a,
                                             const struct token_cut &cut, const struct token_range &range,
                                             int64_t b, int strip, int p)
{
    int slots = (int)a.expert.dim[1];
    if (p >= (int)(range.end - range.start) * slots) return {-1, false, 0.0};
    int64_t token = range.start + p / slots;
    int s = p % slots;
    int expert = token_is_in(cut, token, b) ? cuda_int2(a.expert, token, s) - strip : -1;
    double weight = cuda_present(a.weight) ? cuda_get2(a.weight, token, s) : 0.0;
    return {expert < STRIP ? expert : -1, s == 0, weight};
}

/* Adds a warp's pairs to its sums. Of pairs of one expert the lowest lane comes first, then the next. */
__device__ static void add_pairs(const struct slot_pair &pair, struct slot_sums *sums)
{
    bool counts = pair.expert >= 0;
    unsigned same = __match_any_sync(CUDA_EVERY, counts ? pair.expert : -1);
    int turn = __popc(same & ((1u << cuda_lane()) - 1));
    int turns = __reduce_max_sync(CUDA_EVERY, counts ? turn + 1 : 0);
    for (int i = 0; i < turns; i++) {
        if (counts && turn == i) {
            sums->count[pair.expert]++;
            sums->first[pair.expert] += pair.first;
            sums->sum[pair.expert] += pair.weight;
            sums->squares[pair.expert] += pair.weight * pair.weight;
        }
        __syncwarp();
    }
}

/* The warp's part of the range's pairs, for experts from `strip` on: a stretch of whole batches. */
__device__ static void add_range(const struct mt_slot_stats_forward_args &a, const struct token_cut &cut,
                                 const struct token_range &range, int64_t b, int strip,
                                 struct slot_sums *sums)
{
    int lane = cuda_lane();
    for (int e = lane; e < STRIP; e += 32) {
        sums->sum[e] = 0.0;
        sums->squares[e] = 0.0;
        sums->count[e] = 0;
        sums->first[e] = 0;
    }
    __syncwarp();
    int batches = ((int)(range.end - range.start) * (int)a.expert.dim[1] + 31) / 32;
    int each = (batches + CUDA_WARPS - 1) / CUDA_WARPS;
    int begin = (int)threadIdx.x / 32 * each;
    int end = begin + each < batches ? begin + each : batches;
    for (int batch = begin; batch < end; batch += BATCHES) {
        struct slot_pair pair[BATCHES];
#pragma unroll
        for (int i = 0; i < BATCHES; i++) {
            pair[i] = {-1, false, 0.0};
            if (batch + i < end) pair[i] = load_pair(a, cut, range, b, strip, 32 * (batch + i) + lane);
        }
#pragma unroll
        for (int i = 0; i < BATCHES; i++) {
            if (batch + i < end) add_pairs(pair[i], sums);
        }
    }
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

/* What all warps have of expert e of the strip, into the expert's column of each of the four kinds. */
__device__ static void leave_expert(const struct slot_sums *sums, int e, double *target, int64_t n)
{
    struct {
        int count, first;
        double sum, squares;
    } all = {0, 0, 0.0, 0.0};
    for (int warp = 0; warp < CUDA_WARPS; warp++) {
        all.count += sums[warp].count[e];
        all.first += sums[warp].first[e];
        all.sum += sums[warp].sum[e];
        all.squares += sums[warp].squares[e];
    }
    target[0] = (double)all.count;
    target[n] = (double)all.first;
    target[2 * n] = all.sum;
    target[3 * n] = all.squares;
}

__global__ static void __launch_bounds__(CUDA_THREADS)
    slices_kernel(struct mt_slot_stats_forward_args a, struct token_cut cut, int64_t slice_tokens,
                  double *partials)
{
    cuda_follow();
    __shared__ struct slot_sums sums[CUDA_WARPS];
    struct token_range range = token_range_of(cut, slice_tokens);
    int64_t n = a.count.dim[1];
    for (int64_t b = blockIdx.y; b < cut.segments; b += gridDim.y) {
        double *target = token_partials(cut, range, b, partials);
        if (target == NULL) continue;
        for (int64_t strip = 0; strip < n; strip += STRIP) {
            __syncthreads(); // the sums before have been read
            add_range(a, cut, range, b, (int)strip, &sums[threadIdx.x / 32]);
            __syncthreads();
            for (int e = (int)threadIdx.x; e < STRIP && strip + e < n; e += CUDA_THREADS)
                leave_expert(sums, e, target + strip + e, n);
        }
        double row_squares = cuda_present(a.row_squares) ? add_row_squares(a, cut, range, b) : 0.0;
        double rows = cuda_present(a.rows) ? add_rows(cut, range, b) : 0.0;
        if (threadIdx.x != 0) continue;
        target[4 * n] = row_squares;
        target[4 * n + 1] = rows;
    }
}

// ------------------------------------------------------------------ backward

/* One thread per slot. */
__global__ static void backward_kernel(struct mt_slot_stats_backward_args a)
{
    cuda_follow();
    int64_t slots = a.expert.dim[1];
    int64_t count = a.expert.dim[0] * slots;
    for (int64_t p = cuda_thread(); p < count; p += cuda_thread_count()) {
        int64_t i = p / slots;
        int64_t s = p - i * slots;
        int64_t b = token_segment(a.segment, i);
        int32_t e = cuda_int2(a.expert, i, s);
        double dw = 0.0;
        if (token_counts(a.mask, i) && e >= 0) {
            dw = cuda_get2(a.dsum, b, e);
            if (cuda_present(a.dsquares)) dw += 2.0 * cuda_get2(a.weight, i, s) * cuda_get2(a.dsquares, b, e);
            if (cuda_present(a.drow_squares))
                dw += 2.0 * token_weight(a.expert, a.weight, i) * cuda_get1(a.drow_squares, b);
        }
        cuda_give2(a.dweight, i, s, dw, a.accumulate);
    }
}

size_t mt_cuda_slot_stats_forward_scratch(const struct mt_device *,
                                          const struct mt_slot_stats_forward_args *a)
{
    return token_sums_bytes(a->count.dim[0], 4 * a->count.dim[1] + 2);
}

enum mt_status mt_cuda_slot_stats_forward(struct mt_device *device,
                                          const struct mt_slot_stats_forward_args *a)
{
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

enum mt_status mt_cuda_slot_stats_backward(struct mt_device *device,
                                           const struct mt_slot_stats_backward_args *a)
{
    if (mt_tensor_count(&a->dweight) == 0) return MT_OK;
    return cuda_launch(device, "slot_stats backward", backward_kernel,
                       dim3(cuda_blocks(mt_tensor_count(&a->dweight))), CUDA_THREADS, 0, *a);
}
