/* The kernels of this level. */
#include "ops/cpu/table.h"

MT_OP_LIST(MT_CPU_WRAP)

const struct mt_op_impl *MT_CPU(table)(void)
{
    static const struct mt_op_impl table[MT_OP_COUNT] = {MT_OP_LIST(MT_CPU_ENTRY)};
    return table;
}
