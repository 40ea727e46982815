/* Argument checks of grouped_sum. */
#include <stdio.h>

#include "ops/check/check.h"

static void check_term(struct mt_check *c, const struct mt_product_term *term, int experts, int64_t rows,
                       int64_t columns)
{
    mt_check_2d(c, "x", &term->x, MT_CHECK_FLOAT, rows, MT_ANY);
    int64_t inner = term->x.dim[1];
    mt_check_experts(c, "weight", term->weight, experts, MT_CHECK_FLOAT,
                     term->transpose_weight ? columns : inner, term->transpose_weight ? inner : columns);
    mt_check_mask(c, "mask_y", &term->mask_y, term->mask_scale, rows, columns);
    mt_check_value(c, term->alpha != 0.0f, "alpha", (double)term->alpha, "a factor other than 0");
}

void mt_check_grouped_sum(struct mt_check *c, const struct mt_grouped_sum_args *args)
{
    bool some = args->count >= 1 && args->count <= MT_MAX_TERMS;
    mt_check_value(c, some, "count", args->count, "1 to 6 terms");
    if (c->status == MT_OK && args->terms == NULL)
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "terms are missing");
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->y.dim[0];
    mt_check_some_offsets(c, &args->offsets, args->experts, rows);
    for (int t = 0; t < args->count && c->status == MT_OK; t++) {
        check_term(c, &args->terms[t], args->experts, rows, args->y.dim[1]);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "term %d", t);
    }
}
