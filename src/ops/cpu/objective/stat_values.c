/* stat_values: a few hundred numbers. */
#include "ops/cpu/level.h"

enum mt_status MT_CPU(stat_values)(struct mt_device *device, const void *args)
{
    return mt_ref_stat_values(device, args);
}
