/* Argument checks of the ops of LoRA pairs. */
#include "ops/check/check.h"

static enum mt_status check_maps(const struct mt_device *device, int maps)
{
    return mt_check_value(device, maps >= 1 && maps <= MT_LORA_MAPS, "maps", maps, "1 to 3");
}

enum mt_status mt_check_lora_low(const struct mt_device *device, const struct mt_lora_low_args *args)
{
    enum mt_status status = check_maps(device, args->maps);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->x.dim[0];
    int64_t columns = args->x.dim[1];
    status = mt_check_mask(device, "mask", &args->mask, args->mask_scale, rows, columns);
    if (status != MT_OK) return status;
    status =
        mt_check_value(device, args->alpha != 0.0f, "alpha", (double)args->alpha, "a factor other than 0");
    if (status != MT_OK) return status;
    status = mt_check_some_offsets(device, &args->offsets, args->experts, rows);
    for (int i = 0; i < args->maps && status == MT_OK; i++) {
        status = mt_check_2d(device, "low", &args->low[i], MT_CHECK_FLOAT, rows, MT_ANY);
        if (status == MT_OK)
            status = mt_check_experts(device, "a", args->a[i], args->experts, MT_CHECK_FLOAT,
                                      args->low[i].dim[1], columns);
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
    enum mt_status status = check_maps(device, args->maps);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->x.dim[0];
    int64_t columns = args->x.dim[1];
    status = mt_check_mask(device, "mask", &args->mask, args->mask_scale, rows, columns);
    if (status != MT_OK) return status;
    status = mt_check_some_offsets(device, &args->offsets, args->experts, rows);
    for (int i = 0; i < args->maps && status == MT_OK; i++) {
        status = mt_check_2d(device, "dlow", &args->dlow[i], MT_CHECK_FLOAT, rows, MT_ANY);
        if (status == MT_OK)
            status = mt_check_experts(device, "da", args->da[i], args->experts, MT_CHECK_STAT,
                                      args->dlow[i].dim[1], columns);
        if (status != MT_OK) return mt_fail_within(device->ctx, status, "map %d", i);
    }
    return status;
}
