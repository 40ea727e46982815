/*
 * attention of cuda-bf16, for the ops that decide between it and the f32 kernels, and what its two files
 * share. Operands are rounded to bf16, sums and statistics are f32, scores are never stored.
 */
#ifndef MT_OPS_CUDA_ATTENTION_BF16_CUH
#define MT_OPS_CUDA_ATTENTION_BF16_CUH

#include "ops/cuda/attention/attention_tiles.cuh"
#include "ops/cuda/common/tiles.cuh"
#include "ops/cuda/common/variants.cuh"

#define ATTENTION_SHARED "shared memory for attention heads this wide"

/* Of f32 operands 16 bits count: each number is two bf16 ones. */
extern const struct cuda_variant<struct mt_attention_forward_args> cuda_attention_split;

/* By Hopper's own instructions: all bf16, and aligned as the copy engine wants it. */
extern const struct cuda_variant<struct mt_attention_forward_args> cuda_attention_hopper;
extern const struct cuda_variant<struct mt_attention_backward_args> cuda_attention_backward_hopper;

/* On the tensor cores of any GPU. */
extern const struct cuda_variant<struct mt_attention_forward_args> cuda_attention_mma;
extern const struct cuda_variant<struct mt_attention_backward_args> cuda_attention_backward_mma;

/* For few queries, or for heads that share one wide key whose first columns are the value. */
extern const struct cuda_variant<struct mt_attention_forward_args> cuda_attention_decode;

/* deltas[t,h] = <dout, out> of each query and head, f32 [Tq,Hq]. */
enum mt_status cuda_attention_deltas(struct mt_device *device, const struct mt_attention_backward_args *a,
                                     float *deltas);
size_t cuda_attention_deltas_bytes(const struct mt_device *device,
                                   const struct mt_attention_backward_args *a);

/* Whether the tensor cores can work on these: f32 or bf16, heads of a usual width, more than a few queries.
 */
bool cuda_attention_fits(const struct mt_device *device, const struct mt_attention_forward_args *a);
bool cuda_attention_backward_fits(const struct mt_device *device, const struct mt_attention_backward_args *a);

// ------------------------------------------------------------------ what the kernels share

#define ATTENTION_THREADS 128 // four warps, 16 rows each
#define ATTENTION_ROWS    64  // of the side a block keeps: queries, or keys where keys have the sums
#define LOG2_E            1.4426950408889634f
#define LN_2              0.6931471805599453f

/* Elements between rows of a tile in shared memory: the banks of eight rows differ. */
__host__ __device__ static constexpr int pitch_of(int width)
{
    return width + TILE_SHIFT;
}

/* Head `head` of [T,H,D], as rows. */
__device__ static inline struct tile_operand head_operand(const struct mt_tensor &t, int64_t head)
{
    struct tile_operand o;
    o.bf16 = t.dtype == MT_BF16;
    o.data = static_cast<const char *>(t.data) + head * t.stride[1] * (o.bf16 ? 2 : 4);
    o.stride = t.stride[0];
    o.aligned = t.stride[0] % 8 == 0 && t.stride[1] % 8 == 0 && reinterpret_cast<uintptr_t>(t.data) % 16 == 0;
    return o;
}

__device__ static inline struct tile_output head_output(const struct mt_tensor &t, int64_t head)
{
    struct tile_operand place = head_operand(t, head);
    struct tile_output o;
    o.data = const_cast<void *>(place.data);
    o.bf16 = place.bf16;
    o.aligned = place.aligned;
    o.stride = place.stride;
    o.alpha = 1.0f;
    o.beta = 0.0f;
    return o;
}

/* tile[r][0..WIDTH) = row first + r; zeros from row `end` and from column `width` on. May still be on its
 * way.
 */
template <int ROWS, int WIDTH>
__device__ static inline void load_rows(__nv_bfloat16 *tile, const struct tile_operand &o, int64_t first,
                                        int64_t end, int width)
{
#pragma unroll 4
    for (int piece = (int)threadIdx.x; piece < ROWS * (WIDTH / 8); piece += ATTENTION_THREADS) {
        int row = piece / (WIDTH / 8);
        int column = piece % (WIDTH / 8) * 8;
        load_eight(tile + row * pitch_of(WIDTH) + column, o, first + row, end, column, width);
    }
}

/* sums[16, 8·COUNT] += a[16,WIDTH] · b[8·COUNT,WIDTH]ᵀ, both by rows in shared memory. */
template <int WIDTH, int COUNT>
__device__ static inline void add_dots(float (&sums)[COUNT][4], const __nv_bfloat16 *a,
                                       const __nv_bfloat16 *b)
{
#pragma unroll
    for (int k = 0; k < WIDTH; k += 16) {
        unsigned left[4];
        load_a<true>(left, a + k, pitch_of(WIDTH));
#pragma unroll
        for (int j = 0; j < COUNT; j += 2) {
            unsigned right[4];
            load_b<true>(right, b + j * 8 * pitch_of(WIDTH) + k, pitch_of(WIDTH));
            multiply_add(sums[j], left, right[0], right[1]);
            multiply_add(sums[j + 1], left, right[2], right[3]);
        }
    }
}

/* sums[16,WIDTH] += factors[16, 8·COUNT] · rows[8·COUNT,WIDTH], the factors still in registers. */
template <int WIDTH, int COUNT>
__device__ static inline void add_rows(float (&sums)[WIDTH / 8][4], const float (&factors)[COUNT][4],
                                       const __nv_bfloat16 *rows)
{
#pragma unroll
    for (int j = 0; j < COUNT; j += 2) {
        unsigned left[4] = {pack_bf16(factors[j][0], factors[j][1]), pack_bf16(factors[j][2], factors[j][3]),
                            pack_bf16(factors[j + 1][0], factors[j + 1][1]),
                            pack_bf16(factors[j + 1][2], factors[j + 1][3])};
#pragma unroll
        for (int n = 0; n < WIDTH; n += 16) {
            unsigned right[4];
            load_b<false>(right, rows + j * 8 * pitch_of(WIDTH) + n, pitch_of(WIDTH));
            multiply_add(sums[n / 8], left, right[0], right[1]);
            multiply_add(sums[n / 8 + 1], left, right[2], right[3]);
        }
    }
}

/* Which row and column of a warp's [16,...] sums element e of fragment j is. */
__device__ static inline int fragment_row(int e)
{
    return cuda_lane() / 4 + e / 2 * 8;
}

__device__ static inline int fragment_column(int j, int e)
{
    return 8 * j + cuda_lane() % 4 * 2 + e % 2;
}

/* Whether queries [query, query + queries) of the sequence all see keys [key, key + keys). */
__device__ static inline bool all_see(const struct sequence &s, int64_t query, int queries, int64_t key,
                                      int keys, int window)
{
    return key + keys <= s.keys && query + queries <= s.queries && key + keys - 1 <= query + s.shift &&
           (window == 0 || query + queries - 1 + s.shift - key < window);
}

/* What a lane of forward knows of its two rows. */
struct running {
    float highest[2]; // of the scores
    float sum[2];     // of this lane's columns, exponentials relative to the highest
};

/* Scores become weights relative to the highest so far; `factor` is what that makes of older ones. */
template <int COUNT>
__device__ static inline void update_softmax(float (&scores)[COUNT][4], struct running *r, float (&factor)[2])
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float highest = r->highest[half];
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
            highest = fmaxf(highest, fmaxf(scores[j][2 * half], scores[j][2 * half + 1]));
        }
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, 1));
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, 2));
        float reference = highest == -INFINITY ? 0.0f : highest; // no key seen yet
        factor[half] = exp2f(r->highest[half] - reference);
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                scores[j][e] = exp2f(scores[j][e] - reference);
                sum += scores[j][e];
            }
        }
        r->sum[half] = r->sum[half] * factor[half] + sum;
        r->highest[half] = highest;
    }
}

/* Scales scores to units of log 2; -inf where a query does not see the key. */
template <int COUNT>
__device__ static inline void mask_scores(float (&scores)[COUNT][4], const struct sequence &s, int64_t query,
                                          int64_t start, float scale, int window)
{
    bool all = all_see(s, query, 16, start, 8 * COUNT, window);
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bool seen = all || sees(s, query + fragment_row(e), start + fragment_column(j, e), window);
            scores[j][e] = seen ? scores[j][e] * scale : -INFINITY;
        }
    }
}

/* Divides a warp's rows of `out`, the first of which is `row` of all, by their sums, and stores them and lse;
 * unit: of the highest scores, in natural logarithms.
 */
template <int COUNT>
__device__ static inline void finish_rows(const struct mt_attention_forward_args &a, float (&out)[COUNT][4],
                                          const struct running &r, float unit, int64_t row, int64_t row_end,
                                          int64_t head)
{
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = r.sum[half];
        sum += __shfl_xor_sync(CUDA_EVERY, sum, 1);
        sum += __shfl_xor_sync(CUDA_EVERY, sum, 2);
        float factor = sum == 0.0f ? 0.0f : 1.0f / sum; // 0: a query that sees no key
#pragma unroll
        for (int n = 0; n < COUNT; n++) {
            out[n][2 * half] *= factor;
            out[n][2 * half + 1] *= factor;
        }
        int64_t own = row + cuda_lane() / 4 + 8 * half;
        if (cuda_lane() % 4 == 0 && own < row_end && cuda_present(a.lse)) {
            float lse = sum == 0.0f ? -INFINITY : r.highest[half] * unit + logf(sum);
            cuda_put2(a.lse, own, head, (double)lse);
        }
    }
    store_sums<COUNT>(head_output(a.out, head), out, row, row_end, 0, a.out.dim[2]);
}

#endif
