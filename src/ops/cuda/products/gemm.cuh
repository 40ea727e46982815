/* Matrix products, for the ops that are made of them. */
#ifndef MT_OPS_CUDA_GEMM_CUH
#define MT_OPS_CUDA_GEMM_CUH

#include "ops/cuda/common/variants.cuh"

/* Bytes of scratch cuda_gemm needs. Never falls with more rows of a, nor, where c is f32, with more of b. */
size_t cuda_gemm_bytes(const struct mt_device *device, const struct mt_gemm_args *g);

/* Runs checked gemm arguments; scratch has cuda_gemm_bytes. */
enum mt_status cuda_gemm(struct mt_device *device, const struct mt_gemm_args *g, void *scratch);

/* Up to four rows with a bf16 weight stored [N,K], as in decoding. As exact as an f32 product. */
extern const struct cuda_variant<struct mt_gemm_args> cuda_gemm_few;

/* The same of up to 64 bf16 rows, and of any number of weights' columns up to 16 rows; sums as cuBLAS makes
 * them. */
extern const struct cuda_variant<struct mt_gemm_args> cuda_thin_gemm;

/* Exact products of bf16 rows with a small f32 weight, stored [N,K], on cuda-bf16. No dimension is 0. */
extern const struct cuda_variant<struct mt_gemm_args> cuda_gemm_split;

/* Frees what products made: cuBLAS, its memory, the lanes. */
void cuda_products_end(struct cuda_state *state);

/*
 * Work on the lanes: what `cuda_lanes_begin` finds issued comes before it, and what is issued after
 * `cuda_lanes_end` waits for all of it.
 */
enum mt_status cuda_lanes_begin(struct mt_device *device);
enum mt_status cuda_lanes_end(struct mt_device *device);

/*
 * One product of bf16 matrices on a lane, or with lane -1 on the device's own stream: no conversion, no
 * scratch, c f32 or bf16. Batched, matrix i lies `batch_a` · i elements after the first, and so on.
 */
struct cuda_batch {
    int64_t count;
    int64_t a, b, c; // elements between matrices
};
enum mt_status cuda_multiply_bf16(struct mt_device *device, int lane, const struct mt_gemm_args *g,
                                  const struct cuda_batch *batch);

/*
 * x [R,K] as the sum of two bf16 matrices, itself rounded and what that leaves: 16 bits of it. `memory` has
 * cuda_two_bytes.
 */
struct cuda_two {
    struct mt_tensor rounded, rest;
};
size_t cuda_two_bytes(const struct mt_tensor *x);
enum mt_status cuda_split_rows(struct mt_device *device, const struct mt_tensor *x, void *memory,
                               struct cuda_two *two);

/* to := from rounded to bf16, [rows,columns] from any strided matrix to a contiguous one. */
void cuda_round(struct mt_device *device, const struct mt_tensor *from, void *to);

/* y = beta · y over a [T,d] tensor; beta 0 overwrites. What a product of nothing leaves. */
enum mt_status cuda_scale(struct mt_device *device, const struct mt_tensor *y, float beta);

#endif
