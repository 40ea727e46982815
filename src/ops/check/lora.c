/* Argument checks of the ops of LoRA pairs. */
#include "ops/check/check.h"

static void check_linears(struct mt_check *c, int linears)
{
    mt_check_value(c, linears >= 1 && linears <= MT_LORA_LINEARS, "linears", linears, "1 to 3");
}

/* An input and what is dropped of it, sorted by expert, for so many linears. */
static void check_input(struct mt_check *c, const struct mt_tensor *x, const struct mt_tensor *mask,
                        float mask_scale, int linears, int experts, const struct mt_tensor *offsets)
{
    check_linears(c, linears);
    mt_check_2d(c, "x", x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_mask(c, "mask", mask, mask_scale, x->dim[0], x->dim[1]);
    mt_check_some_offsets(c, offsets, experts, x->dim[0]);
}

/* A linear's middle and its A, or their gradients, beside x. */
static void check_linear(struct mt_check *c, const struct mt_tensor *x, const char *middle_name,
                         const struct mt_tensor *middle, const char *matrix_name,
                         const struct mt_tensor *matrix, int experts, enum mt_check_type type)
{
    mt_check_2d(c, middle_name, middle, MT_CHECK_FLOAT, x->dim[0], MT_ANY);
    mt_check_experts(c, matrix_name, matrix, experts, type, middle->dim[1], x->dim[1]);
}

void mt_check_lora_xa(struct mt_check *c, const struct mt_lora_xa_args *args)
{
    check_input(c, &args->x, &args->mask, args->mask_scale, args->linears, args->experts, &args->offsets);
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
    if (c->status == MT_OK && args->exact && mt_tensor_present(&args->offsets))
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "an exact lora_xa takes no offsets");
    for (int i = 0; i < args->linears && c->status == MT_OK; i++) {
        check_linear(c, &args->x, "xa", &args->xa[i], "a", args->a[i], args->experts, MT_CHECK_FLOAT);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "linear %d", i);
    }
}

static void check_pair(struct mt_check *c, const struct mt_lora_pair_gradient *linear, int experts,
                       int64_t rows)
{
    mt_check_2d(c, "dy", &linear->dy, MT_CHECK_FLOAT, rows, MT_ANY);
    mt_check_2d(c, "dxa", &linear->dxa, MT_CHECK_FLOAT, rows, MT_ANY);
    int64_t out = linear->dy.dim[1];
    int64_t rank = linear->dxa.dim[1];
    mt_check_experts(c, "b", linear->b, experts, MT_CHECK_FLOAT, out, rank);
    mt_check_value(c, linear->scale != 0.0f, "scale", (double)linear->scale, "a factor other than 0");
    if (linear->db == NULL) return;
    mt_check_value(c, linear->db_scale != 0.0f, "db_scale", (double)linear->db_scale,
                   "a factor other than 0");
    mt_check_2d(c, "xa", &linear->xa, MT_CHECK_FLOAT, rows, rank);
    mt_check_experts(c, "db", linear->db, experts, MT_CHECK_STAT, out, rank);
}

void mt_check_lora_dxa(struct mt_check *c, const struct mt_lora_dxa_args *args)
{
    check_linears(c, args->linears);
    mt_check_2d(c, "dxa", &args->linear[0].dxa, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->linear[0].dxa.dim[0];
    mt_check_some_offsets(c, &args->offsets, args->experts, rows);
    for (int i = 0; i < args->linears && c->status == MT_OK; i++) {
        check_pair(c, &args->linear[i], args->experts, rows);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "linear %d", i);
    }
}

void mt_check_lora_da(struct mt_check *c, const struct mt_lora_da_args *args)
{
    check_input(c, &args->x, &args->mask, args->mask_scale, args->linears, args->experts, &args->offsets);
    for (int i = 0; i < args->linears && c->status == MT_OK; i++) {
        check_linear(c, &args->x, "dxa", &args->dxa[i], "da", args->da[i], args->experts, MT_CHECK_STAT);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "linear %d", i);
    }
}
