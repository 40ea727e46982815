/* Matrix products, for the ops that are made of them. */
#ifndef MT_OPS_CUDA_GEMM_CUH
#define MT_OPS_CUDA_GEMM_CUH

#include "ops/cuda/common.cuh"

/* Bytes of scratch cuda_gemm needs. Never falls with more rows of a, nor, where c is f32, with more of b. */
size_t cuda_gemm_bytes(const struct mt_gemm_args *g);

/* Runs checked gemm arguments; scratch has cuda_gemm_bytes. */
enum mt_status cuda_gemm(struct mt_device *device, const struct mt_gemm_args *g, void *scratch);

/* y = beta · y over a [T,d] tensor; beta 0 overwrites. What a product of nothing leaves. */
enum mt_status cuda_scale(struct mt_device *device, const struct mt_tensor *y, float beta);

#endif
