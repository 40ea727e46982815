/*
 * The table of a level that has products of its own, and for the rest the level below: where a unit for bf16
 * multiplies, products with weights, elsewhere all of them.
 */
#include "ops/cpu/level.h"

const struct mt_op_impl *MT_CPU(table)(void)
{
    static const struct mt_op_impl table[MT_OP_COUNT] = {
        // op = {run, scratch, fits}
        [MT_OP_gemm] = {MT_CPU(gemm), MT_CPU(gemm_scratch), MT_CPU(gemm_fits)},
        [MT_OP_grouped_gemm] = {MT_CPU(grouped_gemm), MT_CPU(grouped_gemm_scratch),
                                MT_CPU(grouped_gemm_fits)},
        [MT_OP_head_gemm] = {MT_CPU(head_gemm), MT_CPU(head_gemm_scratch), MT_CPU(head_gemm_fits)},
        [MT_OP_grouped_sum] = {MT_CPU(grouped_sum), MT_CPU(grouped_sum_scratch), MT_CPU(grouped_sum_fits)},
        [MT_OP_cross_entropy] = {MT_CPU(cross_entropy), MT_CPU(cross_entropy_scratch),
                                 MT_CPU(cross_entropy_fits)},
#if !defined(MT_CPU_TILE_UNIT)
        [MT_OP_grouped_gemm_dw] = {MT_CPU(grouped_gemm_dw), MT_CPU(grouped_gemm_dw_scratch),
                                   MT_CPU(grouped_gemm_dw_fits)},
        [MT_OP_lora_xa] = {MT_CPU(lora_xa), MT_CPU(lora_xa_scratch), MT_CPU(lora_xa_fits)},
        [MT_OP_lora_dxa] = {MT_CPU(lora_dxa), MT_CPU(lora_dxa_scratch), MT_CPU(lora_dxa_fits)},
        [MT_OP_lora_da] = {MT_CPU(lora_da), MT_CPU(lora_da_scratch), MT_CPU(lora_da_fits)},
        [MT_OP_attention_forward] = {MT_CPU(attention_forward), MT_CPU(attention_forward_scratch), NULL},
        [MT_OP_attention_backward] = {MT_CPU(attention_backward), MT_CPU(attention_backward_scratch), NULL},
#endif
    };
    return table;
}
