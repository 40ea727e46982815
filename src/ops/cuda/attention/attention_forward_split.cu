/*
 * attention forward of f32 operands on cuda-bf16: as attention_forward_bf16.cu, with every operand as two
 * bf16 numbers, itself rounded and what that leaves, so that 16 bits of it count. Of their four products the
 * smallest, 2^-16 of the largest, is left out. Whoever keeps activations in f32 has asked for accuracy: what
 * it reads is rounded on its way into shared memory, one tile at a time.
 */
#include "ops/cuda/attention/attention_bf16.cuh"

#define KEYS 32 // so that two blocks fit side by side

enum { ROUNDED, REST, PARTS };

template <int D, int DV> struct split_memory {
    __nv_bfloat16 q[PARTS][ATTENTION_ROWS * pitch_of(D)];
    __nv_bfloat16 k[PARTS][KEYS * pitch_of(D)];
    __nv_bfloat16 v[PARTS][KEYS * pitch_of(DV)];
};

/* Elements [at, at + 8) of row `line`, zeros past the ends. */
__device__ static inline void read_eight(const struct tile_operand &o, int64_t line, int64_t line_end, int at,
                                         int end, float (&value)[8])
{
    const float *floats = static_cast<const float *>(o.data) + line * o.stride + at;
    const __nv_bfloat16 *halves = static_cast<const __nv_bfloat16 *>(o.data) + line * o.stride + at;
    if (line < line_end && at + 8 <= end && o.aligned && !o.bf16) {
        float4 low = reinterpret_cast<const float4 *>(floats)[0];
        float4 high = reinterpret_cast<const float4 *>(floats)[1];
        value[0] = low.x;
        value[1] = low.y;
        value[2] = low.z;
        value[3] = low.w;
        value[4] = high.x;
        value[5] = high.y;
        value[6] = high.z;
        value[7] = high.w;
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        bool there = line < line_end && at + i < end;
        value[i] = !there ? 0.0f : o.bf16 ? __bfloat162float(halves[i]) : floats[i];
    }
}

/* Both parts of ROWS rows from `first` on; zeros from row `end` and from column `width` on. */
template <int ROWS, int WIDTH>
__device__ static inline void split_rows(__nv_bfloat16 (&tile)[PARTS][ROWS * pitch_of(WIDTH)],
                                         const struct tile_operand &o, int64_t first, int64_t end, int width)
{
#pragma unroll 4
    for (int piece = (int)threadIdx.x; piece < ROWS * (WIDTH / 8); piece += ATTENTION_THREADS) {
        int row = piece / (WIDTH / 8);
        int column = piece % (WIDTH / 8) * 8;
        float value[8];
        unsigned rounded[4];
        unsigned rest[4];
        read_eight(o, first + row, end, column, width, value);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            rounded[i] = pack_bf16(value[2 * i], value[2 * i + 1]);
            rest[i] =
                pack_bf16(value[2 * i] - low_bf16(rounded[i]), value[2 * i + 1] - high_bf16(rounded[i]));
        }
        int at = row * pitch_of(WIDTH) + column;
        *reinterpret_cast<uint4 *>(tile[ROUNDED] + at) =
            make_uint4(rounded[0], rounded[1], rounded[2], rounded[3]);
        *reinterpret_cast<uint4 *>(tile[REST] + at) = make_uint4(rest[0], rest[1], rest[2], rest[3]);
    }
}

/* out += weights · v; the weights become what rounding leaves of them. */
template <int DV>
__device__ static inline void add_values(float (&out)[DV / 8][4], float (&weights)[KEYS / 8][4],
                                         const __nv_bfloat16 (&v)[PARTS][KEYS * pitch_of(DV)])
{
    add_rows<DV>(out, weights, v[REST]);
    add_rows<DV>(out, weights, v[ROUNDED]);
#pragma unroll
    for (int j = 0; j < KEYS / 8; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) weights[j][e] -= __bfloat162float(__float2bfloat16_rn(weights[j][e]));
    }
    add_rows<DV>(out, weights, v[ROUNDED]);
}

template <int D, int DV>
__global__ static void __launch_bounds__(ATTENTION_THREADS, 2)
    split_kernel(const __grid_constant__ struct mt_attention_forward_args a)
{
    extern __shared__ __align__(16) unsigned char shared_memory[];
    struct split_memory<D, DV> &m = *reinterpret_cast<struct split_memory<D, DV> *>(shared_memory);
    int64_t query = 0; // the tile's first, within the sequence
    // Later tiles see more keys: they start first.
    int64_t b = find_tile(a.q_offsets, gridDim.x - 1 - blockIdx.x, ATTENTION_ROWS, &query);
    if (b < 0) return;
    int64_t head = blockIdx.y;
    int64_t key_head = head / (a.q.dim[1] / a.k.dim[1]);
    struct sequence s = sequence_at(a.q_offsets, a.k_offsets, b);
    if (cuda_present(a.k_starts)) s.k_first = cuda_int1(a.k_starts, b);
    int64_t q_end = s.q_first + s.queries;
    int64_t k_end = s.k_first + s.keys;
    int width = (int)a.q.dim[2];
    int warp = (int)threadIdx.x / 32;
    int64_t own = query + warp * 16; // this warp's first query
    const int own_at = warp * 16 * pitch_of(D);
    float out[DV / 8][4] = {};
    struct running r = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    int64_t end = end_of_keys(s, query + ATTENTION_ROWS);
    split_rows<ATTENTION_ROWS, D>(m.q, head_operand(a.q, head), s.q_first + query, q_end, width);
    for (int64_t start = first_key_seen(s, query, a.window); start < end; start += KEYS) {
        float scores[KEYS / 8][4] = {};
        float factor[2];
        __syncthreads(); // nobody reads the tile before any more
        split_rows<KEYS, D>(m.k, head_operand(a.k, key_head), s.k_first + start, k_end, width);
        split_rows<KEYS, DV>(m.v, head_operand(a.v, key_head), s.k_first + start, k_end, (int)a.v.dim[2]);
        __syncthreads(); // this one is there
        add_dots<D>(scores, m.q[REST] + own_at, m.k[ROUNDED]);
        add_dots<D>(scores, m.q[ROUNDED] + own_at, m.k[REST]);
        add_dots<D>(scores, m.q[ROUNDED] + own_at, m.k[ROUNDED]);
        mask_scores(scores, s, own, start, a.scale * LOG2_E, a.window);
        update_softmax(scores, &r, factor);
#pragma unroll
        for (int n = 0; n < DV / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) out[n][e] *= factor[e / 2];
        }
        add_values<DV>(out, scores, m.v);
    }
    finish_rows(a, out, r, LN_2, s.q_first + own, q_end, head);
}

template <int D, int DV>
static enum mt_status launch(struct mt_device *device, const struct mt_attention_forward_args *a)
{
    const void *kernel = reinterpret_cast<const void *>(split_kernel<D, DV>);
    const size_t bytes = sizeof(struct split_memory<D, DV>);
    static_assert(bytes <= CUDA_LEAST_SHARED, "fits every card");
    enum mt_status status = cuda_allow_shared(device, kernel, bytes, ATTENTION_SHARED);
    if (status != MT_OK) return status;
    int64_t tiles = tiles_at_most(a->q.dim[0], ATTENTION_ROWS, &a->q_offsets);
    split_kernel<D, DV>
        <<<dim3((unsigned)tiles, (unsigned)a->q.dim[1]), ATTENTION_THREADS, bytes, cuda_stream(device)>>>(*a);
    return cuda_launched(device, "attention forward");
}

static bool fits(const struct mt_device *device, const struct mt_attention_forward_args *a)
{
    bool floats = a->q.dtype == MT_F32 && a->k.dtype == MT_F32 && a->v.dtype == MT_F32;
    return floats && cuda_attention_fits(device, a);
}

static enum mt_status run(struct mt_device *device, const struct mt_attention_forward_args *a, void *)
{
    int64_t width = a->q.dim[2];
    int64_t value = a->v.dim[2];
    if (width <= 64 && value <= 64) return launch<64, 64>(device, a);
    return width <= 128 ? launch<128, 128>(device, a) : launch<192, 128>(device, a);
}

const struct cuda_variant<struct mt_attention_forward_args> cuda_attention_split = {
    fits, NULL, run
};
