/* Tensors of rank 1 to 3 seen as rows: for ops that treat all elements alike. */
#ifndef MT_OPS_CUDA_ROWS_CUH
#define MT_OPS_CUDA_ROWS_CUH

#include "ops/cuda/common/common.cuh"

/* Rows of the tensor: 1, T, or T·H. */
static inline int64_t cuda_row_count(const struct mt_tensor *t)
{
    int64_t rows = 1;
    for (int axis = 0; axis + 1 < t->rank; axis++) rows *= t->dim[axis];
    return rows;
}

static inline int64_t cuda_row_width(const struct mt_tensor *t)
{
    return t->dim[t->rank - 1];
}

/* Where a row begins, in elements. */
__device__ static inline int64_t cuda_row_offset(const struct mt_tensor &t, int64_t row)
{
    if (t.rank == 1) return 0;
    if (t.rank == 2) return row * t.stride[0];
    return row / t.dim[1] * t.stride[0] + row % t.dim[1] * t.stride[1];
}

#endif
