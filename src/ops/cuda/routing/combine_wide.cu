/*
 * combine for up to eight slots, one warp per token, eight columns a lane: the token's rows are read once,
 * and all that is made of them is made on the way. Warps do not wait for each other, and rows of 16 bits
 * stay packed in registers, so that enough loads are under way to keep memory busy.
 *   forward   y = (y +) base + Σ_s w_s x_s; gram[s,m] = <x_s, x_m>, summed over the warp at the end
 *   backward  dx_s = w_s dy + Σ_m C[s,m] x_m; dw_s = <dy, x_s>
 * SLOTS is the next even number from the slots on; slots beyond count as slots without a row: zeros. HALF:
 * the rows are bf16, else f32; backward's gradients are what the rows are, or f32.
 */
#include "ops/cuda/common/wide.cuh"
#include "ops/cuda/routing/combine.cuh"

#define MOST_SLOTS    8
#define FEW_TOKENS    512 // do not fill the device with a warp each
#define MOST_PARTS    64  // of a token's columns
#define BLOCK_WARPS   4
#define BLOCK_THREADS (32 * BLOCK_WARPS)
#define PAIRS         (CUDA_WIDE / 2) // of columns in an eight

/* Eight elements as they lie in memory. */
template <bool HALF> struct packed_eight {
    unsigned word[HALF ? 4 : 8];
};

/* Columns 2·i and 2·i + 1. */
template <bool HALF> __device__ static inline float2 packed_pair(const struct packed_eight<HALF> &x, int i)
{
    if constexpr (HALF) {
        // bf16 is the upper half of an f32
        return make_float2(__uint_as_float(x.word[i] << 16), __uint_as_float(x.word[i] & 0xffff0000u));
    } else {
        return make_float2(__uint_as_float(x.word[2 * i]), __uint_as_float(x.word[2 * i + 1]));
    }
}

template <bool HALF>
__device__ static inline void set_packed_pair(struct packed_eight<HALF> &x, int i, float2 value)
{
    if constexpr (HALF) {
        x.word[i] = wide_pair(value.x, value.y);
    } else {
        x.word[2 * i] = __float_as_uint(value.x);
        x.word[2 * i + 1] = __float_as_uint(value.y);
    }
}

/* Where an eight lies: as groups of four words. */
template <bool HALF>
__device__ static inline uint4 *packed_place(const struct mt_tensor &t, int64_t row, int64_t column)
{
    int64_t at = row * t.stride[0] + column;
    return reinterpret_cast<uint4 *>(static_cast<char *>(t.data) + at * (HALF ? 2 : 4));
}

/* The same columns of all rows; zeros for slots without one. */
template <int SLOTS, bool HALF>
__device__ static inline void load_rows(const struct mt_tensor &rows, const int32_t (&place)[SLOTS],
                                        int64_t column, struct packed_eight<HALF> (&x)[SLOTS])
{
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
#pragma unroll
        for (int group = 0; group < (HALF ? 1 : 2); group++) {
            uint4 four = make_uint4(0, 0, 0, 0);
            if (place[s] >= 0) four = packed_place<HALF>(rows, place[s], column)[group];
            x[s].word[4 * group] = four.x;
            x[s].word[4 * group + 1] = four.y;
            x[s].word[4 * group + 2] = four.z;
            x[s].word[4 * group + 3] = four.w;
        }
    }
}

template <bool HALF>
__device__ static inline void store_packed(const struct mt_tensor &rows, int64_t row, int64_t column,
                                           const struct packed_eight<HALF> &x)
{
    uint4 *place = packed_place<HALF>(rows, row, column);
#pragma unroll
    for (int group = 0; group < (HALF ? 1 : 2); group++) {
        place[group] = make_uint4(x.word[4 * group], x.word[4 * group + 1], x.word[4 * group + 2],
                                  x.word[4 * group + 3]);
    }
}

/* This warp's token. */
__device__ static inline int64_t token_of_warp(void)
{
    return (int64_t)blockIdx.x * BLOCK_WARPS + threadIdx.x / 32;
}

/* Rows of the token's slots, -1 where there is none, and their weights, 0 there. */
template <int SLOTS>
__device__ static inline void load_slots(const struct mt_tensor &row_of_slot, const struct mt_tensor &weights,
                                         int64_t token, int32_t (&place)[SLOTS], float (&weight)[SLOTS])
{
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        place[s] = s < row_of_slot.dim[1] ? cuda_int2(row_of_slot, token, s) : -1;
        weight[s] = place[s] >= 0 ? (float)cuda_get2(weights, token, s) : 0.0f;
    }
}

// ------------------------------------------------------------------ forward

/* Products of two columns of all rows, added to dot: pair (s,m), s <= m, after those of smaller s. */
template <int SLOTS>
__device__ static inline void add_products(const float2 (&x)[SLOTS], float (&dot)[SLOTS * (SLOTS + 1) / 2])
{
    int pair = 0;
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
#pragma unroll
        for (int m = s; m < SLOTS; m++) {
            dot[pair] = fmaf(x[s].y, x[m].y, fmaf(x[s].x, x[m].x, dot[pair]));
            pair++;
        }
    }
}

/* The two slots of pair number `pair`. */
__device__ static inline void slots_of_pair(int slots, int pair, int *first, int *second)
{
    int s = 0;
    while (pair >= slots - s) {
        pair -= slots - s;
        s++;
    }
    *first = s;
    *second = s + pair;
}

/* The pairs' sums over the warp, into the Gram matrix, 32 pairs at a time: a lane then holds one of them. */
template <int SLOTS>
__device__ static inline void store_gram(const struct mt_tensor &gram, int64_t token,
                                         const float (&dot)[SLOTS * (SLOTS + 1) / 2])
{
    constexpr int pairs = SLOTS * (SLOTS + 1) / 2;
#pragma unroll
    for (int start = 0; start < pairs; start += 32) {
        float value[32];
#pragma unroll
        for (int i = 0; i < 32; i++)
            value[i] = start + i < pairs ? dot[start + i < pairs ? start + i : 0] : 0.0f;
        float total = wide_warp_sums(value);
        int pair = start + cuda_lane();
        if (pair >= pairs) continue;
        int s = 0;
        int m = 0;
        slots_of_pair(SLOTS, pair, &s, &m);
        if (m >= gram.dim[1]) continue;
        cuda_put3(gram, token, s, m, (double)total);
        cuda_put3(gram, token, m, s, (double)total);
    }
}

/* sum += eight columns of a token. */
__device__ static inline void add_eight(const struct mt_tensor &from, int64_t token, int64_t column,
                                        float (&sum)[CUDA_WIDE])
{
    float value[CUDA_WIDE];
    wide_load2(from, {token, column}, value);
#pragma unroll
    for (int i = 0; i < CUDA_WIDE; i++) sum[i] += value[i];
}

template <int SLOTS, bool HALF, bool GRAM>
__global__ static void __launch_bounds__(BLOCK_THREADS, SLOTS <= 6 ? 5 : 4)
    forward_kernel(struct mt_combine_forward_args a)
{
    cuda_follow();
    int64_t token = token_of_warp();
    if (token >= a.row_of_slot.dim[0]) return;
    int32_t place[SLOTS];
    float weight[SLOTS];
    float dot[SLOTS * (SLOTS + 1) / 2] = {};
    load_slots<SLOTS>(a.row_of_slot, a.weight, token, place, weight);
    int64_t first = ((int64_t)blockIdx.y * 32 + cuda_lane()) * CUDA_WIDE;
    int64_t step = (int64_t)gridDim.y * 32 * CUDA_WIDE;
    for (int64_t j = first; j < a.rows.dim[1]; j += step) {
        struct packed_eight<HALF> x[SLOTS];
        float y[CUDA_WIDE] = {};
        load_rows<SLOTS, HALF>(a.rows, place, j, x);
        if (cuda_present(a.base)) wide_load2(a.base, {token, j}, y);
        if (a.accumulate) add_eight(a.y, token, j, y);
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            float2 column[SLOTS];
#pragma unroll
            for (int s = 0; s < SLOTS; s++) {
                column[s] = packed_pair<HALF>(x[s], i);
                y[2 * i] = fmaf(weight[s], column[s].x, y[2 * i]);
                y[2 * i + 1] = fmaf(weight[s], column[s].y, y[2 * i + 1]);
            }
            if (GRAM) add_products<SLOTS>(column, dot);
        }
        if (cuda_present(a.y)) wide_store2(a.y, {token, j}, y);
    }
    if (GRAM) store_gram<SLOTS>(a.gram, token, dot);
}

// ------------------------------------------------------------------ backward

/* The token's coupling between slots that have rows, 0 elsewhere, where anything may stand. By the warp. */
template <int SLOTS>
__device__ static inline void load_coupling(const struct mt_combine_backward_args &a, int64_t token,
                                            float *coupling)
{
    int slots = (int)a.row_of_slot.dim[1];
    float factor = combine_factor(a);
    for (int i = cuda_lane(); i < SLOTS * SLOTS; i += 32) {
        int s = i / SLOTS;
        int m = i % SLOTS;
        bool both = s < slots && m < slots && cuda_int2(a.row_of_slot, token, s) >= 0 &&
                    cuda_int2(a.row_of_slot, token, m) >= 0;
        coupling[i] = both ? factor * (float)cuda_get3(a.coupling, token, s, m) : 0.0f;
    }
    __syncwarp();
}

/* Two columns of all slots: dx is made, and <dy, x> is added to dot. */
template <int SLOTS, bool HALF, bool HALF_OUT, bool COUPLED>
__device__ static inline void turn_pair(const struct packed_eight<HALF> (&x)[SLOTS], int i, float2 dy,
                                        const float (&weight)[SLOTS], const float *coupling,
                                        struct packed_eight<HALF_OUT> (&dx)[SLOTS], float (&dot)[SLOTS])
{
    float2 column[SLOTS];
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        column[s] = packed_pair<HALF>(x[s], i);
        dot[s] = fmaf(dy.y, column[s].y, fmaf(dy.x, column[s].x, dot[s]));
    }
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        float2 sum = make_float2(weight[s] * dy.x, weight[s] * dy.y);
#pragma unroll
        for (int m = 0; COUPLED && m < SLOTS; m++) {
            float factor = coupling[s * SLOTS + m];
            sum.x = fmaf(factor, column[m].x, sum.x);
            sum.y = fmaf(factor, column[m].y, sum.y);
        }
        set_packed_pair<HALF_OUT>(dx[s], i, sum);
    }
}

/* Blocks of a multiprocessor: as many as the coupling, which stays in registers, leaves room for. */
__host__ __device__ static constexpr int backward_blocks(int slots, bool half, bool coupled)
{
    if (slots <= 4) return 5;
    return (coupled ? 3 : 4) + (half && slots <= 6 ? 1 : 0);
}

template <int SLOTS, bool HALF, bool HALF_OUT, bool COUPLED>
__global__ static void __launch_bounds__(BLOCK_THREADS, backward_blocks(SLOTS, HALF, COUPLED))
    backward_kernel(struct mt_combine_backward_args a)
{
    __shared__ float couplings[COUPLED ? BLOCK_WARPS * SLOTS * SLOTS : 1];
    int64_t token = token_of_warp();
    if (token >= a.row_of_slot.dim[0]) return;
    float *coupling = COUPLED ? couplings + threadIdx.x / 32 * SLOTS * SLOTS : couplings;
    int32_t place[SLOTS];
    float weight[SLOTS];
    float dot[SLOTS] = {};
    load_slots<SLOTS>(a.row_of_slot, a.weight, token, place, weight);
    if (COUPLED) load_coupling<SLOTS>(a, token, coupling);
    for (int64_t j = cuda_lane() * CUDA_WIDE; j < a.rows.dim[1]; j += 32 * CUDA_WIDE) {
        struct packed_eight<HALF> x[SLOTS];
        struct packed_eight<HALF_OUT> dx[SLOTS];
        float dy[CUDA_WIDE] = {};
        if (cuda_present(a.dy)) wide_load2(a.dy, {token, j}, dy);
        load_rows<SLOTS, HALF>(a.rows, place, j, x); // all of them before any is written: drows may be rows
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
            float2 pair = make_float2(dy[2 * i], dy[2 * i + 1]);
            turn_pair<SLOTS, HALF, HALF_OUT, COUPLED>(x, i, pair, weight, coupling, dx, dot);
        }
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            if (place[s] >= 0) store_packed<HALF_OUT>(a.drows, place[s], j, dx[s]);
        }
    }
    if (!cuda_present(a.dweight)) return;
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        for (int offset = 16; offset > 0; offset /= 2) dot[s] += __shfl_xor_sync(CUDA_EVERY, dot[s], offset);
        if (cuda_lane() == s && s < a.row_of_slot.dim[1]) cuda_put2(a.dweight, token, s, (double)dot[s]);
    }
}

// ------------------------------------------------------------------ launchers

/* Whether the rows and two more operands of their width can be taken in eights, and the slots are few. */
static bool is_wide(const struct mt_tensor *row_of_slot, const struct mt_tensor *rows,
                    const struct mt_tensor *first, const struct mt_tensor *second)
{
    return row_of_slot->dim[0] >= 1 && row_of_slot->dim[1] >= 1 && row_of_slot->dim[1] <= MOST_SLOTS &&
           rows->dim[1] > 0 && cuda_is_wide(rows) && cuda_is_wide(first) && cuda_is_wide(second);
}

static unsigned blocks_of(int64_t tokens)
{
    return (unsigned)((tokens + BLOCK_WARPS - 1) / BLOCK_WARPS);
}

template <int SLOTS, bool HALF>
static enum mt_status launch_forward(struct mt_device *device, const struct mt_combine_forward_args *a)
{
    bool gram = mt_tensor_present(&a->gram);
    // Few tokens: their columns are shared out, too.
    int64_t tokens = a->row_of_slot.dim[0];
    bool few = !gram && tokens <= FEW_TOKENS;
    int64_t parts = few ? (a->rows.dim[1] + 32 * CUDA_WIDE - 1) / (32 * CUDA_WIDE) : 1;
    dim3 grid(blocks_of(tokens), (unsigned)(parts < MOST_PARTS ? parts : MOST_PARTS));
    auto kernel = gram ? forward_kernel<SLOTS, HALF, true> : forward_kernel<SLOTS, HALF, false>;
    return cuda_launch(device, "combine forward", kernel, grid, BLOCK_THREADS, 0, *a);
}

template <int SLOTS>
static enum mt_status forward_rows(struct mt_device *device, const struct mt_combine_forward_args *a)
{
    return a->rows.dtype == MT_BF16 ? launch_forward<SLOTS, true>(device, a)
                                    : launch_forward<SLOTS, false>(device, a);
}

static bool forward_fits(const struct mt_device *, const struct mt_combine_forward_args *a)
{
    return is_wide(&a->row_of_slot, &a->rows, &a->base, &a->y);
}

static enum mt_status run_forward(struct mt_device *device, const struct mt_combine_forward_args *a, void *)
{
    switch ((a->row_of_slot.dim[1] + 1) / 2) {
    case 1: return forward_rows<2>(device, a);
    case 2: return forward_rows<4>(device, a);
    case 3: return forward_rows<6>(device, a);
    default: return forward_rows<8>(device, a);
    }
}

const struct cuda_variant<struct mt_combine_forward_args> cuda_combine_wide = {
    forward_fits, NULL, run_forward
};

template <int SLOTS, bool HALF, bool HALF_OUT>
static void launch_backward(cudaStream_t stream, const struct mt_combine_backward_args &a)
{
    unsigned blocks = blocks_of(a.row_of_slot.dim[0]);
    if (mt_tensor_present(&a.coupling)) {
        backward_kernel<SLOTS, HALF, HALF_OUT, true><<<blocks, BLOCK_THREADS, 0, stream>>>(a);
    } else {
        backward_kernel<SLOTS, HALF, HALF_OUT, false><<<blocks, BLOCK_THREADS, 0, stream>>>(a);
    }
}

template <int SLOTS> static void backward_rows(cudaStream_t stream, const struct mt_combine_backward_args &a)
{
    if (a.drows.dtype == MT_BF16) {
        launch_backward<SLOTS, true, true>(stream, a);
    } else if (a.rows.dtype == MT_BF16) {
        launch_backward<SLOTS, true, false>(stream, a);
    } else {
        launch_backward<SLOTS, false, false>(stream, a);
    }
}

static bool backward_fits(const struct mt_device *, const struct mt_combine_backward_args *a)
{
    bool rounds = a->drows.dtype == MT_BF16 && a->rows.dtype != MT_BF16; // nobody asks for that
    return !rounds && is_wide(&a->row_of_slot, &a->rows, &a->dy, &a->drows);
}

static enum mt_status run_backward(struct mt_device *device, const struct mt_combine_backward_args *a, void *)
{
    cudaStream_t stream = cuda_stream(device);
    switch ((a->row_of_slot.dim[1] + 1) / 2) {
    case 1: backward_rows<2>(stream, *a); break;
    case 2: backward_rows<4>(stream, *a); break;
    case 3: backward_rows<6>(stream, *a); break;
    default: backward_rows<8>(stream, *a); break;
    }
    return cuda_launched(device, "combine backward");
}

const struct cuda_variant<struct mt_combine_backward_args> cuda_combine_backward_wide = {
    backward_fits, NULL, run_backward
};
