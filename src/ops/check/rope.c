/* Argument checks of rope, and of the tables it shares with mla_key. */
#include "ops/check/check.h"

void mt_check_rotation(struct mt_check *c, const struct mt_tensor *positions, const struct mt_tensor *cosine,
                       const struct mt_tensor *sine, int64_t tokens, int64_t width,
                       enum mt_rope_layout layout)
{
    mt_check_value(c, width % 2 == 0, "the rotated width", (double)width, "even");
    mt_check_1d(c, "positions", positions, MT_CHECK_INDEX, tokens);
    mt_check_2d(c, "cosine", cosine, MT_CHECK_STAT, MT_ANY, width / 2);
    mt_check_2d(c, "sine", sine, MT_CHECK_STAT, cosine->dim[0], width / 2);
    bool known = layout == MT_ROPE_HALF || layout == MT_ROPE_INTERLEAVED;
    mt_check_value(c, known, "layout", (double)layout, "half (0) or interleaved (1)");
    mt_check_range(c, "positions", positions, 0, cosine->dim[0]);
}

void mt_check_rope(struct mt_check *c, const struct mt_rope_args *args)
{
    mt_check_3d(c, "x", &args->x, MT_CHECK_FLOAT, MT_ANY, MT_ANY, MT_ANY);
    mt_check_3d(c, "y", &args->y, MT_CHECK_FLOAT, args->x.dim[0], args->x.dim[1], args->x.dim[2]);
    mt_check_rotation(c, &args->positions, &args->cosine, &args->sine, args->x.dim[0], args->x.dim[2],
                      args->layout);
}
