/*
 * What the kernels of attention by Hopper's own instructions share. A block stays on its multiprocessor and
 * makes tile after tile of HOPPER_ROWS rows of a sequence and a head, as it is done with the one before. One
 * of its warps finds out which; one asks the copy engine for tiles of the other side, some of them ahead; two
 * groups of four warps multiply, 64 rows each, so that one can weigh while the other multiplies.
 *
 * The copy engine does not know where a sequence ends: rows past its end are the next one's, and get no
 * weight.
 */
#ifndef MT_OPS_CUDA_ATTENTION_HOPPER_CUH
#define MT_OPS_CUDA_ATTENTION_HOPPER_CUH

#include "ops/cuda/attention/attention_bf16.cuh"
#include "ops/cuda/attention/wgmma_attention.cuh"
#include "ops/cuda/common/counter.cuh"
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
    unsigned *counter; // of tiles taken, 0 before the launch
    int sequences;
    int heads;
    bool backward; // the last tile of a sequence is the longest, not the first
};

__device__ static inline struct work work_along(const struct mt_tensor &offsets,
                                                const struct mt_tensor &q_offsets,
                                                const struct mt_tensor &k_offsets, int64_t heads,
                                                bool backward, unsigned *counter)
{
    struct work w;
    w.offsets = static_cast<const int32_t *>(offsets.data);
    w.q_offsets = static_cast<const int32_t *>(q_offsets.data);
    w.k_offsets = static_cast<const int32_t *>(k_offsets.data);
    w.counter = counter;
    w.sequences = (int)offsets.dim[0] - 1;
    w.heads = (int)heads;
    w.backward = backward;
    return w;
}

__device__ static inline int tiles_of_sequence(const struct work &w, int b)
{
    return (w.offsets[b + 1] - w.offsets[b] + HOPPER_ROWS - 1) / HOPPER_ROWS;
}

/*
 * Where a warp stands in the list of tiles. The list goes through groups of sequences that have a few tiles
 * for every block, the longest tiles of a group first: a block that took a long tile last would make all
 * others wait, and tiles of one sequence read the same keys while these are in the cache.
 */
struct cursor {
    int first, end;  // the group's sequences
    int level;       // tiles of a sequence from here to its short end, this one included
    int there;       // sequences of the group that have so many
    unsigned before; // tiles in front of this level
};

#define TILES_OF_A_BLOCK 4 // of a group

/* The group behind this one; level 0: its sequences are empty. */
__device__ static inline void next_group(const struct work &w, struct cursor *c)
{
    unsigned tiles = 0;
    c->first = c->end;
    c->level = 0;
    while (c->end < w.sequences && tiles * (unsigned)w.heads < TILES_OF_A_BLOCK * gridDim.x) {
        int own = tiles_of_sequence(w, c->end++);
        tiles += (unsigned)own;
        c->level = max(c->level, own);
    }
}

__device__ static inline int sequences_there(const struct work &w, const struct cursor *c)
{
    unsigned there = 0;
    if (c->level <= 0) return 0;
    for (int b = c->first + cuda_lane(); b < c->end; b += 32) there += tiles_of_sequence(w, b) >= c->level;
    return (int)__reduce_add_sync(CUDA_EVERY, there);
}

/* The sequence of the group that is number `nth` of those that have a tile at this level. */
__device__ static inline int nth_there(const struct work &w, const struct cursor *c, int nth)
{
    for (int start = c->first;; start += 32) {
        int b = start + cuda_lane();
        unsigned there = __ballot_sync(CUDA_EVERY, b < c->end && tiles_of_sequence(w, b) >= c->level);
        if (nth >= __popc(there)) {
            nth -= __popc(there);
            continue;
        }
        for (; nth > 0; nth--) there &= there - 1;
        return start + __ffs((int)there) - 1;
    }
}

/* Tile `item` of the list, none before the one asked for last; false past the end. All lanes of a warp call
 * it. */
__device__ static inline bool find_place(const struct work &w, unsigned item, struct cursor *c,
                                         struct place *place)
{
    while (item - c->before >= (unsigned)(c->there * w.heads)) {
        c->before += (unsigned)(c->there * w.heads);
        if (--c->level <= 0) {
            if (c->end == w.sequences) return false;
            next_group(w, c);
        }
        c->there = sequences_there(w, c);
    }
    int within = (int)(item - c->before);
    int b = nth_there(w, c, within / w.heads);
    place->head = within % w.heads;
    place->start = (w.backward ? c->level - 1 : tiles_of_sequence(w, b) - c->level) * HOPPER_ROWS;
    place->q_first = w.q_offsets[b];
    place->queries = w.q_offsets[b + 1] - place->q_first;
    place->k_first = w.k_offsets[b];
    place->keys = w.k_offsets[b + 1] - place->k_first;
    place->shift = place->keys - place->queries;
    return true;
}

#define HANDED 2 // places: one at work, one ahead

/* In shared memory: which tile is next. */
struct handed_places {
    uint64_t full[HANDED], empty[HANDED];
    struct place place[HANDED]; // head -1: there are no more
};

/* The warp that brings operands takes places, as those that multiply do. */
__device__ static inline void init_handed(struct handed_places *h)
{
    for (int i = 0; i < HANDED; i++) {
        barrier_init(&h->full[i], 1);
        barrier_init(&h->empty[i], 1 + HOPPER_GROUPS * HOPPER_GROUP / 32);
    }
}

/* This warp reads what the barrier guards no more. */
__device__ static inline void release(uint64_t *barrier)
{
    __syncwarp();
    if (cuda_lane() == 0) barrier_arrive(barrier);
}

/* One warp of a block: takes tiles from the list until there are no more, and hands them out. */
__device__ static inline void hand_places(const struct work &w, struct handed_places *h)
{
    struct cursor cursor = {};
    struct place place = {};
    for (unsigned turn = 0; place.head >= 0; turn++) {
        unsigned item = 0;
        if (cuda_lane() == 0) item = atomicAdd(w.counter, 1u);
        item = __shfl_sync(CUDA_EVERY, item, 0);
        if (!find_place(w, item, &cursor, &place)) place.head = -1;
        barrier_wait(&h->empty[turn % HANDED], (turn / HANDED + 1) & 1);
        if (cuda_lane() == 0) {
            h->place[turn % HANDED] = place;
            barrier_arrive(&h->full[turn % HANDED]);
        }
        __syncwarp();
    }
}

/* The block's next tile; false after the last. All lanes of every other warp at work call it. */
__device__ static inline bool take_place(struct handed_places *h, unsigned turn, struct place *place)
{
    barrier_wait(&h->full[turn % HANDED], turn / HANDED & 1);
    *place = h->place[turn % HANDED];
    release(&h->empty[turn % HANDED]);
    return place->head >= 0;
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
