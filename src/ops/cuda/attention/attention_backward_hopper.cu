/*
 * attention backward by Hopper's own instructions; formulas in attention_backward.cu. As in
 * attention_backward_bf16.cu scores are made twice, so that nothing is added from two blocks: one kernel sums
 * dk and dv of a tile of keys over the heads of its group and the queries, in order; another sums dq of a
 * tile of queries over the keys. Gradients of scores are left without the scale, which the sums get at their
 * end.
 *
 * With 192 columns of keys and 128 of values a group's sums of 64 keys are 160 registers of each thread: 64
 * scores and their gradients one after the other are what fits beside them.
 */
#include "ops/cuda/attention/attention_hopper.cuh"

#define STEP   64 // rows of the other side
#define STAGES 3

/* Of every query and head, [Hq,Tq]. */
struct statistics {
    float *lse; // in units of log 2; 0 where a query sees no key
    float *delta;
};

struct backward_call {
    CUtensorMap q, k, v, dout; // boxes of HOPPER_ROWS rows, or of STEP on the other side
    struct mt_attention_backward_args a;
    struct statistics stats;
    unsigned *counter; // of the kernel's tiles
};

/* What a block that sums for keys has in shared memory, in panels. */
template <int D, int DV> struct key_memory {
    __nv_bfloat16 k[HOPPER_ROWS * D];
    __nv_bfloat16 v[HOPPER_ROWS * DV];
    __nv_bfloat16 q[STAGES][STEP * D];
    __nv_bfloat16 dout[STAGES][STEP * DV];
    float lse[STAGES][STEP];
    float delta[STAGES][STEP];
};

/* What one that sums for queries has. */
template <int D, int DV> struct query_memory {
    __nv_bfloat16 q[HOPPER_ROWS * D];
    __nv_bfloat16 dout[HOPPER_ROWS * DV];
    __nv_bfloat16 k[STAGES][STEP * D];
    __nv_bfloat16 v[STAGES][STEP * DV];
};

// ------------------------------------------------------------------ statistics

#define LANES_PER_ROW 16 // eight columns each

/* δ = <dout, out>, half a warp for each query and head. */
__global__ static void __launch_bounds__(CUDA_THREADS)
    statistics_kernel(const __grid_constant__ struct backward_call call)
{
    const struct mt_attention_backward_args &a = call.a;
    int64_t pair = cuda_thread() / LANES_PER_ROW;
    int64_t heads = a.q.dim[1];
    int lane = (int)threadIdx.x % LANES_PER_ROW;
    int64_t t = pair / heads;
    int64_t h = pair % heads;
    float sum = 0.0f;
    if (t < a.q.dim[0]) {
        const __nv_bfloat16 *out =
            static_cast<const __nv_bfloat16 *>(a.out.data) + t * a.out.stride[0] + h * a.out.stride[1];
        const __nv_bfloat16 *dout =
            static_cast<const __nv_bfloat16 *>(a.dout.data) + t * a.dout.stride[0] + h * a.dout.stride[1];
        int value = (int)a.v.dim[2];
        int at = lane * 8;
        if (at + 8 <= value) {
            uint4 x = *reinterpret_cast<const uint4 *>(out + at);
            uint4 y = *reinterpret_cast<const uint4 *>(dout + at);
            sum = low_bf16(x.x) * low_bf16(y.x) + high_bf16(x.x) * high_bf16(y.x) +
                  low_bf16(x.y) * low_bf16(y.y) + high_bf16(x.y) * high_bf16(y.y) +
                  low_bf16(x.z) * low_bf16(y.z) + high_bf16(x.z) * high_bf16(y.z) +
                  low_bf16(x.w) * low_bf16(y.w) + high_bf16(x.w) * high_bf16(y.w);
        } else {
            for (; at < value; at++) sum += __bfloat162float(out[at]) * __bfloat162float(dout[at]);
        }
    }
    for (int offset = LANES_PER_ROW / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(CUDA_EVERY, sum, offset);
    }
    if (lane != 0 || t >= a.q.dim[0]) return;
    float lse = (float)cuda_get2(a.lse, t, h);
    call.stats.lse[h * a.q.dim[0] + t] = lse == -INFINITY ? 0.0f : lse * LOG2_E;
    call.stats.delta[h * a.q.dim[0] + t] = sum;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ------------------------------------------------------------------ what both kernels share

/* `full`: the copy engine is done; `empty`: both groups are. */
struct backward_barriers {
    uint64_t tile_full, tile_empty;                 // what a block keeps
    uint64_t step_full[STAGES], step_empty[STAGES]; // what passes by
    struct handed_places handed;
};

/*
 * Who takes part in a step: where lanes themselves write and read some of it, each of them; else one lane of
 * a warp for all.
 */
enum lanes { ONE_LANE = 1, ALL_LANES = 32 };

/* arrivals: of the warp that brings a step. */
__device__ static void init_barriers(struct backward_barriers *b, int arrivals, enum lanes lanes)
{
    const int warps = HOPPER_GROUPS * HOPPER_GROUP / 32;
    barrier_init(&b->tile_full, 1);
    barrier_init(&b->tile_empty, warps);
    for (int i = 0; i < STAGES; i++) {
        barrier_init(&b->step_full[i], arrivals);
        barrier_init(&b->step_empty[i], warps * lanes);
    }
    init_handed(&b->handed);
    barrier_publish();
}

/* This warp's first of a group's 64 rows. */
__device__ static inline int warp_row(void)
{
    return (int)threadIdx.x % HOPPER_GROUP / 32 * 16;
}

// ------------------------------------------------------------------ dk and dv

__device__ static struct work key_work(const struct backward_call &call)
{
    const struct mt_attention_backward_args &a = call.a;
    return work_along(a.k_offsets, a.q_offsets, a.k_offsets, a.k.dim[1], false, call.counter);
}

/* One warp: keys and values of every tile of this block, and queries as stages become free. */
template <int D, int DV>
__device__ static void bring_queries(const struct backward_call &call, struct key_memory<D, DV> &m,
                                     struct backward_barriers *b)
{
    struct place place;
    unsigned step = 0;
    unsigned tiles = 0;
    int rows = (int)call.a.q.dim[0];
    int group = (int)(call.a.q.dim[1] / call.a.k.dim[1]);
    int lane = cuda_lane();
    for (unsigned turn = 0; take_place(&b->handed, turn, &place); turn++) {
        struct stretch queries = queries_seeing(place, place.start, HOPPER_ROWS, call.a.window);
        if (queries.first >= queries.end) continue;
        barrier_wait(&b->tile_empty, (tiles++ + 1) & 1);
        if (lane == 0) {
            int row = place.k_first + place.start;
            barrier_expect(&b->tile_full, sizeof m.k + sizeof m.v);
            copy_head_tile<HOPPER_ROWS, D>(m.k, &call.k, place.head, row, &b->tile_full);
            copy_head_tile<HOPPER_ROWS, DV>(m.v, &call.v, place.head, row, &b->tile_full);
        }
        for (int head = place.head * group; head < (place.head + 1) * group; head++) {
            for (int query = queries.first; query < queries.end; query += STEP, step++) {
                unsigned at = step % STAGES;
                uint64_t *full = &b->step_full[at];
                int row = place.q_first + query;
                barrier_wait(&b->step_empty[at], (step / STAGES + 1) & 1);
                if (lane == 0) {
                    barrier_expect(full, sizeof m.q[at] + sizeof m.dout[at]);
                    copy_head_tile<STEP, D>(m.q[at], &call.q, head, row, full);
                    copy_head_tile<STEP, DV>(m.dout[at], &call.dout, head, row, full);
                }
                for (int i = lane; i < STEP; i += 32) {
                    int64_t from = (int64_t)head * rows + min(row + i, rows - 1);
                    m.lse[at][i] = call.stats.lse[from];
                    m.delta[at][i] = call.stats.delta[from];
                }
                barrier_arrive(full);
            }
        }
    }
}

/* Scores [keys, queries] become weights, as the left operand of a product. */
__device__ static inline void weigh_queries(float (&scores)[STEP / 8][4], const float *lse, float scale,
                                            unsigned (&weights)[STEP / 16][4])
{
#pragma unroll
    for (int j = 0; j < STEP / 8; j++) {
        float2 own = *reinterpret_cast<const float2 *>(lse + fragment_column(j, 0));
#pragma unroll
        for (int e = 0; e < 4; e++) {
            scores[j][e] = power_of_two(scores[j][e] * scale - (e % 2 == 0 ? own.x : own.y));
        }
    }
    pack_factors<STEP / 8>(weights, scores);
}

/*
 * factors = weights · (toward - delta), of queries along columns. Where `toward` took the place of the
 * weights, their rounding is what is left of them.
 */
template <bool ROUNDED>
__device__ static inline void differentiate_queries(const float (&weights)[STEP / 8][4],
                                                    const float (&toward)[STEP / 8][4],
                                                    const unsigned (&rounded)[STEP / 16][4],
                                                    const float *delta, unsigned (&factors)[STEP / 16][4])
{
#pragma unroll
    for (int j = 0; j < STEP / 8; j++) {
        float2 own = *reinterpret_cast<const float2 *>(delta + fragment_column(j, 0));
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int at = j % 2 * 2 + half;
            unsigned both = rounded[j / 2][at];
            float low = ROUNDED ? low_bf16(both) : weights[j][2 * half];
            float high = ROUNDED ? high_bf16(both) : weights[j][2 * half + 1];
            factors[j / 2][at] =
                pack_bf16(low * (toward[j][2 * half] - own.x), high * (toward[j][2 * half + 1] - own.y));
        }
    }
}

/* This warp reads step `step` no more. */
template <enum lanes LANES>
__device__ static inline void release_step(struct backward_barriers *b, unsigned step)
{
    uint64_t *barrier = &b->step_empty[step % STAGES];
    if (LANES == ALL_LANES) {
        barrier_arrive(barrier);
    } else {
        release(barrier);
    }
}

/* Steps from `from` to `to` that a group has no use for; *step counts them. */
template <enum lanes LANES>
__device__ static inline void skip_steps(struct backward_barriers *b, int from, int to, unsigned *step)
{
    for (int at = from; at < to; at += STEP, ++*step) {
        barrier_wait(&b->step_full[*step % STAGES], *step / STAGES & 1);
        release_step<LANES>(b, *step);
    }
}

/* The part of `all`, in whole steps from its first row on, that meets `own`. */
__device__ static inline struct stretch steps_within(const struct stretch &all, const struct stretch &own)
{
    struct stretch part;
    part.first = all.first + max(own.first - all.first, 0) / STEP * STEP;
    part.end = max(min(own.end, all.end), part.first);
    return part;
}

/* What a group sums for: 64 rows of its tile. */
struct rows {
    const struct mt_attention_backward_args &a;
    const struct place &place;
    int first; // key or query
};

/*
 * Adds what queries `own` of one head give a group's keys; *step counts tiles of queries. The sums for dk of
 * one step are still under way when the scores of the next begin.
 */
template <int D, int DV>
__device__ static inline void add_queries(const struct rows &rows, struct key_memory<D, DV> &m,
                                          struct backward_barriers *b, const struct stretch &own, int group,
                                          unsigned *step, float (&dk)[D / 8][4], float (&dv)[DV / 8][4])
{
    const __nv_bfloat16 *k = m.k + group * 64 * WGMMA_LINE;
    const __nv_bfloat16 *v = m.v + group * 64 * WGMMA_LINE;
    const float scale = rows.a.scale * LOG2_E;
    const int window = rows.a.window;
    const bool narrow = D <= 128;         // else registers are for less at a time
    const int under_way = narrow ? 1 : 0; // groups of products between steps
    float scores[STEP / 8][4] = {};       // [keys, queries]
    float others[STEP / 8][4] = {};
    float(&toward)[STEP / 8][4] = narrow ? others : scores;
    unsigned weights[STEP / 16][4] = {};
    unsigned factors[STEP / 16][4] = {};
    for (int query = own.first; query < own.end; query += STEP, ++*step) {
        unsigned at = *step % STAGES;
        barrier_wait(&b->step_full[at], *step / STAGES & 1);
        group_pin(scores);
        group_begin();
        begin_scores<D, HOPPER_ROWS>(scores, k, m.q[at]);
        group_commit();
        group_wait<0>();
        group_pin(scores);
        group_pin(dk);
        group_pin(factors);
        if (query > own.first) release_step<ALL_LANES>(b, *step - 1);
        if (!all_see(rows.place, query, STEP, rows.first, 64, window))
            hide_unseen(scores, columns_seeing(rows.place, rows.first + warp_row(), query, window));
        weigh_queries(scores, m.lse[at], scale, weights);
        group_pin(toward);
        group_pin(weights);
        group_pin(dv);
        group_begin();
        begin_scores<DV, HOPPER_ROWS>(toward, v, m.dout[at]);
        group_commit();
        begin_sums(dv, weights, m.dout[at]);
        group_commit();
        group_wait<1>();
        group_pin(toward);
        differentiate_queries<!narrow>(scores, toward, weights, m.delta[at], factors);
        group_pin(factors);
        group_pin(dk);
        group_begin();
        begin_sums(dk, factors, m.q[at]);
        group_commit();
        group_wait<under_way>(); // for dv at least: its weights' registers are needed
        group_pin(dv);
        group_pin(weights);
        if (!narrow) {
            group_pin(dk);
            group_pin(factors);
        }
    }
    group_wait<0>();
    group_pin(dk);
    group_pin(factors);
    if (own.first < own.end) release_step<ALL_LANES>(b, *step - 1);
}

/* dk and dv of a group's 64 keys. */
template <int D, int DV>
__device__ static inline void sum_queries(const struct rows &rows, struct key_memory<D, DV> &m,
                                          struct backward_barriers *b, const struct stretch &queries,
                                          int group, unsigned *step, float (&dk)[D / 8][4],
                                          float (&dv)[DV / 8][4])
{
    struct stretch own = steps_within(queries, queries_seeing(rows.place, rows.first, 64, rows.a.window));
    for (int64_t head = 0; head < rows.a.q.dim[1] / rows.a.k.dim[1]; head++) {
        int done = own.first + tiles_of(own, STEP) * STEP;
        skip_steps<ALL_LANES>(b, queries.first, own.first, step);
        add_queries(rows, m, b, own, group, step, dk, dv);
        skip_steps<ALL_LANES>(b, done, queries.end, step);
    }
    release(&b->tile_empty);
}

template <int D, int DV>
__device__ static void make_keys(const struct backward_call &call, struct key_memory<D, DV> &m,
                                 struct backward_barriers *b, int group)
{
    const struct mt_attention_backward_args &a = call.a;
    struct place place;
    unsigned step = 0;
    unsigned tiles = 0;
    for (unsigned turn = 0; take_place(&b->handed, turn, &place); turn++) {
        struct stretch queries = queries_seeing(place, place.start, HOPPER_ROWS, a.window);
        struct rows rows = {a, place, place.start + group * 64};
        float dk[D / 8][4] = {};
        float dv[DV / 8][4] = {};
        if (queries.first < queries.end) {
            barrier_wait(&b->tile_full, tiles++ & 1);
            sum_queries(rows, m, b, queries, group, &step, dk, dv);
        }
        int64_t row = place.k_first + rows.first + warp_row();
        int64_t end = place.k_first + place.keys;
        struct tile_output output = head_output(a.dk, place.head);
        output.alpha = a.scale;
        store_sums<D / 8>(output, dk, row, end, 0, a.k.dim[2]);
        store_sums<DV / 8>(head_output(a.dv, place.head), dv, row, end, 0, a.v.dim[2]);
    }
}

// ------------------------------------------------------------------ dq

__device__ static struct work query_work(const struct backward_call &call)
{
    const struct mt_attention_backward_args &a = call.a;
    return work_along(a.q_offsets, a.q_offsets, a.k_offsets, a.q.dim[1], true, call.counter);
}

/* One warp: queries of every tile of this block, and keys and values as stages become free. */
template <int D, int DV>
__device__ static void bring_keys(const struct backward_call &call, struct query_memory<D, DV> &m,
                                  struct backward_barriers *b)
{
    struct place place;
    unsigned step = 0;
    unsigned tiles = 0;
    int group = (int)(call.a.q.dim[1] / call.a.k.dim[1]);
    for (unsigned turn = 0; take_place(&b->handed, turn, &place); turn++) {
        struct stretch keys = keys_seen(place, place.start, HOPPER_ROWS, call.a.window);
        if (keys.first >= keys.end) continue;
        barrier_wait(&b->tile_empty, (tiles++ + 1) & 1);
        if (cuda_lane() == 0) {
            int row = place.q_first + place.start;
            barrier_expect(&b->tile_full, sizeof m.q + sizeof m.dout);
            copy_head_tile<HOPPER_ROWS, D>(m.q, &call.q, place.head, row, &b->tile_full);
            copy_head_tile<HOPPER_ROWS, DV>(m.dout, &call.dout, place.head, row, &b->tile_full);
        }
        int key_head = place.head / group;
        for (int key = keys.first; key < keys.end; key += STEP, step++) {
            unsigned at = step % STAGES;
            uint64_t *full = &b->step_full[at];
            barrier_wait(&b->step_empty[at], (step / STAGES + 1) & 1);
            if (cuda_lane() == 0) {
                barrier_expect(full, sizeof m.k[at] + sizeof m.v[at]);
                copy_head_tile<STEP, D>(m.k[at], &call.k, key_head, place.k_first + key, full);
                copy_head_tile<STEP, DV>(m.v[at], &call.v, key_head, place.k_first + key, full);
            }
            __syncwarp();
        }
    }
}

/* A lane's two queries. */
struct query_stats {
    float lse[2], delta[2];
};

__device__ static inline struct query_stats load_stats(const struct backward_call &call,
                                                       const struct place &place, int query)
{
    struct query_stats own = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = query + cuda_lane() / 4 + 8 * half;
        if (row >= place.queries) continue;
        int64_t from = place.head * call.a.q.dim[0] + place.q_first + row;
        own.lse[half] = call.stats.lse[from];
        own.delta[half] = call.stats.delta[from];
    }
    return own;
}

/* dq of a group's 64 queries; *step counts tiles of keys. As above sums and the next scores overlap. */
template <int D, int DV>
__device__ static inline void sum_keys(const struct rows &rows, struct query_memory<D, DV> &m,
                                       struct backward_barriers *b, const struct query_stats &stats,
                                       const struct stretch &keys, int group, unsigned *step,
                                       float (&dq)[D / 8][4])
{
    const float scale = rows.a.scale * LOG2_E;
    const int window = rows.a.window;
    const __nv_bfloat16 *q = m.q + group * 64 * WGMMA_LINE;
    const __nv_bfloat16 *dout = m.dout + group * 64 * WGMMA_LINE;
    float scores[STEP / 8][4] = {}; // [queries, keys]
    float toward[STEP / 8][4] = {};
    unsigned factors[STEP / 16][4] = {};
    struct stretch own = steps_within(keys, keys_seen(rows.place, rows.first, 64, window));
    skip_steps<ONE_LANE>(b, keys.first, own.first, step);
    for (int key = own.first; key < own.end; key += STEP, ++*step) {
        unsigned at = *step % STAGES;
        barrier_wait(&b->step_full[at], *step / STAGES & 1);
        group_pin(scores);
        group_pin(toward);
        group_begin();
        begin_scores<D, HOPPER_ROWS>(scores, q, m.k[at]);
        group_commit();
        begin_scores<DV, HOPPER_ROWS>(toward, dout, m.v[at]);
        group_commit();
        group_wait<1>();
        group_pin(scores);
        group_pin(dq);
        group_pin(factors);
        if (key > own.first) release_step<ONE_LANE>(b, *step - 1);
        if (!all_see(rows.place, rows.first, 64, key, STEP, window))
            hide_unseen(scores, columns_seen(rows.place, rows.first + warp_row(), key, window));
#pragma unroll
        for (int i = 0; i < STEP / 2; i++) {
            scores[i / 4][i % 4] = power_of_two(scores[i / 4][i % 4] * scale - stats.lse[i % 4 / 2]);
        }
        group_wait<0>();
        group_pin(toward);
#pragma unroll
        for (int i = 0; i < STEP / 2; i++) {
            scores[i / 4][i % 4] *= toward[i / 4][i % 4] - stats.delta[i % 4 / 2];
        }
        pack_factors<STEP / 8>(factors, scores);
        group_pin(factors);
        group_pin(dq);
        group_begin();
        begin_sums(dq, factors, m.k[at]);
        group_commit();
    }
    group_wait<0>();
    group_pin(dq);
    group_pin(factors);
    if (own.first < own.end) release_step<ONE_LANE>(b, *step - 1);
    skip_steps<ONE_LANE>(b, own.first + tiles_of(own, STEP) * STEP, keys.end, step);
    release(&b->tile_empty);
}

template <int D, int DV>
__device__ static void make_queries(const struct backward_call &call, struct query_memory<D, DV> &m,
                                    struct backward_barriers *b, int group)
{
    const struct mt_attention_backward_args &a = call.a;
    struct place place;
    unsigned step = 0;
    unsigned tiles = 0;
    for (unsigned turn = 0; take_place(&b->handed, turn, &place); turn++) {
        struct stretch keys = keys_seen(place, place.start, HOPPER_ROWS, a.window);
        struct rows rows = {a, place, place.start + group * 64};
        float dq[D / 8][4] = {};
        if (keys.first < keys.end) {
            barrier_wait(&b->tile_full, tiles++ & 1);
            struct query_stats stats = load_stats(call, place, rows.first + warp_row());
            sum_keys(rows, m, b, stats, keys, group, &step, dq);
        }
        int64_t row = place.q_first + rows.first + warp_row();
        struct tile_output output = head_output(a.dq, place.head);
        output.alpha = a.scale;
        store_sums<D / 8>(output, dq, row, place.q_first + place.queries, 0, a.q.dim[2]);
    }
}

#endif

// ------------------------------------------------------------------ kernels

template <int D, int DV>
__global__ static void __launch_bounds__(HOPPER_THREADS, 1)
    dkv_kernel(const __grid_constant__ struct backward_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ struct backward_barriers barriers;
    struct key_memory<D, DV> &m = *reinterpret_cast<struct key_memory<D, DV> *>(align_patterns(memory));
    if (threadIdx.x == 0) init_barriers(&barriers, 1 + ALL_LANES, ALL_LANES);
    __syncthreads();
    // Registers go to those who hold sums.
    if (threadIdx.x < HOPPER_GROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x < 32) {
            bring_queries(call, m, &barriers);
        } else if (threadIdx.x < 64) {
            hand_places(key_work(call), &barriers.handed);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        make_keys(call, m, &barriers, (int)threadIdx.x / HOPPER_GROUP - 1);
    }
#endif
}

template <int D, int DV>
__global__ static void __launch_bounds__(HOPPER_THREADS, 1)
    dq_kernel(const __grid_constant__ struct backward_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ struct backward_barriers barriers;
    struct query_memory<D, DV> &m = *reinterpret_cast<struct query_memory<D, DV> *>(align_patterns(memory));
    if (threadIdx.x == 0) init_barriers(&barriers, 1, ONE_LANE);
    __syncthreads();
    if (threadIdx.x < HOPPER_GROUP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x < 32) {
            bring_keys(call, m, &barriers);
        } else if (threadIdx.x < 64) {
            hand_places(query_work(call), &barriers.handed);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        make_queries(call, m, &barriers, (int)threadIdx.x / HOPPER_GROUP - 1);
    }
#endif
}

// ------------------------------------------------------------------ launch

/* Maps with boxes of so many rows of each side. */
static enum mt_status map_sides(struct mt_device *device, struct backward_call *call, int q_rows, int k_rows)
{
    enum mt_status status = cuda_map_heads(device, &call->a.q, q_rows, &call->q);
    if (status == MT_OK) status = cuda_map_heads(device, &call->a.dout, q_rows, &call->dout);
    if (status == MT_OK) status = cuda_map_heads(device, &call->a.k, k_rows, &call->k);
    return status != MT_OK ? status : cuda_map_heads(device, &call->a.v, k_rows, &call->v);
}

template <int D, int DV>
static enum mt_status launch(struct mt_device *device, struct backward_call *call, unsigned *scratch)
{
    const size_t key_bytes = bytes_with_patterns<struct key_memory<D, DV>>();
    const size_t query_bytes = bytes_with_patterns<struct query_memory<D, DV>>();
    cudaStream_t stream = cuda_stream(device);
    unsigned blocks = (unsigned)cuda_state_of(device)->multiprocessors;
    enum mt_status status = cuda_allow_shared(device, reinterpret_cast<const void *>(dkv_kernel<D, DV>),
                                              key_bytes, ATTENTION_SHARED);
    if (status == MT_OK)
        status = cuda_allow_shared(device, reinterpret_cast<const void *>(dq_kernel<D, DV>), query_bytes,
                                   ATTENTION_SHARED);
    if (status == MT_OK) status = map_sides(device, call, STEP, HOPPER_ROWS);
    if (status == MT_OK) status = cuda_take_counter(device, scratch, &call->counter);
    if (status != MT_OK) return status;
    dkv_kernel<D, DV><<<blocks, HOPPER_THREADS, key_bytes, stream>>>(*call);
    status = map_sides(device, call, HOPPER_ROWS, STEP);
    if (status == MT_OK) status = cuda_take_counter(device, scratch, &call->counter);
    if (status != MT_OK) return status;
    dq_kernel<D, DV><<<blocks, HOPPER_THREADS, query_bytes, stream>>>(*call);
    return cuda_launched(device, "attention backward");
}

static bool fits(const struct mt_device *device, const struct mt_attention_backward_args *a)
{
    return cuda_attention_backward_fits(device, a) &&
           operands_fit_hopper(device, &a->q, &a->k, &a->v, a->scale) && is_readable(&a->dout) &&
           is_readable(&a->out) && a->lse.dtype == MT_F32;
}

/* Statistics: f32 [2,Hq,Tq]; behind them a counter. */
static size_t statistics_bytes(const struct mt_device *, const struct mt_attention_backward_args *a)
{
    return cuda_floats(2 * a->q.dim[0] * a->q.dim[1]) + CUDA_COUNTER_BYTES;
}

static enum mt_status run(struct mt_device *device, const struct mt_attention_backward_args *a, void *scratch)
{
    int64_t width = a->q.dim[2];
    int64_t value = a->v.dim[2];
    int64_t pairs = a->q.dim[0] * a->q.dim[1];
    float *stats = static_cast<float *>(scratch);
    struct backward_call call = {};
    call.a = *a;
    call.stats = {stats, stats + pairs};
    unsigned blocks = (unsigned)((pairs * LANES_PER_ROW + CUDA_THREADS - 1) / CUDA_THREADS);
    statistics_kernel<<<blocks, CUDA_THREADS, 0, cuda_stream(device)>>>(call);
    unsigned *counter = reinterpret_cast<unsigned *>(stats + 2 * pairs);
    if (width <= 64 && value <= 64) return launch<64, 64>(device, &call, counter);
    return width <= 128 ? launch<128, 128>(device, &call, counter) : launch<192, 128>(device, &call, counter);
}

const struct cuda_variant<struct mt_attention_backward_args> cuda_attention_backward_hopper = {
    fits, statistics_bytes, run
};
