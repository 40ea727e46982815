/*
 * Sums over the rows (gradients of a weight or bias): rows are cut into blocks, each block sums into a
 * partial vector of its own, and the partial vectors are added in block order. The cut depends on the
 * number of rows alone.
 */
#ifndef MT_OPS_CPU_COLUMN_SUMS_H
#define MT_OPS_CPU_COLUMN_SUMS_H

#include "ops/cpu/level.h"

#define COLUMN_SUM_BLOCKS 32 // at most

struct row_blocks {
    int64_t rows;  // in all
    int64_t each;  // rows of a block; the last may have fewer
    int64_t count; // blocks
};

/* Without sums to form, every row is a block of its own. */
static inline struct row_blocks row_blocks_of(int64_t rows, bool sums)
{
    struct row_blocks blocks = {.rows = rows, .each = 1};
    if (sums && rows > 0) blocks.each = (rows + COLUMN_SUM_BLOCKS - 1) / COLUMN_SUM_BLOCKS;
    blocks.count = (rows + blocks.each - 1) / blocks.each;
    return blocks;
}

/* The row after a block's last. */
static inline int64_t row_block_end(const struct row_blocks *blocks, int64_t block)
{
    return cpu_min(blocks->rows, (block + 1) * blocks->each);
}

/* sums[j] += Σ_block partials[block, j] */
static inline void add_partials(float *restrict sums, const float *restrict partials, int64_t blocks,
                                int64_t width)
{
    for (int64_t block = 0; block < blocks; block++) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) sums[j] += partials[block * width + j];
    }
}

#endif
