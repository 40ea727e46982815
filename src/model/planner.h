/*
 * Memory decided before step one: a layout function names its tensors once and is run twice, first to count,
 * then to place them in one buffer of the device.
 */
#ifndef MT_MODEL_PLANNER_H
#define MT_MODEL_PLANNER_H

#include "metier/buffer.h"
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

// ------------------------------------------------------------------ regions

/* What is computed again in backward instead of being kept; gradients are the same, bit for bit. */
enum mt_recompute {
    MT_RECOMPUTE_NONE, // everything backward needs is kept
    MT_RECOMPUTE_MOE,  // the experts' activations are made again in backward
    MT_RECOMPUTE_FULL, // only each layer's input and routing record are kept
};

/*
 * Where the tensors of a pass lie, by how long they live. A layout function takes them from the region that
 * fits; it is run once to count and then, with memory behind the regions, for every batch.
 */
struct mt_regions {
    struct mt_planner index;  // i32 tensors; zeroed once, so that a planning run finds legal indices in them
    struct mt_planner kept;   // from forward to backward: every layer has its own
    struct mt_planner shared; // from a layer's forward to the next layer's: layers take turns
    struct mt_planner work;   // within one forward or backward of one layer
    size_t shared_bytes;      // the most any layer took
    size_t work_bytes;        // the most any layer took
};

/* Remembers the size of a layer's share and gives the memory to the next layer. */
static inline void mt_regions_next_layer(struct mt_regions *regions)
{
    if (regions->shared.bytes > regions->shared_bytes) regions->shared_bytes = regions->shared.bytes;
    regions->shared.bytes = 0;
}

/* Work memory is free again from `start` on; remembers how much was used. */
static inline void mt_regions_rewind_work(struct mt_regions *regions, size_t start)
{
    if (regions->work.bytes > regions->work_bytes) regions->work_bytes = regions->work.bytes;
    regions->work.bytes = start;
}

#endif
