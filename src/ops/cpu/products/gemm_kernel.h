/*
 * The innermost step of every matrix product: a tile of C held in registers,
 *
 *     C[rows, TILE_COLUMNS] = alpha · Σ_p A[:,p] · B[p,:] + beta · C
 *
 * with A and B packed so that both are read in order: A as [k][TILE_ROWS], B as [k][TILE_COLUMNS].
 * The tile's shape fits the level's registers: all sums, one row of B, and the broadcast element of A.
 */
#ifndef MT_OPS_CPU_GEMM_KERNEL_H
#define MT_OPS_CPU_GEMM_KERNEL_H

#include "ops/cpu/products/gemm_vector.h"

#define STEPS_AHEAD 8 // the panels lie in the second-level cache: asked for this many steps before use
#define LINE_BYTES  64

/*
 * Memory that will be packed next, touched line by line while tiles are computed, so that reading it then
 * costs no waiting: `runs` runs of bytes, evenly spaced.
 */
struct read_ahead {
    const char *run;
    int64_t runs; // still to be read, the one at hand included
    int64_t run_bytes;
    int64_t run_distance;
    int64_t at; // bytes of this run already asked for
};

VECTOR_INLINE void read_ahead_line(struct read_ahead *ahead)
{
    if (ahead->runs == 0) return;
    __builtin_prefetch(ahead->run + ahead->at, 0, 2);
    ahead->at += LINE_BYTES;
    if (ahead->at < ahead->run_bytes) return;
    ahead->at = 0;
    ahead->run += ahead->run_distance;
    ahead->runs--;
}

#if defined(MT_CPU_ANY_LENGTH)
#include "ops/cpu/sve/tile_product.h"
#elif defined(__aarch64__)
/*
 * One step: a column of A times a row of B, added to the sums. A vector times a lane of another is one
 * instruction here, so A is read in vectors, too. Both panels are read in order: nobody need ask for them.
 */
VECTOR_INLINE void tile_step(int rows, int vectors, const float *a, const float *b,
                             vector_f32 sum[TILE_ROWS][TILE_VECTORS])
{
    vector_f32 a_part[TILE_ROWS / VECTOR_LANES];
    vector_f32 b_row[TILE_VECTORS];
    UNROLL
    for (int i = 0; i < TILE_ROWS / VECTOR_LANES; i++) a_part[i] = vector_load(a + i * VECTOR_LANES);
    UNROLL
    for (int v = 0; v < vectors; v++) b_row[v] = vector_load(b + v * VECTOR_LANES);
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            sum[i][v] += a_part[i / VECTOR_LANES][i % VECTOR_LANES] * b_row[v];
        }
    }
}
#else
/* One step: a column of A times a row of B, added to the sums. */
VECTOR_INLINE void tile_step(int rows, int vectors, const float *a, const float *b,
                             vector_f32 sum[TILE_ROWS][TILE_VECTORS])
{
    vector_f32 b_row[TILE_VECTORS];
    __builtin_prefetch(a + STEPS_AHEAD * TILE_ROWS);
    UNROLL
    for (int v = 0; v < vectors; v++) {
        __builtin_prefetch(b + (STEPS_AHEAD * vectors + v) * VECTOR_LANES);
        b_row[v] = vector_load(b + v * VECTOR_LANES);
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int v = 0; v < vectors; v++) sum[i][v] += a[i] * b_row[v];
    }
}
#endif

#if !defined(MT_CPU_ANY_LENGTH)
/* `rows` and `vectors` are constants wherever this is inlined. beta 0 does not read C. */
VECTOR_INLINE void tile_product(int rows, int vectors, int64_t k, const float *a, const float *b, float alpha,
                                float beta, float *c, int64_t c_row, struct read_ahead *ahead)
{
    const int columns = vectors * VECTOR_LANES;
    vector_f32 sum[TILE_ROWS][TILE_VECTORS];
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int v = 0; v < vectors; v++) sum[i][v] = (vector_f32){0};
        // C is needed k steps from now: time enough to come from memory.
        __builtin_prefetch(c + i * c_row, 1);
        __builtin_prefetch(c + i * c_row + columns - 1, 1);
    }
    int64_t p = 0;
    for (; p + 4 <= k; p += 4) {
        UNROLL
        for (int s = 0; s < 4; s++) tile_step(rows, vectors, a + s * TILE_ROWS, b + s * columns, sum);
        a += 4 * TILE_ROWS;
        b += 4 * columns;
        read_ahead_line(ahead);
    }
    for (; p < k; p++) {
        tile_step(rows, vectors, a, b, sum);
        a += TILE_ROWS;
        b += columns;
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            vector_merge(sum[i][v], alpha, beta, c + i * c_row + v * VECTOR_LANES);
        }
    }
}
#endif

typedef void (*tile_kernel)(int64_t k, const float *a, const float *b, float alpha, float beta, float *c,
                            int64_t c_row, struct read_ahead *ahead);

#define TILE_KERNEL(rows)                                                                                    \
    static void tile_kernel_##rows(int64_t k, const float *a, const float *b, float alpha, float beta,       \
                                   float *c, int64_t c_row, struct read_ahead *ahead)                        \
    {                                                                                                        \
        tile_product(rows, TILE_VECTORS, k, a, b, alpha, beta, c, c_row, ahead);                             \
    }                                                                                                        \
    static void narrow_kernel_##rows(int64_t k, const float *a, const float *b, float alpha, float beta,     \
                                     float *c, int64_t c_row, struct read_ahead *ahead)                      \
    {                                                                                                        \
        tile_product(rows, NARROW_VECTORS, k, a, b, alpha, beta, c, c_row, ahead);                           \
    }

TILE_KERNEL(1)
TILE_KERNEL(2)
TILE_KERNEL(3)
TILE_KERNEL(4)
#if TILE_ROWS > 4
TILE_KERNEL(5)
TILE_KERNEL(6)
#endif
#if TILE_ROWS > 6
TILE_KERNEL(7)
TILE_KERNEL(8)
#endif
#if TILE_ROWS > 8
TILE_KERNEL(9)
TILE_KERNEL(10)
TILE_KERNEL(11)
TILE_KERNEL(12)
TILE_KERNEL(13)
TILE_KERNEL(14)
#endif

#if TILE_ROWS > 8
#define KERNELS_OF(name)                                                                                     \
    {                                                                                                        \
        name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8, name##_9, name##_10, \
            name##_11, name##_12, name##_13, name##_14                                                       \
    }
#elif TILE_ROWS > 6
#define KERNELS_OF(name)                                                                                     \
    {                                                                                                        \
        name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8                       \
    }
#elif TILE_ROWS > 4
#define KERNELS_OF(name)                                                                                     \
    {                                                                                                        \
        name##_1, name##_2, name##_3, name##_4, name##_5, name##_6                                           \
    }
#else
#define KERNELS_OF(name)                                                                                     \
    {                                                                                                        \
        name##_1, name##_2, name##_3, name##_4                                                               \
    }
#endif

// By the number of rows, less one.
static const tile_kernel tile_kernels[TILE_ROWS] = KERNELS_OF(tile_kernel);
static const tile_kernel narrow_kernels[TILE_ROWS] = KERNELS_OF(narrow_kernel);

#endif
