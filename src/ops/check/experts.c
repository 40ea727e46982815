/* Checks that the ops on rows sorted by expert share. */
#include <math.h>
#include <stdio.h>

#include "ops/check/check.h"
#include "ops/dropout.h"

void mt_check_experts(struct mt_check *c, const char *name, const struct mt_tensor *expert, int experts,
                      enum mt_check_type type, int64_t rows, int64_t columns)
{
    mt_check_value(c, experts >= 1, "experts", experts, "1 or more");
    if (c->status == MT_OK && expert == NULL)
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s is missing", name);
    for (int e = 0; e < experts && c->status == MT_OK; e++) {
        char which[64];
        if (!mt_tensor_present(&expert[e])) continue;
        (void)snprintf(which, sizeof which, "%s[%d]", name, e);
        mt_check_2d(c, which, &expert[e], type, rows, columns);
    }
}

void mt_check_expert_offsets(struct mt_check *c, const struct mt_tensor *offsets, int experts, int64_t rows)
{
    mt_check_1d(c, "offsets", offsets, MT_CHECK_INDEX, (int64_t)experts + 1);
    mt_check_offsets(c, "offsets", offsets, rows);
}

void mt_check_some_offsets(struct mt_check *c, const struct mt_tensor *offsets, int experts, int64_t rows)
{
    if (mt_tensor_present(offsets)) {
        mt_check_expert_offsets(c, offsets, experts, rows);
        return;
    }
    mt_check_value(c, experts == 1, "experts", experts, "1 where there are no offsets");
    mt_check_value(c, rows <= INT32_MAX, "the number of rows", (double)rows, "less than 2^31");
}

void mt_check_mask(struct mt_check *c, const char *name, const struct mt_tensor *mask, float scale,
                   int64_t rows, int64_t columns)
{
    if (!mt_tensor_present(mask)) return;
    mt_check_2d(c, name, mask, MT_CHECK_INDEX, rows, mt_mask_words(columns));
    bool scales = isfinite(scale) && scale != 0.0f;
    mt_check_value(c, scales, "mask_scale", (double)scale, "a factor other than 0");
}
