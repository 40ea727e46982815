/*
 * Packing for the tile unit: a slice of an operand as tiles of 16 lines (rows of A, columns of B) by 32
 * steps in bf16, 1 KiB each. A step and the next are a pair, 32 bits:
 *
 *     by line   [16 lines][16 pairs]: what the unit wants of A
 *     by pair   [16 pairs][16 lines]: what it wants of B
 *
 * A bf16 operand is one such tile, an f32 one three (bf16_parts.h). Parts below the normal range count as
 * zero in the unit: an error below 2^-126.
 */
#ifndef MT_OPS_CPU_AMX_TILE_PACK_H
#define MT_OPS_CPU_AMX_TILE_PACK_H

#include <string.h>

#include "ops/cpu/products/bf16_parts.h"
#include "ops/cpu/products/gemm_pack.h"

#define TILE_LINES 16
#define TILE_STEPS 32
#define TILE_BYTES 1024
#define PART_BYTES (2 * TILE_BYTES) // of two lines of tiles, which stand side by side

_Static_assert(VECTOR_LANES == TILE_LINES, "a vector is a row of a tile");

enum tile_order { TILE_BY_LINE, TILE_BY_PAIR };

/* 16 pairs of steps, in their parts, to row `row` of the parts' tiles. */
VECTOR_INLINE void tile_store_split(vector_f32 even, vector_f32 odd, int row, char *tile)
{
    vector_u32 low[MOST_PARTS];
    vector_u32 high[MOST_PARTS];
    split_parts(even, low);
    split_parts(odd, high);
    UNROLL
    for (int p = 0; p < MOST_PARTS; p++) {
        *(vector_u32 *)(void *)(tile + p * PART_BYTES + row * 64) = (low[p] >> 16) | high[p];
    }
}

VECTOR_INLINE vector_f32 tile_load(const char *data)
{
    return vector_load((const float *)(const void *)data);
}

/* f32, the steps of a line neighbours, lines `distance` bytes apart; by line. Past `last`: that one again. */
static void tile_split_lines(const char *data, int64_t distance, int64_t last, char *tile)
{
    for (int i = 0; i < TILE_LINES; i++) {
        const char *line = data + cpu_min(i, last) * distance;
        vector_f32 first = tile_load(line);
        vector_f32 second = tile_load(line + 64);
        vector_f32 even =
            __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        vector_f32 odd =
            __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        tile_store_split(even, odd, i, tile);
    }
}

/* The same, by pair. */
static void tile_split_lines_by_pair(const char *data, int64_t distance, int64_t last, char *tile)
{
    for (int half = 0; half < 2; half++) {
        vector_u32 step[VECTOR_LANES];
        vector_load_transposed(data + half * 64, distance, last, step);
        UNROLL
        for (int j = 0; j < VECTOR_LANES; j += 2) {
            tile_store_split((vector_f32)step[j], (vector_f32)step[j + 1], (half * VECTOR_LANES + j) / 2,
                             tile);
        }
    }
}

/* f32, the lines of a step neighbours, steps `distance` bytes apart; by pair. */
static void tile_split_steps(const char *data, int64_t distance, char *tile)
{
    for (int j = 0; j < TILE_STEPS; j += 2) {
        tile_store_split(tile_load(data + j * distance), tile_load(data + (j + 1) * distance), j / 2, tile);
    }
}

/* The same, by line. */
static void tile_split_steps_by_line(const char *data, int64_t distance, char *tile)
{
    vector_u32 line[2][VECTOR_LANES]; // its even steps, its odd steps
    for (int half = 0; half < 2; half++) {
        vector_load_transposed(data + half * distance, 2 * distance, VECTOR_LANES - 1, line[half]);
    }
    for (int i = 0; i < VECTOR_LANES; i++) {
        tile_store_split((vector_f32)line[0][i], (vector_f32)line[1][i], i, tile);
    }
}

/* bf16, the steps of a line neighbours: only moved. */
static void tile_move_lines(const char *data, int64_t distance, int64_t last, enum tile_order order,
                            char *tile)
{
    if (order == TILE_BY_LINE) {
        for (int i = 0; i < TILE_LINES; i++) memcpy(tile + i * 64, data + cpu_min(i, last) * distance, 64);
        return;
    }
    vector_u32 pair[VECTOR_LANES];
    vector_load_transposed(data, distance, last, pair);
    memcpy(tile, pair, sizeof pair);
}

/* bf16, the lines of a step neighbours. */
static void tile_move_steps(const char *data, int64_t distance, enum tile_order order, char *tile)
{
    vector_u32 pair[VECTOR_LANES];
    for (int j = 0; j < VECTOR_LANES; j++) {
        vector_u16 even = *(const memory_u16 *)(const void *)(data + (2 * j) * distance);
        vector_u16 odd = *(const memory_u16 *)(const void *)(data + (2 * j + 1) * distance);
        pair[j] = __builtin_convertvector(even, vector_u32) | __builtin_convertvector(odd, vector_u32) << 16;
    }
    if (order == TILE_BY_LINE) vector_transpose(pair);
    memcpy(tile, pair, sizeof pair);
}

/*
 * One tile and all its parts: 32 steps of `lines` lines. Lines past the last are filled with it: nobody
 * looks at what comes of them. Where the lines of a step are neighbours there must be 16.
 */
static void tile_pack_lines(const struct pack_source *source, int64_t lines, enum tile_order order,
                            char *tile)
{
    bool along_steps = source->step == 1;
    int64_t distance = (along_steps ? source->line : source->step) * (int64_t)mt_dtype_bytes(source->dtype);
    if (source->dtype == MT_BF16) {
        if (along_steps) tile_move_lines(source->data, distance, lines - 1, order, tile);
        if (!along_steps) tile_move_steps(source->data, distance, order, tile);
    } else if (along_steps) {
        if (order == TILE_BY_LINE) tile_split_lines(source->data, distance, lines - 1, tile);
        if (order == TILE_BY_PAIR) tile_split_lines_by_pair(source->data, distance, lines - 1, tile);
    } else {
        if (order == TILE_BY_LINE) tile_split_steps_by_line(source->data, distance, tile);
        if (order == TILE_BY_PAIR) tile_split_steps(source->data, distance, tile);
    }
}

/* A tile at an edge: what there is, among zeros. */
static void tile_pack_edge(const struct pack_source *source, int64_t lines, int64_t steps,
                           enum tile_order order, char *tile)
{
    float copy[TILE_LINES * TILE_STEPS] = {0}; // in the layout of the source; room for any type
    int64_t bytes = (int64_t)mt_dtype_bytes(source->dtype);
    bool along_steps = source->step == 1;
    int64_t runs = along_steps ? lines : steps;
    int64_t run = along_steps ? steps : lines;
    int64_t run_room = along_steps ? TILE_STEPS : TILE_LINES;
    int64_t distance = (along_steps ? source->line : source->step) * bytes;
    for (int64_t i = 0; i < runs; i++) {
        memcpy((char *)copy + i * run_room * bytes, (const char *)source->data + i * distance,
               (size_t)(run * bytes));
    }
    struct pack_source whole = {copy, source->dtype, along_steps ? run_room : 1, along_steps ? 1 : run_room};
    tile_pack_lines(&whole, TILE_LINES, order, tile);
}

/* Bytes of two lines of packed tiles. */
static inline int64_t tile_pair_bytes(int64_t k, enum mt_dtype dtype)
{
    return (k + TILE_STEPS - 1) / TILE_STEPS * parts_of(dtype) * PART_BYTES;
}

/*
 * `lines` lines of k steps as tiles: [lines/32][k/32][parts][2], rounded up, with zeros for steps
 * past the last. Of the last two lines of tiles the second is left alone when it would hold nothing.
 */
static void tile_pack(const struct pack_source *source, int64_t lines, int64_t k, enum tile_order order,
                      char *packed)
{
    int64_t bytes = (int64_t)mt_dtype_bytes(source->dtype);
    int64_t step_bytes = parts_of(source->dtype) * PART_BYTES;
    for (int64_t i = 0; i < lines; i += TILE_LINES) {
        char *tile = packed + i / (2 * TILE_LINES) * tile_pair_bytes(k, source->dtype) +
                     i / TILE_LINES % 2 * TILE_BYTES;
        for (int64_t p = 0; p < k; p += TILE_STEPS) {
            struct pack_source at = *source;
            at.data = (const char *)source->data + (i * source->line + p * source->step) * bytes;
            bool fills = lines - i >= TILE_LINES || source->step == 1;
            if (fills && k - p >= TILE_STEPS) {
                tile_pack_lines(&at, cpu_min(TILE_LINES, lines - i), order, tile);
            } else {
                tile_pack_edge(&at, cpu_min(TILE_LINES, lines - i), cpu_min(TILE_STEPS, k - p), order, tile);
            }
            tile += step_bytes;
        }
    }
}

#endif
