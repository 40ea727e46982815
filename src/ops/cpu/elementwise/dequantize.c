/*
 * dequantize: bytes in, twice or four times as many out, so that memory is all there is to wait for. Codes of
 * 4 bits have 16 values in a block: these are multiplied and rounded once, and the codes look them up, 32
 * elements at a time.
 */
#include "ops/cpu/level.h"
#include "ops/cpu/vector.h"
#include "tensor/quantised.h"

#define PIECE  16384 // elements of a unit of work, where it is no row: whole blocks, and whole nested ones
#define STRIDE 32    // elements looked up at a time: 16 bytes of codes

// ------------------------------------------------------------------ 4 bits

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));

/* What the 16 codes of a block stand for, in bf16: their low and their high bytes. */
struct table {
    bytes16 low, high;
};

static inline struct table make_table(const float values[16], float scale)
{
    uint16_t rounded[16];
    struct table table;
#pragma omp simd
    for (int i = 0; i < 16; i++) rounded[i] = mt_float_to_bf16(values[i] * scale);
    for (int i = 0; i < 16; i++) {
        table.low[i] = (uint8_t)(rounded[i] & 0xFFu);
        table.high[i] = (uint8_t)(rounded[i] >> 8);
    }
    return table;
}

/* table[index[i]] in each byte: one instruction where the level has it. */
VECTOR_INLINE bytes16 look_up(bytes16 table, bytes16 index)
{
#if defined(__clang__)
    bytes16 found;
    for (int i = 0; i < 16; i++) found[i] = table[index[i]];
    return found;
#else
    return __builtin_shuffle(table, index);
#endif
}

/* The bytes of eight bf16 numbers each, a0 b0 a1 b1 ...: the first eight, and the last. */
VECTOR_INLINE halves8 join_first(bytes16 a, bytes16 b)
{
    return (halves8)__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

VECTOR_INLINE halves8 join_last(bytes16 a, bytes16 b)
{
    return (halves8)__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                            31);
}

/* a0 b0 a1 b1 ... of numbers. */
VECTOR_INLINE void store_in_turns(halves8 a, halves8 b, uint16_t *y)
{
    halves8 first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    halves8 last = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    memcpy(y, &first, sizeof first);
    memcpy(y + 8, &last, sizeof last);
}

/* STRIDE elements. `even` are the codes of elements 0, 2, 4 ..., `odd` those of 1, 3, 5 ... */
VECTOR_INLINE void expand(const struct table *table, bytes16 even, bytes16 odd, uint16_t *y)
{
    bytes16 even_low = look_up(table->low, even);
    bytes16 even_high = look_up(table->high, even);
    bytes16 odd_low = look_up(table->low, odd);
    bytes16 odd_high = look_up(table->high, odd);
    store_in_turns(join_first(even_low, even_high), join_first(odd_low, odd_high), y);
    store_in_turns(join_last(even_low, even_high), join_last(odd_low, odd_high), y + STRIDE / 2);
}

/* Up to STRIDE elements; as many codes are read. */
VECTOR_INLINE void expand_some(const struct table *table, const uint8_t *codes, bool high_first,
                               int64_t count, uint16_t *y)
{
    bytes16 packed = {0};
    uint16_t all[STRIDE];
    bool whole = count == STRIDE;
    memcpy(&packed, codes, whole ? sizeof packed : (size_t)(count + 1) / 2);
    bytes16 high = packed >> 4;
    bytes16 low = packed & 15;
    expand(table, high_first ? high : low, high_first ? low : high, whole ? y : all);
    if (!whole) memcpy(y, all, (size_t)count * sizeof *y);
}

/* Elements [first, first+count) of a matrix; first is a block's. */
static void nf4_piece(const struct mt_quantised *matrix, int64_t first, int64_t count, uint16_t *y)
{
    float scales[PIECE / MT_NF4_BLOCK];
    const uint8_t *codes = (const uint8_t *)matrix->codes.data + first / 2;
    mt_nf4_scales(matrix, first / MT_NF4_BLOCK, (count + MT_NF4_BLOCK - 1) / MT_NF4_BLOCK, scales);
    for (int64_t start = 0; start < count; start += MT_NF4_BLOCK) {
        struct table table = make_table(mt_nf4_values, scales[start / MT_NF4_BLOCK]);
        int64_t end = cpu_min(start + MT_NF4_BLOCK, count);
        for (int64_t i = start; i < end; i += STRIDE)
            expand_some(&table, codes + i / 2, true, cpu_min(STRIDE, end - i), y + i);
    }
}

static void mxfp4_row(const struct mt_quantised *matrix, int64_t row, uint16_t *y)
{
    int64_t blocks = matrix->scales.dim[1];
    const uint8_t *scales = (const uint8_t *)matrix->scales.data + row * blocks;
    const uint8_t *codes = (const uint8_t *)matrix->codes.data + row * matrix->codes.dim[1];
    for (int64_t block = 0; block < blocks; block++) {
        int64_t first = block * MT_MXFP4_BLOCK;
        struct table table = make_table(mt_e2m1_values, mt_e8m0_to_float(scales[block]));
        expand_some(&table, codes + first / 2, false, cpu_min(STRIDE, matrix->in - first), y + first);
    }
}

_Static_assert(MT_MXFP4_BLOCK == STRIDE && MT_NF4_BLOCK % STRIDE == 0, "blocks are looked up in strides");
_Static_assert(PIECE % MT_NF4_BLOCK == 0, "pieces begin with a block");

// ------------------------------------------------------------------ 8 bits

static void fp8_row(const struct mt_quantised *matrix, int64_t row, uint16_t *y)
{
    const float *scales = (const float *)matrix->scales.data + row / MT_FP8_BLOCK * matrix->scales.dim[1];
    const uint8_t *codes = (const uint8_t *)matrix->codes.data + row * matrix->in;
    for (int64_t first = 0; first < matrix->in; first += MT_FP8_BLOCK) {
        float scale = scales[first / MT_FP8_BLOCK];
        int64_t end = cpu_min(first + MT_FP8_BLOCK, matrix->in);
#pragma omp simd
        for (int64_t i = first; i < end; i++) y[i] = mt_float_to_bf16(mt_fp8_to_float(codes[i]) * scale);
    }
}

static void int8_row(const struct mt_quantised *matrix, int64_t row, uint16_t *y)
{
    float scale = ((const float *)matrix->scales.data)[row];
    const int8_t *codes = (const int8_t *)matrix->codes.data + row * matrix->in;
#pragma omp simd
    for (int64_t i = 0; i < matrix->in; i++) y[i] = mt_float_to_bf16((float)codes[i] * scale);
}

// ------------------------------------------------------------------ all matrices

/* Unit `unit` of a matrix: a row, or a piece of nf4, whose blocks do not end with rows. */
static void run_unit(const struct mt_quantised *matrix, int64_t unit, uint16_t *y)
{
    int64_t first = unit * PIECE;
    switch (matrix->format) {
    case MT_QUANTISED_FP8: fp8_row(matrix, unit, y + unit * matrix->in); return;
    case MT_QUANTISED_INT8: int8_row(matrix, unit, y + unit * matrix->in); return;
    case MT_QUANTISED_NF4:
        nf4_piece(matrix, first, cpu_min(PIECE, matrix->out * matrix->in - first), y + first);
        return;
    case MT_QUANTISED_MXFP4: mxfp4_row(matrix, unit, y + unit * matrix->in); return;
    case MT_QUANTISED_FORMATS: return;
    }
}

static bool is_used(const struct mt_dequantize_args *a, int expert)
{
    const int32_t *offsets = a->offsets.data;
    bool rows = !mt_tensor_present(&a->offsets) || offsets[expert] < offsets[expert + 1];
    return rows && mt_quantised_present(&a->stored[expert]);
}

void MT_CPU(dequantize)(struct mt_device *device, const struct mt_dequantize_args *a)
{
    const struct mt_quantised *any = NULL;
    int64_t used = 0;
    for (int e = 0; e < a->experts; e++) {
        if (!is_used(a, e)) continue;
        any = &a->stored[e];
        used++;
    }
    if (any == NULL) return;
    int64_t elements = any->out * any->in;
    int64_t units = any->format == MT_QUANTISED_NF4 ? (elements + PIECE - 1) / PIECE : any->out;
    // Handed out as threads come: experts without rows take no time.
#pragma omp parallel for num_threads(cpu_threads(device, used *elements)) schedule(dynamic, 16)
    for (int64_t i = 0; i < a->experts * units; i++) {
        int e = (int)(i / units);
        if (is_used(a, e)) run_unit(&a->stored[e], i % units, a->y[e].data);
    }
}
