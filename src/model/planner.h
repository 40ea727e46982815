/*
 * Memory decided before step one: a layout function names its tensors once and is run twice, first to count,
 * then to place them in one buffer of the device.
 */
#ifndef MT_MODEL_PLANNER_H
#define MT_MODEL_PLANNER_H

#include "base/buffer.h"
#include "metier/device.h"
#include "metier/tensor.h"

struct mt_planner {
    char *base;   // NULL while counting
    size_t bytes; // placed so far
};

/* The next tensor: contiguous, aligned to 64 bytes; its data is NULL while counting. */
struct mt_tensor mt_plan_1d(struct mt_planner *planner, enum mt_dtype dtype, int64_t d0);
struct mt_tensor mt_plan_2d(struct mt_planner *planner, enum mt_dtype dtype, int64_t d0, int64_t d1);
struct mt_tensor mt_plan_3d(struct mt_planner *planner, enum mt_dtype dtype, int64_t d0, int64_t d1,
                            int64_t d2);

#endif
