/*
 * Products of a warp group as attention needs them, beside those of wgmma.cuh: scores of two tiles in shared
 * memory, and sums over a tile's rows with factors that are still in registers; and the copy engine's boxes
 * of one head.
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

/* Keeps operands in registers alive until a wait. */
template <int COUNT> __device__ static inline void group_pin(unsigned (&held)[COUNT][4])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        asm volatile("" : "+r"(held[i][0]), "+r"(held[i][1]), "+r"(held[i][2]), "+r"(held[i][3])::"memory");
    }
}

// The registers of sums, named one by one.
#define REGISTERS_0_31                                                                                       \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_32_63                                                                                      \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                       \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_64_95                                                                                      \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                       \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define FRAGMENT(i) "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
#define FRAGMENTS(i)                                                                                         \
    FRAGMENT(i), FRAGMENT(i + 1), FRAGMENT(i + 2), FRAGMENT(i + 3), FRAGMENT(i + 4), FRAGMENT(i + 5),        \
        FRAGMENT(i + 6), FRAGMENT(i + 7)

/* sum = a · b, or with `add` sum += a · b: a [64,16] and b [16,64], both by lines of steps. */
__device__ static inline void multiply_tiles(float (&sum)[8][4], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" REGISTERS_0_31 "}, "
                 "%32, %33, p, 1, 1, 0, 0; }"
                 : FRAGMENTS(0)
                 : "l"(a), "l"(b), "r"(add));
}

/* The same with b [16,128]. */
__device__ static inline void multiply_tiles(float (&sum)[16][4], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" REGISTERS_0_31 ", " REGISTERS_32_63
                 "}, %64, %65, p, 1, 1, 0, 0; }"
                 : FRAGMENTS(0), FRAGMENTS(8)
                 : "l"(a), "l"(b), "r"(add));
}

/* sum += a · b: a [64,16] in registers, b [16,64] by lines of columns. */
__device__ static inline void multiply_held(float (&sum)[8][4], const unsigned (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" REGISTERS_0_31 "}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : FRAGMENTS(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* The same with b [16,128]. */
__device__ static inline void multiply_held(float (&sum)[16][4], const unsigned (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" REGISTERS_0_31 ", " REGISTERS_32_63
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : FRAGMENTS(0), FRAGMENTS(8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* The same with b [16,192]. */
__device__ static inline void multiply_held(float (&sum)[24][4], const unsigned (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" REGISTERS_0_31 ", " REGISTERS_32_63
                 ", " REGISTERS_64_95 "}, {%96, %97, %98, %99}, %100, 1, 1, 1, 1;"
                 : FRAGMENTS(0), FRAGMENTS(8), FRAGMENTS(16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef FRAGMENTS
#undef FRAGMENT
#undef REGISTERS_64_95
#undef REGISTERS_32_63
#undef REGISTERS_0_31

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
        multiply_tiles(sum, left + (unsigned)a_at, right + (unsigned)b_at, k > 0);
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
