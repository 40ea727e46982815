/*
 * What the kernels of attention by Hopper's own instructions share. A block stays on its multiprocessor and
 * makes tile after tile of HOPPER_ROWS rows of a sequence and a head. One of its warps asks the copy engine
 * for tiles of the other side, some of them ahead; two groups of four warps multiply, 64 rows each, so that
 * one can weigh while the other multiplies.
 *
 * The copy engine does not know where a sequence ends: rows past its end are the next one's, and get no
 * weight.
 */
#ifndef MT_OPS_CUDA_ATTENTION_HOPPER_CUH
#define MT_OPS_CUDA_ATTENTION_HOPPER_CUH

#include "ops/cuda/attention/attention_bf16.cuh"
#include "ops/cuda/attention/wgmma_attention.cuh"
#include "ops/cuda/products/grouped.cuh"
#include "ops/cuda/products/tensor_map.cuh"

#define HOPPER_ROWS    128 // of a tile
#define HOPPER_GROUPS  2   // that multiply
#define HOPPER_GROUP   128
#define HOPPER_THREADS ((1 + HOPPER_GROUPS) * HOPPER_GROUP)

#define HOPPER_ITEMS   (1 << 30) // tiles and heads: their number has 32 bits

/* Whether the copy engine can read heads of this tensor. */
static inline bool is_readable(const struct mt_tensor *t)
{
    return t->dtype == MT_BF16 && t->dim[0] > 0 && t->dim[1] > 0 && t->dim[2] > 0 && t->stride[0] % 8 == 0 &&
           t->stride[1] % 8 == 0 && reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
}

static inline bool operands_fit_hopper(const struct mt_device *device, const struct mt_tensor *q,
                                       const struct mt_tensor *k, const struct mt_tensor *v, float scale)
{
    // The highest score is looked for before scaling.
    return cuda_state_of(device)->hopper && is_readable(q) && is_readable(k) && is_readable(v) &&
           scale > 0.0f && (q->dim[0] + k->dim[0]) * q->dim[1] < HOPPER_ITEMS;
}

// ------------------------------------------------------------------ where a tile is

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* Rows are counted by offsets of 32 bits, and so are places. */
struct place {
    int q_first, queries; // rows of q
    int k_first, keys;    // rows of k and v
    int shift;            // query i stands at position i + shift
    int start;            // the tile's first row within the sequence
    int head;
};

/* What is to be made: tiles along `offsets`, for every head. */
struct work {
    const int32_t *offsets; // q_offsets or k_offsets
    const int32_t *q_offsets, *k_offsets;
    int sequences;
    int heads;
    int tiles;     // of all sequences
    bool backward; // from the last tile to the first
};

/* All lanes of a warp call it. */
__device__ static inline struct work work_along(const struct mt_tensor &offsets,
                                                const struct mt_tensor &q_offsets,
                                                const struct mt_tensor &k_offsets, int64_t heads,
                                                bool backward)
{
    struct work w;
    w.offsets = static_cast<const int32_t *>(offsets.data);
    w.q_offsets = static_cast<const int32_t *>(q_offsets.data);
    w.k_offsets = static_cast<const int32_t *>(k_offsets.data);
    w.sequences = (int)offsets.dim[0] - 1;
    w.heads = (int)heads;
    w.backward = backward;
    int tiles = 0;
    for (int b = cuda_lane(); b < w.sequences; b += 32) {
        tiles += (w.offsets[b + 1] - w.offsets[b] + HOPPER_ROWS - 1) / HOPPER_ROWS;
    }
    w.tiles = (int)__reduce_add_sync(CUDA_EVERY, (unsigned)tiles);
    return w;
}

/*
 * What this block makes in its turn; false after the last. Neighbours in the list share keys, and lengths
 * fall along each sequence; from turn to turn blocks take from the list in opposite orders, so that who had a
 * long tile gets a short one. All lanes of a warp call it.
 */
__device__ static inline bool find_place(const struct work &w, int turn, struct place *place)
{
    unsigned within = turn % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    unsigned item = (unsigned)turn * gridDim.x + within;
    if (item >= (unsigned)w.tiles * (unsigned)w.heads) return false;
    int64_t tile = item / (unsigned)w.heads;
    if (w.backward) tile = w.tiles - 1 - tile;
    int b = find_expert(w.offsets, w.sequences, HOPPER_ROWS, &tile); // sequences lie as experts' rows do
    place->head = (int)(item % (unsigned)w.heads);
    place->start = (int)tile * HOPPER_ROWS;
    place->q_first = w.q_offsets[b];
    place->queries = w.q_offsets[b + 1] - place->q_first;
    place->k_first = w.k_offsets[b];
    place->keys = w.k_offsets[b + 1] - place->k_first;
    place->shift = place->keys - place->queries;
    return true;
}

// ------------------------------------------------------------------ who sees whom

/* A stretch of rows of the other side. */
struct stretch {
    int first, end;
};

/* The keys that any of the queries [query, query + count) sees; first >= end if none. */
__device__ static inline struct stretch keys_seen(const struct place &p, int query, int count, int window)
{
    struct stretch keys;
    int last = min(query + count, p.queries);
    keys.first = window > 0 ? max(query + p.shift - window + 1, 0) : 0;
    keys.end = query < p.queries ? min(last + p.shift, p.keys) : 0;
    return keys;
}

/* The queries that see any of the keys [key, key + count). */
__device__ static inline struct stretch queries_seeing(const struct place &p, int key, int count, int window)
{
    struct stretch queries;
    int last = min(key + count, p.keys);
    queries.first = max(key - p.shift, 0);
    queries.end = key < p.keys ? p.queries : 0;
    // Sums of 32 bits: a window may be longer than any sequence.
    if (window > 0 && window < p.keys) queries.end = min(queries.end, last - 1 + window - p.shift);
    return queries;
}

__device__ static inline int tiles_of(const struct stretch &s, int rows)
{
    return s.end > s.first ? (s.end - s.first + rows - 1) / rows : 0;
}

__device__ static inline bool overlap(const struct stretch &s, int first, int count)
{
    return first < s.end && first + count > s.first;
}

/* Whether queries [query, query + queries) all see keys [key, key + keys). */
__device__ static inline bool all_see(const struct place &p, int query, int queries, int key, int keys,
                                      int window)
{
    return key + keys <= p.keys && query + queries <= p.queries && key + keys - 1 <= query + p.shift &&
           (window == 0 || query + queries - 1 + p.shift - key < window);
}

/* Columns [low, high) of a lane's two rows of sums are seen. */
struct seen_columns {
    int low[2], high[2];
};

/* Rows are queries from `query` on (this warp's first), columns keys from `key` on. */
__device__ static inline struct seen_columns columns_seen(const struct place &p, int query, int key,
                                                          int window)
{
    struct seen_columns c;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        struct stretch keys = keys_seen(p, query + cuda_lane() / 4 + 8 * half, 1, window);
        c.low[half] = keys.first - key;
        c.high[half] = keys.end - key;
    }
    return c;
}

/* Rows are keys, columns queries. */
__device__ static inline struct seen_columns columns_seeing(const struct place &p, int key, int query,
                                                            int window)
{
    struct seen_columns c;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        struct stretch queries = queries_seeing(p, key + cuda_lane() / 4 + 8 * half, 1, window);
        c.low[half] = queries.first - query;
        c.high[half] = queries.end - query;
    }
    return c;
}

/* Scores of pairs that do not see each other become -inf. */
template <int COUNT>
__device__ static inline void hide_unseen(float (&scores)[COUNT][4], const struct seen_columns &c)
{
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int column = fragment_column(j, e);
            if (column < c.low[e / 2] || column >= c.high[e / 2]) scores[j][e] = -INFINITY;
        }
    }
}

// ------------------------------------------------------------------ small things

/* 2^x; numbers below 2^-126 are 0. */
__device__ static inline float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* This warp reads what the barrier guards no more. */
__device__ static inline void release(uint64_t *barrier)
{
    __syncwarp();
    if (cuda_lane() == 0) barrier_arrive(barrier);
}

/* The first address from which patterns lie as the tensor cores want them. */
__device__ static inline unsigned char *align_patterns(unsigned char *memory)
{
    return memory + (WGMMA_PATTERN - shared_address(memory) % WGMMA_PATTERN) % WGMMA_PATTERN;
}

#endif

/* Bytes of shared memory for a structure that begins where patterns may. */
template <typename MEMORY> static constexpr size_t bytes_with_patterns(void)
{
    return sizeof(MEMORY) + WGMMA_PATTERN;
}

#endif
