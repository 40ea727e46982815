/* The optional operands that say which tokens count and in which group: mask and segment. */
#ifndef MT_OPS_CHECK_TOKENS_H
#define MT_OPS_CHECK_TOKENS_H

#include "ops/check/check.h"

static inline enum mt_status check_mask(const struct mt_device *device, const struct mt_tensor *mask,
                                        int64_t tokens)
{
    if (!mt_tensor_present(mask)) return MT_OK;
    return mt_check_1d(device, "mask", mask, MT_CHECK_INDEX, tokens);
}

/* Mask and segment of `tokens` tokens in `segments` groups. */
static inline enum mt_status check_tokens(const struct mt_device *device, const struct mt_tensor *mask,
                                          const struct mt_tensor *segment, int64_t tokens, int64_t segments)
{
    enum mt_status status = check_mask(device, mask, tokens);
    if (status != MT_OK || !mt_tensor_present(segment)) return status;
    status = mt_check_1d(device, "segment", segment, MT_CHECK_INDEX, tokens);
    if (status != MT_OK) return status;
    return mt_check_range(device, "segment", segment, 0, segments);
}

/* The statistics' first dimension: free with segments, 1 without. */
static inline int64_t segments_expected(const struct mt_tensor *segment)
{
    return mt_tensor_present(segment) ? MT_ANY : 1;
}

/* Optional statistics, f64: one per segment and expert, and one per segment. */
static inline enum mt_status check_optional_columns(const struct mt_device *device, const char *name,
                                                    const struct mt_tensor *statistic, int64_t segments,
                                                    int64_t experts)
{
    if (!mt_tensor_present(statistic)) return MT_OK;
    return mt_check_2d(device, name, statistic, MT_CHECK_F64, segments, experts);
}

static inline enum mt_status check_optional_scalars(const struct mt_device *device, const char *name,
                                                    const struct mt_tensor *statistic, int64_t segments)
{
    if (!mt_tensor_present(statistic)) return MT_OK;
    return mt_check_1d(device, name, statistic, MT_CHECK_F64, segments);
}

#endif
