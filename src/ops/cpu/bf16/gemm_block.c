/*
 * One thread's matrix product with bf16 operands on processors that multiply them (BFMMLA). A bf16 operand
 * enters as it is, an f32 one beside it as three bf16 parts, so the result is as exact as an f32 product's.
 *
 *     for each block of rows
 *         for each block of steps: pack A
 *             for each group of columns: pack B
 *                 for each panel of A, for each panel of B: a tile of C
 *
 * Few rows against a weight as stored are multiplied without packing it. An element's sum is the same both
 * ways, and for any number of rows: its order depends on k alone.
 *
 * Products of few steps, of two f32 operands and of f16 are the level below's.
 */
#include "ops/cpu/products/gemm_block.h"

#include "ops/cpu/bf16/matrix_kernel.h"

#define ROW_BLOCK     120 // with their parts and steps 360 KiB
#define STEP_BLOCK    512
#define GROUP_COLUMNS 64 // of B, packed together
#define FEW_ROWS      16 // with more, packing the weight pays
#define LEAST_STEPS   32 // below, the unit would mostly multiply zeros

_Static_assert(ROW_BLOCK % (2 * ROW_PAIRS) == 0 && ROW_BLOCK % PACK_LINES == 0 &&
                   GROUP_COLUMNS % (2 * COLUMN_PAIRS) == 0 && STEP_BLOCK % SUM_STEPS == 0,
               "whole panels");

#define PACKED_A (ROW_BLOCK * STEP_BLOCK * MOST_PARTS)
#define PACKED_B (GROUP_COLUMNS * STEP_BLOCK * MOST_PARTS)

size_t MT_CPU(gemm_block_workspace)(void)
{
    size_t own = (PACKED_A + PACKED_B) * sizeof(uint16_t);
    size_t below = MT_CPU_BELOW(gemm_block_workspace)();
    return own > below ? own : below;
}

/* A row's four neighbouring elements, or the `count` of them that exist. */
static void merge_row(vector_f32 sum, int64_t count, float alpha, float beta, float *c)
{
    if (count >= VECTOR_LANES) {
        vector_merge(sum, alpha, beta, c);
        return;
    }
    float edge[VECTOR_LANES] = {0};
    if (beta != 0.0f) memcpy(edge, c, (size_t)count * sizeof(float));
    vector_merge(sum, alpha, beta, edge);
    memcpy(c, edge, (size_t)count * sizeof(float));
}

/* Sums of `rows` rows by 2·pairs columns into C, of which `columns` exist. */
static void merge_sums(const struct corner_sums *sums, int64_t rows, int64_t pairs, int64_t columns,
                       float alpha, float beta, float *c, int64_t c_row)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < pairs && 2 * j < columns; j += 2) {
            float64x2_t left = vreinterpretq_f64_f32(sums->of[i / 2 * pairs + j]);
            float64x2_t right = vreinterpretq_f64_f32(sums->of[i / 2 * pairs + j + 1]);
            float64x2_t row = i % 2 == 0 ? vzip1q_f64(left, right) : vzip2q_f64(left, right);
            merge_row((vector_f32)row, columns - 2 * j, alpha, beta, c + i * c_row + 2 * j);
        }
    }
}

/* Packed A times one packed group of B, whose first column is C's. */
static void multiply_group(int64_t rows, int64_t columns, int64_t k, const uint16_t *packed_a,
                           enum mt_dtype a_type, const uint16_t *packed_b, enum mt_dtype b_type, float alpha,
                           float beta, float *c, int64_t c_row)
{
    struct corner_sums sums;
    // A tile's rows stay in the first-level cache, columns pass by.
    for (int64_t i = 0; i < rows; i += 2 * ROW_PAIRS) {
        const uint16_t *a = packed_a + i / PANEL_LINES * panel_elements(k, a_type);
        for (int64_t j = 0; j < columns; j += 2 * COLUMN_PAIRS) {
            const uint16_t *b = packed_b + j / PANEL_LINES * panel_elements(k, b_type);
            multiply_tile(a_type, b_type, rows - i > 2 * FEWER_PAIRS, k, a, b, &sums);
            merge_sums(&sums, cpu_min(2 * ROW_PAIRS, rows - i), COLUMN_PAIRS, columns - j, alpha, beta,
                       c + i * c_row + j, c_row);
        }
    }
}

/* One block of rows and steps against all columns. */
static void multiply_block(int64_t rows, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                           struct gemm_operand b, float beta, float *c, int64_t c_row, uint16_t *packed_a)
{
    uint16_t *packed_b = packed_a + PACKED_A;
    struct pack_source a_source = {a.data, a.dtype, a.row, a.column};
    pack_lines(&a_source, rows, k, packed_a);
    for (int64_t j = 0; j < n; j += GROUP_COLUMNS) {
        int64_t columns = cpu_min(GROUP_COLUMNS, n - j);
        struct pack_source b_source = {gemm_operand_at(b, 0, j).data, b.dtype, b.column, b.row};
        pack_lines(&b_source, columns, k, packed_b);
        multiply_group(rows, columns, k, packed_a, a.dtype, packed_b, b.dtype, alpha, beta, c + j, c_row);
    }
}

/* Steps a block has when they are shared out evenly: no thin last block. */
static int64_t block_steps(int64_t k)
{
    int64_t blocks = (k + STEP_BLOCK - 1) / STEP_BLOCK;
    return ((k + blocks - 1) / blocks + SUM_STEPS - 1) / SUM_STEPS * SUM_STEPS;
}

/*
 * Few rows against whole groups of a weight's lines, where they are. Returns how many of the n lines that
 * was; the rest, and what does not fit, goes the common way, to the same bits.
 */
static int64_t multiply_few_rows(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                                 struct gemm_operand b, float beta, float *c, int64_t c_row, uint16_t *packed)
{
    struct corner_sums sums;
    int64_t next = panel_elements(k, MT_F32);
    bool fits = m <= FEW_ROWS && a.dtype == MT_F32 && a.column == 1 && b.dtype == MT_BF16 && b.row == 1 &&
                k % SUM_STEPS == 0 && FEW_ROWS / PANEL_LINES * next <= PACKED_A;
    if (!fits) return 0;
    struct pack_source rows = {a.data, a.dtype, a.row, a.column};
    pack_lines(&rows, m, k, packed);
    int64_t steps = block_steps(k);
    int64_t lines = stored_lines(m);
    int64_t whole = n / lines * lines;
    for (int64_t line = 0; line < whole; line += lines) {
        for (int64_t p = 0; p < k; p += steps) {
            const uint16_t *stored = gemm_operand_at(b, p, line).data;
            // More than a tile of rows pass over the same few lines, which stay in the first-level cache.
            for (int64_t i = 0; i < m; i += STORED_ROWS) {
                int64_t now = cpu_min(STORED_ROWS, m - i);
                const uint16_t *part = packed + i / PANEL_LINES * next + p * PANEL_LINES * MOST_PARTS;
                multiply_rows(now, lines, cpu_min(steps, k - p), part, next, stored, b.column, &sums);
                merge_sums(&sums, now, lines / 2, lines, alpha, p == 0 ? beta : 1.0f, c + i * c_row + line,
                           c_row);
            }
        }
    }
    return whole;
}

void MT_CPU(gemm_block)(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                        struct gemm_operand b, float beta, float *c, int64_t c_row, void *workspace)
{
    // By the steps and types, never by the rows: a row's bits do not depend on its company.
    if (k < LEAST_STEPS || !gemm_unit_gains(a.dtype, b.dtype)) {
        MT_CPU_BELOW(gemm_block)(m, n, k, alpha, a, b, beta, c, c_row, workspace);
        return;
    }
    int64_t ready = multiply_few_rows(m, n, k, alpha, a, b, beta, c, c_row, workspace);
    if (ready == n) return;
    b = gemm_operand_at(b, 0, ready);
    int64_t steps = block_steps(k);
    for (int64_t i = 0; i < m; i += ROW_BLOCK) {
        for (int64_t p = 0; p < k; p += steps) {
            multiply_block(cpu_min(ROW_BLOCK, m - i), n - ready, cpu_min(steps, k - p), alpha,
                           gemm_operand_at(a, i, p), gemm_operand_at(b, p, 0), p == 0 ? beta : 1.0f,
                           c + i * c_row + ready, c_row, workspace);
        }
    }
}
