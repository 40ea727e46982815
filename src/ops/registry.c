/* Which devices exist in this build: one line each. */
#include "ops/cpu/cpu.h"
#include "ops/device.h"
#include "ops/ref/ref.h"
#ifdef METIER_CUDA
#include "ops/cuda/cuda.h"
#endif

const struct mt_device_kind mt_device_kinds[] = {
    {"ref", mt_ref_init, MT_USE_ASKED},
    {"cpu", mt_cpu_init, MT_USE_ASKED},
#ifdef METIER_CUDA
    {"cuda", mt_cuda_init, MT_USE_EXACT},
    {"cuda-bf16", mt_cuda_bf16_init, MT_USE_FAST},
#endif
    {0},
};
