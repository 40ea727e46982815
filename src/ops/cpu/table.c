/* What this level overrides. Ops without a line stay with ref. */
#include "ops/cpu/level.h"

const struct mt_op_impl *MT_CPU(table)(void)
{
    static const struct mt_op_impl table[MT_OP_COUNT] = {
        [MT_OP_rmsnorm_forward] = {MT_CPU(rmsnorm_forward), MT_CPU(rmsnorm_forward_scratch)},
        [MT_OP_rmsnorm_backward] = {MT_CPU(rmsnorm_backward), MT_CPU(rmsnorm_backward_scratch)},
        [MT_OP_rope] = {MT_CPU(rope), MT_CPU(rope_scratch)},
        [MT_OP_mla_key_forward] = {MT_CPU(mla_key_forward), MT_CPU(mla_key_forward_scratch)},
        [MT_OP_mla_key_backward] = {MT_CPU(mla_key_backward), MT_CPU(mla_key_backward_scratch)},
        [MT_OP_attention_forward] = {MT_CPU(attention_forward), MT_CPU(attention_forward_scratch)},
        [MT_OP_attention_backward] = {MT_CPU(attention_backward), MT_CPU(attention_backward_scratch)},
    };
    return table;
}
