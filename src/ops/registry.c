/* Which devices exist: one line each. */
#include "ops/cpu/cpu.h"
#include "ops/device.h"
#include "ops/module.h"
#include "ops/ref/ref.h"

const struct mt_device_kind mt_device_kinds[] = {
    {"ref", mt_ref_init, MT_USE_ASKED, false, NULL},
    {"cpu", mt_cpu_init, MT_USE_ASKED, false, NULL},
    {"cuda", mt_cuda_module_init, MT_USE_EXACT, true, mt_cuda_module_is_there},
    {"cuda-bf16", mt_cuda_module_init, MT_USE_FAST, true, mt_cuda_module_is_there},
    {0},
};
