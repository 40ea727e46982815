/* Products of few rows, for gemm and grouped_gemm of cuda-bf16: decoding. */
#ifndef MT_OPS_CUDA_FEW_ROWS_CUH
#define MT_OPS_CUDA_FEW_ROWS_CUH

#include "ops/cuda/products/grouped.cuh"

#define CUDA_FEW_MOST 4 // rows of a plain product

/* Whether a product can be made here: a bf16 weight stored [N,K], aligned, few rows. Exact ones can. */
bool cuda_few_fits(const struct mt_gemm_args *g);
enum mt_status cuda_few(struct mt_device *device, const struct mt_gemm_args *g);

/* The same of experts' products: about a row each. */
bool cuda_grouped_few_fits(const struct mt_grouped_gemm_args *g);
enum mt_status cuda_grouped_few(struct mt_device *device, const struct mt_grouped_gemm_args *g);

#endif
