/* Ops of a few numbers a layer, once a step: ref is fast enough. */
#include "ops/cpu/level.h"

void MT_CPU(dominance_forward)(struct mt_device *device, const struct mt_dominance_forward_args *args)
{
    (void)device;
    mt_ref_dominance_forward(args);
}

void MT_CPU(dominance_backward)(struct mt_device *device, const struct mt_dominance_backward_args *args)
{
    (void)device;
    mt_ref_dominance_backward(args);
}

void MT_CPU(stat_values)(struct mt_device *device, const struct mt_stat_values_args *args)
{
    (void)device;
    mt_ref_stat_values(args);
}
