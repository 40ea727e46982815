/* Between the files of the experts' products. */
#ifndef MT_OPS_CUDA_GROUPED_CUH
#define MT_OPS_CUDA_GROUPED_CUH

#include "ops/cuda/products/gemm.cuh"

#define CUDA_EXPERTS_AT_ONCE 256 // of one launch, or of one batch of offsets on the host

#define CUDA_FEW_ROWS        8 // of an expert on average: reading its weight is all that takes time

/* Any of the present matrices, if all are f32 or all bf16, of one stride, and aligned; else NULL. */
const struct mt_tensor *cuda_uniform(const struct mt_tensor *list, int count);

/*
 * Bytes from each bf16 matrix to the next, if all are there and it is always the same, a multiple of 16, so
 * that one map serves them all; else 0.
 */
int64_t cuda_gap(const struct mt_tensor *list, int count);

// grouped_gemm on cuda takes absent offsets, too: a single expert then has all rows. So does grouped_gemm_dw.

/* A row or two of each expert, as in decoding. */
extern const struct cuda_variant<struct mt_grouped_gemm_args> cuda_grouped_few;

/*
 * grouped_gemm of bf16 roundings; uniform weights, x and y f32 or bf16, x under a mask where one is present.
 * Scratch has so many bytes.
 */
size_t cuda_grouped_tiles_bytes(const struct mt_device *device, const struct mt_grouped_gemm_args *g);
enum mt_status cuda_grouped_tiles(struct mt_device *device, const struct mt_grouped_gemm_args *g,
                                  const struct mt_tensor *mask, void *scratch);

/* Whether it takes this mask on x: products of few columns, masked ones of weights as stored. */
bool cuda_grouped_tiles_fits(const struct mt_grouped_gemm_args *g, const struct mt_tensor *mask);

/*
 * Whether grouped_gemm_dw is made likewise: uniform f32 gradients; without offsets thin ones only. A mask is
 * on x; its scale is in alpha.
 */
bool cuda_dw_by_tiles(const struct mt_device *device, const struct mt_grouped_gemm_dw_args *g);
size_t cuda_grouped_dw_tiles_bytes(const struct mt_device *device, const struct mt_grouped_gemm_dw_args *g);
enum mt_status cuda_grouped_dw_tiles(struct mt_device *device, const struct mt_grouped_gemm_dw_args *g,
                                     const struct mt_tensor *mask, void *scratch);

/* Whether a gradient is thin: one side of it is as short as a LoRA pair's rank. */
bool cuda_thin_gradient(const struct mt_grouped_gemm_dw_args *g);

/*
 * grouped_sum by Hopper's own instructions: sm_90; a first term with large bf16 weights, all of them there;
 * others like it and with its alpha, or thin ones, which may have a mask on their product; all weights one
 * way round. Rows may be f32: their roundings are read.
 */
extern const struct cuda_variant<struct mt_grouped_sum_args> cuda_hopper_sum;

/* grouped_sum, and gate and up of grouped_swiglu with what comes of them, of few bf16 rows, as in decoding.
 */
extern const struct cuda_variant<struct mt_grouped_sum_args> cuda_thin_sum;
extern const struct cuda_variant<struct mt_grouped_swiglu_args> cuda_thin_swiglu;

/* head_gemm of few bf16 rows with weights [N,K]. */
extern const struct cuda_variant<struct mt_head_gemm_args> cuda_thin_heads;
extern const struct cuda_variant<struct mt_lora_xa_args> cuda_thin_xa;

/* cuda_hopper_sum for a single product. */
extern const struct cuda_variant<struct mt_grouped_gemm_args> cuda_hopper_gemm;

/*
 * gate and up of grouped_swiglu in one launch, and what comes of them: two sums that fit, of one long term
 * and at most one that is thin and unmasked, over the same bf16 rows, with one alpha; aligned bf16 outputs of
 * one stride.
 */
extern const struct cuda_variant<struct mt_grouped_swiglu_args> cuda_hopper_swiglu;

/*
 * grouped_swiglu_backward: a sum that fits, of weights as stored, with one mask at the most; all matrices of
 * its size bf16, aligned and of one stride.
 */
extern const struct cuda_variant<struct mt_grouped_swiglu_backward_args> cuda_hopper_swiglu_backward;

/*
 * The expert to which tile `*tile` belongs, tiles of `per_tile` rows being counted through all experts; *tile
 * becomes its number within the expert. -1 past the last. All lanes of a warp call it and get the same. Each
 * of the offsets' rows counts as `each` rows.
 */
__device__ static inline int find_expert(const int32_t *offsets, int experts, int per_tile, int64_t *tile,
                                         int each = 1)
{
    int lane = cuda_lane();
    int64_t left = *tile;
    for (int start = 0; start < experts; start += 32) {
        int e = start + lane;
        int rows = e < experts ? (offsets[e + 1] - offsets[e]) * each : 0;
        int tiles = (rows + per_tile - 1) / per_tile;
        int through = tiles; // of this expert and those before it
        for (int distance = 1; distance < 32; distance *= 2) {
            int before = __shfl_up_sync(CUDA_EVERY, through, distance);
            if (lane >= distance) through += before;
        }
        unsigned beyond = __ballot_sync(CUDA_EVERY, left < through);
        if (beyond != 0) {
            int found = __ffs((int)beyond) - 1;
            *tile = left - __shfl_sync(CUDA_EVERY, through - tiles, found);
            return start + found;
        }
        left -= __shfl_sync(CUDA_EVERY, through, 31);
    }
    return -1;
}

#endif
