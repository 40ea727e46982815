/* Argument checks of embedding. */
#include "ops/check/check.h"

enum mt_status mt_check_embedding_forward(const struct mt_device *device,
                                          const struct mt_embedding_forward_args *args)
{
    enum mt_status status = mt_check_2d(device, "table", &args->table, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "ids", &args->ids, MT_CHECK_INDEX, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, args->ids.dim[0], args->table.dim[1]);
    if (status != MT_OK) return status;
    return mt_check_range(device, "ids", &args->ids, 0, args->table.dim[0]);
}

enum mt_status mt_check_embedding_backward(const struct mt_device *device,
                                           const struct mt_embedding_backward_args *args)
{
    enum mt_status status = mt_check_2d(device, "dtable", &args->dtable, MT_CHECK_STAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "ids", &args->ids, MT_CHECK_INDEX, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dy", &args->dy, MT_CHECK_FLOAT, args->ids.dim[0], args->dtable.dim[1]);
    if (status != MT_OK) return status;
    return mt_check_range(device, "ids", &args->ids, 0, args->dtable.dim[0]);
}
