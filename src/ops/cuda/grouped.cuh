/* Between the files of the experts' products. */
#ifndef MT_OPS_CUDA_GROUPED_CUH
#define MT_OPS_CUDA_GROUPED_CUH

#include "ops/cuda/gemm.cuh"

#define CUDA_EXPERTS_AT_ONCE 256 // of one launch, or of one batch of offsets on the host

/* Any of the present matrices, if all are f32 or all bf16, of one stride, and aligned; else NULL. */
const struct mt_tensor *cuda_uniform(const struct mt_tensor *list, int count);

/* grouped_gemm of bf16 roundings; uniform weights, f32 y. */
enum mt_status cuda_grouped_tiles(struct mt_device *device, const struct mt_grouped_gemm_args *g);

/* grouped_gemm_dw likewise; uniform f32 gradients. */
enum mt_status cuda_grouped_dw_tiles(struct mt_device *device, const struct mt_grouped_gemm_dw_args *g);

#endif
