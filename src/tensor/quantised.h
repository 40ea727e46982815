/*
 * Quantised matrices on the host: how they are laid out, and the definition of both directions. The formats
 * are in metier/ops_quantised.h; devices read them with the op dequantize.
 *
 *   struct mt_quantised matrix = mt_quantised_shape(MT_QUANTISED_NF4, true, out, in);
 *   ... memory for every tensor of it that is present (mt_quantised_each) ...
 *   mt_quantise(MT_BF16, weights, &matrix)
 *
 * What the codes of a matrix are depends on its numbers alone. Functions look at their arguments alone: any
 * thread may call them.
 */
#ifndef MT_TENSOR_QUANTISED_H
#define MT_TENSOR_QUANTISED_H

#include "metier/ops_quantised.h"
#include "tensor/dtype.h"

/* "fp8", "int8", "nf4", "mxfp4": never NULL. */
const char *mt_quantised_name(enum mt_quantised_format format);

/* A matrix without memory: types and shapes of all its tensors. `nested` is for nf4, and false elsewhere. */
struct mt_quantised mt_quantised_shape(enum mt_quantised_format format, bool nested, int64_t out, int64_t in);

static inline bool mt_quantised_present(const struct mt_quantised *matrix)
{
    return matrix->out != 0;
}

/* Its tensors, for whoever gives them memory; some may be absent. The map, which may be shared, is last. */
#define MT_QUANTISED_TENSORS 5
void mt_quantised_each(struct mt_quantised *matrix, struct mt_tensor *tensors[MT_QUANTISED_TENSORS]);

/* Bytes of codes, scales, nested scales and offset; without the map. */
size_t mt_quantised_bytes(const struct mt_quantised *matrix);

/* bitsandbytes' dynamic map: what nested codes stand for. */
void mt_nf4_nested_map(float map[MT_NF4_NESTED_CODES]);

/*
 * Fills the matrix's tensors from [out,in] numbers of a float type, row after row; nested_map is read, and is
 * mt_nf4_nested_map's. False when a number is not finite: the codes then mean nothing.
 *
 *   fp8    scale = 1 / s, s = 1 / max|x| · 448; code = x · s, rounded to nearest even (as transformers)
 *   int8   scale = max|x| / 127; code = x / scale, rounded to nearest even
 *   nf4    scale = max|x|; code = the nearest of 16 numbers, on bitsandbytes' boundaries. Nested: the scales
 *          less their mean (summed in double), in blocks of 256
 *   mxfp4  scale = 2^(⌊log2 max|x|⌋ - 2), as OCP's MX 1.0 has it; code = x / scale, rounded to nearest even,
 *          at most 6
 */
bool mt_quantise(enum mt_dtype dtype, const void *values, struct mt_quantised *matrix);

/* The same by so many threads; the codes do not depend on how many. */
bool mt_quantise_threaded(enum mt_dtype dtype, const void *values, struct mt_quantised *matrix, int threads);

/* The numbers of columns [first, first+count) of a row: code times scale in f32, not rounded further. */
void mt_dequantise_row(const struct mt_quantised *matrix, int64_t row, int64_t first, int64_t count,
                       float *values);

/* nf4's scales of blocks [first, first+count), nested or not. */
void mt_nf4_scales(const struct mt_quantised *matrix, int64_t first, int64_t count, float *scales);

/* All of it: [out,in], row after row, rounded to a float type once. */
void mt_dequantise(const struct mt_quantised *matrix, enum mt_dtype dtype, void *values);

// ------------------------------------------------------------------ single codes

/* E4M3 without infinities: 1 sign, 4 exponent, 3 mantissa bits, bias 7. 0x7F and 0xFF are NaN. */
static inline float mt_fp8_to_float(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80u) << 24;
    uint32_t magnitude = code & 0x7Fu;
    uint32_t normal = (magnitude << 20) + (120u << 23);
    uint32_t subnormal = mt_float_bits((float)magnitude * 0x1p-9f);
    uint32_t finite = magnitude < 8 ? subnormal : normal;
    return mt_float_from_bits(sign | (magnitude == 0x7Fu ? 0x7FC00000u : finite));
}

/* Rounded to nearest, ties to even; past ±448 it is ±448, NaN stays NaN. */
uint8_t mt_float_to_fp8(float value);

/* E8M0: a power of two; 255 is NaN. */
static inline float mt_e8m0_to_float(uint8_t code)
{
    uint32_t bits = code == 0 ? 0x00400000u : (uint32_t)code << 23;
    return mt_float_from_bits(code == 255 ? 0x7FC00000u : bits);
}

/* What nf4's and mxfp4's 16 codes stand for. */
extern const float mt_nf4_values[16];
extern const float mt_e2m1_values[16];

#endif
