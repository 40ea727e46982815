/*
 * Few rows of f32 against a bf16 weight as stored (decoding): the unit reads the weight's lines from where
 * they are, Cᵀ = W · Aᵀ, and its bytes are the whole cost. A's few rows are packed for all steps; what an
 * element adds, and in which order, is as in tile_kernel.h.
 */
#ifndef MT_OPS_CPU_AMX_TILE_ROWS_H
#define MT_OPS_CPU_AMX_TILE_ROWS_H

#include "ops/cpu/amx/tile_kernel.h"

#define ROWS_LINES 64 // of the weight, in four tiles
#define ROWS_AHEAD 12 // tiles of steps the weight is asked for before use

/* 64 bytes of each line, into the second-level cache: in the first, lines a power of two apart push each
 * other out. */
VECTOR_INLINE void ask_for_lines(const char *lines, int64_t distance)
{
    for (int i = 0; i < ROWS_LINES; i++) __builtin_prefetch(lines + i * distance, 0, 2);
}

/*
 * Four tiles of W's lines by one tile of rows, over `steps` tiles of steps; sums[64 lines, 16 rows]. From
 * here the lines go on for `left` tiles of steps.
 */
static void tile_multiply_lines(const char *lines, int64_t distance, const char *rows, int64_t steps,
                                int64_t left, float *sums)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t p = 0; p < steps; p++) {
        if (p + ROWS_AHEAD < left) ask_for_lines(lines + ROWS_AHEAD * 64, distance);
        _tile_loadd(5, rows + 2 * PART_BYTES, 64);
        _tile_loadd(6, rows + PART_BYTES, 64);
        _tile_loadd(7, rows, 64);
        _tile_loadd(4, lines, distance);
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(0, 4, 7);
        _tile_loadd(4, lines + 16 * distance, distance);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(1, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(4, lines + 32 * distance, distance);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(2, 4, 6);
        _tile_dpbf16ps(2, 4, 7);
        _tile_loadd(4, lines + 48 * distance, distance);
        _tile_dpbf16ps(3, 4, 5);
        _tile_dpbf16ps(3, 4, 6);
        _tile_dpbf16ps(3, 4, 7);
        lines += 64;
        rows += MOST_PARTS * PART_BYTES;
    }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 256, 64);
    _tile_stored(2, sums + 512, 64);
    _tile_stored(3, sums + 768, 64);
}

#endif
