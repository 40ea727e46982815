/*
 * Packed panels and their products in BFMMLA, which adds to a 2×2 corner of C the products of two rows of A
 * and two columns of B over four steps.
 *
 * A panel is 8 lines (rows of A, columns of B) in bf16, [k/4][parts][8 lines][4 steps]: two lines are a
 * register. One operand is bf16; the other is bf16 or an f32 one in three parts (bf16_parts.h).
 *
 * The instruction rounds to odd, a last place off at most where an f32 sum is off by half of one, and takes
 * each pair of steps by itself. So that as little is lost as in f32, a sum starts anew every 32 steps, and
 * what it was is added to the whole in f32. Four steps at a time, the small parts first: an element's sum has
 * the same order wherever it is computed, whichever operand is A.
 */
#ifndef MT_OPS_CPU_BF16_MATRIX_KERNEL_H
#define MT_OPS_CPU_BF16_MATRIX_KERNEL_H

#include <arm_neon.h>
#include <string.h>

#include "ops/cpu/level.h"
#include "ops/cpu/products/bf16_parts.h"
#include "ops/cpu/products/gemm_pack.h"

#define PANEL_LINES 8
#define PANEL_PAIRS 4
#define SUM_STEPS   32                // of a sum before it is added to the whole
#define QUAD        (PANEL_LINES * 4) // elements of four steps of a panel

// Eight bf16 numbers, and pairs of them.
typedef uint16_t eight_u16 __attribute__((vector_size(16)));
typedef uint16_t memory_eight __attribute__((vector_size(16), aligned(2), may_alias));

// ------------------------------------------------------------------ packing

/* Eight neighbouring elements in their parts. */
VECTOR_INLINE void load_parts(enum mt_dtype dtype, const void *data, int64_t index, eight_u16 *part)
{
    if (dtype == MT_BF16) {
        part[0] = *(const memory_eight *)((const uint16_t *)data + index);
        return;
    }
    vector_u32 low[MOST_PARTS];
    vector_u32 high[MOST_PARTS];
    split_parts(vector_load((const float *)data + index), low);
    split_parts(vector_load((const float *)data + index + 4), high);
    UNROLL
    for (int q = 0; q < MOST_PARTS; q++) {
        part[q] = __builtin_shufflevector((eight_u16)low[q], (eight_u16)high[q], 1, 3, 5, 7, 9, 11, 13, 15);
    }
}

/* 32 steps of up to 8 lines, the steps of a line neighbours. Lines come in pairs: past the last it is read
 * again. */
VECTOR_INLINE void pack_along_steps(enum mt_dtype dtype, int parts, const struct pack_source *source,
                                    int64_t lines, uint16_t *panel)
{
    for (int64_t i = 0; i < (lines + 1) / 2 * 2; i++) {
        int64_t line = cpu_min(i, lines - 1) * source->line;
        UNROLL
        for (int p = 0; p < SUM_STEPS; p += 8) {
            eight_u16 part[MOST_PARTS];
            load_parts(dtype, source->data, line + p, part);
            UNROLL
            for (int q = 0; q < parts; q++) {
                uint16_t *target = panel + (p / 4 * parts + q) * QUAD + i * 4;
                memcpy(target, &part[q], 8);
                memcpy(target + parts * QUAD, (const char *)&part[q] + 8, 8);
            }
        }
    }
}

/* 32 steps of 8 lines, the lines of a step neighbours. */
VECTOR_INLINE void pack_along_lines(enum mt_dtype dtype, int parts, const struct pack_source *source,
                                    uint16_t *panel)
{
    for (int p = 0; p < SUM_STEPS; p += 4) {
        eight_u16 step[4][MOST_PARTS];
        UNROLL
        for (int s = 0; s < 4; s++) load_parts(dtype, source->data, (p + s) * source->step, step[s]);
        UNROLL
        for (int q = 0; q < parts; q++) {
            uint16x8x2_t first = vzipq_u16((uint16x8_t)step[0][q], (uint16x8_t)step[2][q]);
            uint16x8x2_t second = vzipq_u16((uint16x8_t)step[1][q], (uint16x8_t)step[3][q]);
            uint16x8x2_t low = vzipq_u16(first.val[0], second.val[0]);
            uint16x8x2_t high = vzipq_u16(first.val[1], second.val[1]);
            uint16_t *target = panel + (p / 4 * parts + q) * QUAD;
            vst1q_u16(target, low.val[0]);
            vst1q_u16(target + 8, low.val[1]);
            vst1q_u16(target + 16, high.val[0]);
            vst1q_u16(target + 24, high.val[1]);
        }
    }
}

VECTOR_INLINE void pack_steps(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
                              uint16_t *panel)
{
    if (source->step == 1) {
        pack_along_steps(dtype, parts_of(dtype), source, lines, panel);
    } else {
        pack_along_lines(dtype, parts_of(dtype), source, panel);
    }
}

/* Fewer steps, or lines where a step's are neighbours: what there is, among zeros. */
VECTOR_INLINE void pack_edge(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
                             int64_t steps, uint16_t *panel)
{
    float copy[PANEL_LINES * SUM_STEPS] = {0}; // in the layout of the source; room for either type
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    bool along_steps = source->step == 1;
    int64_t runs = along_steps ? lines : steps;
    int64_t run_bytes = (along_steps ? steps : lines) * bytes;
    int64_t room = along_steps ? SUM_STEPS : PANEL_LINES;
    int64_t distance = (along_steps ? source->line : source->step) * bytes;
    for (int64_t i = 0; i < runs; i++) {
        memcpy((char *)copy + i * room * bytes, (const char *)source->data + i * distance, (size_t)run_bytes);
    }
    struct pack_source whole = {copy, dtype, along_steps ? room : 1, along_steps ? 1 : room};
    pack_steps(dtype, &whole, PANEL_LINES, panel);
}

/* Elements of a panel of k steps. */
static inline int64_t panel_elements(int64_t k, enum mt_dtype dtype)
{
    return (k + SUM_STEPS - 1) / SUM_STEPS * SUM_STEPS * PANEL_LINES * parts_of(dtype);
}

VECTOR_INLINE void pack_typed_lines(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
                                    int64_t k, uint16_t *packed)
{
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    for (int64_t i = 0; i < lines; i += PANEL_LINES) {
        uint16_t *panel = packed + i / PANEL_LINES * panel_elements(k, dtype);
        int64_t now = cpu_min(PANEL_LINES, lines - i);
        for (int64_t p = 0; p < k; p += SUM_STEPS) {
            struct pack_source at = *source;
            at.data = (const char *)source->data + (i * source->line + p * source->step) * bytes;
            if (k - p >= SUM_STEPS && (source->step == 1 || now == PANEL_LINES)) {
                pack_steps(dtype, &at, now, panel + p * PANEL_LINES * parts_of(dtype));
            } else {
                pack_edge(dtype, &at, now, cpu_min(SUM_STEPS, k - p),
                          panel + p * PANEL_LINES * parts_of(dtype));
            }
        }
    }
}

/* `lines` lines of k steps as panels, zeros for steps past the last. What stands in lines past the last is
 * not said.
 */
static void pack_lines(const struct pack_source *source, int64_t lines, int64_t k, uint16_t *packed)
{
    if (source->dtype == MT_BF16) {
        pack_typed_lines(MT_BF16, source, lines, k, packed);
    } else {
        pack_typed_lines(MT_F32, source, lines, k, packed);
    }
}

// ------------------------------------------------------------------ products

/* Sums of rows' pairs and columns' pairs: [rows/2][columns/2], each a 2×2 corner of C, row by row. */
struct corner_sums {
    float32x4_t of[PANEL_PAIRS * PANEL_PAIRS];
};

VECTOR_INLINE bfloat16x8_t load_pair(const uint16_t *pair)
{
    return vreinterpretq_bf16_u16(vld1q_u16(pair));
}

/* Four steps of a panel of A and one of B; at most one is split. */
VECTOR_INLINE void multiply_quad(int a_parts, int b_parts, const uint16_t *a, const uint16_t *b,
                                 float32x4_t *sum)
{
    const int parts = a_parts > b_parts ? a_parts : b_parts;
    const uint16_t *split = b_parts > 1 ? b : a;
    const uint16_t *other = b_parts > 1 ? a : b;
    bfloat16x8_t whole[PANEL_PAIRS];
    UNROLL
    for (int j = 0; j < PANEL_PAIRS; j++) whole[j] = load_pair(other + j * 8);
    UNROLL
    for (int part = parts - 1; part >= 0; part--) {
        UNROLL
        for (int i = 0; i < PANEL_PAIRS; i++) {
            bfloat16x8_t pair = load_pair(split + part * QUAD + i * 8);
            UNROLL
            for (int j = 0; j < PANEL_PAIRS; j++) {
                if (b_parts > 1) {
                    sum[j * PANEL_PAIRS + i] = vbfmmlaq_f32(sum[j * PANEL_PAIRS + i], whole[j], pair);
                } else {
                    sum[i * PANEL_PAIRS + j] = vbfmmlaq_f32(sum[i * PANEL_PAIRS + j], pair, whole[j]);
                }
            }
        }
    }
}

/* A panel of A by one of B over k steps. */
VECTOR_INLINE void multiply_parts(int a_parts, int b_parts, int64_t k, const uint16_t *a, const uint16_t *b,
                                  struct corner_sums *sums)
{
    *sums = (struct corner_sums){0};
    for (int64_t p = 0; p < k; p += SUM_STEPS) {
        float32x4_t sum[PANEL_PAIRS * PANEL_PAIRS];
        UNROLL
        for (int i = 0; i < PANEL_PAIRS * PANEL_PAIRS; i++) sum[i] = vdupq_n_f32(0.0f);
        for (int quad = 0; quad < SUM_STEPS / 4; quad++) {
            multiply_quad(a_parts, b_parts, a, b, sum);
            a += a_parts * QUAD;
            b += b_parts * QUAD;
        }
        UNROLL
        for (int i = 0; i < PANEL_PAIRS * PANEL_PAIRS; i++) sums->of[i] += sum[i];
    }
}

static void multiply_panels(enum mt_dtype a_type, enum mt_dtype b_type, int64_t k, const uint16_t *a,
                            const uint16_t *b, struct corner_sums *sums)
{
    if (a_type == MT_F32) {
        multiply_parts(MOST_PARTS, 1, k, a, b, sums);
    } else if (b_type == MT_F32) {
        multiply_parts(1, MOST_PARTS, k, a, b, sums);
    } else {
        multiply_parts(1, 1, k, a, b, sums);
    }
}

// ------------------------------------------------------------------ few rows

/*
 * Pairs of rows of f32, packed, by pairs of a bf16 weight's lines as stored (decoding), which are read once,
 * over k steps. The numbers are constants wherever this is inlined: together they keep the unit busy.
 */
VECTOR_INLINE void multiply_stored(int row_pairs, int line_pairs, int64_t k, const uint16_t *rows,
                                   const uint16_t *lines, int64_t distance, struct corner_sums *sums)
{
    *sums = (struct corner_sums){0};
    for (int64_t p = 0; p < k; p += SUM_STEPS) {
        float32x4_t sum[PANEL_PAIRS * PANEL_PAIRS];
        UNROLL
        for (int i = 0; i < row_pairs * line_pairs; i++) sum[i] = vdupq_n_f32(0.0f);
        for (int step = 0; step < SUM_STEPS; step += 8) {
            UNROLL
            for (int j = 0; j < line_pairs; j++) {
                const uint16_t *line = lines + 2 * j * distance + p + step;
                uint64x2_t first = vreinterpretq_u64_u16(vld1q_u16(line));
                uint64x2_t second = vreinterpretq_u64_u16(vld1q_u16(line + distance));
                bfloat16x8_t quad[2] = {vreinterpretq_bf16_u64(vzip1q_u64(first, second)),
                                        vreinterpretq_bf16_u64(vzip2q_u64(first, second))};
                UNROLL
                for (int h = 0; h < 2; h++) {
                    UNROLL
                    for (int part = MOST_PARTS - 1; part >= 0; part--) {
                        UNROLL
                        for (int i = 0; i < row_pairs; i++) {
                            bfloat16x8_t pair = load_pair(rows + (h * MOST_PARTS + part) * QUAD + i * 8);
                            sum[i * line_pairs + j] = vbfmmlaq_f32(sum[i * line_pairs + j], pair, quad[h]);
                        }
                    }
                }
            }
            rows += 2 * MOST_PARTS * QUAD;
        }
        UNROLL
        for (int i = 0; i < row_pairs * line_pairs; i++) sums->of[i] += sum[i];
    }
}

/* Lines taken at a time by a panel of so many rows. */
static inline int64_t stored_lines(int64_t rows)
{
    return rows <= 2 ? 16 : 8;
}

static void multiply_rows(int64_t rows, int64_t k, const uint16_t *packed, const uint16_t *lines,
                          int64_t distance, struct corner_sums *sums)
{
    switch ((rows + 1) / 2) {
    case 1: multiply_stored(1, 8, k, packed, lines, distance, sums); break;
    case 2: multiply_stored(2, 4, k, packed, lines, distance, sums); break;
    case 3: multiply_stored(3, 4, k, packed, lines, distance, sums); break;
    default: multiply_stored(4, 4, k, packed, lines, distance, sums); break;
    }
}

#endif
