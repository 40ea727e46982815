/*
 * combine's backward on the tensor cores, for bf16 and up to seven slots, one warp per token. With dy as one
 * more row of X after the token's rows,
 *   dx_s = Σ_m C'[s,m] X[m]    C' = the coupling and, for dy, the weights
 *   dw_s = <dy, X[s]>          a row of X Xᵀ
 * where C' is taken as three bf16 parts, which make up an f32, and sums are f32.
 *
 * Lane l holds row l/4 of X, every fourth eight of its columns: the words of all lanes at one place are eight
 * rows of eight columns, which are an operand of X Xᵀ as they lie, and of C' X once transposed. The sums then
 * lie where the words of X were: a lane writes what it has read, and drows may be rows.
 */
#include "ops/cuda/common/mma.cuh"
#include "ops/cuda/common/wide.cuh"
#include "ops/cuda/routing/combine.cuh"

#define MOST_SLOTS  7
#define BLOCK_WARPS 8
#define LANES       4 // of a row
#define EIGHTS      4 // of a lane, whose loads are under way together

/* Eight rows of eight columns: rows for columns. */
__device__ static inline unsigned transposed(unsigned word)
{
    unsigned result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(word));
    return result;
}

/* This lane's two numbers of C': row `row`, columns 2(l%4) and the next. Rows and columns of no slot are 0.
 */
__device__ static inline float2 load_factors(const struct mt_combine_backward_args &a, int64_t token, int row,
                                             int32_t place)
{
    int slots = (int)a.row_of_slot.dim[1];
    float factor[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int m = 2 * (cuda_lane() % LANES) + i;
        int32_t other = __shfl_sync(CUDA_EVERY, place, LANES * m);
        if (place < 0) continue;
        if (m == slots) factor[i] = (float)cuda_get2(a.weight, token, row);
        if (m < slots && other >= 0 && cuda_present(a.coupling))
            factor[i] = combine_factor(a) * (float)cuda_get3(a.coupling, token, row, m);
    }
    return make_float2(factor[0], factor[1]);
}

/* C' as an operand of [16, 16]: its first parts, beside them the second ones, below the third ones. */
__device__ static inline void split_factors(float2 factor, unsigned (&operand)[4])
{
    unsigned part[3];
#pragma unroll
    for (int i = 0; i < 3; i++) {
        part[i] = pack_bf16(factor.x, factor.y);
        factor.x -= low_bf16(part[i]);
        factor.y -= high_bf16(part[i]);
    }
    operand[0] = part[0];
    operand[1] = part[2];
    operand[2] = part[1];
    operand[3] = 0;
}

/* A word of each of an eight turns from X into C' X; X Xᵀ is added to products, where there is a dy. */
template <bool DY>
__device__ static inline void turn_eight(const unsigned (&factors)[4], uint4 &eight, float (&products)[4])
{
    unsigned word[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int i = 0; DY && i < 4; i += 2) {
        const unsigned rows[4] = {word[i], 0, word[i + 1], 0};
        multiply_add(products, rows, word[i], word[i + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float sum[4] = {};
        unsigned columns = transposed(word[i]);
        multiply_add(sum, factors, columns, columns);
        word[i] = pack_bf16(sum[0] + sum[2], sum[1] + sum[3]);
    }
    eight = make_uint4(word[0], word[1], word[2], word[3]);
}

__device__ static inline uint4 *row_of(const struct mt_tensor &t, int64_t row)
{
    return reinterpret_cast<uint4 *>(static_cast<__nv_bfloat16 *>(t.data) + row * t.stride[0]);
}

template <bool DY>
__global__ static void __launch_bounds__(32 * BLOCK_WARPS, 4) kernel(struct mt_combine_backward_args a)
{
    cuda_follow();
    int64_t token = (int64_t)blockIdx.x * BLOCK_WARPS + threadIdx.x / 32;
    if (token >= a.row_of_slot.dim[0]) return;
    int slots = (int)a.row_of_slot.dim[1];
    int row = cuda_lane() / LANES;
    int column = cuda_lane() % LANES;
    int eights = (int)(a.rows.dim[1] / CUDA_WIDE);
    int32_t place = row < slots ? cuda_int2(a.row_of_slot, token, row) : -1;
    bool is_dy = DY && row == slots; // absent: a row of zeros
    const uint4 *source = is_dy ? row_of(a.dy, token) : row_of(a.rows, place < 0 ? 0 : place);
    uint4 *target = row_of(a.drows, place < 0 ? 0 : place);
    int readable = place >= 0 || is_dy ? eights : 0;
    int writable = place >= 0 ? eights : 0;
    unsigned factors[4];
    split_factors(load_factors(a, token, row, place), factors);
    float products[4] = {};
    for (int start = 0; start < eights; start += LANES * EIGHTS) { // in step, as products need all lanes
        uint4 x[EIGHTS];
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            int at = start + i * LANES + column;
            x[i] = at < readable ? source[at] : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            int at = start + i * LANES + column;
            turn_eight<DY>(factors, x[i], products);
            if (at < writable) target[at] = x[i];
        }
    }
    if (!is_dy) return;
    if (2 * column < slots) cuda_put2(a.dweight, token, 2 * column, (double)products[0]);
    if (2 * column + 1 < slots) cuda_put2(a.dweight, token, 2 * column + 1, (double)products[1]);
}

static bool fits(const struct mt_device *, const struct mt_combine_backward_args *a)
{
    return mt_tensor_count(&a->row_of_slot) > 0 && a->row_of_slot.dim[1] <= MOST_SLOTS &&
           (!mt_tensor_present(&a->dy) || a->dy.dtype == MT_BF16) && a->rows.dtype == MT_BF16 &&
           a->drows.dtype == MT_BF16 && cuda_is_wide(&a->dy) && cuda_is_wide(&a->rows) &&
           cuda_is_wide(&a->drows) && a->rows.dim[1] <= INT32_MAX;
}

static enum mt_status run(struct mt_device *device, const struct mt_combine_backward_args *a, void *)
{
    unsigned blocks = (unsigned)((a->row_of_slot.dim[0] + BLOCK_WARPS - 1) / BLOCK_WARPS);
    auto chosen = mt_tensor_present(&a->dy) ? kernel<true> : kernel<false>;
    return cuda_launch(device, "combine backward", chosen, dim3(blocks), 32 * BLOCK_WARPS, 0, *a);
}

const struct cuda_variant<struct mt_combine_backward_args> cuda_combine_backward_mma = {
    fits, NULL, run
};
