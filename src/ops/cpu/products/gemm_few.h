/*
 * Products of a few rows with a weight as stored (decoding). The weight is read once, in order, and never
 * packed: squares of it are transposed in registers, and every step of a square is multiplied into the sums
 * of all rows at once.
 *
 * A sum has the lane of its column, takes its steps in order, and is added to C after the same blocks of
 * steps as in the packed kernels (gemm_kernel.h): an element of C has the same bits either way.
 */
#ifndef MT_OPS_CPU_GEMM_FEW_H
#define MT_OPS_CPU_GEMM_FEW_H

#include <string.h>

#include "ops/cpu/products/gemm_block.h"
#include "ops/cpu/products/gemm_pack.h"
#include "ops/cpu/products/weight_ahead.h"

#if VECTOR_REGISTERS == 32
#define FEW_ROWS 8 // sums at a time; the rest of 32 registers holds the square
#else
#define FEW_ROWS 4 // of 16 registers
#endif
#define FEW_MOST_ROWS (2 * FEW_ROWS) // with more, packing pays

/* A whole product, C[m,n] = alpha · A · B + beta · C; B[p,j] is element j·b_column + p. */
struct few_product {
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t steps; // of a block: a multiple of what a square takes
    const float *a;
    int64_t a_row;
    const char *b;
    int64_t b_column;
    float *c;
    int64_t c_row;
    float alpha;
    float beta;
};

/* A tile of C over one block of steps. */
struct few_tile {
    const float *a;
    const char *b;
    int64_t steps;
    int64_t last; // line of the square that exists: VECTOR_LANES - 1, less at the right edge
    float beta;
    float *c;
    struct weight_ahead *ahead; // NULL: nothing is asked for
};

/* Steps of one square: a 32-bit lane holds one f32, or two of the 16-bit types. */
VECTOR_INLINE int64_t few_square_steps(enum mt_dtype dtype)
{
    return dtype == MT_F32 ? VECTOR_LANES : 2 * VECTOR_LANES;
}

/* One step: a row of B times the rows' elements of A, added to the sums. */
VECTOR_INLINE void few_step(int rows, vector_f32 weight, const float *a, int64_t a_row, vector_f32 *sum)
{
    UNROLL
    for (int i = 0; i < rows; i++) sum[i] += a[i * a_row] * weight;
}

/* The first and, of a 16-bit type, the second step of a transposed vector. */
VECTOR_INLINE vector_f32 few_first(enum mt_dtype dtype, vector_u32 steps)
{
    if (dtype == MT_F32) return (vector_f32)steps;
    return dtype == MT_BF16 ? (vector_f32)(steps << 16) : vector_from_f16(steps & 0xFFFFu);
}

VECTOR_INLINE vector_f32 few_second(enum mt_dtype dtype, vector_u32 steps)
{
    return dtype == MT_BF16 ? (vector_f32)(steps & 0xFFFF0000u) : vector_from_f16(steps >> 16);
}

/* All steps of a square. */
VECTOR_INLINE void few_square(int rows, enum mt_dtype dtype, const vector_u32 *square, const float *a,
                              int64_t a_row, vector_f32 *sum)
{
    UNROLL
    for (int j = 0; j < VECTOR_LANES; j++) {
        if (dtype == MT_F32) {
            few_step(rows, few_first(dtype, square[j]), a + j, a_row, sum);
        } else {
            few_step(rows, few_first(dtype, square[j]), a + 2 * j, a_row, sum);
            few_step(rows, few_second(dtype, square[j]), a + 2 * j + 1, a_row, sum);
        }
    }
}

/* Fewer steps than a square has: their lines are copied into one that has room for all. */
VECTOR_INLINE void few_rest(int rows, enum mt_dtype dtype, int64_t steps, int64_t last, const char *b,
                            int64_t line_bytes, const float *a, int64_t a_row, vector_f32 *sum)
{
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    char lines[VECTOR_LANES][VECTOR_LANES * 4] = {{0}};
    vector_u32 square[VECTOR_LANES];
    for (int64_t i = 0; i <= last; i++) memcpy(lines[i], b + i * line_bytes, (size_t)(steps * bytes));
    vector_load_transposed(lines[0], VECTOR_LANES * 4, VECTOR_LANES - 1, square);
    for (int64_t p = 0; p < steps; p++) {
        if (dtype == MT_F32) {
            few_step(rows, few_first(dtype, square[p]), a + p, a_row, sum);
        } else if (p % 2 == 0) {
            few_step(rows, few_first(dtype, square[p / 2]), a + p, a_row, sum);
        } else {
            few_step(rows, few_second(dtype, square[p / 2]), a + p, a_row, sum);
        }
    }
}

/* `rows` rows and a vector of columns; the number and the type are constants wherever this is inlined. */
VECTOR_INLINE void few_tile(int rows, enum mt_dtype dtype, const struct few_product *x,
                            const struct few_tile *t)
{
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    const int64_t line_bytes = x->b_column * bytes;
    const int64_t square_steps = few_square_steps(dtype);
    vector_f32 sum[FEW_ROWS];
    UNROLL
    for (int i = 0; i < rows; i++) sum[i] = (vector_f32){0};
    int64_t p = 0;
    for (; p + square_steps <= t->steps; p += square_steps) {
        vector_u32 square[VECTOR_LANES];
        if (t->ahead != NULL) weight_ask(t->ahead);
        vector_load_transposed(t->b + p * bytes, line_bytes, t->last, square);
        few_square(rows, dtype, square, t->a + p, x->a_row, sum);
    }
    if (p < t->steps) {
        few_rest(rows, dtype, t->steps - p, t->last, t->b + p * bytes, line_bytes, t->a + p, x->a_row, sum);
    }
    UNROLL
    for (int i = 0; i < rows; i++) vector_merge(sum[i], x->alpha, t->beta, t->c + i * x->c_row);
}

/* One to FEW_ROWS rows of a whole vector. */
VECTOR_INLINE void few_rows(int64_t rows, enum mt_dtype dtype, const struct few_product *x,
                            const struct few_tile *tile)
{
    struct few_tile whole = *tile;
    whole.last = VECTOR_LANES - 1;
    switch (rows) {
    case 1: few_tile(1, dtype, x, &whole); break;
    case 2: few_tile(2, dtype, x, &whole); break;
    case 3: few_tile(3, dtype, x, &whole); break;
    case 4: few_tile(4, dtype, x, &whole); break;
#if FEW_ROWS > 4
    case 5: few_tile(5, dtype, x, &whole); break;
    case 6: few_tile(6, dtype, x, &whole); break;
    case 7: few_tile(7, dtype, x, &whole); break;
    case 8: few_tile(8, dtype, x, &whole); break;
#endif
    default: break;
    }
}

/* The columns that do not fill a vector, row by row, computed beside C. */
VECTOR_INLINE void few_edge(enum mt_dtype dtype, const struct few_product *x, const struct few_tile *tile)
{
    size_t bytes = (size_t)(tile->last + 1) * sizeof(float);
    float columns[VECTOR_LANES] = {0};
    struct few_tile edge = *tile;
    edge.c = columns;
    for (int64_t i = 0; i < x->m; i++) {
        float *target = tile->c + i * x->c_row;
        edge.a = tile->a + i * x->a_row;
        if (tile->beta != 0.0f) memcpy(columns, target, bytes);
        few_tile(1, dtype, x, &edge);
        memcpy(target, columns, bytes);
    }
}

/* Columns [column, column + VECTOR_LANES), as far as they exist, and all steps. */
VECTOR_INLINE void few_columns(enum mt_dtype dtype, const struct few_product *x, int64_t column,
                               struct weight_ahead *ahead)
{
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    int64_t passes = (x->m + FEW_ROWS - 1) / FEW_ROWS;
    int64_t columns = cpu_min(VECTOR_LANES, x->n - column);
    for (int64_t p = 0; p < x->k; p += x->steps) {
        struct few_tile tile = {
            .a = x->a + p,
            .b = x->b + (column * x->b_column + p) * bytes,
            .steps = cpu_min(x->steps, x->k - p),
            .last = columns - 1,
            .beta = p == 0 ? x->beta : 1.0f,
            .c = x->c + column,
        };
        if (columns < VECTOR_LANES) {
            few_edge(dtype, x, &tile);
            continue;
        }
        // The rows pass over the same few lines of the weight, which stay in the first-level cache.
        for (int64_t pass = 0; pass < passes; pass++) {
            int64_t i = pass * x->m / passes;
            struct few_tile part = tile;
            part.a += i * x->a_row;
            part.c += i * x->c_row;
            part.ahead = pass == 0 ? ahead : NULL;
            few_rows((pass + 1) * x->m / passes - i, dtype, x, &part);
        }
    }
}

#if defined(__aarch64__)
/*
 * The same of `vectors` of columns side by side: a sum waits for its last step, and of narrow vectors few
 * rows do not keep the processor busy. The numbers are constants wherever this is inlined.
 */
VECTOR_INLINE void few_wide_tile(int rows, int vectors, enum mt_dtype dtype, const struct few_product *x,
                                 const struct few_tile *t)
{
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    const int64_t line_bytes = x->b_column * bytes;
    const int64_t square_steps = few_square_steps(dtype);
    const int64_t whole = t->steps / square_steps * square_steps;
    vector_f32 sum[FEW_ROWS];
    UNROLL
    for (int i = 0; i < vectors * rows; i++) sum[i] = (vector_f32){0};
    for (int64_t p = 0; p < whole; p += square_steps) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            vector_u32 square[VECTOR_LANES];
            const char *lines = t->b + v * VECTOR_LANES * line_bytes + p * bytes;
            vector_load_transposed(lines, line_bytes, VECTOR_LANES - 1, square);
            few_square(rows, dtype, square, t->a + p, x->a_row, sum + v * rows);
        }
    }
    UNROLL
    for (int v = 0; v < vectors; v++) {
        const char *lines = t->b + v * VECTOR_LANES * line_bytes + whole * bytes;
        if (whole < t->steps) {
            few_rest(rows, dtype, t->steps - whole, VECTOR_LANES - 1, lines, line_bytes, t->a + whole,
                     x->a_row, sum + v * rows);
        }
        UNROLL
        for (int i = 0; i < rows; i++) {
            vector_merge(sum[v * rows + i], x->alpha, t->beta, t->c + i * x->c_row + v * VECTOR_LANES);
        }
    }
}

/* Columns in whole groups of vectors, of one to four rows. Returns how many that was. */
VECTOR_INLINE int64_t few_wide(enum mt_dtype dtype, const struct few_product *x)
{
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    int64_t group = x->m <= 2 ? 4 * VECTOR_LANES : 2 * VECTOR_LANES;
    int64_t columns = x->m > 0 && x->m <= 4 && dtype != MT_F16 ? x->n / group * group : 0;
    for (int64_t column = 0; column < columns; column += group) {
        for (int64_t p = 0; p < x->k; p += x->steps) {
            struct few_tile tile = {
                .a = x->a + p,
                .b = x->b + (column * x->b_column + p) * bytes,
                .steps = cpu_min(x->steps, x->k - p),
                .beta = p == 0 ? x->beta : 1.0f,
                .c = x->c + column,
            };
            switch (x->m) {
            case 1: few_wide_tile(1, 4, dtype, x, &tile); break;
            case 2: few_wide_tile(2, 4, dtype, x, &tile); break;
            case 3: few_wide_tile(3, 2, dtype, x, &tile); break;
            default: few_wide_tile(4, 2, dtype, x, &tile); break;
            }
        }
    }
    return columns;
}
#else
VECTOR_INLINE int64_t few_wide(enum mt_dtype dtype, const struct few_product *x)
{
    (void)dtype;
    (void)x;
    return 0; // a vector is wide enough
}
#endif

VECTOR_INLINE void few_typed(enum mt_dtype dtype, const struct few_product *x)
{
    struct weight_ahead ahead = {
        .lines = x->b,
        .distance = x->b_column * (dtype == MT_F32 ? 4 : 2),
        .squares = x->k / few_square_steps(dtype),
        .followers = x->n / VECTOR_LANES - 1,
    };
    for (int64_t column = few_wide(dtype, x); column < x->n; column += VECTOR_LANES) {
        few_columns(dtype, x, column, &ahead);
    }
}

/* True when gemm_few serves the product. */
static inline bool gemm_few_fits(int64_t m, struct gemm_operand a, struct gemm_operand b)
{
    return m <= FEW_MOST_ROWS && a.dtype == MT_F32 && a.column == 1 && b.row == 1;
}

/* As gemm_block; `steps` as it cuts them. */
static inline void gemm_few(int64_t m, int64_t n, int64_t k, int64_t steps, float alpha,
                            struct gemm_operand a, struct gemm_operand b, float beta, float *c, int64_t c_row)
{
    struct few_product product = {
        .m = m,
        .n = n,
        .k = k,
        .steps = steps,
        .a = a.data,
        .a_row = a.row,
        .b = b.data,
        .b_column = b.column,
        .c = c,
        .c_row = c_row,
        .alpha = alpha,
        .beta = beta,
    };
    if (b.dtype == MT_BF16) {
        few_typed(MT_BF16, &product);
    } else if (b.dtype == MT_F16) {
        few_typed(MT_F16, &product);
    } else {
        few_typed(MT_F32, &product);
    }
}

#endif
