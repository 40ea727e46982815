/*
 * Matrices stored in 8 and 4 bits, and the op that reads them; part of metier/ops.h, whose rules hold here.
 *
 * A matrix [out,in] is codes and scales: an element is the number its code stands for times the scale of its
 * block, multiplied in f32. What codes and scales each format has:
 *
 *   fp8    codes u8 [out,in], E4M3; scales f32 [ceil(out/128),ceil(in/128)]: a block is 128 × 128
 *   int8   codes u8 [out,in], two's complement, -127 .. 127; scales f32 [out]: a block is a row
 *   nf4    codes u8 [ceil(out·in/2)], the high four bits first; scales f32 [B], or u8 [B] (see below), B =
 *          ceil(out·in/64): blocks and bytes follow the elements row after row, past the ends of rows
 *   mxfp4  codes u8 [out,16·ceil(in/32)], E2M1, the low four bits first; scales u8 [out,ceil(in/32)], E8M0,
 *          2^(code - 127): a block is 32 elements of a row, the last one filled up with zeros
 *
 * nf4's scales may be quantised themselves: scale[b] = nested_map[scales[b]] · nested_scales[b / 256] +
 * nested_offset[0], each operation rounded to f32. DeepSeek-V3 is published in this fp8 (its weight_scale_inv
 * are these scales), gpt-oss in this mxfp4; nf4 is bitsandbytes'.
 */
#ifndef METIER_OPS_QUANTISED_H
#define METIER_OPS_QUANTISED_H

#include "metier/export.h"
#include "metier/tensor.h"

MT_PUBLIC_BEGIN

#define MT_FP8_BLOCK        128 // rows, and columns
#define MT_NF4_BLOCK        64  // elements
#define MT_NF4_NESTED_BLOCK 256 // scales
#define MT_NF4_NESTED_CODES 256
#define MT_MXFP4_BLOCK      32 // columns

enum mt_quantised_format {
    MT_QUANTISED_FP8,
    MT_QUANTISED_INT8,
    MT_QUANTISED_NF4,
    MT_QUANTISED_MXFP4,
    MT_QUANTISED_FORMATS
};

/* One matrix. Everything is contiguous, and borrowed. */
struct mt_quantised {
    enum mt_quantised_format format;
    int64_t out, in;         // 0: absent
    struct mt_tensor codes;  // as in the list above
    struct mt_tensor scales; // likewise
    // nf4 whose scales are u8; otherwise absent
    struct mt_tensor nested_scales; // f32 [ceil(B/256)]
    struct mt_tensor nested_map;    // f32 [256], bitsandbytes' dynamic map; matrices may share one
    struct mt_tensor nested_offset; // f32 [1]
};

/*
 * y_e = the numbers matrix e stands for, computed in f32 and rounded to bf16 once: the same bits on every
 * device. With offsets, matrices of experts without rows (offsets[e] = offsets[e+1]) are skipped: their y
 * holds what it held.
 */
struct mt_dequantize_args {
    const struct mt_quantised *stored; // n matrices of one format and shape, borrowed; or absent, then y_e is
    const struct mt_tensor *y;         // n views, borrowed: each bf16 [out,in], contiguous; or absent
    int experts;                       // n
    struct mt_tensor offsets;          // i32 [n+1], as in grouped_gemm; absent: all matrices are read
};

MT_PUBLIC_END

#endif
