/*
 * One thread's matrix product. A is cut into blocks of ROW_BLOCK rows by STEP_BLOCK steps, packed to stay
 * in the second-level cache while the columns of B stream past it, a group of panels at a time:
 *
 *     for each block of rows
 *         for each block of steps: pack A
 *             for each group of column panels: pack B
 *                 for each panel of A, for each panel of B: a tile of C
 *
 * A few rows against a weight as stored are multiplied without packing (gemm_few.h).
 *
 * An element of C is summed in one way whatever m and n are and wherever its tile was cut: in one lane, step
 * by step, and after each block of steps merged into C (vector_merge). How steps are cut follows from k
 * alone.
 */
#include "ops/cpu/gemm_block.h"

#include "ops/cpu/gemm_few.h"
#include "ops/cpu/gemm_kernel.h"
#include "ops/cpu/gemm_pack.h"

#if VECTOR_LANES == 16
#define ROW_BLOCK  (32 * TILE_ROWS)
#define STEP_BLOCK 384
#else
#define ROW_BLOCK  240 // a multiple of every TILE_ROWS
#define STEP_BLOCK 256
#endif
#define STEP_GRAIN    (2 * VECTOR_LANES) // what packing transposes at a time
#define GROUP_COLUMNS (8 * TILE_COLUMNS) // of B, packed together
#define COPY_STEPS    16 // steps copied at a time, across all panels: memory is read in longer runs

_Static_assert(ROW_BLOCK % TILE_ROWS == 0 && STEP_BLOCK % STEP_GRAIN == 0, "whole panels");

#define PACKED_A_FLOATS (ROW_BLOCK * STEP_BLOCK + VECTOR_LANES * 2)
#define PACKED_B_FLOATS (GROUP_COLUMNS * STEP_BLOCK)

size_t MT_CPU(gemm_block_workspace)(void)
{
    return (PACKED_A_FLOATS + PACKED_B_FLOATS) * sizeof(float);
}

/* First row of panel q when `rows` are spread evenly over `panels`. */
static int64_t panel_start(int64_t q, int64_t rows, int64_t panels)
{
    return q * rows / panels;
}

static void pack_a(struct gemm_operand a, int64_t rows, int64_t k, float *packed)
{
    int64_t panels = (rows + TILE_ROWS - 1) / TILE_ROWS;
    int64_t steps = a.column == 1 ? k : COPY_STEPS;
    for (int64_t p = 0; p < k; p += steps) {
        for (int64_t q = 0; q < panels; q++) {
            int64_t start = panel_start(q, rows, panels);
            int64_t height = panel_start(q + 1, rows, panels) - start;
            struct pack_source source = {gemm_operand_at(a, start, p).data, a.dtype, a.row, a.column};
            float *panel = packed + (q * k + p) * TILE_ROWS;
            pack_panel(&source, height, cpu_min(steps, k - p), TILE_ROWS, panel);
        }
    }
}

/* A last panel of one vector or less is packed, and multiplied, as one vector. */
static bool is_narrow(int64_t columns)
{
    return columns <= VECTOR_LANES;
}

static void pack_b(struct gemm_operand b, int64_t columns, int64_t k, float *packed)
{
    int64_t panels = (columns + TILE_COLUMNS - 1) / TILE_COLUMNS;
    int64_t steps = b.row == 1 ? k : COPY_STEPS;
    for (int64_t p = 0; p < k; p += steps) {
        for (int64_t q = 0; q < panels; q++) {
            int64_t start = q * TILE_COLUMNS;
            int64_t lines = cpu_min(TILE_COLUMNS, columns - start);
            struct pack_source source = {gemm_operand_at(b, p, start).data, b.dtype, b.column, b.row};
            float *panel = packed + q * k * TILE_COLUMNS;
            if (is_narrow(lines)) {
                pack_panel(&source, lines, cpu_min(steps, k - p), VECTOR_LANES, panel + p * VECTOR_LANES);
            } else {
                pack_panel(&source, lines, cpu_min(steps, k - p), TILE_COLUMNS, panel + p * TILE_COLUMNS);
            }
        }
    }
}

/* A tile at the right edge: computed on a copy of its part of C, by the same kernels as any other. */
static void edge_tile(int64_t rows, int64_t columns, int64_t k, const float *a, const float *b, float alpha,
                      float beta, float *c, int64_t c_row, struct read_ahead *ahead)
{
    const tile_kernel *kernels = is_narrow(columns) ? narrow_kernels : tile_kernels;
    if (columns == VECTOR_LANES) {
        kernels[rows - 1](k, a, b, alpha, beta, c, c_row, ahead);
        return;
    }
    float tile[TILE_ROWS * TILE_COLUMNS] = {0};
    size_t bytes = (size_t)columns * sizeof(float);
    if (beta != 0.0f) {
        for (int64_t i = 0; i < rows; i++) memcpy(tile + i * TILE_COLUMNS, c + i * c_row, bytes);
    }
    kernels[rows - 1](k, a, b, alpha, beta, tile, TILE_COLUMNS, ahead);
    for (int64_t i = 0; i < rows; i++) memcpy(c + i * c_row, tile + i * TILE_COLUMNS, bytes);
}

/* C[rows, columns] from packed A and one group of packed panels of B. */
static void multiply_group(int64_t rows, int64_t columns, int64_t k, const float *packed_a,
                           const float *packed_b, float alpha, float beta, float *c, int64_t c_row,
                           struct read_ahead *ahead)
{
    int64_t panels = (rows + TILE_ROWS - 1) / TILE_ROWS;
    // A's panel stays in the first-level cache, B's pass by, and C is met in longer runs of memory.
    for (int64_t q = 0; q < panels; q++) {
        int64_t start = panel_start(q, rows, panels);
        int64_t height = panel_start(q + 1, rows, panels) - start;
        const float *a_panel = packed_a + q * k * TILE_ROWS;
        for (int64_t j = 0; j < columns; j += TILE_COLUMNS) {
            const float *b_panel = packed_b + j * k;
            float *target = c + start * c_row + j;
            if (columns - j >= TILE_COLUMNS) {
                tile_kernels[height - 1](k, a_panel, b_panel, alpha, beta, target, c_row, ahead);
            } else {
                edge_tile(height, columns - j, k, a_panel, b_panel, alpha, beta, target, c_row, ahead);
            }
        }
    }
}

/* C = beta · C: what remains when there is nothing to sum. */
static void scale_only(int64_t m, int64_t n, float beta, float *c, int64_t c_row)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) c[i * c_row + j] = beta == 0.0f ? 0.0f : beta * c[i * c_row + j];
    }
}

/* What packing `columns` of B over k steps will read. */
static struct read_ahead reading_of(struct gemm_operand b, int64_t columns, int64_t k)
{
    int64_t bytes = (int64_t)mt_dtype_bytes(b.dtype);
    bool along_steps = b.row == 1;
    return (struct read_ahead){
        .run = b.data,
        .runs = along_steps ? columns : k,
        .run_bytes = (along_steps ? k : columns) * bytes,
        .run_distance = (along_steps ? b.column : b.row) * bytes,
    };
}

/* One block of rows and steps against all columns: C[rows, n]. */
static void multiply_block(int64_t rows, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                           struct gemm_operand b, float beta, float *c, int64_t c_row, float *packed_a)
{
    float *packed_b = packed_a + PACKED_A_FLOATS;
    pack_a(a, rows, k, packed_a);
    for (int64_t j = 0; j < n; j += GROUP_COLUMNS) {
        int64_t columns = cpu_min(GROUP_COLUMNS, n - j);
        int64_t next = cpu_min(GROUP_COLUMNS, n - j - columns);
        struct read_ahead ahead = reading_of(gemm_operand_at(b, 0, j + columns), next, next > 0 ? k : 0);
        pack_b(gemm_operand_at(b, 0, j), columns, k, packed_b);
        multiply_group(rows, columns, k, packed_a, packed_b, alpha, beta, c + j, c_row, &ahead);
    }
}

void MT_CPU(gemm_block)(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                        struct gemm_operand b, float beta, float *c, int64_t c_row, void *workspace)
{
    if (k == 0) {
        scale_only(m, n, beta, c, c_row);
        return;
    }
    // Steps are shared out evenly, in whole vectors: no thin last block.
    int64_t step_blocks = (k + STEP_BLOCK - 1) / STEP_BLOCK;
    int64_t steps = ((k + step_blocks - 1) / step_blocks + STEP_GRAIN - 1) / STEP_GRAIN * STEP_GRAIN;
    if (gemm_few_fits(m, a, b)) {
        gemm_few(m, n, k, steps, alpha, a, b, beta, c, c_row);
        return;
    }
    for (int64_t i = 0; i < m; i += ROW_BLOCK) {
        for (int64_t p = 0; p < k; p += steps) {
            float keep = p == 0 ? beta : 1.0f; // later blocks of steps add to the first
            multiply_block(cpu_min(ROW_BLOCK, m - i), n, cpu_min(steps, k - p), alpha,
                           gemm_operand_at(a, i, p), gemm_operand_at(b, p, 0), keep, c + i * c_row, c_row,
                           workspace);
        }
    }
}
