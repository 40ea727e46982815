/*
 * The CUDA device, a module of its own (ops/module.h), which shows one table. The rest is for its .cu files,
 * which include this header alone. It has every op: nothing falls back to ref, which cannot read device
 * memory.
 */
#ifndef MT_OPS_CUDA_H
#define MT_OPS_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

#include "ops/module.h"

/* What the module shows. */
extern __attribute__((visibility("default"))) const struct mt_device_module mt_device_module_cuda;

// One function per op, in the file of its op. Where it needs scratch, the file has a second one; weak, so
// that it is NULL where it is not there.
#define MT_CUDA_DECLARE(name)                                                                                \
    enum mt_status mt_cuda_##name(struct mt_device *device, const struct mt_##name##_args *args);            \
    __attribute__((weak))                                                                                    \
    size_t mt_cuda_##name##_scratch(const struct mt_device *device, const struct mt_##name##_args *args);
MT_OP_LIST(MT_CUDA_DECLARE)
#undef MT_CUDA_DECLARE

#ifdef __cplusplus
}
#endif

#endif
