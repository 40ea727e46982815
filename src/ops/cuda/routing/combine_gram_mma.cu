/*
 * combine's Gram matrices alone, X Xᵀ of a token's rows, on the tensor cores: for bf16 and up to eight slots,
 * one warp per token. Lane l holds row l/4 of X, every fourth eight of its columns: the words of all lanes at
 * one place are eight rows of eight columns, both operands of the product as they lie. Sums are f32.
 */
#include "ops/cuda/common/mma.cuh"
#include "ops/cuda/common/wide.cuh"
#include "ops/cuda/routing/combine.cuh"

#define MOST_SLOTS  8
#define BLOCK_WARPS 8
#define LANES       4 // of a row
#define EIGHTS      8 // of a lane, whose loads are under way together

/* Adds an eight's X Xᵀ: this lane's two elements in the first two of each sum. */
__device__ static inline void add_eight(const uint4 &eight, float (&sum)[2][4])
{
    const unsigned low[4] = {eight.x, 0, eight.y, 0};
    const unsigned high[4] = {eight.z, 0, eight.w, 0};
    multiply_add(sum[0], low, eight.x, eight.y);
    multiply_add(sum[1], high, eight.z, eight.w);
}

__global__ static void __launch_bounds__(32 * BLOCK_WARPS, 3) kernel(struct mt_combine_forward_args a)
{
    cuda_follow();
    int64_t token = (int64_t)blockIdx.x * BLOCK_WARPS + threadIdx.x / 32;
    if (token >= a.row_of_slot.dim[0]) return;
    int slots = (int)a.row_of_slot.dim[1];
    int row = cuda_lane() / LANES;
    int column = cuda_lane() % LANES;
    int eights = (int)(a.rows.dim[1] / CUDA_WIDE);
    int32_t place = row < slots ? cuda_int2(a.row_of_slot, token, row) : -1;
    int readable = place >= 0 ? eights : 0;
    int64_t begin = (place >= 0 ? place : 0) * a.rows.stride[0];
    const uint4 *source =
        reinterpret_cast<const uint4 *>(static_cast<const __nv_bfloat16 *>(a.rows.data) + begin);
    float sum[2][4] = {};
    for (int start = 0; start < eights; start += LANES * EIGHTS) { // in step, as products need all lanes
        uint4 x[EIGHTS];
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            int at = start + i * LANES + column;
            x[i] = at < readable ? __ldcs(source + at) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) add_eight(x[i], sum);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int other = 2 * column + i;
        if (row < slots && other < slots)
            cuda_put3(a.gram, token, row, other, (double)(sum[0][i] + sum[1][i]));
    }
}

static bool fits(const struct mt_device *, const struct mt_combine_forward_args *a)
{
    return mt_tensor_count(&a->row_of_slot) > 0 && a->row_of_slot.dim[1] <= MOST_SLOTS &&
           mt_tensor_present(&a->gram) && !mt_tensor_present(&a->y) && a->rows.dtype == MT_BF16 &&
           cuda_is_wide(&a->rows) && a->rows.dim[1] <= INT32_MAX;
}

static enum mt_status run(struct mt_device *device, const struct mt_combine_forward_args *a, void *)
{
    unsigned blocks = (unsigned)((a->row_of_slot.dim[0] + BLOCK_WARPS - 1) / BLOCK_WARPS);
    return cuda_launch(device, "combine forward", kernel, dim3(blocks), 32 * BLOCK_WARPS, 0, *a);
}

const struct cuda_variant<struct mt_combine_forward_args> cuda_combine_gram_mma = {
    fits, NULL, run
};
