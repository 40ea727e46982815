/* Checks that the ops on rows sorted by expert share. */
#include <math.h>
#include <stdio.h>

#include "ops/check/check.h"
#include "ops/dropout.h"

enum mt_status mt_check_experts(const struct mt_device *device, const char *name,
                                const struct mt_tensor *expert, int experts, enum mt_check_type type,
                                int64_t rows, int64_t columns)
{
    enum mt_status status = mt_check_value(device, experts >= 1, "experts", experts, "1 or more");
    if (status != MT_OK) return status;
    if (expert == NULL) return mt_fail(device->ctx, MT_ERR_USAGE, "%s is missing", name);
    for (int e = 0; e < experts; e++) {
        char which[64];
        if (!mt_tensor_present(&expert[e])) continue;
        (void)snprintf(which, sizeof which, "%s[%d]", name, e);
        status = mt_check_2d(device, which, &expert[e], type, rows, columns);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_check_expert_offsets(const struct mt_device *device, const struct mt_tensor *offsets,
                                       int experts, int64_t rows)
{
    enum mt_status status = mt_check_1d(device, "offsets", offsets, MT_CHECK_INDEX, (int64_t)experts + 1);
    if (status != MT_OK) return status;
    return mt_check_offsets(device, "offsets", offsets, rows);
}

enum mt_status mt_check_some_offsets(const struct mt_device *device, const struct mt_tensor *offsets,
                                     int experts, int64_t rows)
{
    if (mt_tensor_present(offsets)) return mt_check_expert_offsets(device, offsets, experts, rows);
    enum mt_status status =
        mt_check_value(device, experts == 1, "experts", experts, "1 where there are no offsets");
    if (status != MT_OK) return status;
    return mt_check_value(device, rows <= INT32_MAX, "the number of rows", (double)rows, "less than 2^31");
}

enum mt_status mt_check_mask(const struct mt_device *device, const char *name, const struct mt_tensor *mask,
                             float scale, int64_t rows, int64_t columns)
{
    if (!mt_tensor_present(mask)) return MT_OK;
    enum mt_status status = mt_check_2d(device, name, mask, MT_CHECK_INDEX, rows, mt_mask_words(columns));
    if (status != MT_OK) return status;
    bool scales = isfinite(scale) && scale != 0.0f;
    return mt_check_value(device, scales, "mask_scale", (double)scale, "a factor other than 0");
}
