/* dominance: n² numbers a layer, once a step; ref is fast enough. */
#include "ops/cpu/level.h"

enum mt_status MT_CPU(dominance_forward)(struct mt_device *device, const void *args)
{
    return mt_ref_dominance_forward(device, args);
}

enum mt_status MT_CPU(dominance_backward)(struct mt_device *device, const void *args)
{
    return mt_ref_dominance_backward(device, args);
}
