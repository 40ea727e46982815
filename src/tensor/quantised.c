/* Quantised matrices on the host: their layout, and what their codes stand for. */
#include "tensor/quantised.h"

#include <assert.h>

#include "tensor/nf4_numbers.h"

const float mt_nf4_values[16] = {MT_NF4_NUMBERS};

const float mt_e2m1_values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                  -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

const char *mt_quantised_name(enum mt_quantised_format format)
{
    static const char *const names[MT_QUANTISED_FORMATS] = {[MT_QUANTISED_FP8] = "fp8",
                                                            [MT_QUANTISED_INT8] = "int8",
                                                            [MT_QUANTISED_NF4] = "nf4",
                                                            [MT_QUANTISED_MXFP4] = "mxfp4"};
    if ((unsigned)format >= MT_QUANTISED_FORMATS) return "unknown format";
    return names[format];
}

// ------------------------------------------------------------------ layout

static int64_t blocks_of(int64_t elements, int64_t block)
{
    return (elements + block - 1) / block;
}

struct mt_quantised mt_quantised_shape(enum mt_quantised_format format, bool nested, int64_t out, int64_t in)
{
    struct mt_quantised matrix = {.format = format, .out = out, .in = in};
    int64_t blocks = 0;
    switch (format) {
    case MT_QUANTISED_FP8:
        matrix.codes = mt_tensor_2d(NULL, MT_U8, out, in);
        matrix.scales = mt_tensor_2d(NULL, MT_F32, blocks_of(out, MT_FP8_BLOCK), blocks_of(in, MT_FP8_BLOCK));
        return matrix;
    case MT_QUANTISED_INT8:
        matrix.codes = mt_tensor_2d(NULL, MT_U8, out, in);
        matrix.scales = mt_tensor_1d(NULL, MT_F32, out);
        return matrix;
    case MT_QUANTISED_NF4:
        blocks = blocks_of(out * in, MT_NF4_BLOCK);
        matrix.codes = mt_tensor_1d(NULL, MT_U8, (out * in + 1) / 2);
        matrix.scales = mt_tensor_1d(NULL, nested ? MT_U8 : MT_F32, blocks);
        if (!nested) return matrix;
        matrix.nested_scales = mt_tensor_1d(NULL, MT_F32, blocks_of(blocks, MT_NF4_NESTED_BLOCK));
        matrix.nested_map = mt_tensor_1d(NULL, MT_F32, MT_NF4_NESTED_CODES);
        matrix.nested_offset = mt_tensor_1d(NULL, MT_F32, 1);
        return matrix;
    case MT_QUANTISED_MXFP4:
        blocks = blocks_of(in, MT_MXFP4_BLOCK);
        matrix.codes = mt_tensor_2d(NULL, MT_U8, out, blocks * (MT_MXFP4_BLOCK / 2));
        matrix.scales = mt_tensor_2d(NULL, MT_U8, out, blocks);
        return matrix;
    case MT_QUANTISED_FORMATS: break;
    }
    assert(false && "mt_quantised_shape: not a format");
    return matrix;
}

void mt_quantised_each(struct mt_quantised *matrix, struct mt_tensor *tensors[MT_QUANTISED_TENSORS])
{
    tensors[0] = &matrix->codes;
    tensors[1] = &matrix->scales;
    tensors[2] = &matrix->nested_scales;
    tensors[3] = &matrix->nested_offset;
    tensors[4] = &matrix->nested_map;
}

static size_t bytes_of(const struct mt_tensor *tensor)
{
    return (size_t)mt_tensor_count(tensor) * mt_dtype_bytes(tensor->dtype);
}

size_t mt_quantised_bytes(const struct mt_quantised *matrix)
{
    return bytes_of(&matrix->codes) + bytes_of(&matrix->scales) + bytes_of(&matrix->nested_scales) +
           bytes_of(&matrix->nested_offset);
}

// ------------------------------------------------------------------ numbers

/*
 * 0.1 to 1 in 2^i equal parts, i from 0 to 6, the middles of the parts times 10^(i-6), with both signs; and 0
 * and 1. The last mantissa bits are those of torch.linspace, which bitsandbytes makes the map with: it
 * multiplies and adds with one rounding, from the nearer end.
 */
void mt_nf4_nested_map(float map[MT_NF4_NESTED_CODES])
{
    static const float powers[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
    const int middle = MT_NF4_NESTED_CODES / 2 - 1; // where 0 is; smaller numbers have smaller codes
    int place = middle;
    map[place++] = 0.0f;
    for (int i = 0; i < (int)(sizeof powers / sizeof powers[0]); i++) {
        int parts = 1 << i;
        float step = (1.0f - 0.1f) / (float)parts;
        float below = 0.1f;
        for (int part = 1; part <= parts; part++) {
            bool nearer_start = part < (parts + 1) / 2;
            double from_start = (double)0.1f + (double)step * part;
            double from_end = 1.0 - (double)step * (parts - part);
            float above = (float)(nearer_start ? from_start : from_end);
            map[place++] = powers[i] * ((below + above) / 2.0f);
            below = above;
        }
    }
    map[place] = 1.0f;
    for (int i = 1; i <= middle; i++) map[middle - i] = -map[middle + i];
}

void mt_nf4_scales(const struct mt_quantised *matrix, int64_t first, int64_t count, float *scales)
{
    if (matrix->scales.dtype == MT_F32) {
        memcpy(scales, (const float *)matrix->scales.data + first, (size_t)count * sizeof *scales);
        return;
    }
    const uint8_t *codes = matrix->scales.data;
    const float *map = matrix->nested_map.data;
    const float *nested = matrix->nested_scales.data;
    float offset = *(const float *)matrix->nested_offset.data;
    for (int64_t i = 0; i < count; i++) {
        int64_t block = first + i;
        float less_mean = map[codes[block]] * nested[block / MT_NF4_NESTED_BLOCK];
        scales[i] = less_mean + offset;
    }
}

static void nf4_elements(const struct mt_quantised *matrix, int64_t first, int64_t count, float *values)
{
    const uint8_t *codes = matrix->codes.data;
    float scale = 0.0f;
    for (int64_t i = 0; i < count; i++) {
        int64_t element = first + i;
        if (i == 0 || element % MT_NF4_BLOCK == 0) mt_nf4_scales(matrix, element / MT_NF4_BLOCK, 1, &scale);
        unsigned pair = codes[element / 2];
        values[i] = mt_nf4_values[element % 2 == 0 ? pair >> 4 : pair & 15u] * scale;
    }
}

void mt_dequantise_row(const struct mt_quantised *matrix, int64_t row, int64_t first, int64_t count,
                       float *values)
{
    const uint8_t *codes = matrix->codes.data;
    const uint8_t *exponents = matrix->scales.data; // of mxfp4
    const float *scales = matrix->scales.data;      // of fp8 and int8
    int64_t width = matrix->codes.rank == 2 ? matrix->codes.dim[1] : 0;
    codes += row * width;
    switch (matrix->format) {
    case MT_QUANTISED_FP8:
        scales += row / MT_FP8_BLOCK * matrix->scales.dim[1];
        for (int64_t i = first; i < first + count; i++)
            values[i - first] = mt_fp8_to_float(codes[i]) * scales[i / MT_FP8_BLOCK];
        return;
    case MT_QUANTISED_INT8:
        for (int64_t i = first; i < first + count; i++)
            values[i - first] = (float)(int8_t)codes[i] * scales[row];
        return;
    case MT_QUANTISED_NF4: nf4_elements(matrix, row * matrix->in + first, count, values); return;
    case MT_QUANTISED_MXFP4:
        exponents += row * matrix->scales.dim[1];
        for (int64_t i = first; i < first + count; i++) {
            unsigned code = i % 2 == 0 ? codes[i / 2] & 15u : codes[i / 2] >> 4;
            values[i - first] = mt_e2m1_values[code] * mt_e8m0_to_float(exponents[i / MT_MXFP4_BLOCK]);
        }
        return;
    case MT_QUANTISED_FORMATS: break;
    }
    assert(false && "mt_dequantise_row: not a format");
}

#define PIECE 256 // columns

void mt_dequantise(const struct mt_quantised *matrix, enum mt_dtype dtype, void *values)
{
    float piece[PIECE];
    char *target = values;
    for (int64_t row = 0; row < matrix->out; row++) {
        for (int64_t first = 0; first < matrix->in; first += PIECE) {
            int64_t count = matrix->in - first < PIECE ? matrix->in - first : PIECE;
            mt_dequantise_row(matrix, row, first, count, piece);
            mt_convert_from_f32(piece, count, dtype, target);
            target += (size_t)count * mt_dtype_bytes(dtype);
        }
    }
}
