/*
 * Rows as fp16 numbers that share a power of two: 11 bits of each count, and whatever the range of f32 and
 * bf16 holds fits. Numbers 2^29 times smaller than the largest of their row begin to lose bits.
 */
#ifndef MT_OPS_CUDA_SCALED_ROWS_CUH
#define MT_OPS_CUDA_SCALED_ROWS_CUH

#include "ops/cuda/common.cuh"

/*
 * Of numbers whose largest magnitude has these bits: what makes it 2^14 to 2^15, and what undoes that.
 * Exponents too small for the latter to be a normal number are raised.
 */
__device__ static inline float scaled_down(unsigned highest)
{
    return __uint_as_float((268u - max(highest >> 23, 15u)) << 23);
}

__device__ static inline float scaled_power(unsigned highest)
{
    return __uint_as_float((max(highest >> 23, 15u) - 14u) << 23);
}

/* Eight numbers times `scale`, as fp16. */
__device__ static inline uint4 scaled_eight(const float (&value)[8], float scale)
{
    unsigned pair[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        __half2 both = __floats2half2_rn(value[2 * i] * scale, value[2 * i + 1] * scale);
        pair[i] = *reinterpret_cast<unsigned *>(&both);
    }
    return make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

#define SCALED_SOURCES  3  // matrices whose rows share their powers
#define SCALED_MATRICES 64 // one below the other, of each source

/* Matrices [rows,K] of f32 or bf16, one way for all of a source; absent ones count as zeros. */
struct scaled_source {
    const struct mt_tensor *list;
    float factor; // they are multiplied by
};

struct scaled_rows {
    struct scaled_source source[SCALED_SOURCES];
    int sources;
    int matrices; // of each source, at most SCALED_MATRICES
    int64_t rows; // of each matrix
};

/* Whether they can be made: no row longer than registers hold, the second and third source's short. */
bool cuda_scaled_fits(const struct scaled_rows *r);

/* Bytes of a source's numbers, and of the factors: f32 [matrices,rows], what makes numbers of fp16's. */
size_t cuda_scaled_bytes(const struct scaled_rows *r, int source);
size_t cuda_scaled_factor_bytes(const struct scaled_rows *r);

/*
 * `halves` becomes each source's numbers, [rows,padded K] of the first matrix, the others behind it: numbers
 * of 16 bits, which call themselves bf16 for the sake of those who only move them. `memory` has
 * cuda_scaled_bytes of all sources.
 */
enum mt_status cuda_scale_rows(struct mt_device *device, const struct scaled_rows *r, void *memory,
                               float *factor, struct mt_tensor *halves);

#endif
