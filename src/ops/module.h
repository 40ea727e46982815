/*
 * Devices in a module, a file of its own beside the program or the library: one build serves machines with a
 * GPU and without, and neither needs CUDA to start. The module is loaded when the first such device is
 * created, and stays until the process ends.
 */
#ifndef MT_OPS_MODULE_H
#define MT_OPS_MODULE_H

#include "ops/device.h"

/* Whether the CUDA module lies where it is looked for. That it can be used is seen when it is. */
bool mt_cuda_module_is_there(void);

/* Loads the module and lets it fill in the device that device->name says. */
enum mt_status mt_cuda_module_init(struct mt_device *device, int threads);

/* What a module shows under the name MT_DEVICE_MODULE_SYMBOL. */
struct mt_device_module {
    int version[3];         // MT_VERSION_MAJOR, MINOR and PATCH
    int ops;                // MT_OP_COUNT
    size_t device_bytes;    // sizeof(struct mt_device): with the others, whether it is of the same build
    mt_device_init_fn init; // "cuda"
    mt_device_init_fn bf16; // "cuda-bf16"
};

#define MT_DEVICE_MODULE_SYMBOL "mt_device_module_cuda"

#endif
