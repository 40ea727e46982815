/* combine's kernels for few slots, for the op that decides. */
#ifndef MT_OPS_CUDA_COMBINE_CUH
#define MT_OPS_CUDA_COMBINE_CUH

#include "ops/cuda/common/variants.cuh"

/* What the coupling is multiplied with. */
__device__ static inline float combine_factor(const struct mt_combine_backward_args &a)
{
    return cuda_present(a.factor) ? (float)cuda_get1(a.factor, 0) : 1.0f;
}

/* By eights of columns (combine_wide.cu). */
extern const struct cuda_variant<struct mt_combine_forward_args> cuda_combine_wide;
extern const struct cuda_variant<struct mt_combine_backward_args> cuda_combine_backward_wide;

/* On the tensor cores (combine_gram_mma.cu): of bf16 rows, where only Gram matrices are asked for. */
extern const struct cuda_variant<struct mt_combine_forward_args> cuda_combine_gram_mma;

/* On the tensor cores (combine_backward_mma.cu): all bf16 but weights and coupling. */
extern const struct cuda_variant<struct mt_combine_backward_args> cuda_combine_backward_mma;

#endif
