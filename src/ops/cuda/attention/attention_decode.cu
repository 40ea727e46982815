/*
 * attention forward on the tensor cores for few queries, and for heads that share one wide key: a block per
 * (16 rows, key head, stretch of keys), a row being a query in one of the heads that read this key head. With
 * one query a sequence the heads alone fill the rows, and keys are read once for all of them. Where there is
 * more than one stretch, a second kernel puts them together, in their order.
 *
 * Of a block's warps each makes the scores of 16 keys with all rows, over a part of the width where keys are
 * fewer than warps; the weights of its share of the rows with all keys; and the sums of its share of the
 * value's columns. Tiles of wide keys are so small that two blocks fit a multiprocessor: one reads while the
 * other adds up.
 */
#include "ops/cuda/attention/attention_bf16.cuh"
#include "ops/cuda/products/grouped.cuh"

#define ROWS           16
#define USUAL_KEYS     64 // of a tile
#define USUAL_WARPS    4
#define SHARED_KEYS    32
#define SHARED_WARPS   8
#define SHARED_BLOCKS  2 // of a multiprocessor
#define JOIN_THREADS   128
#define AHEAD          16 // stretches of which sums are on their way together
#define MOST_WIDTH     192
#define MOST_VALUE     128
#define SHARED_WIDTH   576 // of a key whose first columns are the value: what latent attention remembers
#define SHARED_VALUE   512
#define MOST_STRETCHES 32

template <int D, int DV, bool SAME, int KEYS, int WARPS> struct decode_memory {
    static constexpr int PARTS = WARPS * 16 / KEYS; // of the width
    static constexpr int LINE = KEYS + 4;           // of scores
    static_assert(KEYS >= ROWS && D % (16 * PARTS) == 0 && DV % (16 * WARPS) == 0, "warps have whole shares");
    __nv_bfloat16 k[2][KEYS * pitch_of(D)];             // queries lie in the second at first
    __nv_bfloat16 v[2][SAME ? 8 : KEYS * pitch_of(DV)]; // SAME: the first columns of k
    __nv_bfloat16 weights[ROWS * pitch_of(KEYS)];
    float scores[PARTS][ROWS * LINE]; // of each part of the width, in units of log 2
    float highest[ROWS];
    float sum[ROWS];    // of weights relative to highest
    float factor[ROWS]; // what the newest maximum makes of older weights
};

/* What a block works on. */
struct decode_part {
    struct sequence s;
    int first; // row, within the sequence: query · group + head
    int rows;  // of the sequence
    int group; // heads that read the key head; 32 bits, by which a division is cheap
    int64_t key_head;
};

__device__ static inline int query_of(const struct decode_part &p, int row)
{
    return (p.first + row) / p.group;
}

__device__ static inline int64_t head_of(const struct decode_part &p, int row)
{
    return p.key_head * p.group + (p.first + row) % p.group;
}

/* The block's part; false past the last. */
__device__ static bool find_part(const struct mt_attention_forward_args &a, struct decode_part *p)
{
    int64_t tile = blockIdx.x;
    p->group = (int)(a.q.dim[1] / a.k.dim[1]);
    p->key_head = blockIdx.y;
    int b = find_expert(static_cast<const int32_t *>(a.q_offsets.data), (int)a.q_offsets.dim[0] - 1, ROWS,
                        &tile, p->group);
    if (b < 0) return false;
    p->first = (int)tile * ROWS;
    p->s = sequence_at(a.q_offsets, a.k_offsets, b);
    p->rows = (int)p->s.queries * p->group;
    if (cuda_present(a.k_starts)) p->s.k_first = cuda_int1(a.k_starts, b);
    return true;
}

/*
 * tile[r][0..WIDTH) = row first + r of KEYS; zeros from row `end` and column `width` on. May still be on its
 * way. Warps take rows in turns.
 */
template <int KEYS, int WIDTH, int WARPS>
__device__ static inline void load_keys(__nv_bfloat16 *tile, const struct tile_operand &o, int64_t first,
                                        int64_t end, int width)
{
    bool direct = o.bf16 && o.aligned && width == WIDTH;
    for (int row = (int)threadIdx.x / 32; row < KEYS; row += WARPS) {
        bool there = first + row < end;
        const __nv_bfloat16 *source =
            static_cast<const __nv_bfloat16 *>(o.data) + (there ? first + row : first) * o.stride;
        __nv_bfloat16 *target = tile + row * pitch_of(WIDTH);
#pragma unroll
        for (int column = cuda_lane() * 8; column < WIDTH; column += 32 * 8) {
            if (direct) {
                copy_async_or_zero(target + column, source + column, there);
            } else {
                load_eight(target + column, o, first + row, end, column, width);
            }
        }
    }
}

template <int D, int THREADS>
__device__ static void load_queries(__nv_bfloat16 *tile, const struct mt_attention_forward_args &a,
                                    const struct decode_part &p)
{
    for (int piece = (int)threadIdx.x; piece < ROWS * (D / 8); piece += THREADS) {
        int row = piece / (D / 8);
        int column = piece % (D / 8) * 8;
        load_eight(tile + row * pitch_of(D) + column, head_operand(a.q, head_of(p, row)),
                   p.s.q_first + query_of(p, row), p.s.q_first + p.s.queries, column, a.q.dim[2]);
    }
}

/* The keys that a lane's two rows see, [begin, end). */
struct seen_keys {
    int begin[2], end[2];
};

__device__ static struct seen_keys find_seen(const struct decode_part &p, int window)
{
    struct seen_keys seen = {};
    for (int half = 0; half < 2; half++) {
        int row = fragment_row(2 * half);
        if (p.first + row >= p.rows) continue;
        int64_t query = query_of(p, row);
        int64_t end = end_of_keys(p.s, query + 1);
        seen.begin[half] = (int)first_key_seen(p.s, query, window);
        seen.end[half] = (int)(end < p.s.keys ? end : p.s.keys);
    }
    return seen;
}

/*
 * This warp's 16 keys with all rows, over its part of the width, of which q has the rows' STEPS fragments;
 * -inf where a query does not see the key.
 */
template <int KEYS, int STEPS, class MEMORY>
__device__ static void make_scores(MEMORY &m, const unsigned (&q)[STEPS][4], const __nv_bfloat16 *k,
                                   int pitch, float scale, const struct seen_keys &seen, int start)
{
    constexpr int BATCH = STEPS % 4 == 0 ? 4 : 3; // fragments of keys that are read before they are used
    static_assert(STEPS % BATCH == 0, "whole batches");
    int warp = (int)threadIdx.x / 32;
    int part = warp / (KEYS / 16);
    int first = warp % (KEYS / 16) * 16;
    const __nv_bfloat16 *keys = k + first * pitch + part * STEPS * 16;
    float sums[2][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step += BATCH) {
        unsigned right[BATCH][4];
#pragma unroll
        for (int i = 0; i < BATCH; i++) load_b<true>(right[i], keys + (step + i) * 16, pitch);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            multiply_add(sums[0], q[step + i], right[i][0], right[i][1]);
            multiply_add(sums[1], q[step + i], right[i][2], right[i][3]);
        }
    }
#pragma unroll
    for (int j = 0; j < 2; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int key = first + fragment_column(j, e);
            bool sees = start + key >= seen.begin[e / 2] && start + key < seen.end[e / 2];
            m.scores[part][fragment_row(e) * MEMORY::LINE + key] = sees ? sums[j][e] * scale : -INFINITY;
        }
    }
}

/* Weights of this warp's rows, LANES lanes each. */
template <int KEYS, int WARPS, class MEMORY> __device__ static void make_weights(MEMORY &m)
{
    constexpr int LANES = 32 * WARPS / ROWS;
    int lane = cuda_lane() % LANES;
    int row = (int)threadIdx.x / LANES;
    float before = m.highest[row];
    float highest = before;
    float score[KEYS / LANES];
#pragma unroll
    for (int i = 0; i < KEYS / LANES; i++) {
        score[i] = 0.0f;
#pragma unroll
        for (int part = 0; part < MEMORY::PARTS; part++)
            score[i] += m.scores[part][row * MEMORY::LINE + i * LANES + lane];
        highest = fmaxf(highest, score[i]);
    }
    for (int distance = 1; distance < LANES; distance *= 2)
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, distance));
    float reference = highest == -INFINITY ? 0.0f : highest; // no key seen yet
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < KEYS / LANES; i++) {
        float weight = exp2f(score[i] - reference);
        sum += weight;
        m.weights[row * pitch_of(KEYS) + i * LANES + lane] = __float2bfloat16_rn(weight);
    }
    for (int distance = 1; distance < LANES; distance *= 2) sum += __shfl_xor_sync(CUDA_EVERY, sum, distance);
    __syncwarp(); // every lane has read the old maximum
    if (lane != 0) return;
    float factor = exp2f(before - reference);
    m.factor[row] = factor;
    m.sum[row] = m.sum[row] * factor + sum;
    m.highest[row] = highest;
}

/* out[16, COLUMNS] = out · factor + weights · v, of this warp's columns. */
template <int KEYS, int COLUMNS>
__device__ static void add_values(float (&out)[COLUMNS / 8][4], const float *factor,
                                  const __nv_bfloat16 *weights, const __nv_bfloat16 *v, int pitch)
{
    float upper = factor[fragment_row(0)];
    float lower = factor[fragment_row(2)];
#pragma unroll
    for (int n = 0; n < COLUMNS / 8; n++) {
        out[n][0] *= upper;
        out[n][1] *= upper;
        out[n][2] *= lower;
        out[n][3] *= lower;
    }
#pragma unroll
    for (int key = 0; key < KEYS; key += 16) {
        unsigned left[4];
        unsigned right[COLUMNS / 16][4];
        load_a<true>(left, weights + key, pitch_of(KEYS));
#pragma unroll
        for (int n = 0; n < COLUMNS / 16; n++) load_b<false>(right[n], v + key * pitch + n * 16, pitch);
#pragma unroll
        for (int n = 0; n < COLUMNS / 16; n++) {
            multiply_add(out[2 * n], left, right[n][0], right[n][1]);
            multiply_add(out[2 * n + 1], left, right[n][2], right[n][3]);
        }
    }
}

/* Where a stretch's sums of one query and head lie: the value's columns, then highest and sum. */
__device__ static float *partial_at(const struct mt_attention_forward_args &a, float *partial, int64_t token,
                                    int64_t head, int64_t stretch, int64_t stretches)
{
    return partial + ((token * a.q.dim[1] + head) * stretches + stretch) * (a.v.dim[2] + 2);
}

template <int COLUMNS, class MEMORY>
__device__ static void store_partial(const struct mt_attention_forward_args &a, const struct decode_part &p,
                                     const MEMORY &m, const float (&out)[COLUMNS / 8][4], float *partial)
{
    int warp = (int)threadIdx.x / 32;
    int64_t value = a.v.dim[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = fragment_row(2 * half);
        if (p.first + row >= p.rows) continue;
        float *place =
            partial_at(a, partial, p.s.q_first + query_of(p, row), head_of(p, row), blockIdx.z, gridDim.z);
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n++) {
            int column = warp * COLUMNS + fragment_column(n, 0);
            if (value % 2 == 0 && column < value) {
                *reinterpret_cast<float2 *>(place + column) =
                    make_float2(out[n][2 * half], out[n][2 * half + 1]);
            } else {
                if (column < value) place[column] = out[n][2 * half];
                if (column + 1 < value) place[column + 1] = out[n][2 * half + 1];
            }
        }
        if (warp == 0 && cuda_lane() % 4 == 0) {
            place[value] = m.highest[row];
            place[value + 1] = m.sum[row];
        }
    }
}

/* A stretch without keys: no weights, and sums that nobody reads. */
__device__ static void store_nothing(const struct mt_attention_forward_args &a, const struct decode_part &p,
                                     float *partial)
{
    int row = (int)threadIdx.x;
    if (row >= ROWS || p.first + row >= p.rows) return;
    float *place =
        partial_at(a, partial, p.s.q_first + query_of(p, row), head_of(p, row), blockIdx.z, gridDim.z);
    place[a.v.dim[2]] = -INFINITY;
    place[a.v.dim[2] + 1] = 0.0f;
}

/* Rows of the only stretch: their outputs. */
template <int COLUMNS, class MEMORY>
__device__ static void store_rows(const struct mt_attention_forward_args &a, const struct decode_part &p,
                                  const MEMORY &m, const float (&out)[COLUMNS / 8][4])
{
    int warp = (int)threadIdx.x / 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = fragment_row(2 * half);
        if (p.first + row >= p.rows) continue;
        int64_t token = p.s.q_first + query_of(p, row);
        int64_t head = head_of(p, row);
        float sum = m.sum[row];
        float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
        int64_t place = token * a.out.stride[0] + head * a.out.stride[1];
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n++) {
#pragma unroll
            for (int e = 2 * half; e < 2 * half + 2; e++) {
                int column = warp * COLUMNS + fragment_column(n, e);
                if (column < a.v.dim[2])
                    cuda_float_set(a.out.data, a.out.dtype, place + column, out[n][e] * factor);
            }
        }
        if (warp == 0 && cuda_lane() % 4 == 0 && cuda_present(a.lse))
            cuda_put2(a.lse, token, head,
                      sum == 0.0f ? -INFINITY : (double)(m.highest[row] * LN_2 + logf(sum)));
    }
}

/* The block's share of the keys that its rows see. */
__device__ static void find_share(const struct decode_part &p, int window, int keys, int64_t *start,
                                  int64_t *end)
{
    int last = p.first + ROWS < p.rows ? p.first + ROWS : p.rows;
    int64_t first_key = first_key_seen(p.s, query_of(p, 0), window);
    int64_t last_key = end_of_keys(p.s, (last - 1) / p.group + 1);
    int64_t tiles = last_key > first_key ? (last_key - first_key + keys - 1) / keys : 0;
    int64_t share = (tiles + gridDim.z - 1) / gridDim.z;
    *start = first_key + blockIdx.z * share * keys;
    *end = *start + share * keys < last_key ? *start + share * keys : last_key;
}

template <int D, int DV, bool SAME, int KEYS, int WARPS, int BLOCKS>
__global__ static void __launch_bounds__(32 * WARPS, BLOCKS)
    decode_kernel(const __grid_constant__ struct mt_attention_forward_args a, float *partial)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];
    using memory = struct decode_memory<D, DV, SAME, KEYS, WARPS>;
    constexpr int STEPS = D / memory::PARTS / 16;
    constexpr int COLUMNS = DV / WARPS;
    constexpr int VALUE_PITCH = SAME ? pitch_of(D) : pitch_of(DV);
    memory &m = *reinterpret_cast<memory *>(shared_memory);
    int warp = (int)threadIdx.x / 32;
    int64_t start;
    int64_t end;
    struct decode_part p;
    cuda_follow();
    if (!find_part(a, &p)) return;
    find_share(p, a.window, KEYS, &start, &end);
    if (start >= end && gridDim.z > 1) {
        store_nothing(a, p, partial);
        return;
    }
    struct tile_operand k = head_operand(a.k, p.key_head);
    struct tile_operand v = head_operand(a.v, p.key_head);
    int64_t k_end = p.s.k_first + p.s.keys;
    int width = (int)a.q.dim[2];
    int value = (int)a.v.dim[2];
    float out[COLUMNS / 8][4] = {};
    unsigned q[STEPS][4];
    if (threadIdx.x < ROWS) {
        m.highest[threadIdx.x] = -INFINITY;
        m.sum[threadIdx.x] = 0.0f;
    }
    load_queries<D, 32 * WARPS>(m.k[1], a, p);
    load_keys<KEYS, D, WARPS>(m.k[0], k, p.s.k_first + start, k_end, width);
    if (!SAME) load_keys<KEYS, DV, WARPS>(m.v[0], v, p.s.k_first + start, k_end, value);
    copy_commit();
    const struct seen_keys seen = find_seen(p, a.window);
    copy_wait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < STEPS; i++)
        load_a<true>(q[i], m.k[1] + (warp / (KEYS / 16) * STEPS + i) * 16, pitch_of(D));
    for (int turn = 0; start < end; start += KEYS, turn ^= 1) {
        copy_wait<0>();
        __syncthreads(); // this tile is there, and nobody reads the other one any more
        if (start + KEYS < end) {
            load_keys<KEYS, D, WARPS>(m.k[turn ^ 1], k, p.s.k_first + start + KEYS, k_end, width);
            if (!SAME) load_keys<KEYS, DV, WARPS>(m.v[turn ^ 1], v, p.s.k_first + start + KEYS, k_end, value);
        }
        copy_commit();
        make_scores<KEYS>(m, q, m.k[turn], pitch_of(D), a.scale * LOG2_E, seen, (int)start);
        __syncthreads();
        make_weights<KEYS, WARPS>(m);
        __syncthreads();
        const __nv_bfloat16 *values = SAME ? m.k[turn] : m.v[turn];
        add_values<KEYS, COLUMNS>(out, m.factor, m.weights, values + warp * COLUMNS, VALUE_PITCH);
    }
    if (gridDim.z == 1) {
        store_rows<COLUMNS>(a, p, m, out);
    } else {
        store_partial<COLUMNS>(a, p, m, out, partial);
    }
}

/* A block per query, head and JOIN_THREADS columns. Lane i of each warp knows of stretch i. */
__global__ static void join_kernel(const __grid_constant__ struct mt_attention_forward_args a, float *partial,
                                   int stretches)
{
    cuda_follow();
    int64_t value = a.v.dim[2];
    int64_t token = blockIdx.x;
    int64_t head = blockIdx.y;
    int lane = cuda_lane();
    const float *first = partial_at(a, partial, token, head, 0, stretches);
    bool there = lane < stretches;
    float own = there ? first[lane * (value + 2) + value] : -INFINITY;
    float sum = there ? first[lane * (value + 2) + value + 1] : 0.0f;
    float highest = own;
    for (int distance = 16; distance > 0; distance /= 2)
        highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, distance));
    float factor = highest == -INFINITY ? 0.0f : exp2f(own - highest);
    sum *= factor;
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(CUDA_EVERY, sum, distance);
    // A factor of 0: the stretch may have written no sums.
    int64_t column = (int64_t)blockIdx.z * JOIN_THREADS + threadIdx.x;
    float out = 0.0f;
    for (int i = 0; i < stretches; i += AHEAD) {
        float weight[AHEAD];
        float part[AHEAD];
#pragma unroll
        for (int n = 0; n < AHEAD; n++) {
            weight[n] = __shfl_sync(CUDA_EVERY, factor, (i + n) % 32);
            bool there = i + n < stretches && weight[n] != 0.0f && column < value;
            part[n] = there ? first[(i + n) * (value + 2) + column] : 0.0f;
        }
#pragma unroll
        for (int n = 0; n < AHEAD; n++) out += weight[n] * part[n];
    }
    int64_t at = token * a.out.stride[0] + head * a.out.stride[1] + column;
    if (column < value) cuda_float_set(a.out.data, a.out.dtype, at, sum == 0.0f ? 0.0f : out / sum);
    if (column != 0 || !cuda_present(a.lse)) return;
    cuda_put2(a.lse, token, head, sum == 0.0f ? -INFINITY : (double)(highest * LN_2 + logf(sum)));
}

// ------------------------------------------------------------------ the host's side

/* Whether values are the first columns of the keys. */
static bool is_shared(const struct mt_attention_forward_args *a)
{
    return a->k.data == a->v.data && a->k.dtype == a->v.dtype && a->k.stride[0] == a->v.stride[0] &&
           a->k.dim[1] == 1;
}

static bool fits(const struct mt_device *device, const struct mt_attention_forward_args *a)
{
    bool types = cuda_state_of(device)->bf16 && cuda_is_float_or_bf16(&a->q) &&
                 cuda_is_float_or_bf16(&a->k) && cuda_is_float_or_bf16(&a->v) &&
                 cuda_is_float_or_bf16(&a->out);
    if (!types || a->q.dim[0] == 0 || a->q_offsets.dim[0] < 2) return false;
    int64_t width = a->q.dim[2];
    int64_t value = a->v.dim[2];
    if (width <= MOST_WIDTH && value <= MOST_VALUE) return true;
    return width <= SHARED_WIDTH && value <= SHARED_VALUE && is_shared(a);
}

/* Blocks along x: sequences may each end in rows that do not fill one, unless a query fills its own. */
static int64_t blocks_of_rows(const struct mt_attention_forward_args *a)
{
    int64_t group = a->q.dim[1] / a->k.dim[1];
    return a->q.dim[0] * group / ROWS + (group % ROWS == 0 ? 0 : a->q_offsets.dim[0] - 1);
}

/* Stretches each sequence's keys are cut into: as many as fill the device. */
static int stretches_of(const struct mt_device *device, const struct mt_attention_forward_args *a)
{
    int64_t blocks = blocks_of_rows(a) * a->k.dim[1];
    int64_t fitting = cuda_state_of(device)->multiprocessors / blocks;
    if (fitting < 1) return 1;
    return (int)(fitting < MOST_STRETCHES ? fitting : MOST_STRETCHES);
}

static size_t partial_bytes(const struct mt_device *device, const struct mt_attention_forward_args *a)
{
    int stretches = stretches_of(device, a);
    return stretches == 1 ? 0 : cuda_floats(a->q.dim[0] * a->q.dim[1] * stretches * (a->v.dim[2] + 2));
}

template <int D, int DV, bool SAME, int KEYS, int WARPS, int BLOCKS>
static enum mt_status launch(struct mt_device *device, const struct mt_attention_forward_args *a,
                             float *partial)
{
    auto kernel = decode_kernel<D, DV, SAME, KEYS, WARPS, BLOCKS>;
    const size_t bytes = sizeof(struct decode_memory<D, DV, SAME, KEYS, WARPS>);
    static_assert(bytes <= CUDA_LEAST_SHARED, "fits every card");
    enum mt_status status =
        cuda_allow_shared(device, reinterpret_cast<const void *>(kernel), bytes, ATTENTION_SHARED);
    if (status != MT_OK) return status;
    int stretches = stretches_of(device, a);
    dim3 grid((unsigned)blocks_of_rows(a), (unsigned)a->k.dim[1], (unsigned)stretches);
    status = cuda_launch(device, "attention of few queries", kernel, grid, 32 * WARPS, bytes, *a, partial);
    if (status != MT_OK || stretches == 1) return status;
    int64_t parts = (a->v.dim[2] + JOIN_THREADS - 1) / JOIN_THREADS;
    dim3 rows((unsigned)a->q.dim[0], (unsigned)a->q.dim[1], (unsigned)(parts > 0 ? parts : 1));
    return cuda_launch(device, "joining attention's stretches", join_kernel, rows, JOIN_THREADS, 0, *a,
                       partial, stretches);
}

static enum mt_status run(struct mt_device *device, const struct mt_attention_forward_args *a, void *scratch)
{
    int64_t width = a->q.dim[2];
    int64_t value = a->v.dim[2];
    float *partial = static_cast<float *>(scratch);
    if (width <= 64 && value <= 64)
        return launch<64, 64, false, USUAL_KEYS, USUAL_WARPS, 1>(device, a, partial);
    if (width <= 128 && value <= 128)
        return launch<128, 128, false, USUAL_KEYS, USUAL_WARPS, 1>(device, a, partial);
    if (width <= MOST_WIDTH && value <= MOST_VALUE)
        return launch<MOST_WIDTH, MOST_VALUE, false, USUAL_KEYS, USUAL_WARPS, 1>(device, a, partial);
    return launch<SHARED_WIDTH, SHARED_VALUE, true, SHARED_KEYS, SHARED_WARPS, SHARED_BLOCKS>(device, a,
                                                                                              partial);
}

const struct cuda_variant<struct mt_attention_forward_args> cuda_attention_decode = {
    fits, partial_bytes, run
};
