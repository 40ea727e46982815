/* Argument checks of rope, and of the tables it shares with mla_key. */
#include "ops/check/rope.h"

enum mt_status mt_check_rotation(const struct mt_device *device, const struct mt_tensor *positions,
                                 const struct mt_tensor *cosine, const struct mt_tensor *sine, int64_t tokens,
                                 int64_t width, enum mt_rope_layout layout)
{
    enum mt_status status =
        mt_check_value(device, width % 2 == 0, "the rotated width", (double)width, "even");
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "positions", positions, MT_CHECK_INDEX, tokens);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "cosine", cosine, MT_CHECK_STAT, MT_ANY, width / 2);
    if (status != MT_OK) return status;
    status = mt_check_2d(device, "sine", sine, MT_CHECK_STAT, cosine->dim[0], width / 2);
    if (status != MT_OK) return status;
    bool known = layout == MT_ROPE_HALF || layout == MT_ROPE_INTERLEAVED;
    status = mt_check_value(device, known, "layout", (double)layout, "half (0) or interleaved (1)");
    if (status != MT_OK) return status;
    return mt_check_range(device, "positions", positions, 0, cosine->dim[0]);
}

enum mt_status mt_check_rope(const struct mt_device *device, const struct mt_rope_args *args)
{
    enum mt_status status = mt_check_3d(device, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    status =
        mt_check_3d(device, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1], args->x.dim[2]);
    if (status != MT_OK) return status;
    return mt_check_rotation(device, &args->positions, &args->cosine, &args->sine, args->x.dim[0],
                             args->x.dim[2], args->layout);
}
