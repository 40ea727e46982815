/* Argument checks of the ops of LoRA pairs. */
#include "ops/check/check.h"

static void check_maps(struct mt_check *c, int maps)
{
    mt_check_value(c, maps >= 1 && maps <= MT_LORA_MAPS, "maps", maps, "1 to 3");
}

/* An input and what is dropped of it, sorted by expert, for so many maps. */
static void check_input(struct mt_check *c, const struct mt_tensor *x, const struct mt_tensor *mask,
                        float mask_scale, int maps, int experts, const struct mt_tensor *offsets)
{
    check_maps(c, maps);
    mt_check_2d(c, "x", x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_mask(c, "mask", mask, mask_scale, x->dim[0], x->dim[1]);
    mt_check_some_offsets(c, offsets, experts, x->dim[0]);
}

/* A map's middle and its A, or their gradients, beside x. */
static void check_map(struct mt_check *c, const struct mt_tensor *x, const char *middle_name,
                      const struct mt_tensor *middle, const char *matrix_name, const struct mt_tensor *matrix,
                      int experts, enum mt_check_type type)
{
    mt_check_2d(c, middle_name, middle, MT_CHECK_FLOAT, x->dim[0], MT_ANY);
    mt_check_experts(c, matrix_name, matrix, experts, type, middle->dim[1], x->dim[1]);
}

void mt_check_lora_low(struct mt_check *c, const struct mt_lora_low_args *args)
{
    check_input(c, &args->x, &args->mask, args->mask_scale, args->maps, args->experts, &args->offsets);
    mt_check_value(c, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
    if (c->status == MT_OK && args->exact && mt_tensor_present(&args->offsets))
        c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "an exact lora_low takes no offsets");
    for (int i = 0; i < args->maps && c->status == MT_OK; i++) {
        check_map(c, &args->x, "low", &args->low[i], "a", args->a[i], args->experts, MT_CHECK_FLOAT);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "map %d", i);
    }
}

static void check_pair(struct mt_check *c, const struct mt_lora_pair_gradient *map, int experts, int64_t rows)
{
    mt_check_2d(c, "dy", &map->dy, MT_CHECK_FLOAT, rows, MT_ANY);
    mt_check_2d(c, "dlow", &map->dlow, MT_CHECK_FLOAT, rows, MT_ANY);
    int64_t out = map->dy.dim[1];
    int64_t rank = map->dlow.dim[1];
    mt_check_experts(c, "b", map->b, experts, MT_CHECK_FLOAT, out, rank);
    mt_check_value(c, map->scale != 0.0f, "scale", (double)map->scale, "a factor other than 0");
    if (map->db == NULL) return;
    mt_check_value(c, map->db_scale != 0.0f, "db_scale", (double)map->db_scale, "a factor other than 0");
    mt_check_2d(c, "low", &map->low, MT_CHECK_FLOAT, rows, rank);
    mt_check_experts(c, "db", map->db, experts, MT_CHECK_STAT, out, rank);
}

void mt_check_lora_dlow(struct mt_check *c, const struct mt_lora_dlow_args *args)
{
    check_maps(c, args->maps);
    mt_check_2d(c, "dlow", &args->map[0].dlow, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->map[0].dlow.dim[0];
    mt_check_some_offsets(c, &args->offsets, args->experts, rows);
    for (int i = 0; i < args->maps && c->status == MT_OK; i++) {
        check_pair(c, &args->map[i], args->experts, rows);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "map %d", i);
    }
}

void mt_check_lora_da(struct mt_check *c, const struct mt_lora_da_args *args)
{
    check_input(c, &args->x, &args->mask, args->mask_scale, args->maps, args->experts, &args->offsets);
    for (int i = 0; i < args->maps && c->status == MT_OK; i++) {
        check_map(c, &args->x, "dlow", &args->dlow[i], "da", args->da[i], args->experts, MT_CHECK_STAT);
        if (c->status != MT_OK) c->status = mt_fail_within(c->device->ctx, c->status, "map %d", i);
    }
}
