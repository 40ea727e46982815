/* From an op's kernel to its entry in a level's table. */
#ifndef MT_OPS_CPU_TABLE_H
#define MT_OPS_CPU_TABLE_H

#include "ops/check/check.h"
#include "ops/cpu/level.h"

#define MT_CPU_WRAP(name)                                                                                    \
    static enum mt_status run_##name(struct mt_device *device, const void *args)                             \
    {                                                                                                        \
        MT_CPU(name)(device, args);                                                                          \
        return MT_OK;                                                                                        \
    }                                                                                                        \
    static size_t scratch_##name(const struct mt_device *device, const void *args)                           \
    {                                                                                                        \
        return MT_CPU(name##_scratch) == NULL ? 0 : MT_CPU(name##_scratch)(device, args);                    \
    }                                                                                                        \
    static bool fits_##name(const struct mt_device *device, const void *args)                                \
    {                                                                                                        \
        (void)device;                                                                                        \
        return MT_CPU(name##_fits) == NULL ? mt_op_is_f32(MT_OP_##name, args) : MT_CPU(name##_fits)(args);   \
    }

#define MT_CPU_ENTRY(name) [MT_OP_##name] = {run_##name, scratch_##name, fits_##name},

#endif
