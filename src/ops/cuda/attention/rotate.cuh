/* The rotation rope and mla_key share: one pair of a row, by its position's angle. */
#ifndef MT_OPS_CUDA_ROTATE_CUH
#define MT_OPS_CUDA_ROTATE_CUH

#include "ops/cuda/common/wide.cuh"

struct rope_pair {
    int64_t first;  // column of a
    int64_t second; // column of b
};

/* Columns of pair `i` in a row of `width`. */
__device__ static inline struct rope_pair rope_pair_at(enum mt_rope_layout layout, int64_t width, int64_t i)
{
    struct rope_pair pair = {i, i + width / 2};
    if (layout == MT_ROPE_INTERLEAVED) pair = {2 * i, 2 * i + 1};
    return pair;
}

/* (a,b) -> (a·cos - b·sin, a·sin + b·cos), in place; inverse turns sin into -sin. */
__device__ static inline void rope_rotate(const struct mt_tensor &cosine, const struct mt_tensor &sine,
                                          int64_t position, int64_t i, bool inverse, double *a, double *b)
{
    double c = cuda_get2(cosine, position, i);
    double s = cuda_get2(sine, position, i) * (inverse ? -1.0 : 1.0);
    double rotated_a = *a * c - *b * s;
    double rotated_b = *a * s + *b * c;
    *a = rotated_a;
    *b = rotated_b;
}

/* A token's angle, for pairs taken eight elements at a time; the tables are f32. */
struct rope_turn {
    const struct mt_tensor &cosine, &sine;
    int64_t position;
    bool inverse;
};

__device__ static inline void rope_turn_pair(const struct rope_turn &turn, int64_t i, float *a, float *b)
{
    float c = static_cast<const float *>(turn.cosine.data)[turn.position * turn.cosine.stride[0] + i];
    float s = static_cast<const float *>(turn.sine.data)[turn.position * turn.sine.stride[0] + i];
    if (turn.inverse) s = -s;
    float rotated = *a * c - *b * s;
    *b = *a * s + *b * c;
    *a = rotated;
}

/* Four pairs of neighbours, the first of which is pair number `first`. */
__device__ static inline void rope_turn_neighbours(const struct rope_turn &turn, int64_t first,
                                                   float (&x)[CUDA_WIDE])
{
#pragma unroll
    for (int i = 0; i < CUDA_WIDE / 2; i++) rope_turn_pair(turn, first + i, &x[2 * i], &x[2 * i + 1]);
}

/* Eight pairs, one of each half. */
__device__ static inline void rope_turn_halves(const struct rope_turn &turn, int64_t first,
                                               float (&a)[CUDA_WIDE], float (&b)[CUDA_WIDE])
{
#pragma unroll
    for (int i = 0; i < CUDA_WIDE; i++) rope_turn_pair(turn, first + i, &a[i], &b[i]);
}

#endif
