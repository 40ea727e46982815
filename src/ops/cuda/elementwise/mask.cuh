/* Masks of dropout_bits, for products that take them as a pass of their own. */
#ifndef MT_OPS_CUDA_MASK_CUH
#define MT_OPS_CUDA_MASK_CUH

#include "ops/cuda/common/common.cuh"

/* Bytes of what a mask keeps of x. */
size_t cuda_masked_bytes(const struct mt_tensor *x);

/* What the mask keeps of x, contiguous and of its type, in `memory`, which has cuda_masked_bytes. */
enum mt_status cuda_mask(struct mt_device *device, const struct mt_tensor *x, const struct mt_tensor *mask,
                         void *memory, struct mt_tensor *masked);

/* y = beta · y + what the mask keeps of x, for rows before *end, or all where it is NULL. */
enum mt_status cuda_add_masked(struct mt_device *device, const struct mt_tensor *x,
                               const struct mt_tensor *mask, float beta, const int32_t *end,
                               const struct mt_tensor *y);

#endif
