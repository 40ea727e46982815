/*
 * What attention's kernels share: which tile of which sequence a block works on, who sees whom, and loading
 * tiles into shared memory. Scores of a tile are [QUERIES][SCORE_PITCH]; at most MOST_KEYS keys have a score
 * at a time.
 */
#ifndef MT_OPS_CUDA_ATTENTION_TILES_CUH
#define MT_OPS_CUDA_ATTENTION_TILES_CUH

#include "ops/cuda/common/sums.cuh"

#define QUERIES     16
#define MOST_KEYS   32
#define SCORE_PITCH (MOST_KEYS + 1)

struct sequence {
    int64_t q_first, queries; // rows of q
    int64_t k_first, keys;    // rows of k and v
    int64_t shift;            // query i stands at position i + shift
};

/* Tiles that `rows` rows in packed sequences need at the most. */
static inline int64_t tiles_at_most(int64_t rows, int64_t per_tile, const struct mt_tensor *offsets)
{
    return rows / per_tile + offsets->dim[0] - 1;
}

/*
 * The sequence of a tile, counted through all sequences along `offsets` (queries or keys), and the tile's
 * first row within it; -1 for tiles past the last.
 */
__device__ static inline int64_t find_tile(const struct mt_tensor &offsets, int64_t tile, int64_t per_tile,
                                           int64_t *first)
{
    for (int64_t b = 0; b + 1 < offsets.dim[0]; b++) {
        int64_t rows = cuda_int1(offsets, b + 1) - cuda_int1(offsets, b);
        int64_t tiles = (rows + per_tile - 1) / per_tile;
        if (tile < tiles) {
            *first = tile * per_tile;
            return b;
        }
        tile -= tiles;
    }
    return -1;
}

__device__ static inline struct sequence sequence_at(const struct mt_tensor &q_offsets,
                                                     const struct mt_tensor &k_offsets, int64_t b)
{
    struct sequence s;
    s.q_first = cuda_int1(q_offsets, b);
    s.queries = cuda_int1(q_offsets, b + 1) - s.q_first;
    s.k_first = cuda_int1(k_offsets, b);
    s.keys = cuda_int1(k_offsets, b + 1) - s.k_first;
    s.shift = s.keys - s.queries;
    return s;
}

/* True when query i of the sequence sees key j; both may lie past the end. */
__device__ static inline bool sees(const struct sequence &s, int64_t i, int64_t j, int window)
{
    int64_t position = i + s.shift;
    return i < s.queries && j < s.keys && j <= position && (window == 0 || position - j < window);
}

/* The first key any query from `query` on sees. */
__device__ static inline int64_t first_key_seen(const struct sequence &s, int64_t query, int window)
{
    int64_t first = window > 0 ? query + s.shift - window + 1 : 0;
    return first > 0 ? first : 0;
}

/* One past the last key that the queries before `query_end` see; may be negative. */
__device__ static inline int64_t end_of_keys(const struct sequence &s, int64_t query_end)
{
    int64_t last = query_end < s.queries ? query_end : s.queries;
    return last + s.shift;
}

/* Odd, so that lanes that walk down a column meet 32 different banks. */
__host__ __device__ static inline int odd(int width)
{
    return width | 1;
}

/* target[row][0..width) = t[first + row, head, :]; zeros from `end` on. All threads of the block take part.
 */
__device__ static inline void load_tile(float *target, int pitch, const struct mt_tensor &t, int64_t first,
                                        int64_t end, int64_t head, int rows)
{
    int width = (int)t.dim[2];
    for (int e = (int)threadIdx.x; e < rows * width; e += CUDA_THREADS) {
        int row = e / width;
        int column = e % width;
        int64_t at = (first + row) * t.stride[0] + head * t.stride[1] + column;
        target[row * pitch + column] = first + row < end ? cuda_float_at(t.data, t.dtype, at) : 0.0f;
    }
}

/* t[first + row, head, :] = source[row][0..width), for rows before `end`. */
__device__ static inline void store_tile(const float *source, const struct mt_tensor &t, int64_t first,
                                         int64_t end, int64_t head, int rows)
{
    int width = (int)t.dim[2];
    for (int e = (int)threadIdx.x; e < rows * width; e += CUDA_THREADS) {
        int64_t row = first + e / width;
        int64_t at = row * t.stride[0] + head * t.stride[1] + e % width;
        if (row < end) cuda_float_set(t.data, t.dtype, at, source[e]);
    }
}

__device__ static inline float dot(const float *a, const float *b, int width)
{
    float sum = 0.0f;
    for (int j = 0; j < width; j++) sum += a[j] * b[j];
    return sum;
}

#endif
