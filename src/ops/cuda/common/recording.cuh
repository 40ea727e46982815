/* Recordings of the CUDA device. */
#ifndef MT_OPS_CUDA_RECORDING_CUH
#define MT_OPS_CUDA_RECORDING_CUH

#include "ops/cuda/common/common.cuh"

/* Fills in the device's hooks for recording. */
void cuda_recording_hooks(struct mt_device *device);

#endif
