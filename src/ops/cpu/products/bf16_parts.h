/*
 * f32 numbers for units that multiply bf16: a number is the sum of three of bf16, 8 bits each, all 24 of its
 * own. Each part is rounded to nearest, so that the next is at most 2^-8 of it and of either sign.
 */
#ifndef MT_OPS_CPU_BF16_PARTS_H
#define MT_OPS_CPU_BF16_PARTS_H

#include "metier/tensor.h"
#include "ops/cpu/vector.h"

#define MOST_PARTS  3
#define HIGH_HALVES 0xFFFF0000u

/* Parts of a number: f32 needs three. */
static inline int parts_of(enum mt_dtype dtype)
{
    return dtype == MT_F32 ? MOST_PARTS : 1;
}

/*
 * The parts of a vector of floats, largest first, each in the high half of its lane. inf and NaN stay what
 * they are; the largest floats are cut off instead of rounded, which would make them inf.
 */
VECTOR_INLINE void split_parts(vector_f32 x, vector_u32 part[MOST_PARTS])
{
    vector_u32 bits = (vector_u32)x;
    vector_u32 rounds = (vector_u32)((bits & 0x7FFFFFFFu) < 0x7F7F8000u);
    part[0] = (bits + (rounds & 0x8000u)) & HIGH_HALVES;
    vector_u32 differs = (vector_u32)(x != (vector_f32)part[0]); // inf - inf would be NaN
    vector_f32 rest = (vector_f32)((vector_u32)(x - (vector_f32)part[0]) & differs);
    part[1] = ((vector_u32)rest + 0x8000u) & HIGH_HALVES;
    part[2] = (vector_u32)(rest - (vector_f32)part[1]) & HIGH_HALVES;
}

#endif
