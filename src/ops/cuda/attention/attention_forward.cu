/*
 * attention forward, one block per (tile of queries, head): walks over tiles of keys with a running maximum
 * and a running sum (Milakov and Gimelshein 2018; Dao et al. 2022), so that no row of scores ever exists as a
 * whole.
 */
#include "ops/cuda/attention/attention_bf16.cuh"

/* Dynamic shared memory of a block, all floats. */
struct forward_memory {
    float *q;       // [QUERIES][D]
    float *k;       // [keys][odd(D)]
    float *v;       // [keys][Dv]
    float *out;     // [QUERIES][Dv], not yet divided by the sum
    float *scores;  // [QUERIES][SCORE_PITCH]: scores, then their exponentials
    float *highest; // [QUERIES]
    float *sum;     // [QUERIES], of exponentials relative to highest
    float *factor;  // [QUERIES]: what the newest maximum makes of older exponentials
};

static size_t forward_bytes(int width, int value, int keys)
{
    int floats = QUERIES * width + keys * odd(width) + keys * value + QUERIES * value +
                 QUERIES * SCORE_PITCH + 3 * QUERIES;
    return (size_t)floats * sizeof(float);
}

__device__ static struct forward_memory memory_at(float *memory, int width, int value, int keys)
{
    struct forward_memory m;
    m.q = memory;
    m.k = m.q + QUERIES * width;
    m.v = m.k + keys * odd(width);
    m.out = m.v + keys * value;
    m.scores = m.out + QUERIES * value;
    m.highest = m.scores + QUERIES * SCORE_PITCH;
    m.sum = m.highest + QUERIES;
    m.factor = m.sum + QUERIES;
    return m;
}

/* Scores of the tile's keys, from `start` on; -inf where a query does not see the key. */
__device__ static void make_scores(const struct mt_attention_forward_args &a, const struct forward_memory &m,
                                   const struct sequence &s, int64_t query, int64_t start, int keys)
{
    int width = (int)a.q.dim[2];
    for (int pair = (int)threadIdx.x; pair < QUERIES * keys; pair += CUDA_THREADS) {
        int row = pair / keys;
        int key = pair % keys;
        bool seen = sees(s, query + row, start + key, a.window);
        m.scores[row * SCORE_PITCH + key] =
            seen ? a.scale * dot(m.q + row * width, m.k + key * odd(width), width) : -INFINITY;
    }
}

/* One warp per row of scores. */
__device__ static void update_softmax(const struct forward_memory &m, int keys)
{
    int lane = cuda_lane();
    for (int row = (int)threadIdx.x / 32; row < QUERIES; row += CUDA_WARPS) {
        float score = lane < keys ? m.scores[row * SCORE_PITCH + lane] : -INFINITY;
        float highest = m.highest[row];
        float before = highest;
        highest = fmaxf(highest, score);
        for (int offset = 16; offset > 0; offset /= 2) {
            highest = fmaxf(highest, __shfl_xor_sync(CUDA_EVERY, highest, offset));
        }
        float exponential = score == -INFINITY ? 0.0f : expf(score - highest);
        float sum = exponential;
        for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(CUDA_EVERY, sum, offset);
        if (lane < keys) m.scores[row * SCORE_PITCH + lane] = exponential;
        __syncwarp(); // every lane has read the old maximum
        if (lane == 0) {
            float factor = before == -INFINITY ? 0.0f : expf(before - highest);
            m.factor[row] = factor;
            m.sum[row] = m.sum[row] * factor + sum;
            m.highest[row] = highest;
        }
    }
}

__device__ static void add_values(const struct forward_memory &m, int value, int keys)
{
    for (int e = (int)threadIdx.x; e < QUERIES * value; e += CUDA_THREADS) {
        int row = e / value;
        const float *v = m.v + e % value;
        float sum = 0.0f;
        for (int key = 0; key < keys; key++) sum += m.scores[row * SCORE_PITCH + key] * v[key * value];
        m.out[e] = m.out[e] * m.factor[row] + sum;
    }
}

__device__ static void finish(const struct mt_attention_forward_args &a, const struct forward_memory &m,
                              const struct sequence &s, int64_t query, int64_t head)
{
    int value = (int)a.v.dim[2];
    for (int e = (int)threadIdx.x; e < QUERIES * value; e += CUDA_THREADS) {
        float sum = m.sum[e / value];
        m.out[e] = sum == 0.0f ? 0.0f : m.out[e] / sum; // 0: a query that sees no key
    }
    int row = (int)threadIdx.x;
    if (row < QUERIES && query + row < s.queries && cuda_present(a.lse)) {
        double sum = (double)m.sum[row];
        double lse = sum == 0.0 ? -INFINITY : (double)m.highest[row] + log(sum);
        cuda_put2(a.lse, s.q_first + query + row, head, lse);
    }
    __syncthreads();
    store_tile(m.out, a.out, s.q_first + query, s.q_first + s.queries, head, QUERIES);
}

__global__ static void __launch_bounds__(CUDA_THREADS)
    forward_kernel(struct mt_attention_forward_args a, int keys)
{
    extern __shared__ float shared_memory[];
    int64_t query = 0; // the tile's first, within the sequence
    int64_t b = find_tile(a.q_offsets, blockIdx.x, QUERIES, &query);
    if (b < 0) return;
    int width = (int)a.q.dim[2];
    int value = (int)a.v.dim[2];
    int64_t head = blockIdx.y;
    int64_t key_head = head / (a.q.dim[1] / a.k.dim[1]);
    struct sequence s = sequence_at(a.q_offsets, a.k_offsets, b);
    if (a.k_starts.rank != 0) s.k_first = cuda_int1(a.k_starts, b);
    struct forward_memory m = memory_at(shared_memory, width, value, keys);
    load_tile(m.q, width, a.q, s.q_first + query, s.q_first + s.queries, head, QUERIES);
    for (int e = (int)threadIdx.x; e < QUERIES * value; e += CUDA_THREADS) m.out[e] = 0.0f;
    if (threadIdx.x < QUERIES) {
        m.highest[threadIdx.x] = -INFINITY;
        m.sum[threadIdx.x] = 0.0f;
    }
    int64_t end = end_of_keys(s, query + QUERIES);
    for (int64_t start = first_key_seen(s, query, a.window); start < end; start += keys) {
        load_tile(m.k, odd(width), a.k, s.k_first + start, s.k_first + s.keys, key_head, keys);
        load_tile(m.v, value, a.v, s.k_first + start, s.k_first + s.keys, key_head, keys);
        __syncthreads();
        make_scores(a, m, s, query, start, keys);
        __syncthreads();
        update_softmax(m, keys);
        __syncthreads();
        add_values(m, value, keys);
        __syncthreads(); // before the tiles are loaded again
    }
    __syncthreads(); // without a key: what was set above
    finish(a, m, s, query, head);
}

static enum mt_status run_f32(struct mt_device *device, const struct mt_attention_forward_args *a, void *)
{
    int64_t tiles = tiles_at_most(a->q.dim[0], QUERIES, &a->q_offsets);
    if (a->q.dim[0] == 0 || tiles == 0) return MT_OK;
    int width = (int)a->q.dim[2];
    int value = (int)a->v.dim[2];
    int keys = MOST_KEYS;
    while (keys > 1 && forward_bytes(width, value, keys) > cuda_state_of(device)->shared_bytes) keys /= 2;
    size_t bytes = forward_bytes(width, value, keys);
    enum mt_status status =
        cuda_allow_shared(device, reinterpret_cast<const void *>(forward_kernel), bytes, ATTENTION_SHARED);
    if (status != MT_OK) return status;
    forward_kernel<<<dim3((unsigned)tiles, (unsigned)a->q.dim[1]), CUDA_THREADS, bytes,
                     cuda_stream(device)>>>(*a, keys);
    return cuda_launched(device, "attention forward");
}

static const struct cuda_variant<struct mt_attention_forward_args> f32 = {
    NULL, NULL, run_f32
};

static const struct cuda_variant<struct mt_attention_forward_args> *const variants[] = {
    &cuda_attention_split, &cuda_attention_hopper, &cuda_attention_mma, &cuda_attention_decode, &f32,
};
CUDA_OP(attention_forward, variants)
