/* Argument checks of embedding. */
#include "ops/check/check.h"

void mt_check_embedding_forward(struct mt_check *c, const struct mt_embedding_forward_args *args)
{
    mt_check_2d(c, "table", &args->table, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    mt_check_1d(c, "ids", &args->ids, MT_CHECK_INDEX, MT_ANY);
    mt_check_2d(c, "y", &args->y, MT_CHECK_FLOAT, args->ids.dim[0], args->table.dim[1]);
    mt_check_range(c, "ids", &args->ids, 0, args->table.dim[0]);
}

void mt_check_embedding_backward(struct mt_check *c, const struct mt_embedding_backward_args *args)
{
    mt_check_2d(c, "dtable", &args->dtable, MT_CHECK_STAT, MT_ANY, MT_ANY);
    mt_check_1d(c, "ids", &args->ids, MT_CHECK_INDEX, MT_ANY);
    mt_check_2d(c, "dy", &args->dy, MT_CHECK_FLOAT, args->ids.dim[0], args->dtable.dim[1]);
    mt_check_range(c, "ids", &args->ids, 0, args->dtable.dim[0]);
}
