/*
 * attention backward. With δ_t = <dout_t, out_t>, p_s = exp(x_s - lse_t) and ds = scale p_s (<dout_t, v_s> -
 * δ_t): dq_t = Σ_s ds k_s;  dk_s = Σ_{t,h} ds q_t;  dv_s = Σ_{t,h} p_s dout_t. Two kernels that make the
 * scores again: one block per (tile of queries, head) sums dq over the keys; one per (tile of keys, key head)
 * sums dk and dv over the heads of its group and the queries, in order. Nothing is added from two blocks, so
 * no atomics.
 */
#include "ops/cuda/attention/attention_bf16.cuh"

// ------------------------------------------------------------------ what both kernels have in shared memory

/* Dynamic shared memory of a block, all floats. */
struct backward_memory {
    float *q;             // [QUERIES][D]
    float *dout;          // [QUERIES][Dv]
    float *k;             // [keys][odd(D)]
    float *v;             // [keys][odd(Dv)]
    float *probabilities; // [QUERIES][SCORE_PITCH]
    float *ds;            // [QUERIES][SCORE_PITCH]
    float *sums;          // dq [QUERIES][D], or dk [keys][D] and then dv [keys][Dv]
};

static size_t backward_bytes(int width, int value, int keys, int sums)
{
    int floats =
        QUERIES * (width + value) + keys * (odd(width) + odd(value)) + 2 * QUERIES * SCORE_PITCH + sums;
    return (size_t)floats * sizeof(float);
}

__device__ static struct backward_memory memory_at(float *memory, int width, int value, int keys)
{
    struct backward_memory m;
    m.q = memory;
    m.dout = m.q + QUERIES * width;
    m.k = m.dout + QUERIES * value;
    m.v = m.k + keys * odd(width);
    m.probabilities = m.v + keys * odd(value);
    m.ds = m.probabilities + QUERIES * SCORE_PITCH;
    m.sums = m.ds + QUERIES * SCORE_PITCH;
    return m;
}

/* probabilities and ds of the tile of queries from `query` on and of keys from `start` on; 0 where unseen. */
__device__ static void make_gradients(const struct mt_attention_backward_args &a, const float *deltas,
                                      const struct backward_memory &m, const struct sequence &s, int64_t head,
                                      int64_t query, int64_t start, int keys)
{
    int width = (int)a.q.dim[2];
    int value = (int)a.v.dim[2];
    for (int pair = (int)threadIdx.x; pair < QUERIES * keys; pair += CUDA_THREADS) {
        int row = pair / keys;
        int key = pair % keys;
        float probability = 0.0f;
        float gradient = 0.0f;
        if (sees(s, query + row, start + key, a.window)) {
            int64_t t = s.q_first + query + row;
            float score = a.scale * dot(m.q + row * width, m.k + key * odd(width), width);
            float toward = dot(m.dout + row * value, m.v + key * odd(value), value);
            probability = expf((float)((double)score - cuda_get2(a.lse, t, head)));
            gradient = a.scale * probability * (toward - deltas[t * a.q.dim[1] + head]);
        }
        m.probabilities[row * SCORE_PITCH + key] = probability;
        m.ds[row * SCORE_PITCH + key] = gradient;
    }
}

// ------------------------------------------------------------------ kernels

/* deltas [Tq,Hq], one warp each. */
__global__ static void delta_kernel(struct mt_attention_backward_args a, float *deltas)
{
    int64_t pair = cuda_warp();
    if (pair >= a.q.dim[0] * a.q.dim[1]) return;
    int64_t t = pair / a.q.dim[1];
    int64_t h = pair % a.q.dim[1];
    double sum = 0.0;
    for (int64_t j = cuda_lane(); j < a.out.dim[2]; j += 32) {
        sum += cuda_get3(a.dout, t, h, j) * cuda_get3(a.out, t, h, j);
    }
    sum = warp_sum(sum);
    if (cuda_lane() == 0) deltas[pair] = (float)sum;
}

__global__ static void __launch_bounds__(CUDA_THREADS)
    dq_kernel(struct mt_attention_backward_args a, const float *deltas, int keys)
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
    struct backward_memory m = memory_at(shared_memory, width, value, keys);
    load_tile(m.q, width, a.q, s.q_first + query, s.q_first + s.queries, head, QUERIES);
    load_tile(m.dout, value, a.dout, s.q_first + query, s.q_first + s.queries, head, QUERIES);
    for (int e = (int)threadIdx.x; e < QUERIES * width; e += CUDA_THREADS) m.sums[e] = 0.0f;
    int64_t end = end_of_keys(s, query + QUERIES);
    for (int64_t start = first_key_seen(s, query, a.window); start < end; start += keys) {
        load_tile(m.k, odd(width), a.k, s.k_first + start, s.k_first + s.keys, key_head, keys);
        load_tile(m.v, odd(value), a.v, s.k_first + start, s.k_first + s.keys, key_head, keys);
        __syncthreads();
        make_gradients(a, deltas, m, s, head, query, start, keys);
        __syncthreads();
        for (int e = (int)threadIdx.x; e < QUERIES * width; e += CUDA_THREADS) {
            int row = e / width;
            const float *k = m.k + e % width;
            float sum = 0.0f;
            for (int key = 0; key < keys; key++) sum += m.ds[row * SCORE_PITCH + key] * k[key * odd(width)];
            m.sums[e] += sum;
        }
        __syncthreads(); // before the tiles are loaded again
    }
    __syncthreads();
    store_tile(m.sums, a.dq, s.q_first + query, s.q_first + s.queries, head, QUERIES);
}

/* sums[key][c] += Σ_row factor[row][key] · source[row][c]. */
__device__ static void add_products(float *sums, const float *factor, const float *source, int width,
                                    int keys)
{
    for (int e = (int)threadIdx.x; e < keys * width; e += CUDA_THREADS) {
        int key = e / width;
        float sum = 0.0f;
        for (int row = 0; row < QUERIES; row++) {
            sum += factor[row * SCORE_PITCH + key] * source[row * width + e % width];
        }
        sums[e] += sum;
    }
}

__global__ static void __launch_bounds__(CUDA_THREADS)
    dkv_kernel(struct mt_attention_backward_args a, const float *deltas, int keys)
{
    extern __shared__ float shared_memory[];
    int64_t start = 0; // the tile's first key, within the sequence
    int64_t b = find_tile(a.k_offsets, blockIdx.x, keys, &start);
    if (b < 0) return;
    int width = (int)a.q.dim[2];
    int value = (int)a.v.dim[2];
    int64_t group = a.q.dim[1] / a.k.dim[1];
    int64_t key_head = blockIdx.y;
    struct sequence s = sequence_at(a.q_offsets, a.k_offsets, b);
    struct backward_memory m = memory_at(shared_memory, width, value, keys);
    float *dk = m.sums;
    float *dv = m.sums + keys * width;
    load_tile(m.k, odd(width), a.k, s.k_first + start, s.k_first + s.keys, key_head, keys);
    load_tile(m.v, odd(value), a.v, s.k_first + start, s.k_first + s.keys, key_head, keys);
    for (int e = (int)threadIdx.x; e < keys * (width + value); e += CUDA_THREADS) m.sums[e] = 0.0f;
    // Queries before `first` stand before every key of the tile; with a window those from `end` on are past
    // it.
    int64_t first = start - s.shift > 0 ? start - s.shift : 0;
    int64_t end = s.queries;
    if (a.window > 0 && start + keys - 1 + a.window - s.shift < end)
        end = start + keys - 1 + a.window - s.shift;
    for (int64_t head = key_head * group; head < (key_head + 1) * group; head++) {
        for (int64_t query = first; query < end; query += QUERIES) {
            load_tile(m.q, width, a.q, s.q_first + query, s.q_first + s.queries, head, QUERIES);
            load_tile(m.dout, value, a.dout, s.q_first + query, s.q_first + s.queries, head, QUERIES);
            __syncthreads();
            make_gradients(a, deltas, m, s, head, query, start, keys);
            __syncthreads();
            add_products(dk, m.ds, m.q, width, keys);
            add_products(dv, m.probabilities, m.dout, value, keys);
            __syncthreads(); // before the tiles are loaded again
        }
    }
    __syncthreads();
    store_tile(dk, a.dk, s.k_first + start, s.k_first + s.keys, key_head, keys);
    store_tile(dv, a.dv, s.k_first + start, s.k_first + s.keys, key_head, keys);
}

// ------------------------------------------------------------------ launchers

/* Floats of sums beside a tile: dq's are by queries, dk's and dv's by keys. */
static int sums_of(bool of_keys, int width, int value, int keys)
{
    return of_keys ? keys * (width + value) : QUERIES * width;
}

/* Keys of a tile that fit into shared memory. */
static int keys_fitting(const struct mt_device *device, bool of_keys, int width, int value)
{
    int keys = MOST_KEYS;
    size_t limit = cuda_state_of(device)->shared_bytes;
    while (keys > 1 && backward_bytes(width, value, keys, sums_of(of_keys, width, value, keys)) > limit)
        keys /= 2;
    return keys;
}

static enum mt_status launch_dq(struct mt_device *device, const struct mt_attention_backward_args *a,
                                const float *deltas)
{
    int width = (int)a->q.dim[2];
    int value = (int)a->v.dim[2];
    int keys = keys_fitting(device, false, width, value);
    size_t bytes = backward_bytes(width, value, keys, sums_of(false, width, value, keys));
    int64_t tiles = tiles_at_most(a->q.dim[0], QUERIES, &a->q_offsets);
    if (a->q.dim[0] == 0 || tiles == 0) return MT_OK;
    enum mt_status status =
        cuda_allow_shared(device, reinterpret_cast<const void *>(dq_kernel), bytes, ATTENTION_SHARED);
    if (status != MT_OK) return status;
    dq_kernel<<<dim3((unsigned)tiles, (unsigned)a->q.dim[1]), CUDA_THREADS, bytes, cuda_stream(device)>>>(
        *a, deltas, keys);
    return cuda_launched(device, "attention's gradient of queries");
}

static enum mt_status launch_dkv(struct mt_device *device, const struct mt_attention_backward_args *a,
                                 const float *deltas)
{
    int width = (int)a->q.dim[2];
    int value = (int)a->v.dim[2];
    int keys = keys_fitting(device, true, width, value);
    size_t bytes = backward_bytes(width, value, keys, sums_of(true, width, value, keys));
    int64_t tiles = tiles_at_most(a->k.dim[0], keys, &a->k_offsets);
    if (a->k.dim[0] == 0 || tiles == 0) return MT_OK;
    enum mt_status status =
        cuda_allow_shared(device, reinterpret_cast<const void *>(dkv_kernel), bytes, ATTENTION_SHARED);
    if (status != MT_OK) return status;
    dkv_kernel<<<dim3((unsigned)tiles, (unsigned)a->k.dim[1]), CUDA_THREADS, bytes, cuda_stream(device)>>>(
        *a, deltas, keys);
    return cuda_launched(device, "attention's gradient of keys");
}

enum mt_status cuda_attention_deltas(struct mt_device *device, const struct mt_attention_backward_args *a,
                                     float *deltas)
{
    int64_t pairs = a->q.dim[0] * a->q.dim[1];
    if (pairs == 0) return MT_OK;
    delta_kernel<<<cuda_warp_blocks(pairs), CUDA_THREADS, 0, cuda_stream(device)>>>(*a, deltas);
    return cuda_launched(device, "attention's deltas");
}

size_t cuda_attention_deltas_bytes(const struct mt_device *, const struct mt_attention_backward_args *a)
{
    return cuda_floats(a->q.dim[0] * a->q.dim[1]);
}

static enum mt_status run_f32(struct mt_device *device, const struct mt_attention_backward_args *a,
                              void *scratch)
{
    float *deltas = static_cast<float *>(scratch);
    enum mt_status status = cuda_attention_deltas(device, a, deltas);
    if (status == MT_OK) status = launch_dq(device, a, deltas);
    return status == MT_OK ? launch_dkv(device, a, deltas) : status;
}

static const struct cuda_variant<struct mt_attention_backward_args> f32 = {
    NULL, cuda_attention_deltas_bytes, run_f32
};

static const struct cuda_variant<struct mt_attention_backward_args> *const variants[] = {
    &cuda_attention_backward_hopper, &cuda_attention_backward_mma, &f32,
};
CUDA_OP(attention_backward, variants)
