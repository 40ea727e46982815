/*
 * Products of a warp group as attention needs them: scores of two tiles in shared memory, and sums over a
 * tile's rows with factors that are still in registers; and the copy engine's boxes of one head.
 *
 * A tile of ROWS rows and WIDTH columns is WIDTH / 64 panels of ROWS lines, one after the other. The same
 * tile serves by lines of steps (scores) and by lines of columns (sums over rows).
 */
#ifndef MT_OPS_CUDA_WGMMA_ATTENTION_CUH
#define MT_OPS_CUDA_WGMMA_ATTENTION_CUH

#include "ops/cuda/common/wgmma.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* The box of a map of [T,H,D] whose first element is (row, head, at), to shared memory. One thread calls it.
 */
__device__ static inline void copy_head_box(void *target, const CUtensorMap *map, int at, int head, int row,
                                            uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(target)),
                 "l"(map), "r"(at), "r"(head), "r"(row), "r"(shared_address(barrier))
                 : "memory");
}

/* A tile of rows from `row` on, panel by panel. */
template <int ROWS, int WIDTH>
__device__ static inline void copy_head_tile(__nv_bfloat16 *target, const CUtensorMap *map, int head, int row,
                                             uint64_t *barrier)
{
#pragma unroll
    for (int at = 0; at < WIDTH; at += WGMMA_LINE) {
        copy_head_box(target + at * ROWS, map, at, head, row, barrier);
    }
}

/*
 * sum[64, 8·COUNT] = a · bᵀ, begun: tiles of A_ROWS and 8·COUNT rows, WIDTH columns; a is where this group's
 * 64 rows begin.
 */
template <int WIDTH, int A_ROWS, int COUNT>
__device__ static inline void begin_scores(float (&sum)[COUNT][4], const __nv_bfloat16 *a,
                                           const __nv_bfloat16 *b)
{
    uint64_t left = operand_at(a, 0);
    uint64_t right = operand_at(b, 0);
#pragma unroll
    for (int k = 0; k < WIDTH; k += 16) {
        // Addresses within an operand count in 16 bytes, eight numbers.
        int a_at = (k / WGMMA_LINE * A_ROWS * WGMMA_LINE + k % WGMMA_LINE) / 8;
        int b_at = (k / WGMMA_LINE * COUNT * 8 * WGMMA_LINE + k % WGMMA_LINE) / 8;
        multiply_group<false>(sum, left + (unsigned)a_at, right + (unsigned)b_at, k > 0);
    }
}

/* sum[64, 8·COUNT] += factors[64, 16·STEPS] · rows, begun: a tile of 16·STEPS rows and 8·COUNT columns. */
template <int COUNT, int STEPS>
__device__ static inline void begin_sums(float (&sum)[COUNT][4], const unsigned (&factors)[STEPS][4],
                                         const __nv_bfloat16 *rows)
{
    uint64_t right = operand_at(rows, STEPS * 16 * WGMMA_LINE * 2);
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        multiply_held(sum, factors[k], right + (unsigned)(k * 16 * WGMMA_LINE / 8));
    }
}

/* Sums' layout as the left operand of a product. */
template <int COUNT>
__device__ static inline void pack_factors(unsigned (&factors)[COUNT / 2][4], const float (&sum)[COUNT][4])
{
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        factors[j / 2][j % 2 * 2] = pack_bf16(sum[j][0], sum[j][1]);
        factors[j / 2][j % 2 * 2 + 1] = pack_bf16(sum[j][2], sum[j][3]);
    }
}

#endif

#endif
