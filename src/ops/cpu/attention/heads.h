/* Rows of tensors [tokens, heads, width]. */
#ifndef MT_OPS_CPU_HEADS_H
#define MT_OPS_CPU_HEADS_H

#include "ops/cpu/level.h"

/* Row (t,h) of a 3-d f32 tensor. */
static inline float *cpu_head_row(const struct mt_tensor *tensor, int64_t t, int64_t h)
{
    return (float *)tensor->data + t * tensor->stride[0] + h * tensor->stride[1];
}

#endif
