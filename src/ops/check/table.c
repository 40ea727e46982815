/* From an op's number to the check of its arguments. */
#include "ops/check/check.h"

enum mt_status mt_op_check(const struct mt_device *device, enum mt_op op, const void *args)
{
    switch (op) {
#define MT_CHECK_CASE(name)                                                                                  \
    case MT_OP_##name: return mt_check_##name(device, args);
        MT_OP_LIST(MT_CHECK_CASE)
#undef MT_CHECK_CASE
    case MT_OP_COUNT: break;
    }
    return mt_fail(device->ctx, MT_ERR_INTERNAL, "op %d does not exist", (int)op);
}
