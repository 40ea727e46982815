/*
 * attention backward on the tensor cores; formulas in attention_backward.cu. Scores are made twice, so that
 * nothing is added from two blocks: one kernel has a block per (64 keys, key head), which sums dk and dv over
 * the heads of its group and the queries, in order; another has one per (64 queries, head), which sums dq.
 * Each warp has 16 rows of the side that is summed for, and 32 of the other at a time: more sums do not fit
 * into registers.
 */
#include "ops/cuda/attention/attention_bf16.cuh"

#define STEP 32 // rows of the other side

/* What both kernels need of a weight. */
struct weighing {
    float scale;       // of scores
    float power_scale; // to units of log 2
    int window;
};

/* score becomes p, toward becomes ds, of a query and key that may not see each other. */
__device__ static inline void weigh(const struct weighing &w, bool seen, float lse, float delta, float *score,
                                    float *toward)
{
    float p = seen ? exp2f(*score * w.power_scale - lse * LOG2_E) : 0.0f;
    *score = p;
    *toward = seen ? w.scale * p * (*toward - delta) : 0.0f;
}

// ------------------------------------------------------------------ dk and dv

template <int D, int DV> struct key_memory {
    __nv_bfloat16 k[ATTENTION_ROWS * pitch_of(D)];
    __nv_bfloat16 v[ATTENTION_ROWS * pitch_of(DV)];
    __nv_bfloat16 q[2][STEP * pitch_of(D)];
    __nv_bfloat16 dout[2][STEP * pitch_of(DV)];
    float lse[2][STEP];
    float delta[2][STEP];
};

/* Queries [query, query + STEP) of a head to part `turn`. */
template <int D, int DV>
__device__ static inline void load_queries(struct key_memory<D, DV> &m, int turn,
                                           const struct mt_attention_backward_args &a, const float *deltas,
                                           const struct sequence &s, int64_t head, int64_t query)
{
    int64_t end = s.q_first + s.queries;
    int64_t row = s.q_first + query + threadIdx.x % STEP;
    load_rows<STEP, D>(m.q[turn], head_operand(a.q, head), s.q_first + query, end, (int)a.q.dim[2]);
    load_rows<STEP, DV>(m.dout[turn], head_operand(a.dout, head), s.q_first + query, end, (int)a.v.dim[2]);
    if (threadIdx.x < STEP) {
        m.lse[turn][threadIdx.x] = row < end ? (float)cuda_get2(a.lse, row, head) : 0.0f;
    } else if (threadIdx.x < 2 * STEP) {
        m.delta[turn][threadIdx.x - STEP] = row < end ? deltas[row * a.q.dim[1] + head] : 0.0f;
    }
}

/* Adds what STEP queries give this warp's 16 keys, the first of which is `key` of the sequence. */
template <int D, int DV>
__device__ static inline void add_queries(const struct key_memory<D, DV> &m, int turn,
                                          const struct weighing &w, const struct sequence &s, int64_t key,
                                          int64_t query, float (&dk)[D / 8][4], float (&dv)[DV / 8][4])
{
    int warp = (int)threadIdx.x / 32;
    float scores[STEP / 8][4] = {}; // [keys, queries]
    float toward[STEP / 8][4] = {};
    add_dots<D>(scores, m.k + warp * 16 * pitch_of(D), m.q[turn]);
    add_dots<DV>(toward, m.v + warp * 16 * pitch_of(DV), m.dout[turn]);
    bool all = all_see(s, query, STEP, key, 16, w.window);
#pragma unroll
    for (int j = 0; j < STEP / 8; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int column = fragment_column(j, e);
            bool seen = all || sees(s, query + column, key + fragment_row(e), w.window);
            weigh(w, seen, m.lse[turn][column], m.delta[turn][column], &scores[j][e], &toward[j][e]);
        }
    }
    add_rows<DV>(dv, scores, m.dout[turn]);
    add_rows<D>(dk, toward, m.q[turn]);
}

template <int D, int DV>
__global__ static void __launch_bounds__(ATTENTION_THREADS, 2)
    dkv_kernel(const __grid_constant__ struct mt_attention_backward_args a, const float *deltas)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];
    struct key_memory<D, DV> &m = *reinterpret_cast<struct key_memory<D, DV> *>(shared_memory);
    int64_t start = 0; // the tile's first key, within the sequence
    int64_t b = find_tile(a.k_offsets, blockIdx.x, ATTENTION_ROWS, &start);
    if (b < 0) return;
    int64_t group = a.q.dim[1] / a.k.dim[1];
    int64_t key_head = blockIdx.y;
    struct sequence s = sequence_at(a.q_offsets, a.k_offsets, b);
    struct weighing w = {a.scale, a.scale * LOG2_E, a.window};
    int64_t k_end = s.k_first + s.keys;
    int64_t own = start + threadIdx.x / 32 * 16; // this warp's first key
    float dk[D / 8][4] = {};
    float dv[DV / 8][4] = {};
    // Queries before `first` stand before every key of the tile; with a window those from `end` on are past
    // it.
    int64_t first = start - s.shift > 0 ? start - s.shift : 0;
    int64_t end = s.queries;
    int64_t last_seeing = start + ATTENTION_ROWS - 1 + a.window - s.shift;
    if (a.window > 0 && last_seeing < end) end = last_seeing;
    int64_t steps = end > first ? (end - first + STEP - 1) / STEP : 0; // of a head
    load_rows<ATTENTION_ROWS, D>(m.k, head_operand(a.k, key_head), s.k_first + start, k_end, (int)a.q.dim[2]);
    load_rows<ATTENTION_ROWS, DV>(m.v, head_operand(a.v, key_head), s.k_first + start, k_end,
                                  (int)a.v.dim[2]);
    if (steps > 0) load_queries(m, 0, a, deltas, s, key_head * group, first);
    copy_commit();
    for (int64_t i = 0; i < steps * group; i++) {
        int turn = (int)(i % 2);
        copy_wait<0>();
        __syncthreads(); // these queries are there, and nobody reads the others any more
        if (i + 1 < steps * group) {
            int64_t next_head = key_head * group + (i + 1) / steps;
            load_queries(m, turn ^ 1, a, deltas, s, next_head, first + (i + 1) % steps * STEP);
        }
        copy_commit();
        add_queries(m, turn, w, s, own, first + i % steps * STEP, dk, dv);
    }
    copy_wait<0>();
    store_sums<D / 8>(head_output(a.dk, key_head), dk, s.k_first + own, k_end, 0, a.k.dim[2]);
    store_sums<DV / 8>(head_output(a.dv, key_head), dv, s.k_first + own, k_end, 0, a.v.dim[2]);
}

// ------------------------------------------------------------------ dq

template <int D, int DV> struct query_memory {
    __nv_bfloat16 q[ATTENTION_ROWS * pitch_of(D)];
    __nv_bfloat16 dout[ATTENTION_ROWS * pitch_of(DV)];
    __nv_bfloat16 k[2][STEP * pitch_of(D)];
    __nv_bfloat16 v[2][STEP * pitch_of(DV)];
};

/* Adds what STEP keys from `start` on give this warp's 16 queries, the first of which is `query`. */
template <int D, int DV>
__device__ static inline void add_keys(const struct query_memory<D, DV> &m, int turn,
                                       const struct weighing &w, const struct sequence &s, int64_t query,
                                       int64_t start, const float (&lse)[2], const float (&delta)[2],
                                       float (&dq)[D / 8][4])
{
    int warp = (int)threadIdx.x / 32;
    float scores[STEP / 8][4] = {}; // [queries, keys]
    float toward[STEP / 8][4] = {};
    add_dots<D>(scores, m.q + warp * 16 * pitch_of(D), m.k[turn]);
    add_dots<DV>(toward, m.dout + warp * 16 * pitch_of(DV), m.v[turn]);
    bool all = all_see(s, query, 16, start, STEP, w.window);
#pragma unroll
    for (int j = 0; j < STEP / 8; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            bool seen = all || sees(s, query + fragment_row(e), start + fragment_column(j, e), w.window);
            weigh(w, seen, lse[e / 2], delta[e / 2], &scores[j][e], &toward[j][e]);
        }
    }
    add_rows<D>(dq, toward, m.k[turn]);
}

template <int D, int DV>
__global__ static void __launch_bounds__(ATTENTION_THREADS, 2)
    dq_kernel(const __grid_constant__ struct mt_attention_backward_args a, const float *deltas)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];
    struct query_memory<D, DV> &m = *reinterpret_cast<struct query_memory<D, DV> *>(shared_memory);
    int64_t query = 0; // the tile's first, within the sequence
    int64_t b = find_tile(a.q_offsets, gridDim.x - 1 - blockIdx.x, ATTENTION_ROWS, &query);
    if (b < 0) return;
    int64_t head = blockIdx.y;
    int64_t key_head = head / (a.q.dim[1] / a.k.dim[1]);
    struct sequence s = sequence_at(a.q_offsets, a.k_offsets, b);
    struct weighing w = {a.scale, a.scale * LOG2_E, a.window};
    struct tile_operand k = head_operand(a.k, key_head);
    struct tile_operand v = head_operand(a.v, key_head);
    int64_t q_end = s.q_first + s.queries;
    int64_t k_end = s.k_first + s.keys;
    int width = (int)a.q.dim[2];
    int value = (int)a.v.dim[2];
    int64_t own = query + threadIdx.x / 32 * 16; // this warp's first query
    float dq[D / 8][4] = {};
    float lse[2] = {0.0f, 0.0f};
    float delta[2] = {0.0f, 0.0f};
    for (int half = 0; half < 2; half++) {
        int64_t row = s.q_first + own + cuda_lane() / 4 + 8 * half;
        if (row >= q_end) continue;
        lse[half] = (float)cuda_get2(a.lse, row, head);
        delta[half] = deltas[row * a.q.dim[1] + head];
    }
    int64_t end = end_of_keys(s, query + ATTENTION_ROWS);
    int64_t start = first_key_seen(s, query, a.window);
    load_rows<ATTENTION_ROWS, D>(m.q, head_operand(a.q, head), s.q_first + query, q_end, width);
    load_rows<ATTENTION_ROWS, DV>(m.dout, head_operand(a.dout, head), s.q_first + query, q_end, value);
    if (start < end) {
        load_rows<STEP, D>(m.k[0], k, s.k_first + start, k_end, width);
        load_rows<STEP, DV>(m.v[0], v, s.k_first + start, k_end, value);
    }
    copy_commit();
    for (int turn = 0; start < end; start += STEP, turn ^= 1) {
        copy_wait<0>();
        __syncthreads(); // this tile is there, and nobody reads the other one any more
        if (start + STEP < end) {
            load_rows<STEP, D>(m.k[turn ^ 1], k, s.k_first + start + STEP, k_end, width);
            load_rows<STEP, DV>(m.v[turn ^ 1], v, s.k_first + start + STEP, k_end, value);
        }
        copy_commit();
        add_keys(m, turn, w, s, own, start, lse, delta, dq);
    }
    copy_wait<0>();
    store_sums<D / 8>(head_output(a.dq, head), dq, s.q_first + own, q_end, 0, a.q.dim[2]);
}

// ------------------------------------------------------------------ launch

template <int D, int DV>
static enum mt_status launch(struct mt_device *device, const struct mt_attention_backward_args *a,
                             const float *deltas)
{
    const size_t key_bytes = sizeof(struct key_memory<D, DV>);
    const size_t query_bytes = sizeof(struct query_memory<D, DV>);
    static_assert(key_bytes <= CUDA_LEAST_SHARED && query_bytes <= CUDA_LEAST_SHARED, "fits every card");
    enum mt_status status = cuda_allow_shared(device, reinterpret_cast<const void *>(dkv_kernel<D, DV>),
                                              key_bytes, ATTENTION_SHARED);
    if (status == MT_OK)
        status = cuda_allow_shared(device, reinterpret_cast<const void *>(dq_kernel<D, DV>), query_bytes,
                                   ATTENTION_SHARED);
    if (status != MT_OK) return status;
    cudaStream_t stream = cuda_stream(device);
    unsigned q_tiles = (unsigned)tiles_at_most(a->q.dim[0], ATTENTION_ROWS, &a->q_offsets);
    unsigned k_tiles = (unsigned)tiles_at_most(a->k.dim[0], ATTENTION_ROWS, &a->k_offsets);
    if (a->k.dim[0] > 0) {
        dkv_kernel<D, DV>
            <<<dim3(k_tiles, (unsigned)a->k.dim[1]), ATTENTION_THREADS, key_bytes, stream>>>(*a, deltas);
    }
    dq_kernel<D, DV>
        <<<dim3(q_tiles, (unsigned)a->q.dim[1]), ATTENTION_THREADS, query_bytes, stream>>>(*a, deltas);
    return cuda_launched(device, "attention backward");
}

static enum mt_status run(struct mt_device *device, const struct mt_attention_backward_args *a, void *scratch)
{
    int64_t width = a->q.dim[2];
    int64_t value = a->v.dim[2];
    float *deltas = static_cast<float *>(scratch);
    enum mt_status status = cuda_attention_deltas(device, a, deltas);
    if (status != MT_OK) return status;
    if (width <= 64 && value <= 64) return launch<64, 64>(device, a, deltas);
    return width <= 128 ? launch<128, 128>(device, a, deltas) : launch<192, 128>(device, a, deltas);
}

const struct cuda_variant<struct mt_attention_backward_args> cuda_attention_backward_mma = {
    cuda_attention_backward_fits, cuda_attention_deltas_bytes, run
};
