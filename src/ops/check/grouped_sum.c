/* Argument checks of grouped_sum. */
#include <stdio.h>

#include "ops/check/check.h"

static enum mt_status check_term(const struct mt_device *device, const struct mt_product_term *term,
                                 int experts, int64_t rows, int64_t columns)
{
    enum mt_status status = mt_check_2d(device, "x", &term->x, MT_CHECK_FLOAT, rows, MT_ANY);
    if (status != MT_OK) return status;
    int64_t inner = term->x.dim[1];
    status =
        mt_check_experts(device, "weight", term->weight, experts, MT_CHECK_FLOAT,
                         term->transpose_weight ? columns : inner, term->transpose_weight ? inner : columns);
    if (status != MT_OK) return status;
    status = mt_check_mask(device, "mask_y", &term->mask_y, term->mask_scale, rows, columns);
    if (status != MT_OK) return status;
    return mt_check_value(device, term->alpha != 0.0f, "alpha", (double)term->alpha, "a factor other than 0");
}

enum mt_status mt_check_grouped_sum(const struct mt_device *device, const struct mt_grouped_sum_args *args)
{
    bool some = args->count >= 1 && args->count <= MT_MAX_TERMS;
    enum mt_status status = mt_check_value(device, some, "count", args->count, "1 to 6 terms");
    if (status != MT_OK) return status;
    if (args->terms == NULL) return mt_fail(device->ctx, MT_ERR_USAGE, "terms are missing");
    status = mt_check_2d(device, "y", &args->y, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->y.dim[0];
    status = mt_check_some_offsets(device, &args->offsets, args->experts, rows);
    if (status != MT_OK) return status;
    for (int t = 0; t < args->count; t++) {
        status = check_term(device, &args->terms[t], args->experts, rows, args->y.dim[1]);
        if (status != MT_OK) return mt_fail_within(device->ctx, status, "term %d", t);
    }
    return MT_OK;
}
