/* combine by eights of columns (combine_wide.cu) and on the tensor cores, for the op that decides. */
#ifndef MT_OPS_CUDA_COMBINE_CUH
#define MT_OPS_CUDA_COMBINE_CUH

#include "ops/cuda/common/common.cuh"

/* Whether the rows and two more operands of their width can be taken in eights, and the slots are few. */
bool cuda_combine_is_wide(const struct mt_tensor *row_of_slot, const struct mt_tensor *rows,
                          const struct mt_tensor *first, const struct mt_tensor *second);

/* There is at least one token. */
void cuda_combine_forward_wide(struct mt_device *device, const struct mt_combine_forward_args *a);
void cuda_combine_backward_wide(struct mt_device *device, const struct mt_combine_backward_args *a);

/* Whether the tensor cores can do it (combine_backward_mma.cu): few slots, all bf16 but weights and coupling.
 */
bool cuda_combine_backward_fits_mma(const struct mt_combine_backward_args *a);

/* There is at least one token. */
void cuda_combine_backward_mma(struct mt_device *device, const struct mt_combine_backward_args *a);

#endif
