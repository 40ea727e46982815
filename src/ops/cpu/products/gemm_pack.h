/*
 * Packing: a slice of an operand copied into panels the kernels read in order, converted to f32 on the
 * way. A panel holds `width` lines (rows of A, columns of B) over k steps as [k][width]. In memory a
 * line's steps are neighbours (then the panel is a transposition) or the lines of a step are.
 */
#ifndef MT_OPS_CPU_GEMM_PACK_H
#define MT_OPS_CPU_GEMM_PACK_H

#include <string.h>

#include "metier/tensor.h"
#include "ops/cpu/products/gemm_vector.h"
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

VECTOR_INLINE float pack_element(enum mt_dtype dtype, const void *data, int64_t index)
{
    if (dtype == MT_BF16) return mt_bf16_to_float(((const uint16_t *)data)[index]);
    if (dtype == MT_F16) return mt_f16_to_float(((const uint16_t *)data)[index]);
    return ((const float *)data)[index];
}

/* VECTOR_LANES neighbouring elements from `index` on. */
VECTOR_INLINE vector_f32 pack_vector(enum mt_dtype dtype, const void *data, int64_t index)
{
    if (dtype == MT_F32) return vector_load((const float *)data + index);
    vector_u16 half = *(const memory_u16 *)((const uint16_t *)data + index);
    vector_u32 wide = __builtin_convertvector(half, vector_u32);
    return dtype == MT_BF16 ? (vector_f32)(wide << 16) : vector_from_f16(wide);
}

/* Element by element: what is left over at the edges. */
VECTOR_INLINE void pack_scalar(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
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
VECTOR_INLINE void pack_copying(enum mt_dtype dtype, const struct pack_source *source, int64_t k,
                                int64_t width, float *panel)
{
    for (int64_t p = 0; p < k; p++) {
        int64_t start = p * source->step;
        float *target = panel + p * width;
        int64_t whole = width / VECTOR_LANES * VECTOR_LANES;
        if (dtype == MT_F32 && whole == 0) {
            memcpy(target, (const float *)source->data + start, (size_t)width * sizeof(float));
            continue;
        }
        for (int64_t i = 0; i < whole; i += VECTOR_LANES) {
            vector_store(target + i, pack_vector(dtype, source->data, start + i));
        }
        for (int64_t i = whole; i < width; i++) target[i] = pack_element(dtype, source->data, start + i);
    }
}

/*
 * Steps of a line are neighbours: squares of 32-bit lanes are transposed, one step per lane for f32, two
 * for the 16-bit types. Stores are whole vectors: where the panel is narrower, the surplus is overwritten
 * by the next step (and the next panel: panels are packed in rising order, with a vector to spare after the
 * last). Returns the number of steps done.
 */
VECTOR_INLINE int64_t pack_transposing(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
                                       int64_t k, int64_t width, float *panel)
{
    const int64_t steps = dtype == MT_F32 ? VECTOR_LANES : 2 * VECTOR_LANES;
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    int64_t whole = k / steps * steps;
    for (int64_t i = 0; i < width; i += VECTOR_LANES) {
        // Lines beyond the last are filled with some line: nobody looks at them, but they are numbers.
        int64_t first = i < lines ? i : lines - 1;
        const char *data = (const char *)source->data + first * source->line * bytes;
        for (int64_t p = 0; p < whole; p += steps) {
            vector_u32 row[VECTOR_LANES]; // one step each, or two
            vector_load_transposed(data + p * bytes, source->line * bytes, lines - 1 - first, row);
            float *target = panel + p * width + i;
            UNROLL
            for (int j = 0; j < VECTOR_LANES; j++) {
                if (dtype == MT_F32) {
                    vector_store(target + j * width, (vector_f32)row[j]);
                } else if (dtype == MT_BF16) {
                    vector_store(target + 2 * j * width, (vector_f32)(row[j] << 16));
                    vector_store(target + (2 * j + 1) * width, (vector_f32)(row[j] & 0xFFFF0000u));
                } else {
                    vector_store(target + 2 * j * width, vector_from_f16(row[j] & 0xFFFFu));
                    vector_store(target + (2 * j + 1) * width, vector_from_f16(row[j] >> 16));
                }
            }
        }
    }
    return whole;
}

VECTOR_INLINE void pack_typed(enum mt_dtype dtype, const struct pack_source *source, int64_t lines, int64_t k,
                              int64_t width, float *panel)
{
    int64_t done = 0;
    if (source->step == 1) {
        done = pack_transposing(dtype, source, lines, k, width, panel);
    } else if (lines == width) {
        pack_copying(dtype, source, k, width, panel);
        done = k;
    }
    pack_scalar(dtype, source, lines, done, k, width, panel);
}

/*
 * Packs one panel of k steps from at least one line. What stands in the lines from `lines` to `width` is
 * not said. `width` is a constant.
 */
VECTOR_INLINE void pack_panel(const struct pack_source *source, int64_t lines, int64_t k, int64_t width,
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
