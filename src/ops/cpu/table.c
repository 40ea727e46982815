/* The kernels of this level, one for every op. */
#include "ops/cpu/level.h"

const struct mt_op_impl *MT_CPU(table)(void)
{
    static const struct mt_op_impl table[MT_OP_COUNT] = {
#define MT_CPU_ENTRY(name) [MT_OP_##name] = {MT_CPU(name), MT_CPU(name##_scratch), MT_CPU(name##_fits)},
        MT_OP_LIST(MT_CPU_ENTRY)
#undef MT_CPU_ENTRY
    };
    return table;
}
