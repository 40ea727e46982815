/* Argument checks of the ops of LoRA pairs. */
#include "ops/check/check.h"

static enum mt_status check_maps(const struct mt_device *device, int maps)
{
    return mt_check_value(device, maps >= 1 && maps <= MT_LORA_MAPS, "maps", maps, "1 to 3");
}

/* An input and what is dropped of it, sorted by expert, for so many maps. */
static enum mt_status check_input(const struct mt_device *device, const struct mt_tensor *x,
                                  const struct mt_tensor *mask, float mask_scale, int maps, int experts,
                                  const struct mt_tensor *offsets)
{
    enum mt_status status = check_maps(device, maps);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "x", x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_mask(device, "mask", mask, mask_scale, x->dim[0], x->dim[1]);
    if (status != MT_OK) return status;
    return mt_check_some_offsets(device, offsets, experts, x->dim[0]);
}

/* A map's middle and its A, or their gradients, beside x. */
static enum mt_status check_map(const struct mt_device *device, const struct mt_tensor *x,
                                const char *middle_name, const struct mt_tensor *middle,
                                const char *matrix_name, const struct mt_tensor *matrix, int experts,
                                enum mt_check_type type)
{
    enum mt_status status = mt_check_2d(device, middle_name, middle, MT_CHECK_FLOAT, x->dim[0], MT_ANY);
    if (status != MT_OK) return status;
    return mt_check_experts(device, matrix_name, matrix, experts, type, middle->dim[1], x->dim[1]);
}

enum mt_status mt_check_lora_low(const struct mt_device *device, const struct mt_lora_low_args *args)
{
    enum mt_status status = check_input(device, &args->x, &args->mask, args->mask_scale, args->maps,
                                        args->experts, &args->offsets);
    if (status != MT_OK) return status;
    status =
        mt_check_value(device, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
    if (status == MT_OK && args->exact && mt_tensor_present(&args->offsets))
        return mt_fail(device->ctx, MT_ERR_USAGE, "an exact lora_low takes no offsets");
    for (int i = 0; i < args->maps && status == MT_OK; i++) {
        status =
            check_map(device, &args->x, "low", &args->low[i], "a", args->a[i], args->experts, MT_CHECK_FLOAT);
        if (status != MT_OK) return mt_fail_within(device->ctx, status, "map %d", i);
    }
    return status;
}

static enum mt_status check_pair(const struct mt_device *device, const struct mt_lora_pair_gradient *map,
                                 int experts, int64_t rows)
{
    enum mt_status status = mt_check_2d(device, "dy", &map->dy, MT_CHECK_FLOAT, rows, MT_ANY);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dlow", &map->dlow, MT_CHECK_FLOAT, rows, MT_ANY);
    if (status != MT_OK) return status;
    int64_t out = map->dy.dim[1];
    int64_t rank = map->dlow.dim[1];
    status = mt_check_experts(device, "b", map->b, experts, MT_CHECK_FLOAT, out, rank);
    if (status != MT_OK) return status;
    status = mt_check_value(device, map->scale != 0.0f, "scale", (double)map->scale, "a factor other than 0");
    if (status != MT_OK || map->db == NULL) return status;
    status = mt_check_value(device, map->db_scale != 0.0f, "db_scale", (double)map->db_scale,
                            "a factor other than 0");
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "low", &map->low, MT_CHECK_FLOAT, rows, rank);
    if (status != MT_OK) return status;
    return mt_check_experts(device, "db", map->db, experts, MT_CHECK_STAT, out, rank);
}

enum mt_status mt_check_lora_dlow(const struct mt_device *device, const struct mt_lora_dlow_args *args)
{
    enum mt_status status = check_maps(device, args->maps);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "dlow", &args->map[0].dlow, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->map[0].dlow.dim[0];
    status = mt_check_some_offsets(device, &args->offsets, args->experts, rows);
    for (int i = 0; i < args->maps && status == MT_OK; i++) {
        status = check_pair(device, &args->map[i], args->experts, rows);
        if (status != MT_OK) return mt_fail_within(device->ctx, status, "map %d", i);
    }
    return status;
}

enum mt_status mt_check_lora_da(const struct mt_device *device, const struct mt_lora_da_args *args)
{
    enum mt_status status = check_input(device, &args->x, &args->mask, args->mask_scale, args->maps,
                                        args->experts, &args->offsets);
    for (int i = 0; i < args->maps && status == MT_OK; i++) {
        status = check_map(device, &args->x, "dlow", &args->dlow[i], "da", args->da[i], args->experts,
                           MT_CHECK_STAT);
        if (status != MT_OK) return mt_fail_within(device->ctx, status, "map %d", i);
    }
    return status;
}
