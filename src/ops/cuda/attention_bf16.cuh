/* attention of cuda-bf16, for the ops that decide between it and the f32 kernels. */
#ifndef MT_OPS_CUDA_ATTENTION_BF16_CUH
#define MT_OPS_CUDA_ATTENTION_BF16_CUH

#include "ops/cuda/common.cuh"

/* Whether the products of these arguments are worth cuBLAS: f32, and long enough sequences. */
bool cuda_attention_is_large(const struct mt_device *device, const struct mt_tensor *q,
                             const struct mt_tensor *k, const struct mt_tensor *v,
                             const struct mt_tensor *q_offsets);

size_t cuda_attention_forward_bytes(const struct mt_attention_forward_args *a);
size_t cuda_attention_backward_bytes(const struct mt_attention_backward_args *a);

/*
 * `*done` is false when a sequence has more queries than keys, which only the f32 kernels can do; what was
 * written is then theirs to overwrite.
 */
enum mt_status cuda_attention_forward_bf16(struct mt_device *device,
                                           const struct mt_attention_forward_args *a, bool *done);
enum mt_status cuda_attention_backward_bf16(struct mt_device *device,
                                            const struct mt_attention_backward_args *a, bool *done);

/* deltas[t,h] = <dout, out> of each query and head, f32 [Tq,Hq]. */
void cuda_attention_deltas(struct mt_device *device, const struct mt_attention_backward_args *a,
                           float *deltas);

#endif
