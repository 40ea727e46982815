/*
 * One thread's matrix product. A is cut into blocks of ROW_BLOCK rows by STEP_BLOCK steps, packed to stay
 * in the second-level cache while the columns of B stream past it, a group of panels at a time:
 *
 *     for each block of rows
 *         for each block of steps: pack A
 *             for each group of column panels: pack B
 *                 for each panel of A, for each panel of B: a tile of C
 *
 * A few rows against a weight as stored are multiplied without packing (gemm_few.h). Of products that share
 * an operand it is packed once, and masked on the way.
 *
 * An element of C is summed in one way whatever m and n are and wherever its tile was cut: in one lane, step
 * by step, and after each block of steps merged into C (vector_merge). How steps are cut follows from k
 * alone.
 */
#include "ops/cpu/products/gemm_block.h"

#include "ops/cpu/elementwise/mask.h"
#include "ops/cpu/products/gemm_few.h"
#include "ops/cpu/products/gemm_kernel.h"
#include "ops/cpu/products/gemm_pack.h"

#if VECTOR_LANES == 16
#define ROW_BLOCK  (32 * TILE_ROWS)
#define STEP_BLOCK 384
#else
#define ROW_BLOCK  240 // a multiple of every TILE_ROWS
#define STEP_BLOCK 256
#endif
#define STEP_GRAIN (2 * VECTOR_LANES) // what packing transposes at a time
#if defined(MT_CPU_ANY_LENGTH)
#define GROUP_COLUMNS (2 * TILE_COLUMNS) // of B, packed together
#else
#define GROUP_COLUMNS (8 * TILE_COLUMNS)
#endif
#define COPY_STEPS 16 // steps copied at a time, across all panels: memory is read in longer runs

_Static_assert(GROUP_COLUMNS % MT_MASK_BITS == 0, "a group of columns begins with a word of a mask");
_Static_assert(GEMM_SHARES *((GEMM_SHARED_ROWS + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS) <= ROW_BLOCK,
               "shared rows fit the workspace");
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

/* A last panel that fits a narrow tile is packed, and multiplied, as one. */
static bool is_narrow(int64_t columns)
{
    return columns <= NARROW_COLUMNS;
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
                pack_panel(&source, lines, cpu_min(steps, k - p), NARROW_COLUMNS, panel + p * NARROW_COLUMNS);
            } else {
                pack_panel(&source, lines, cpu_min(steps, k - p), TILE_COLUMNS, panel + p * TILE_COLUMNS);
            }
        }
    }
}

/* As pack_a, of what a mask keeps; `step` is the number of the first step. */
static void pack_masked_a(struct gemm_operand a, struct gemm_mask mask, int64_t step, int64_t rows, int64_t k,
                          float *packed)
{
    enum { LINE = STEP_BLOCK + MT_MASK_BITS };
    float kept[TILE_ROWS * LINE]; // of A's type
    int64_t panels = (rows + TILE_ROWS - 1) / TILE_ROWS;
    int64_t bytes = (int64_t)mt_dtype_bytes(a.dtype);
    int64_t lead = step % MT_MASK_BITS; // steps before the first that share its word
    for (int64_t q = 0; q < panels; q++) {
        int64_t start = panel_start(q, rows, panels);
        int64_t height = panel_start(q + 1, rows, panels) - start;
        for (int64_t i = 0; i < height; i++) {
            const uint32_t *words = mask.words + (start + i) * mask.row + step / MT_MASK_BITS;
            mask_elements(a.dtype, a.data, (start + i) * a.row - lead, words, (char *)kept + i * LINE * bytes,
                          lead + k);
        }
        struct pack_source source = {(const char *)kept + lead * bytes, a.dtype, LINE, 1};
        pack_panel(&source, height, k, TILE_ROWS, packed + q * k * TILE_ROWS);
    }
}

/* As pack_b, of what a mask keeps of up to GROUP_COLUMNS; `words` is the first step's first. */
static void pack_masked_b(struct gemm_operand b, const uint32_t *words, int64_t words_row, int64_t columns,
                          int64_t k, float *packed)
{
    float kept[COPY_STEPS * GROUP_COLUMNS]; // of B's type
    int64_t bytes = (int64_t)mt_dtype_bytes(b.dtype);
    for (int64_t p = 0; p < k; p += COPY_STEPS) {
        int64_t steps = cpu_min(COPY_STEPS, k - p);
        for (int64_t s = 0; s < steps; s++) {
            mask_elements(b.dtype, b.data, (p + s) * b.row, words + (p + s) * words_row,
                          (char *)kept + s * GROUP_COLUMNS * bytes, columns);
        }
        for (int64_t start = 0; start < columns; start += TILE_COLUMNS) {
            int64_t lines = cpu_min(TILE_COLUMNS, columns - start);
            struct pack_source source = {(const char *)kept + start * bytes, b.dtype, 1, GROUP_COLUMNS};
            float *panel = packed + start * k;
            if (is_narrow(lines)) {
                pack_panel(&source, lines, steps, NARROW_COLUMNS, panel + p * NARROW_COLUMNS);
            } else {
                pack_panel(&source, lines, steps, TILE_COLUMNS, panel + p * TILE_COLUMNS);
            }
        }
    }
}

/* A tile at the right edge: computed on a copy of its part of C, by the same kernels as any other. */
static void edge_tile(int64_t rows, int64_t columns, int64_t k, const float *a, const float *b, float alpha,
                      float beta, float *c, int64_t c_row, struct read_ahead *ahead)
{
    const tile_kernel *kernels = is_narrow(columns) ? narrow_kernels : tile_kernels;
    if (columns == NARROW_COLUMNS) {
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

/* One block of rows and steps, packed, against all columns: C[rows, n]. */
static void multiply_block(int64_t rows, int64_t n, int64_t k, float alpha, const float *packed_a,
                           struct gemm_operand b, float beta, float *c, int64_t c_row, float *packed_b)
{
    for (int64_t j = 0; j < n; j += GROUP_COLUMNS) {
        int64_t columns = cpu_min(GROUP_COLUMNS, n - j);
        int64_t next = cpu_min(GROUP_COLUMNS, n - j - columns);
        struct read_ahead ahead = reading_of(gemm_operand_at(b, 0, j + columns), next, next > 0 ? k : 0);
        pack_b(gemm_operand_at(b, 0, j), columns, k, packed_b);
        multiply_group(rows, columns, k, packed_a, packed_b, alpha, beta, c + j, c_row, &ahead);
    }
}

/* Steps of a block. They are shared out evenly, in whole vectors: no thin last block. */
static int64_t steps_of(int64_t k)
{
    int64_t blocks = (k + STEP_BLOCK - 1) / STEP_BLOCK;
    return ((k + blocks - 1) / blocks + STEP_GRAIN - 1) / STEP_GRAIN * STEP_GRAIN;
}

void MT_CPU(gemm_block)(int64_t m, int64_t n, int64_t k, float alpha, struct gemm_operand a,
                        struct gemm_operand b, float beta, float *c, int64_t c_row, void *workspace)
{
    float *packed_a = workspace;
    if (k == 0) {
        scale_only(m, n, beta, c, c_row);
        return;
    }
    int64_t steps = steps_of(k);
    if (gemm_few_fits(m, a, b)) {
        gemm_few(m, n, k, steps, alpha, a, b, beta, c, c_row);
        return;
    }
    for (int64_t i = 0; i < m; i += ROW_BLOCK) {
        for (int64_t p = 0; p < k; p += steps) {
            float keep = p == 0 ? beta : 1.0f; // later blocks of steps add to the first
            int64_t rows = cpu_min(ROW_BLOCK, m - i);
            int64_t now = cpu_min(steps, k - p);
            pack_a(gemm_operand_at(a, i, p), rows, now, packed_a);
            multiply_block(rows, n, now, alpha, packed_a, gemm_operand_at(b, p, 0), keep, c + i * c_row,
                           c_row, packed_a + PACKED_A_FLOATS);
        }
    }
}

void MT_CPU(gemm_block_same_a)(int64_t m, int64_t k, float alpha, struct gemm_operand a,
                               struct gemm_mask mask, const struct gemm_share *products, int count,
                               float beta, void *workspace)
{
    float *packed_a = workspace;
    // Nothing is packed for few rows.
    if (k == 0 || (mask.words == NULL && gemm_few_fits(m, a, products[0].other))) {
        for (int s = 0; s < count; s++) {
            const struct gemm_share *to = &products[s];
            MT_CPU(gemm_block)(m, to->size, k, alpha, a, to->other, beta, to->c, to->c_row, workspace);
        }
        return;
    }
    int64_t steps = steps_of(k);
    for (int64_t i = 0; i < m; i += ROW_BLOCK) {
        for (int64_t p = 0; p < k; p += steps) {
            float keep = p == 0 ? beta : 1.0f;
            int64_t rows = cpu_min(ROW_BLOCK, m - i);
            int64_t now = cpu_min(steps, k - p);
            struct gemm_operand block = gemm_operand_at(a, i, p);
            if (mask.words != NULL) {
                struct gemm_mask bits = {mask.words + i * mask.row, mask.row};
                pack_masked_a(block, bits, p, rows, now, packed_a);
            } else {
                pack_a(block, rows, now, packed_a);
            }
            for (int s = 0; s < count; s++) {
                const struct gemm_share *to = &products[s];
                multiply_block(rows, to->size, now, alpha, packed_a, gemm_operand_at(to->other, p, 0), keep,
                               to->c + i * to->c_row, to->c_row, packed_a + PACKED_A_FLOATS);
            }
        }
    }
}

/* One block of steps against all columns: C[size, n] of every product. */
static void multiply_steps(int64_t n, int64_t k, float alpha, struct gemm_operand b, struct gemm_mask mask,
                           const struct gemm_share *products, int count, int64_t step, float beta,
                           float *packed)
{
    float *packed_a[GEMM_SHARES];
    float *packed_b = packed + PACKED_A_FLOATS;
    for (int s = 0; s < count; s++) {
        packed_a[s] = packed;
        pack_a(gemm_operand_at(products[s].other, 0, step), products[s].size, k, packed);
        packed += (products[s].size + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS * k;
    }
    for (int64_t j = 0; j < n; j += GROUP_COLUMNS) {
        int64_t columns = cpu_min(GROUP_COLUMNS, n - j);
        int64_t next = cpu_min(GROUP_COLUMNS, n - j - columns);
        struct gemm_operand block = gemm_operand_at(b, step, j);
        struct read_ahead ahead = reading_of(gemm_operand_at(block, 0, columns), next, next > 0 ? k : 0);
        if (mask.words != NULL) {
            const uint32_t *words = mask.words + step * mask.row + j / MT_MASK_BITS;
            pack_masked_b(block, words, mask.row, columns, k, packed_b);
        } else {
            pack_b(block, columns, k, packed_b);
        }
        for (int s = 0; s < count; s++) {
            const struct gemm_share *to = &products[s];
            multiply_group(to->size, columns, k, packed_a[s], packed_b, alpha, beta, to->c + j, to->c_row,
                           &ahead);
        }
    }
}

void MT_CPU(gemm_block_same_b)(int64_t n, int64_t k, float alpha, struct gemm_operand b,
                               struct gemm_mask mask, const struct gemm_share *products, int count,
                               float beta, void *workspace)
{
    if (k == 0) {
        for (int s = 0; s < count; s++)
            scale_only(products[s].size, n, beta, products[s].c, products[s].c_row);
        return;
    }
    int64_t steps = steps_of(k);
    for (int64_t p = 0; p < k; p += steps) {
        multiply_steps(n, cpu_min(steps, k - p), alpha, b, mask, products, count, p, p == 0 ? beta : 1.0f,
                       workspace);
    }
}
