/* What a unit for bf16 makes faster: products with weights. The rest of the level is that of the one below.
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
    };
    return table;
}
