/* attention of cuda-bf16 for few queries, or for heads that share one wide key. */
#ifndef MT_OPS_CUDA_ATTENTION_DECODE_CUH
#define MT_OPS_CUDA_ATTENTION_DECODE_CUH

#include "ops/cuda/common/common.cuh"

/* Whether it can: f32 or bf16, heads of a usual width, or one wider key whose first columns are the value. */
bool cuda_attention_decodes(const struct mt_device *device, const struct mt_attention_forward_args *a);

/* Scratch has so many bytes. */
size_t cuda_attention_decode_bytes(const struct mt_device *device, const struct mt_attention_forward_args *a);
enum mt_status cuda_attention_decode(struct mt_device *device, const struct mt_attention_forward_args *a,
                                     void *scratch);

#endif
