/*
 * One thread's matrix product in the processor's tile unit (AMX): bf16 products summed in f32, 16 × 16 × 32
 * at a time. A bf16 operand enters as it is, an f32 one beside it as three bf16 parts (bf16_parts.h), so the
 * result is as exact as an f32 product's.
 *
 *     for each block of rows
 *         for each block of steps: pack A
 *             for each group of columns: pack B
 *                 for each two tiles of A, for each two of B: a tile of C
 *
 * With few rows the roles are swapped, Cᵀ = Bᵀ · Aᵀ: a weight as stored then needs no transposition. An
 * element's sum is the same both ways, and for any number of rows: its order depends on k alone.
 *
 * Products of few steps, of two f32 operands and of f16 are v4's.
 */
#include "ops/cpu/products/gemm_block.h"

#include "ops/cpu/amx/tile_kernel.h"
#include "ops/cpu/amx/tile_rows.h"
#include "ops/cpu/amx/vector_rows.h"

#define ROW_BLOCK     448
#define STEP_BLOCK    512
#define GROUP_COLUMNS 64               // of B, packed together
#define SUM_ROW       (2 * TILE_LINES) // of the sums kept at a time
#define FEW_ROWS      16               // up to so many the roles are swapped
#define LEAST_STEPS   32               // below, the unit would mostly multiply zeros

_Static_assert(ROW_BLOCK % (2 * TILE_LINES) == 0 && GROUP_COLUMNS % (2 * TILE_LINES) == 0 &&
                   STEP_BLOCK % TILE_STEPS == 0,
               "whole tiles");

#define PACKED_A_BYTES (ROW_BLOCK * STEP_BLOCK * 2 * MOST_PARTS)
#define PACKED_B_BYTES (GROUP_COLUMNS * STEP_BLOCK * 2 * MOST_PARTS)

size_t MT_CPU(gemm_block_workspace)(void)
{
    size_t own = PACKED_A_BYTES + PACKED_B_BYTES;
    size_t below = MT_CPU_BELOW(gemm_block_workspace)();
    return own > below ? own : below;
}

/* Where results go: C, or with the roles swapped its transpose. */
struct target {
    float *c;
    int64_t row;
    bool swapped;
    float alpha;
    float beta;
};

/* A row's 16 neighbouring elements, or the `count` of them that exist. */
static void merge_row(vector_f32 sum, int64_t count, float alpha, float beta, float *c)
{
    if (count == VECTOR_LANES) {
        vector_merge(sum, alpha, beta, c);
        return;
    }
    float edge[VECTOR_LANES] = {0};
    if (beta != 0.0f) memcpy(edge, c, (size_t)count * sizeof(float));
    vector_merge(sum, alpha, beta, edge);
    memcpy(c, edge, (size_t)count * sizeof(float));
}

/* A tile of sums into C at (row, column) of the unit's product; rows and columns: what exists of it. */
static void merge_tile(const float *sum, int64_t sum_row, const struct target *target, int64_t row,
                       int64_t column, int64_t rows, int64_t columns)
{
    vector_u32 line[VECTOR_LANES];
    for (int i = 0; i < VECTOR_LANES; i++) line[i] = (vector_u32)vector_load(sum + i * sum_row);
    float *c = target->c + row * target->row + column;
    if (target->swapped) {
        vector_transpose(line);
        c = target->c + column * target->row + row;
        int64_t swap = rows;
        rows = columns;
        columns = swap;
    }
    for (int64_t i = 0; i < cpu_min(rows, VECTOR_LANES); i++) {
        merge_row((vector_f32)line[i], cpu_min(columns, TILE_LINES), target->alpha, target->beta,
                  c + i * target->row);
    }
}

/* Up to two by two tiles of sums into C. */
static void merge_tiles(const float *sum, const struct target *target, int64_t row, int64_t column,
                        int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < cpu_min(rows, SUM_ROW); i += TILE_LINES) {
        for (int64_t j = 0; j < cpu_min(columns, SUM_ROW); j += TILE_LINES) {
            merge_tile(sum + i * SUM_ROW + j, SUM_ROW, target, row + i, column + j, rows - i, columns - j);
        }
    }
}

/* Packed A times one packed group of B, whose first column is `first_column` of C. */
static void multiply_group(int64_t rows, int64_t columns, int64_t first_column, int64_t k,
                           const char *packed_a, enum mt_dtype a_type, const char *packed_b,
                           enum mt_dtype b_type, const struct target *target)
{
    _Alignas(64) float sum[SUM_ROW * SUM_ROW];
    int64_t steps = (k + TILE_STEPS - 1) / TILE_STEPS;
    bool plain = target->alpha == 1.0f && target->beta == 0.0f && !target->swapped; // the sums are C
    // Two lines of B's tiles are met by all of A.
    for (int64_t j = 0; j < columns; j += SUM_ROW) {
        const char *b = packed_b + j / SUM_ROW * tile_pair_bytes(k, b_type);
        int b_tiles = columns - j > TILE_LINES ? 2 : 1;
        for (int64_t i = 0; i < rows; i += SUM_ROW) {
            const char *a = packed_a + i / SUM_ROW * tile_pair_bytes(k, a_type);
            int a_tiles = rows - i > TILE_LINES ? 2 : 1;
            bool direct = plain && rows - i >= SUM_ROW && columns - j >= SUM_ROW;
            float *out = direct ? target->c + i * target->row + first_column + j : sum;
            tile_multiply(a_tiles, b_tiles, parts_of(a_type), parts_of(b_type), steps, a, b, out,
                          direct ? target->row : SUM_ROW);
            if (!direct) merge_tiles(sum, target, i, first_column + j, rows - i, columns - j);
        }
    }
}

/* One block of rows and steps against all columns. */
static void multiply_block(int64_t rows, int64_t n, int64_t k, struct gemm_operand a, struct gemm_operand b,
                           const struct target *target, char *packed_a)
{
    char *packed_b = packed_a + PACKED_A_BYTES;
    struct pack_source a_source = {a.data, a.dtype, a.row, a.column};
    tile_pack(&a_source, rows, k, TILE_BY_LINE, packed_a);
    for (int64_t j = 0; j < n; j += GROUP_COLUMNS) {
        int64_t columns = cpu_min(GROUP_COLUMNS, n - j);
        struct pack_source b_source = {gemm_operand_at(b, 0, j).data, b.dtype, b.column, b.row};
        tile_pack(&b_source, columns, k, TILE_BY_PAIR, packed_b);
        // To the compiler the unit's loads read no memory: what was packed must be there.
        __asm__ volatile("" ::: "memory");
        multiply_group(rows, columns, j, k, packed_a, a.dtype, packed_b, b.dtype, target);
    }
}

/* Steps a block has when they are shared out evenly: no thin last block. */
static int64_t block_steps(int64_t k)
{
    int64_t blocks = (k + STEP_BLOCK - 1) / STEP_BLOCK;
    return ((k + blocks - 1) / blocks + TILE_STEPS - 1) / TILE_STEPS * TILE_STEPS;
}

/*
 * Few rows against whole tiles of a weight's lines, where they are. Returns how many of the n lines that
 * was; the rest, and what does not fit, goes the common way, to the same bits.
 */
static int64_t multiply_few_rows(int64_t m, int64_t n, int64_t k, struct gemm_operand a,
                                 struct gemm_operand b, float beta, struct target target, char *packed)
{
    _Alignas(64) float sums[ROWS_LINES * TILE_LINES];
    bool fits = a.dtype == MT_F32 && a.column == 1 && b.dtype == MT_BF16 && k % TILE_STEPS == 0 &&
                tile_pair_bytes(k, a.dtype) <= PACKED_A_BYTES;
    if (!fits) return 0;
    struct pack_source rows = {a.data, a.dtype, a.row, a.column};
    tile_pack(&rows, m, k, TILE_BY_PAIR, packed);
    // To the compiler the unit's loads read no memory: what was packed must be there.
    __asm__ volatile("" ::: "memory");
    int64_t distance = b.column * (int64_t)sizeof(uint16_t);
    int64_t steps = block_steps(k);
    int64_t whole = n / ROWS_LINES * ROWS_LINES;
    for (int64_t line = 0; line < whole; line += ROWS_LINES) {
        for (int64_t p = 0; p < k; p += steps) {
            target.beta = p == 0 ? beta : 1.0f;
            tile_multiply_lines(gemm_operand_at(b, p, line).data, distance,
                                packed + p / TILE_STEPS * MOST_PARTS * PART_BYTES,
                                cpu_min(steps, k - p) / TILE_STEPS, (k - p) / TILE_STEPS, sums);
            for (int64_t i = 0; i < ROWS_LINES; i += TILE_LINES) {
                merge_tile(sums + i * TILE_LINES, TILE_LINES, &target, line + i, 0, TILE_LINES, m);
            }
        }
    }
    return whole;
}

/* The same for one or two rows, in vectors. */
static int64_t multiply_in_vectors(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                                   struct gemm_operand b, float beta, float *c, int64_t c_row, float *parts)
{
    int64_t steps = block_steps(k);
    int64_t blocks = (k + steps - 1) / steps;
    int64_t floats = m * (k * MOST_PARTS + blocks * VECTOR_LANES);
    bool fits = m <= VECTOR_ROWS && a.dtype == MT_F32 && a.column == 1 && b.dtype == MT_BF16 && b.row == 1 &&
                k % TILE_STEPS == 0 && floats * (int64_t)sizeof(float) <= PACKED_A_BYTES;
    if (!fits) return 0;
    vector_split_rows(a.data, a.row, m, k, parts);
    int64_t whole = n / VECTOR_LANES * VECTOR_LANES;
    struct weight_ahead ahead = {.lines = b.data,
                                 .distance = b.column * 2,
                                 .squares = k / TILE_STEPS,
                                 .followers = whole / VECTOR_LANES - 1};
    struct vector_rows rows = {.distance = b.column * 2,
                               .parts = parts,
                               .k = k,
                               .block_steps = steps,
                               .sums = parts + m * k * MOST_PARTS,
                               .ahead = &ahead};
    for (int64_t line = 0; line < whole; line += VECTOR_LANES) {
        rows.lines = gemm_operand_at(b, 0, line).data;
        vector_multiply_lines(m, &rows);
        for (int64_t block = 0; block < blocks; block++) {
            for (int64_t i = 0; i < m; i++) {
                vector_merge(vector_load(rows.sums + (block * m + i) * VECTOR_LANES), alpha,
                             block == 0 ? beta : 1.0f, c + i * c_row + line);
            }
        }
    }
    return whole;
}

static struct gemm_operand transposed(struct gemm_operand operand)
{
    return (struct gemm_operand){operand.data, operand.dtype, operand.column, operand.row};
}

void MT_CPU(gemm_block)(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                        struct gemm_operand b, float beta, float *c, int64_t c_row, void *workspace)
{
    // By the steps and types, never by the rows: a row's bits do not depend on its company.
    if (k < LEAST_STEPS || !gemm_unit_gains(a.dtype, b.dtype)) {
        MT_CPU_BELOW(gemm_block)(m, n, k, alpha, a, b, beta, c, c_row, workspace);
        return;
    }
    int64_t ready = multiply_in_vectors(m, n, k, alpha, a, b, beta, c, c_row, workspace);
    if (ready == n) return;
    n -= ready;
    c += ready;
    b = gemm_operand_at(b, 0, ready);
    struct target target = {.c = c, .row = c_row, .alpha = alpha};
    int64_t steps = block_steps(k);
    tile_begin();
    if (m <= FEW_ROWS && b.row == 1) {
        target.swapped = true;
        int64_t done = multiply_few_rows(m, n, k, a, b, beta, target, workspace);
        c += done;
        struct gemm_operand left = a;
        a = transposed(gemm_operand_at(b, 0, done));
        b = transposed(left);
        int64_t rows = m;
        m = n - done;
        n = rows;
    }
    for (int64_t i = 0; i < m; i += ROW_BLOCK) {
        target.c = c + i * (target.swapped ? 1 : c_row);
        for (int64_t p = 0; p < k; p += steps) {
            target.beta = p == 0 ? beta : 1.0f; // later blocks of steps add to the first
            multiply_block(cpu_min(ROW_BLOCK, m - i), n, cpu_min(steps, k - p), gemm_operand_at(a, i, p),
                           gemm_operand_at(b, p, 0), &target, workspace);
        }
    }
    tile_end();
}
