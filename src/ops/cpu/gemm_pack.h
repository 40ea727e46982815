/*
 * Packing: a slice of an operand copied into panels the kernels read in order, converted to f32 on the
 * way. A panel holds `width` lines (rows of A, columns of B) over k steps as [k][width]. In memory a
 * line's steps are neighbours (then the panel is a transposition) or the lines of a step are.
 */
#ifndef MT_OPS_CPU_GEMM_PACK_H
#define MT_OPS_CPU_GEMM_PACK_H

#include <string.h>

#include "metier/tensor.h"
#include "ops/cpu/gemm_vector.h"
#include "tensor/dtype.h"

_Static_assert(TILE_ROWS <= VECTOR_LANES || TILE_ROWS % VECTOR_LANES == 0,
               "a transposed panel is stored in whole vectors, step after step");

/* Where a panel comes from: line i, step p is element i·line + p·step; one of the strides is 1. */
struct pack_source {
    const void *data;
    enum mt_dtype dtype;
    int64_t line;
    int64_t step;
};

GEMM_INLINE float pack_element(enum mt_dtype dtype, const void *data, int64_t index)
{
    if (dtype == MT_BF16) return mt_bf16_to_float(((const uint16_t *)data)[index]);
    if (dtype == MT_F16) return mt_f16_to_float(((const uint16_t *)data)[index]);
    return ((const float *)data)[index];
}

/* VECTOR_LANES neighbouring elements from `index` on. */
GEMM_INLINE vector_f32 pack_vector(enum mt_dtype dtype, const void *data, int64_t index)
{
    if (dtype == MT_F32) return vector_load((const float *)data + index);
    vector_u16 half = *(const memory_u16 *)((const uint16_t *)data + index);
    vector_u32 wide = __builtin_convertvector(half, vector_u32);
    return dtype == MT_BF16 ? (vector_f32)(wide << 16) : vector_from_f16(wide);
}

/* Element by element: what is left over at the edges. */
GEMM_INLINE void pack_scalar(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
                             int64_t first_step, int64_t k, int64_t width, float *panel)
{
    for (int64_t p = first_step; p < k; p++) {
        for (int64_t i = 0; i < width; i++) {
            int64_t index = i * source->line + p * source->step;
            panel[p * width + i] = i < lines ? pack_element(dtype, source->data, index) : 0.0f;
        }
    }
}

/* Lines of a step are neighbours: rows of the panel are copied. */
GEMM_INLINE void pack_copying(enum mt_dtype dtype, const struct pack_source *source, int64_t lines, int64_t k,
                              int64_t width, float *panel)
{
    if (lines < width) {
        pack_scalar(dtype, source, lines, 0, k, width, panel);
        return;
    }
    for (int64_t p = 0; p < k; p++) {
        int64_t start = p * source->step;
        float *target = panel + p * width;
        int64_t i = 0;
        for (; i + VECTOR_LANES <= width; i += VECTOR_LANES) {
            vector_store(target + i, pack_vector(dtype, source->data, start + i));
        }
        if (i < width && dtype == MT_F32) {
            memcpy(target + i, (const float *)source->data + start + i, (size_t)(width - i) * sizeof(float));
            continue;
        }
        for (; i < width; i++) target[i] = pack_element(dtype, source->data, start + i);
    }
}

/*
 * Steps of a line are neighbours, `lines` of them up to VECTOR_LANES: squares of 32-bit lanes are
 * transposed, one step each for f32, two for the 16-bit types. Stores are whole vectors: where the panel
 * is narrower, the surplus is overwritten by the next step (and the next panel: panels are packed in
 * rising order, with a vector to spare after the last). Returns the number of steps done.
 */
GEMM_INLINE int64_t pack_transposing(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
                                     int64_t k, int64_t width, float *panel)
{
    const int64_t steps = dtype == MT_F32 ? VECTOR_LANES : 2 * VECTOR_LANES;
    const char *data = source->data;
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    int64_t p = 0;
    for (; p + steps <= k; p += steps) {
        vector_u32 row[VECTOR_LANES];
        UNROLL
        for (int i = 0; i < VECTOR_LANES; i++) {
            row[i] = (vector_u32){0};
            if (i < lines) row[i] = *(const memory_u32 *)(data + (i * source->line + p) * bytes);
        }
        vector_transpose(row);
        UNROLL
        for (int i = 0; i < VECTOR_LANES; i++) {
            if (dtype == MT_F32) {
                vector_store(panel + (p + i) * width, (vector_f32)row[i]);
            } else {
                vector_u32 first = dtype == MT_BF16 ? row[i] << 16 : row[i] & 0xFFFFu;
                vector_u32 second = dtype == MT_BF16 ? row[i] & 0xFFFF0000u : row[i] >> 16;
                float *target = panel + (p + 2 * i) * width;
                vector_store(target, dtype == MT_BF16 ? (vector_f32)first : vector_from_f16(first));
                vector_store(target + width, dtype == MT_BF16 ? (vector_f32)second : vector_from_f16(second));
            }
        }
    }
    return p;
}

GEMM_INLINE void pack_typed(enum mt_dtype dtype, const struct pack_source *source, int64_t lines, int64_t k,
                            int64_t width, float *panel)
{
    if (source->step != 1) {
        pack_copying(dtype, source, lines, k, width, panel);
        return;
    }
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    int64_t done = 0;
    for (int64_t i = 0; i < width; i += VECTOR_LANES) {
        struct pack_source part = *source;
        part.data = (const char *)source->data + i * source->line * bytes;
        int64_t part_lines = lines - i;
        if (part_lines >= VECTOR_LANES || part_lines == TILE_ROWS) {
            // Constant counts let the loads go without a branch each.
            done = part_lines == TILE_ROWS && TILE_ROWS < VECTOR_LANES
                       ? pack_transposing(dtype, &part, TILE_ROWS, k, width, panel + i)
                       : pack_transposing(dtype, &part, VECTOR_LANES, k, width, panel + i);
        } else {
            done = pack_transposing(dtype, &part, part_lines, k, width, panel + i);
        }
    }
    pack_scalar(dtype, source, lines, done, k, width, panel);
}

/* Packs one panel of k steps; lines from `lines` to `width` become 0. `width` is a constant. */
GEMM_INLINE void pack_panel(const struct pack_source *source, int64_t lines, int64_t k, int64_t width,
                            float *panel)
{
    if (source->dtype == MT_BF16) {
        pack_typed(MT_BF16, source, lines, k, width, panel);
    } else if (source->dtype == MT_F16) {
        pack_typed(MT_F16, source, lines, k, width, panel);
    } else {
        pack_typed(MT_F32, source, lines, k, width, panel);
    }
}

#endif
