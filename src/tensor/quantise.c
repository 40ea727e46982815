/* Numbers become codes, block by block; quantised.h has the rules. */
#include <math.h>

#include "tensor/quantised.h"

/* A matrix of numbers of any float type. */
struct source {
    enum mt_dtype dtype;
    const void *values;
};

/* Elements [first, first+count) as f32. */
static void read_elements(const struct source *source, int64_t first, int64_t count, float *target)
{
    const char *start = (const char *)source->values + (size_t)first * mt_dtype_bytes(source->dtype);
    mt_convert_to_f32(source->dtype, start, count, target);
}

/* The largest magnitude; not finite where one of the numbers is not. */
static float largest(const float *values, int64_t count)
{
    // Magnitudes of floats are ordered as their bits are, NaN above all: integers vectorise.
    uint32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = mt_float_bits(values[i]) & 0x7FFFFFFFu;
        most = bits > most ? bits : most;
    }
    return mt_float_from_bits(most);
}

// ------------------------------------------------------------------ fp8

uint8_t mt_float_to_fp8(float value)
{
    uint32_t bits = mt_float_bits(value);
    uint32_t sign = bits >> 24 & 0x80u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t normal = (magnitude - (120u << 23) + 0x7FFFFu + (magnitude >> 20 & 1u)) >> 20;
    // Below 2^-6 codes are multiples of 2^-9: adding 2^14 leaves them, rounded, in the low mantissa bits.
    uint32_t subnormal = mt_float_bits(mt_float_from_bits(magnitude) + 0x1p14f) - 0x46800000u;
    uint32_t result = magnitude < 0x3C800000u ? subnormal : normal;
    result = magnitude >= 0x43E00000u ? 0x7Eu : result; // 448 and above
    result = magnitude > 0x7F800000u ? 0x7Fu : result;
    return (uint8_t)(sign | result);
}

#define FP8_MOST 448.0f

/* One block of up to 128 × 128 elements, from (row, column) on. */
static bool fp8_block(const struct source *source, struct mt_quantised *matrix, int64_t row, int64_t column)
{
    float values[MT_FP8_BLOCK];
    int64_t rows = matrix->out - row < MT_FP8_BLOCK ? matrix->out - row : MT_FP8_BLOCK;
    int64_t columns = matrix->in - column < MT_FP8_BLOCK ? matrix->in - column : MT_FP8_BLOCK;
    float most = 0.0f;
    for (int64_t r = 0; r < rows; r++) {
        read_elements(source, (row + r) * matrix->in + column, columns, values);
        float of_row = largest(values, columns);
        if (!isfinite(of_row)) return false;
        most = of_row > most ? of_row : most;
    }
    // In two roundings, as torch divides a number by a tensor. Numbers so small that their factor would be
    // infinite count as zeros.
    float factor = most > 0.0f ? 1.0f / most * FP8_MOST : 1.0f;
    bool zeros = most == 0.0f || isinf(factor);
    float *scales = matrix->scales.data;
    scales[row / MT_FP8_BLOCK * matrix->scales.dim[1] + column / MT_FP8_BLOCK] = zeros ? 1.0f : 1.0f / factor;
    for (int64_t r = 0; r < rows; r++) {
        int64_t first = (row + r) * matrix->in + column;
        uint8_t *codes = (uint8_t *)matrix->codes.data + first;
        read_elements(source, first, columns, values);
        for (int64_t i = 0; i < columns; i++) codes[i] = mt_float_to_fp8(zeros ? 0.0f : values[i] * factor);
    }
    return true;
}

static bool fp8_blocks(const struct source *source, struct mt_quantised *matrix, int64_t row)
{
    bool finite = true;
    for (int64_t column = 0; column < matrix->in && finite; column += MT_FP8_BLOCK)
        finite = fp8_block(source, matrix, row, column);
    return finite;
}

// ------------------------------------------------------------------ int8

#define PIECE 256 // columns

static bool int8_row(const struct source *source, struct mt_quantised *matrix, int64_t row)
{
    float values[PIECE];
    float most = 0.0f;
    int64_t start = row * matrix->in;
    for (int64_t first = 0; first < matrix->in; first += PIECE) {
        int64_t count = matrix->in - first < PIECE ? matrix->in - first : PIECE;
        read_elements(source, start + first, count, values);
        float of_piece = largest(values, count);
        if (!isfinite(of_piece)) return false;
        most = of_piece > most ? of_piece : most;
    }
    float scale = most / 127.0f;
    ((float *)matrix->scales.data)[row] = scale;
    for (int64_t first = 0; first < matrix->in; first += PIECE) {
        int64_t count = matrix->in - first < PIECE ? matrix->in - first : PIECE;
        uint8_t *codes = (uint8_t *)matrix->codes.data + start + first;
        read_elements(source, start + first, count, values);
        for (int64_t i = 0; i < count; i++) {
            float quotient = scale > 0.0f ? values[i] / scale : 0.0f;
            quotient = quotient > 127.0f ? 127.0f : quotient;
            quotient = quotient < -127.0f ? -127.0f : quotient;
            codes[i] = (uint8_t)(int8_t)lrintf(quotient);
        }
    }
    return true;
}

// ------------------------------------------------------------------ nf4

#define NF4_LEAST 1e-38f // bitsandbytes divides by no less

/* Codes of a block: how many of the 15 boundaries, half-way between neighbours, lie below the number. */
static void nf4_codes(const float *scaled, int64_t count, uint8_t *packed)
{
    int32_t code[MT_NF4_BLOCK] = {0};
    for (int j = 0; j < 15; j++) {
        float boundary = (mt_nf4_values[j] + mt_nf4_values[j + 1]) / 2.0f;
        for (int i = 0; i < MT_NF4_BLOCK; i++) code[i] += scaled[i] > boundary;
    }
    for (int64_t i = 0; i < count; i += 2) packed[i / 2] = (uint8_t)(code[i] << 4 | code[i + 1]);
}

/* One block. bitsandbytes multiplies by 1/max in whole blocks and divides in the last, broken one. */
static bool nf4_block(const struct source *source, int64_t first, int64_t count, uint8_t *codes, float *scale)
{
    // Past the end: zeros. An odd number of elements leaves half a byte, which bitsandbytes fills so.
    float values[MT_NF4_BLOCK] = {0};
    read_elements(source, first, count, values);
    float most = largest(values, count);
    if (!isfinite(most)) return false;
    float divisor = most > NF4_LEAST ? most : NF4_LEAST;
    float factor = 1.0f / divisor;
    bool whole = count == MT_NF4_BLOCK;
    for (int i = 0; i < MT_NF4_BLOCK; i++) values[i] = whole ? values[i] * factor : values[i] / divisor;
    nf4_codes(values, count, codes + first / 2);
    *scale = whole ? most : divisor;
    return true;
}

/* The nearest code, the lower of two, looked up as bitsandbytes does: by the nearest of 65,536 numbers. */
static uint8_t nested_code(const float map[MT_NF4_NESTED_CODES], float value)
{
    float within = value > 1.0f ? 1.0f : value < -1.0f ? -1.0f : value;
    float place = floorf((within + 1.0f) * 0.5f * 65535.0f + 0.5f);
    float looked_up = place / 65535.0f * 2.0f - 1.0f;
    int low = 0; // the first code whose number is not below
    int high = MT_NF4_NESTED_CODES - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (map[middle] < looked_up)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return 0;
    bool nearer = map[low] - looked_up < looked_up - map[low - 1];
    return (uint8_t)(nearer ? low : low - 1);
}

/* Block `block`'s scale as it was before it became a code: made again from the numbers. */
static bool nf4_scale(const struct source *source, int64_t elements, int64_t block, float *scale)
{
    float values[MT_NF4_BLOCK];
    int64_t first = block * MT_NF4_BLOCK;
    int64_t count = elements - first < MT_NF4_BLOCK ? elements - first : MT_NF4_BLOCK;
    read_elements(source, first, count, values);
    float most = largest(values, count);
    *scale = count == MT_NF4_BLOCK || most > NF4_LEAST ? most : NF4_LEAST;
    return isfinite(most);
}

/* nested_scales, nested_offset and the codes of the scales: two passes over the numbers, no memory. */
static bool nest_scales(const struct source *source, struct mt_quantised *matrix)
{
    int64_t elements = matrix->out * matrix->in;
    int64_t blocks = matrix->scales.dim[0];
    const float *map = matrix->nested_map.data;
    float *nested = matrix->nested_scales.data;
    uint8_t *codes = matrix->scales.data;
    double sum = 0.0;
    for (int64_t block = 0; block < blocks; block++) {
        float scale;
        if (!nf4_scale(source, elements, block, &scale)) return false;
        sum += (double)scale;
    }
    float offset = (float)(sum / (double)blocks);
    *(float *)matrix->nested_offset.data = offset;
    for (int64_t first = 0; first < blocks; first += MT_NF4_NESTED_BLOCK) {
        float less_mean[MT_NF4_NESTED_BLOCK];
        int64_t count = blocks - first < MT_NF4_NESTED_BLOCK ? blocks - first : MT_NF4_NESTED_BLOCK;
        for (int64_t i = 0; i < count; i++) {
            (void)nf4_scale(source, elements, first + i, &less_mean[i]);
            less_mean[i] -= offset;
        }
        float most = largest(less_mean, count);
        float factor = 1.0f / most;
        nested[first / MT_NF4_NESTED_BLOCK] = most;
        for (int64_t i = 0; i < count; i++)
            codes[first + i] = most > 0.0f ? nested_code(map, less_mean[i] * factor) : 0;
    }
    return true;
}

#define NF4_UNIT (256 * MT_NF4_BLOCK) // elements

static bool nf4_unit(const struct source *source, struct mt_quantised *matrix, int64_t start)
{
    int64_t elements = matrix->out * matrix->in;
    int64_t end = elements - start < NF4_UNIT ? elements : start + NF4_UNIT;
    bool nested = matrix->scales.dtype == MT_U8;
    float *scales = nested ? NULL : matrix->scales.data;
    for (int64_t first = start; first < end; first += MT_NF4_BLOCK) {
        int64_t count = end - first < MT_NF4_BLOCK ? end - first : MT_NF4_BLOCK;
        float scale;
        if (!nf4_block(source, first, count, matrix->codes.data, &scale)) return false;
        if (!nested) scales[first / MT_NF4_BLOCK] = scale;
    }
    return true;
}

// ------------------------------------------------------------------ mxfp4

/* Rounded to nearest, ties to the even code; the boundaries are half-way between neighbours. */
static unsigned e2m1_code(float value)
{
    float magnitude = fabsf(value);
    unsigned code = (unsigned)(magnitude > 0.25f) + (unsigned)(magnitude >= 0.75f) +
                    (unsigned)(magnitude > 1.25f) + (unsigned)(magnitude >= 1.75f) +
                    (unsigned)(magnitude > 2.5f) + (unsigned)(magnitude >= 3.5f) +
                    (unsigned)(magnitude > 5.0f);
    return signbit(value) ? code | 8u : code;
}

static bool mxfp4_block(const struct source *source, int64_t first, int64_t count, uint8_t *codes,
                        uint8_t *scale)
{
    float values[MT_MXFP4_BLOCK] = {0};
    read_elements(source, first, count, values);
    float most = largest(values, count);
    if (!isfinite(most)) return false;
    int exponent = most > 0.0f ? ilogbf(most) - 2 : -127; // of 6, the largest code, it is 2
    exponent = exponent < -127 ? -127 : exponent;
    *scale = (uint8_t)(exponent + 127);
    float factor = ldexpf(1.0f, -exponent);
    for (int i = 0; i < MT_MXFP4_BLOCK; i += 2) {
        unsigned low = e2m1_code(values[i] * factor);
        unsigned high = e2m1_code(values[i + 1] * factor);
        codes[i / 2] = (uint8_t)(low | high << 4);
    }
    return true;
}

static bool mxfp4_row(const struct source *source, struct mt_quantised *matrix, int64_t row)
{
    int64_t blocks = matrix->scales.dim[1];
    bool finite = true;
    for (int64_t block = 0; block < blocks && finite; block++) {
        int64_t column = block * MT_MXFP4_BLOCK;
        int64_t count = matrix->in - column < MT_MXFP4_BLOCK ? matrix->in - column : MT_MXFP4_BLOCK;
        int64_t place = row * blocks + block;
        uint8_t *codes = (uint8_t *)matrix->codes.data + place * (MT_MXFP4_BLOCK / 2);
        uint8_t *scale = (uint8_t *)matrix->scales.data + place;
        finite = mxfp4_block(source, row * matrix->in + column, count, codes, scale);
    }
    return finite;
}

// ------------------------------------------------------------------ whole matrices

/* Units of a matrix depend on nothing but their own numbers: rows, rows of blocks, stretches of elements. */
static int64_t units_of(const struct mt_quantised *matrix)
{
    if (matrix->format == MT_QUANTISED_FP8) return (matrix->out + MT_FP8_BLOCK - 1) / MT_FP8_BLOCK;
    if (matrix->format == MT_QUANTISED_NF4) return (matrix->out * matrix->in + NF4_UNIT - 1) / NF4_UNIT;
    return matrix->out;
}

static bool quantise_unit(const struct source *source, struct mt_quantised *matrix, int64_t unit)
{
    switch (matrix->format) {
    case MT_QUANTISED_FP8: return fp8_blocks(source, matrix, unit * MT_FP8_BLOCK);
    case MT_QUANTISED_INT8: return int8_row(source, matrix, unit);
    case MT_QUANTISED_NF4: return nf4_unit(source, matrix, unit * NF4_UNIT);
    case MT_QUANTISED_MXFP4: return mxfp4_row(source, matrix, unit);
    case MT_QUANTISED_FORMATS: break;
    }
    return false;
}

bool mt_quantise_threaded(enum mt_dtype dtype, const void *values, struct mt_quantised *matrix, int threads)
{
    const struct source source = {.dtype = dtype, .values = values};
    int64_t units = units_of(matrix);
    int refused = 0; // no reduction: clang's would show a symbol of its own in the library
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t unit = 0; unit < units; unit++) {
        if (quantise_unit(&source, matrix, unit)) continue;
#pragma omp atomic write
        refused = 1;
    }
    bool nested = matrix->format == MT_QUANTISED_NF4 && matrix->scales.dtype == MT_U8;
    return refused == 0 && (!nested || nest_scales(&source, matrix));
}

bool mt_quantise(enum mt_dtype dtype, const void *values, struct mt_quantised *matrix)
{
    return mt_quantise_threaded(dtype, values, matrix, 1);
}
