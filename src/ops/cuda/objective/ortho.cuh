/* ortho's kernels for the span form, for the op that decides; and the sum both end with. */
#ifndef MT_OPS_CUDA_ORTHO_CUH
#define MT_OPS_CUDA_ORTHO_CUH

#include "ops/cuda/common/variants.cuh"

/* In ortho_span.cu. */
extern const struct cuda_variant<struct mt_ortho_forward_args> cuda_ortho_span;
extern const struct cuda_variant<struct mt_ortho_backward_args> cuda_ortho_span_backward;

/* Bytes for what `blocks` blocks of forward leave: each the sum of its losses, and how many tokens count. */
static inline size_t ortho_parts_bytes(int64_t blocks)
{
    return cuda_doubles(2 * blocks);
}

/* Adds them up into a.sum and a.rows, where these are asked for (ortho.cu). */
enum mt_status ortho_add_parts(const struct mt_device *device, const struct mt_ortho_forward_args *a,
                               const double *parts, int64_t blocks);

#endif
