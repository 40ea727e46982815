/*
 * How a product's C is cut into tiles for the threads. Every tile is one gemm_block call, which gives an
 * element the same bits in any tile: they depend neither on the cut nor on who computes it.
 */
#ifndef MT_OPS_CPU_GEMM_TILES_H
#define MT_OPS_CPU_GEMM_TILES_H

#include <omp.h>

#include "ops/cpu/products/gemm_block.h"

struct gemm_tiles {
    int64_t tile_rows;    // of C in one tile
    int64_t tile_columns; // a multiple of 64
    int64_t row_tiles;    // tiles along the rows
    int64_t column_tiles;
};

#define GEMM_TILE_ROWS    448 // as many as gemm_block packs at a time on the widest level
#define GEMM_TILE_COLUMNS 704
#if defined(MT_CPU_TILE_UNIT)
#define GEMM_ROW_GRAIN 32
#define GEMM_THIN      16 // packing so few columns for the tile unit costs more than it gains
#else
#define GEMM_ROW_GRAIN 14
#endif
#define GEMM_ENOUGH_TILES 32        // no need to cut finer for the sake of threads
#define GEMM_SMALL_TILE   (1 << 20) // multiplications: what is not worth cutting

/* Pieces of at most `largest`, all but the last of one size, which is a multiple of `grain`. */
static inline int64_t gemm_even_piece(int64_t total, int64_t largest, int64_t grain)
{
    int64_t pieces = (total + largest - 1) / largest;
    if (pieces == 0) return grain;
    int64_t piece = (total + pieces - 1) / pieces;
    return (piece + grain - 1) / grain * grain;
}

/*
 * Tiles of an m×n product of k steps: large ones, made smaller while they are fewer than `enough` and worth
 * it.
 */
static inline struct gemm_tiles gemm_cut(int64_t m, int64_t n, int64_t k, int64_t enough)
{
    struct gemm_tiles tiles;
    int64_t most_rows = GEMM_TILE_ROWS;
    int64_t most_columns = GEMM_TILE_COLUMNS;
    for (;;) {
        tiles.tile_rows = gemm_even_piece(m, most_rows, GEMM_ROW_GRAIN);
        tiles.tile_columns = gemm_even_piece(n, most_columns, 64);
        tiles.row_tiles = (m + tiles.tile_rows - 1) / tiles.tile_rows;
        tiles.column_tiles = (n + tiles.tile_columns - 1) / tiles.tile_columns;
        bool many = tiles.row_tiles * tiles.column_tiles >= enough;
        bool small = tiles.tile_rows * tiles.tile_columns * k <= GEMM_SMALL_TILE;
        if (many || small || (most_rows <= 56 && most_columns <= 64)) return tiles;
        // The longer side first: a square tile reads least.
        if (most_columns > 64 && (cpu_min(n, most_columns) >= cpu_min(m, most_rows) || most_rows <= 56)) {
            most_columns /= 2;
        } else {
            most_rows /= 2;
        }
    }
}

#define GEMM_WORTH_WAKING 2e6 // multiplications; see CPU_WORTH_WAKING

/* Threads worth waking for m·n·k multiplications. */
static inline int gemm_threads(const struct mt_device *device, double multiplications)
{
    return multiplications < GEMM_WORTH_WAKING ? 1 : device->threads;
}

/* Scratch: one workspace per thread. */
static inline size_t gemm_scratch_bytes(const struct mt_device *device)
{
    return (size_t)device->threads * ((MT_CPU(gemm_block_workspace)() + 63) / 64 * 64);
}

/* The calling thread's workspace. */
static inline void *gemm_own_workspace(const struct mt_device *device)
{
    size_t bytes = (MT_CPU(gemm_block_workspace)() + 63) / 64 * 64;
    return (char *)device->scratch.data + (size_t)omp_get_thread_num() * bytes;
}

/* True for the types gemm_block reads. */
static inline bool gemm_reads(enum mt_dtype dtype)
{
    return dtype == MT_F32 || dtype == MT_BF16 || dtype == MT_F16;
}

/* A 2-d tensor, or its transpose, as an operand. */
static inline struct gemm_operand gemm_operand_of(const struct mt_tensor *tensor, bool transpose)
{
    struct gemm_operand operand = {tensor->data, tensor->dtype, tensor->stride[0], 1};
    if (transpose) {
        operand.row = 1;
        operand.column = tensor->stride[0];
    }
    return operand;
}

/* Computes tile `index` of C[m,n] = alpha · A[m,k] · B[k,n] + beta · C. */
static inline void gemm_tile(const struct gemm_tiles *tiles, int64_t index, int64_t m, int64_t n, int64_t k,
                             float alpha, struct gemm_operand a, struct gemm_operand b, float beta, float *c,
                             int64_t c_row, void *workspace)
{
    int64_t row = index / tiles->column_tiles * tiles->tile_rows;
    int64_t column = index % tiles->column_tiles * tiles->tile_columns;
    int64_t rows = cpu_min(tiles->tile_rows, m - row);
    int64_t columns = cpu_min(tiles->tile_columns, n - column);
    float *target = c + row * c_row + column;
    a = gemm_operand_at(a, row, 0);
    b = gemm_operand_at(b, 0, column);
#if defined(MT_CPU_TILE_UNIT)
    // With A transposed (a weight's gradient) rows are features, too; elsewhere they must not matter.
    if (n <= GEMM_THIN || (a.column != 1 && m <= GEMM_THIN)) {
        MT_CPU_BELOW(gemm_block)(rows, columns, k, alpha, a, b, beta, target, c_row, workspace);
        return;
    }
#endif
    MT_CPU(gemm_block)(rows, columns, k, alpha, a, b, beta, target, c_row, workspace);
}

#endif
