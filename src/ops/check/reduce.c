/* Argument checks of reduce. */
#include "ops/check/check.h"

enum mt_status mt_check_reduce(const struct mt_device *device, const struct mt_reduce_args *args)
{
    enum mt_status status = mt_check_like(device, "x", &args->x, MT_CHECK_FLOAT, NULL);
    if (status != MT_OK) return status;
    if (args->x.rank > 2) {
        return mt_fail(device->ctx, MT_ERR_SHAPE, "x has %d dimensions, expected 1 or 2", args->x.rank);
    }
    status = mt_check_1d(device, "out", &args->out, MT_CHECK_F64, 1);
    if (status != MT_OK) return status;
    bool known = (unsigned)args->kind <= MT_REDUCE_NONFINITE;
    return mt_check_value(device, known, "kind", (double)args->kind,
                          "sum, sum of squares, max abs or nonfinite");
}
