/*
 * Packed panels and their products in BFMMLA, which adds to a 2×2 corner of C the products of two rows of A
 * and two columns of B over four steps.
 *
 * A panel is 4 lines (rows of A, columns of B) in bf16, [k/4][parts][4 lines][4 steps]: two lines are a
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

#define PANEL_LINES  4
#define PACK_LINES   8 // packed at a time: two panels
#define ROW_PAIRS    6 // of a tile of C: 24 sums; while one waits for its last step the others go on
#define FEWER_PAIRS  4 // where there are no more rows
#define COLUMN_PAIRS 4
#define SUM_STEPS    32                // of a sum before it is added to the whole
#define QUAD         (PANEL_LINES * 4) // elements of four steps of a panel

// As UNROLL, of more sums than that unrolls.
#if defined(__clang__)
#define UNROLL_SUMS UNROLL
#else
#define UNROLL_SUMS _Pragma("GCC unroll 24")
#endif

// Eight bf16 numbers.
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

/*
 * 32 steps of up to 8 lines, the steps of a line neighbours, into a panel and the `next`, so many elements
 * on. Lines come in pairs: past the last it is read again.
 */
VECTOR_INLINE void pack_along_steps(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
                                    uint16_t *panel, int64_t next)
{
    const int parts = parts_of(dtype);
    for (int64_t i = 0; i < (lines + 1) / 2 * 2; i++) {
        int64_t line = cpu_min(i, lines - 1) * source->line;
        UNROLL
        for (int p = 0; p < SUM_STEPS; p += 8) {
            eight_u16 part[MOST_PARTS];
            load_parts(dtype, source->data, line + p, part);
            UNROLL
            for (int q = 0; q < parts; q++) {
                uint16_t *target = panel + i / 4 * next + (p / 4 * parts + q) * QUAD + i % 4 * 4;
                memcpy(target, &part[q], 8);
                memcpy(target + parts * QUAD, (const char *)&part[q] + 8, 8);
            }
        }
    }
}

/* 32 steps of 8 lines, the lines of a step neighbours. */
VECTOR_INLINE void pack_along_lines(enum mt_dtype dtype, const struct pack_source *source, uint16_t *panel,
                                    int64_t next)
{
    const int parts = parts_of(dtype);
    for (int p = 0; p < SUM_STEPS; p += 4) {
        eight_u16 step[4][MOST_PARTS];
        UNROLL
        for (int s = 0; s < 4; s++) load_parts(dtype, source->data, (p + s) * source->step, step[s]);
        UNROLL
        for (int q = 0; q < parts; q++) {
            uint16x8x2_t even = vzipq_u16((uint16x8_t)step[0][q], (uint16x8_t)step[2][q]);
            uint16x8x2_t odd = vzipq_u16((uint16x8_t)step[1][q], (uint16x8_t)step[3][q]);
            uint16x8x2_t low = vzipq_u16(even.val[0], odd.val[0]);
            uint16x8x2_t high = vzipq_u16(even.val[1], odd.val[1]);
            uint16_t *target = panel + (p / 4 * parts + q) * QUAD;
            vst1q_u16(target, low.val[0]);
            vst1q_u16(target + 8, low.val[1]);
            vst1q_u16(target + next, high.val[0]);
            vst1q_u16(target + next + 8, high.val[1]);
        }
    }
}

VECTOR_INLINE void pack_steps(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
                              uint16_t *panel, int64_t next)
{
    if (source->step == 1) {
        pack_along_steps(dtype, source, lines, panel, next);
    } else {
        pack_along_lines(dtype, source, panel, next);
    }
}

/* Fewer steps, or lines where a step's are neighbours: what there is, among zeros. */
VECTOR_INLINE void pack_edge(enum mt_dtype dtype, const struct pack_source *source, int64_t lines,
                             int64_t steps, uint16_t *panel, int64_t next)
{
    float copy[PACK_LINES * SUM_STEPS] = {0}; // in the layout of the source; room for either type
    const int64_t bytes = dtype == MT_F32 ? 4 : 2;
    bool along_steps = source->step == 1;
    int64_t runs = along_steps ? lines : steps;
    int64_t run_bytes = (along_steps ? steps : lines) * bytes;
    int64_t room = along_steps ? SUM_STEPS : PACK_LINES;
    int64_t distance = (along_steps ? source->line : source->step) * bytes;
    for (int64_t i = 0; i < runs; i++) {
        memcpy((char *)copy + i * room * bytes, (const char *)source->data + i * distance, (size_t)run_bytes);
    }
    struct pack_source whole = {copy, dtype, along_steps ? room : 1, along_steps ? 1 : room};
    pack_steps(dtype, &whole, PACK_LINES, panel, next);
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
    const int64_t next = panel_elements(k, dtype);
    for (int64_t i = 0; i < lines; i += PACK_LINES) {
        int64_t now = cpu_min(PACK_LINES, lines - i);
        for (int64_t p = 0; p < k; p += SUM_STEPS) {
            uint16_t *panel = packed + i / PANEL_LINES * next + p * PANEL_LINES * parts_of(dtype);
            struct pack_source at = *source;
            at.data = (const char *)source->data + (i * source->line + p * source->step) * bytes;
            if (k - p >= SUM_STEPS && (source->step == 1 || now == PACK_LINES)) {
                pack_steps(dtype, &at, now, panel, next);
            } else {
                pack_edge(dtype, &at, now, cpu_min(SUM_STEPS, k - p), panel, next);
            }
        }
    }
}

/*
 * `lines` lines of k steps as an even number of panels, zeros for steps past the last. What stands in lines
 * past the last is not said.
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

/* Sums of pairs of rows and of columns, each a 2×2 corner of C, row by row: [row pairs][column pairs]. */
struct corner_sums {
    float32x4_t of[ROW_PAIRS * COLUMN_PAIRS];
};

/* What is multiplied. Constants where these functions are inlined; at most one operand is split. */
struct tile_shape {
    int a_parts;
    int b_parts;
    int row_pairs;
};

/* BFMMLA. Not its intrinsic: gcc 12 gives what it returns another register, and moves or spills the sums. */
VECTOR_INLINE float32x4_t add_corner(float32x4_t sum, bfloat16x8_t rows, bfloat16x8_t columns)
{
    __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(rows), "w"(columns));
    return sum;
}

/* Pair i of panels `next` apart. */
VECTOR_INLINE bfloat16x8_t load_pair(const uint16_t *panel, int64_t next, int i)
{
    return vreinterpretq_bf16_u16(vld1q_u16(panel + i / 2 * next + i % 2 * 8));
}

/* Four steps: A in its parts by B. */
VECTOR_INLINE void multiply_split_a(struct tile_shape t, const uint16_t *a, int64_t a_next, const uint16_t *b,
                                    int64_t b_next, float32x4_t *sum)
{
    bfloat16x8_t columns[COLUMN_PAIRS];
    UNROLL
    for (int j = 0; j < COLUMN_PAIRS; j++) columns[j] = load_pair(b, b_next, j);
    UNROLL
    for (int part = t.a_parts - 1; part >= 0; part--) {
        UNROLL
        for (int i = 0; i < t.row_pairs; i++) {
            bfloat16x8_t rows = load_pair(a + part * QUAD, a_next, i);
            UNROLL
            for (int j = 0; j < COLUMN_PAIRS; j++) {
                float32x4_t *to = &sum[i * COLUMN_PAIRS + j];
                *to = add_corner(*to, rows, columns[j]);
            }
        }
    }
}

/* Four steps: A by B in its parts. */
VECTOR_INLINE void multiply_split_b(struct tile_shape t, const uint16_t *a, int64_t a_next, const uint16_t *b,
                                    int64_t b_next, float32x4_t *sum)
{
    bfloat16x8_t rows[ROW_PAIRS];
    UNROLL
    for (int i = 0; i < t.row_pairs; i++) rows[i] = load_pair(a, a_next, i);
    UNROLL
    for (int part = t.b_parts - 1; part >= 0; part--) {
        UNROLL
        for (int j = 0; j < COLUMN_PAIRS; j++) {
            bfloat16x8_t columns = load_pair(b + part * QUAD, b_next, j);
            UNROLL
            for (int i = 0; i < t.row_pairs; i++) {
                float32x4_t *to = &sum[i * COLUMN_PAIRS + j];
                *to = add_corner(*to, rows[i], columns);
            }
        }
    }
}

/* A tile over k steps. */
VECTOR_INLINE void multiply_shape(struct tile_shape t, int64_t k, const uint16_t *a, const uint16_t *b,
                                  struct corner_sums *sums)
{
    const int64_t a_next = panel_elements(k, t.a_parts > 1 ? MT_F32 : MT_BF16);
    const int64_t b_next = panel_elements(k, t.b_parts > 1 ? MT_F32 : MT_BF16);
    *sums = (struct corner_sums){0};
    for (int64_t p = 0; p < k; p += SUM_STEPS) {
        float32x4_t sum[ROW_PAIRS * COLUMN_PAIRS];
        UNROLL_SUMS
        for (int i = 0; i < t.row_pairs * COLUMN_PAIRS; i++) sum[i] = vdupq_n_f32(0.0f);
        for (int quad = 0; quad < SUM_STEPS / 4; quad++) {
            if (t.b_parts > 1) {
                multiply_split_b(t, a, a_next, b, b_next, sum);
            } else {
                multiply_split_a(t, a, a_next, b, b_next, sum);
            }
            a += t.a_parts * QUAD;
            b += t.b_parts * QUAD;
        }
        UNROLL_SUMS
        for (int i = 0; i < t.row_pairs * COLUMN_PAIRS; i++) sums->of[i] += sum[i];
    }
}

/* Apart from its caller, as its sums need all registers: 12 rows by 8 columns where it is high, else 8 by 8.
 */
static __attribute__((noinline)) void multiply_tile(enum mt_dtype a_type, enum mt_dtype b_type, bool high,
                                                    int64_t k, const uint16_t *a, const uint16_t *b,
                                                    struct corner_sums *sums)
{
    if (a_type == MT_F32 && high) {
        multiply_shape((struct tile_shape){MOST_PARTS, 1, ROW_PAIRS}, k, a, b, sums);
    } else if (a_type == MT_F32) {
        multiply_shape((struct tile_shape){MOST_PARTS, 1, FEWER_PAIRS}, k, a, b, sums);
    } else if (b_type == MT_F32 && high) {
        multiply_shape((struct tile_shape){1, MOST_PARTS, ROW_PAIRS}, k, a, b, sums);
    } else if (b_type == MT_F32) {
        multiply_shape((struct tile_shape){1, MOST_PARTS, FEWER_PAIRS}, k, a, b, sums);
    } else if (high) {
        multiply_shape((struct tile_shape){1, 1, ROW_PAIRS}, k, a, b, sums);
    } else {
        multiply_shape((struct tile_shape){1, 1, FEWER_PAIRS}, k, a, b, sums);
    }
}

// ------------------------------------------------------------------ few rows

/*
 * Pairs of rows of f32, packed in panels `next` apart, by pairs of a bf16 weight's lines as stored
 * (decoding), which are read once, over k steps. The numbers are constants wherever this is inlined: together
 * they keep the unit busy.
 */
VECTOR_INLINE void multiply_stored(int row_pairs, int line_pairs, int64_t k, const uint16_t *rows,
                                   int64_t next, const uint16_t *lines, int64_t distance,
                                   struct corner_sums *sums)
{
    *sums = (struct corner_sums){0};
    for (int64_t p = 0; p < k; p += SUM_STEPS) {
        float32x4_t sum[ROW_PAIRS * COLUMN_PAIRS];
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
                for (int h = 0; h < 2 * MOST_PARTS; h++) {
                    int part = h / MOST_PARTS * MOST_PARTS + MOST_PARTS - 1 - h % MOST_PARTS; // small first
                    UNROLL
                    for (int i = 0; i < row_pairs; i++) {
                        float32x4_t *to = &sum[i * line_pairs + j];
                        *to = add_corner(*to, load_pair(rows + part * QUAD, next, i), quad[h / MOST_PARTS]);
                    }
                }
            }
            rows += 2 * MOST_PARTS * QUAD;
        }
        UNROLL
        for (int i = 0; i < row_pairs * line_pairs; i++) sums->of[i] += sum[i];
    }
}

#define STORED_ROWS 8 // at a time

/* Lines taken at a time by so many rows. */
static inline int64_t stored_lines(int64_t rows)
{
    return rows <= 2 ? 16 : 8;
}

static __attribute__((noinline)) void multiply_rows(int64_t rows, int64_t line_count, int64_t k,
                                                    const uint16_t *packed, int64_t next,
                                                    const uint16_t *lines, int64_t distance,
                                                    struct corner_sums *sums)
{
    if (line_count == 16) {
        multiply_stored(1, 8, k, packed, next, lines, distance, sums);
    } else if (rows <= 4) {
        multiply_stored(2, 4, k, packed, next, lines, distance, sums);
    } else if (rows <= 6) {
        multiply_stored(3, 4, k, packed, next, lines, distance, sums);
    } else {
        multiply_stored(4, 4, k, packed, next, lines, distance, sums);
    }
}

#endif
