/*
 * attention forward on the tensor cores: a block per (64 queries, head) walks over tiles of 64 keys, or of 32
 * where the widest heads' would not fit into shared memory, with a running maximum and a running sum (Milakov
 * and Gimelshein 2018; Dao 2023), each warp for 16 queries. Scores and weights stay in registers: the sums of
 * q kᵀ are laid out as the left operand of the product with v.
 */
#include "ops/cuda/attention/attention_bf16.cuh"

#define MOST_WIDTH   192
#define MOST_VALUE   128
#define LEAST_LENGTH 16 // of an average sequence: shorter ones leave most rows of a tile empty

template <int D, int DV, int KEYS> struct forward_memory {
    __nv_bfloat16 q[ATTENTION_ROWS * pitch_of(D)];
    __nv_bfloat16 k[2][KEYS * pitch_of(D)];
    __nv_bfloat16 v[2][KEYS * pitch_of(DV)];
};

template <int D, int DV, int KEYS>
__global__ static void __launch_bounds__(ATTENTION_THREADS, 2)
    forward_kernel(const __grid_constant__ struct mt_attention_forward_args a)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];
    using memory = struct forward_memory<D, DV, KEYS>;
    memory &m = *reinterpret_cast<memory *>(shared_memory);
    int64_t query = 0; // the tile's first, within the sequence
    // Later tiles see more keys: they start first.
    int64_t b = find_tile(a.q_offsets, gridDim.x - 1 - blockIdx.x, ATTENTION_ROWS, &query);
    if (b < 0) return;
    int64_t head = blockIdx.y;
    int64_t key_head = head / (a.q.dim[1] / a.k.dim[1]);
    struct sequence s = sequence_at(a.q_offsets, a.k_offsets, b);
    if (cuda_present(a.k_starts)) s.k_first = cuda_int1(a.k_starts, b);
    struct tile_operand k = head_operand(a.k, key_head);
    struct tile_operand v = head_operand(a.v, key_head);
    int64_t k_end = s.k_first + s.keys;
    int width = (int)a.q.dim[2];
    int value = (int)a.v.dim[2];
    int warp = (int)threadIdx.x / 32;
    int64_t own = query + warp * 16; // this warp's first query
    float scale = a.scale * LOG2_E;
    float out[DV / 8][4] = {};
    struct running r = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    int64_t end = end_of_keys(s, query + ATTENTION_ROWS);
    int64_t start = first_key_seen(s, query, a.window);
    load_rows<ATTENTION_ROWS, D>(m.q, head_operand(a.q, head), s.q_first + query, s.q_first + s.queries,
                                 width);
    if (start < end) {
        load_rows<KEYS, D>(m.k[0], k, s.k_first + start, k_end, width);
        load_rows<KEYS, DV>(m.v[0], v, s.k_first + start, k_end, value);
    }
    copy_commit();
    for (int turn = 0; start < end; start += KEYS, turn ^= 1) {
        copy_wait<0>();
        __syncthreads(); // this tile is there, and nobody reads the other one any more
        if (start + KEYS < end) {
            load_rows<KEYS, D>(m.k[turn ^ 1], k, s.k_first + start + KEYS, k_end, width);
            load_rows<KEYS, DV>(m.v[turn ^ 1], v, s.k_first + start + KEYS, k_end, value);
        }
        copy_commit();
        float scores[KEYS / 8][4] = {};
        float factor[2];
        add_dots<D>(scores, m.q + warp * 16 * pitch_of(D), m.k[turn]);
        mask_scores(scores, s, own, start, scale, a.window);
        update_softmax(scores, &r, factor);
#pragma unroll
        for (int n = 0; n < DV / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) out[n][e] *= factor[e / 2];
        }
        add_rows<DV>(out, scores, m.v[turn]);
    }
    copy_wait<0>(); // without a key: q
    finish_rows(a, out, r, LN_2, s.q_first + own, s.q_first + s.queries, head);
}

template <int D, int DV, int KEYS>
static enum mt_status launch(struct mt_device *device, const struct mt_attention_forward_args *a)
{
    const void *kernel = reinterpret_cast<const void *>(forward_kernel<D, DV, KEYS>);
    const size_t bytes = sizeof(struct forward_memory<D, DV, KEYS>);
    enum mt_status status = cuda_allow_shared(device, kernel, bytes, ATTENTION_SHARED);
    if (status != MT_OK) return status;
    int64_t tiles = tiles_at_most(a->q.dim[0], ATTENTION_ROWS, &a->q_offsets);
    forward_kernel<D, DV, KEYS>
        <<<dim3((unsigned)tiles, (unsigned)a->q.dim[1]), ATTENTION_THREADS, bytes, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "attention forward");
}

static bool operands_fit(const struct mt_device *device, const struct mt_tensor *q, const struct mt_tensor *k,
                         const struct mt_tensor *v, const struct mt_tensor *q_offsets)
{
    return cuda_state_of(device)->bf16 && cuda_is_float_or_bf16(q) && cuda_is_float_or_bf16(k) &&
           cuda_is_float_or_bf16(v) && q->dim[2] <= MOST_WIDTH && v->dim[2] <= MOST_VALUE && q->dim[0] > 0 &&
           q->dim[0] >= LEAST_LENGTH * (q_offsets->dim[0] - 1);
}

bool cuda_attention_fits(const struct mt_device *device, const struct mt_attention_forward_args *a)
{
    return cuda_is_float_or_bf16(&a->out) && operands_fit(device, &a->q, &a->k, &a->v, &a->q_offsets);
}

bool cuda_attention_backward_fits(const struct mt_device *device, const struct mt_attention_backward_args *a)
{
    return cuda_is_float_or_bf16(&a->dout) && cuda_is_float_or_bf16(&a->dq) &&
           cuda_is_float_or_bf16(&a->dk) && cuda_is_float_or_bf16(&a->dv) &&
           operands_fit(device, &a->q, &a->k, &a->v, &a->q_offsets);
}

static enum mt_status run(struct mt_device *device, const struct mt_attention_forward_args *a, void *)
{
    int64_t width = a->q.dim[2];
    int64_t value = a->v.dim[2];
    static_assert(sizeof(struct forward_memory<128, 128, 64>) <= CUDA_LEAST_SHARED, "fits every card");
    static_assert(sizeof(struct forward_memory<MOST_WIDTH, MOST_VALUE, 32>) <= CUDA_LEAST_SHARED,
                  "fits every card");
    if (width <= 64 && value <= 64) return launch<64, 64, 64>(device, a);
    if (width <= 128) return launch<128, 128, 64>(device, a);
    if (sizeof(struct forward_memory<MOST_WIDTH, MOST_VALUE, 64>) <= cuda_state_of(device)->shared_bytes)
        return launch<MOST_WIDTH, MOST_VALUE, 64>(device, a);
    return launch<MOST_WIDTH, MOST_VALUE, 32>(device, a);
}

const struct cuda_variant<struct mt_attention_forward_args> cuda_attention_mma = {
    cuda_attention_fits, NULL, run
};
