/*
 * Products of packed tiles in the tile unit: up to two tiles of A by two of B, four sums in its registers,
 *
 *     sum[i][j] = Σ over the steps of A_i · B_j
 *
 * One operand is bf16; the other is bf16 or an f32 one in three parts. What a sum adds, and in which order,
 * depends on the steps alone: not on how many tiles are side by side, nor on which operand is A.
 *
 * The compilers offer the unit as intrinsics only. Tiles 0 to 3 are the sums, 4 and 5 A's, 6 and 7 B's.
 */
#ifndef MT_OPS_CPU_AMX_TILE_KERNEL_H
#define MT_OPS_CPU_AMX_TILE_KERNEL_H

#include <immintrin.h>

#include "ops/cpu/amx/tile_pack.h"

/* What LDTILECFG reads: 8 tiles of 16 rows of 64 bytes. */
struct tile_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Readies the calling thread's unit; tile_end frees it, so that nobody saves its registers for nothing. */
static inline void tile_begin(void)
{
    static const struct tile_config config = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&config);
}

static inline void tile_end(void)
{
    _tile_release();
}

VECTOR_INLINE void load_a(int tiles, const char *a)
{
    _tile_loadd(4, a, 64);
    if (tiles > 1) _tile_loadd(5, a + TILE_BYTES, 64);
}

VECTOR_INLINE void load_b(int tiles, const char *b)
{
    _tile_loadd(6, b, 64);
    if (tiles > 1) _tile_loadd(7, b + TILE_BYTES, 64);
}

VECTOR_INLINE void multiply_tiles(int a_tiles, int b_tiles)
{
    _tile_dpbf16ps(0, 4, 6);
    if (b_tiles > 1) _tile_dpbf16ps(1, 4, 7);
    if (a_tiles > 1) _tile_dpbf16ps(2, 5, 6);
    if (a_tiles > 1 && b_tiles > 1) _tile_dpbf16ps(3, 5, 7);
}

/* What is multiplied: tiles side by side, and their parts. Constants where these functions are inlined. */
struct tile_product {
    int a_tiles;
    int b_tiles;
    int a_parts;
    int b_parts;
};

/* The products of one step's tiles; at most one operand is split: its small parts first. */
VECTOR_INLINE void multiply_step(const struct tile_product *t, const char *a, const char *b)
{
    bool a_split = t->a_parts > 1;
    int parts = a_split ? t->a_parts : t->b_parts;
    if (a_split) load_b(t->b_tiles, b);
    if (!a_split) load_a(t->a_tiles, a);
    UNROLL
    for (int part = parts - 1; part >= 0; part--) {
        if (a_split) load_a(t->a_tiles, a + part * PART_BYTES);
        if (!a_split) load_b(t->b_tiles, b + part * PART_BYTES);
        multiply_tiles(t->a_tiles, t->b_tiles);
    }
}

/* `steps` tiles of steps; the sums go to out[32,32], rows `out_row` floats apart. */
VECTOR_INLINE void multiply_steps(struct tile_product t, int64_t steps, const char *a, const char *b,
                                  float *out, int64_t out_row)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t p = 0; p < steps; p++) {
        multiply_step(&t, a, b);
        a += t.a_parts * PART_BYTES;
        b += t.b_parts * PART_BYTES;
    }
    int64_t distance = out_row * (int64_t)sizeof(float);
    float *below = out + TILE_LINES * out_row;
    _tile_stored(0, out, distance);
    if (t.b_tiles > 1) _tile_stored(1, out + TILE_LINES, distance);
    if (t.a_tiles > 1) _tile_stored(2, below, distance);
    if (t.a_tiles > 1 && t.b_tiles > 1) _tile_stored(3, below + TILE_LINES, distance);
}

VECTOR_INLINE void multiply_sized(struct tile_product t, int a_tiles, int b_tiles, int64_t steps,
                                  const char *a, const char *b, float *out, int64_t out_row)
{
    if (a_tiles > 1 && b_tiles > 1) {
        t.a_tiles = t.b_tiles = 2;
        multiply_steps(t, steps, a, b, out, out_row);
    } else if (a_tiles > 1) {
        t.a_tiles = 2;
        t.b_tiles = 1;
        multiply_steps(t, steps, a, b, out, out_row);
    } else if (b_tiles > 1) {
        t.a_tiles = 1;
        t.b_tiles = 2;
        multiply_steps(t, steps, a, b, out, out_row);
    } else {
        t.a_tiles = t.b_tiles = 1;
        multiply_steps(t, steps, a, b, out, out_row);
    }
}

/* One or two tiles of A by one or two of B. */
static void tile_multiply(int a_tiles, int b_tiles, int a_parts, int b_parts, int64_t steps, const char *a,
                          const char *b, float *out, int64_t out_row)
{
    struct tile_product t = {.a_parts = 1, .b_parts = 1};
    if (a_parts > 1) {
        t.a_parts = MOST_PARTS;
        multiply_sized(t, a_tiles, b_tiles, steps, a, b, out, out_row);
    } else if (b_parts > 1) {
        t.b_parts = MOST_PARTS;
        multiply_sized(t, a_tiles, b_tiles, steps, a, b, out, out_row);
    } else {
        multiply_sized(t, a_tiles, b_tiles, steps, a, b, out, out_row);
    }
}

#endif
