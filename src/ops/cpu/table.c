/* What this level overrides. Ops without a line stay with ref. */
#include "ops/cpu/level.h"

const struct mt_op_impl *MT_CPU(table)(void)
{
    static const struct mt_op_impl table[MT_OP_COUNT] = {
        [MT_OP_embedding_forward] = {MT_CPU(embedding_forward), NULL},
        [MT_OP_embedding_backward] = {MT_CPU(embedding_backward), NULL},
        [MT_OP_rmsnorm_forward] = {MT_CPU(rmsnorm_forward), MT_CPU(rmsnorm_forward_scratch)},
        [MT_OP_rmsnorm_backward] = {MT_CPU(rmsnorm_backward), MT_CPU(rmsnorm_backward_scratch)},
        [MT_OP_layernorm_forward] = {MT_CPU(layernorm_forward), MT_CPU(layernorm_forward_scratch)},
        [MT_OP_layernorm_backward] = {MT_CPU(layernorm_backward), MT_CPU(layernorm_backward_scratch)},
        [MT_OP_swiglu_forward] = {MT_CPU(swiglu_forward), NULL},
        [MT_OP_swiglu_backward] = {MT_CPU(swiglu_backward), NULL},
        [MT_OP_bias_forward] = {MT_CPU(bias_forward), MT_CPU(bias_forward_scratch)},
        [MT_OP_bias_backward] = {MT_CPU(bias_backward), MT_CPU(bias_backward_scratch)},
        [MT_OP_axpby] = {MT_CPU(axpby), NULL},
        [MT_OP_fill] = {MT_CPU(fill), NULL},
        [MT_OP_copy] = {MT_CPU(copy), NULL},
        [MT_OP_clamp_forward] = {MT_CPU(clamp_forward), NULL},
        [MT_OP_clamp_backward] = {MT_CPU(clamp_backward), NULL},
        [MT_OP_random_multiply] = {MT_CPU(random_multiply), NULL},
        [MT_OP_adamw] = {MT_CPU(adamw), NULL},
        [MT_OP_reduce] = {MT_CPU(reduce), MT_CPU(reduce_scratch)},
    };
    return table;
}
