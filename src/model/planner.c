/* Placing tensors one after the other; the same calls count first and place afterwards. */
#include "model/planner.h"

#include <assert.h>

#define ALIGNMENT 64

/* Where the next tensor goes: NULL while counting. */
static void *place(struct mt_planner *planner, enum mt_dtype dtype, int64_t count)
{
    assert(count >= 0);
    void *data = planner->base != NULL ? planner->base + planner->bytes : NULL;
    size_t bytes = (size_t)count * mt_dtype_bytes(dtype);
    planner->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return data;
}

struct mt_tensor mt_plan_1d(struct mt_planner *planner, enum mt_dtype dtype, int64_t d0)
{
    return mt_tensor_1d(place(planner, dtype, d0), dtype, d0);
}

struct mt_tensor mt_plan_2d(struct mt_planner *planner, enum mt_dtype dtype, int64_t d0, int64_t d1)
{
    return mt_tensor_2d(place(planner, dtype, d0 * d1), dtype, d0, d1);
}

struct mt_tensor mt_plan_3d(struct mt_planner *planner, enum mt_dtype dtype, int64_t d0, int64_t d1,
                            int64_t d2)
{
    return mt_tensor_3d(place(planner, dtype, d0 * d1 * d2), dtype, d0, d1, d2);
}
