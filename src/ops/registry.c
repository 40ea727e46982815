/* Which devices exist in this build: one line each. */
#include "ops/cpu/cpu.h"
#include "ops/device.h"
#include "ops/ref/ref.h"

const struct mt_device_kind mt_device_kinds[] = {
    {"ref", mt_ref_init},
    {"cpu", mt_cpu_init},
    {0},
};
