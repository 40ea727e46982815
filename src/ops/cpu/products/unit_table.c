/*
 * The table of a level that has products of its own, and for the rest the level below: where a unit for bf16
 * multiplies, products with weights, elsewhere all of them.
 */
#include "ops/cpu/table.h"

#if defined(MT_CPU_TILE_UNIT)
#define OTHER_PRODUCTS(X)
#else
#define OTHER_PRODUCTS(X)                                                                                    \
    X(grouped_gemm_dw) X(lora_xa) X(lora_dxa) X(lora_da) X(attention_forward) X(attention_backward)
#endif
#define PRODUCTS(X) X(gemm) X(grouped_gemm) X(head_gemm) X(grouped_sum) X(cross_entropy) OTHER_PRODUCTS(X)

PRODUCTS(MT_CPU_WRAP)

const struct mt_op_impl *MT_CPU(table)(void)
{
    static const struct mt_op_impl table[MT_OP_COUNT] = {PRODUCTS(MT_CPU_ENTRY)};
    return table;
}
