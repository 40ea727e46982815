/* Argument checks of copy. */
#include "ops/check/check.h"

static void check_placed(struct mt_check *c, const struct mt_copy_args *args, enum mt_check_type type)
{
    mt_check_2d(c, "x", &args->x, type, MT_ANY, MT_ANY);
    mt_check_2d(c, "y", &args->y, type, MT_ANY, args->x.dim[1]);
    mt_check_1d(c, "place", &args->place, MT_CHECK_INDEX, args->x.dim[0]);
    mt_check_range(c, "place", &args->place, 0, args->y.dim[0]);
}

void mt_check_copy(struct mt_check *c, const struct mt_copy_args *args)
{
    bool integers = mt_tensor_present(&args->x) && args->x.dtype == MT_I32;
    enum mt_check_type type = integers ? MT_CHECK_INDEX : MT_CHECK_FLOAT;
    if (mt_tensor_present(&args->place)) {
        check_placed(c, args, type);
        return;
    }
    mt_check_like(c, "x", &args->x, type, NULL);
    mt_check_like(c, "y", &args->y, type, &args->x);
}
