/*
 * Hopper's own instructions (sm_90a): products of a warp group of 128 threads on operands in shared memory,
 * and the copy engine that brings tiles there.
 *
 * Tiles lie in lines of 128 bytes, 64 numbers, eight lines to a pattern of 1024 bytes in which 16-byte pieces
 * are permuted, so that neither side meets a bank twice; the copy engine and the tensor cores agree on the
 * permutation. A group's sums are [64,N]: warp w has rows 16w and on, as mma.cuh's fragments side by side.
 */
#ifndef MT_OPS_CUDA_WGMMA_CUH
#define MT_OPS_CUDA_WGMMA_CUH

#include <cuda.h> // CUtensorMap: types alone, the driver is asked for its functions at run time

#include "ops/cuda/mma.cuh"

#define WGMMA_LINE    64   // numbers of a line
#define WGMMA_PATTERN 1024 // bytes of eight lines

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ------------------------------------------------------------------ barriers

__device__ static inline void barrier_init(uint64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

/* What was initialised is visible to the copy engine. */
__device__ static inline void barrier_publish(void)
{
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async;" ::: "memory");
}

__device__ static inline void barrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

/* Arrives, and announces bytes the copy engine will bring. */
__device__ static inline void barrier_expect(uint64_t *barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
}

/* Until the phase of this parity is over. */
__device__ static inline void barrier_wait(uint64_t *barrier, unsigned parity)
{
    asm volatile("{ .reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

/* The box of `map` whose first element is (line, at), to shared memory. One thread calls it. */
__device__ static inline void copy_box(void *target, const CUtensorMap *map, int at, int line,
                                       uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(target)),
                 "l"(map), "r"(at), "r"(line), "r"(shared_address(barrier))
                 : "memory");
}

// ------------------------------------------------------------------ products

/*
 * Where an operand lies. Lines of steps: `across` is unused. Lines of columns: `across` bytes between blocks
 * of 64 columns, and eight steps to a pattern.
 */
__device__ static inline uint64_t operand_at(const void *shared, unsigned across)
{
    uint64_t address = shared_address(shared);
    const uint64_t permuted = (uint64_t)1 << 62; // in patterns of 128 bytes
    return (address & 0x3ffff) >> 4 | (uint64_t)(across >> 4) << 16 | (uint64_t)(WGMMA_PATTERN >> 4) << 32 |
           permuted;
}

/* Registers of sums are the tensor cores' from here on ... */
__device__ static inline void group_begin(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ static inline void group_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* ... until at most LEFT committed groups are under way. */
template <int LEFT> __device__ static inline void group_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* Keeps the compiler from reading sums before a wait, or writing them after a begin. */
template <int COUNT> __device__ static inline void group_pin(float (&sum)[COUNT][4])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        asm volatile("" : "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])::"memory");
    }
}

/*
 * sum += a · b, a [64,16] by lines of steps, b [16,N] by lines of steps or, with N_INNER, by lines of
 * columns. The registers have to be named one by one.
 */
template <bool N_INNER>
__device__ static inline void multiply_group(float (&sum)[16][4], uint64_t a, uint64_t b)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, 0, %67; }"
                 : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]),
                   "+f"(sum[1][1]), "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]),
                   "+f"(sum[2][2]), "+f"(sum[2][3]), "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]),
                   "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]), "+f"(sum[4][2]), "+f"(sum[4][3]),
                   "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]), "+f"(sum[6][0]),
                   "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
                   "+f"(sum[7][2]), "+f"(sum[7][3]), "+f"(sum[8][0]), "+f"(sum[8][1]), "+f"(sum[8][2]),
                   "+f"(sum[8][3]), "+f"(sum[9][0]), "+f"(sum[9][1]), "+f"(sum[9][2]), "+f"(sum[9][3]),
                   "+f"(sum[10][0]), "+f"(sum[10][1]), "+f"(sum[10][2]), "+f"(sum[10][3]), "+f"(sum[11][0]),
                   "+f"(sum[11][1]), "+f"(sum[11][2]), "+f"(sum[11][3]), "+f"(sum[12][0]), "+f"(sum[12][1]),
                   "+f"(sum[12][2]), "+f"(sum[12][3]), "+f"(sum[13][0]), "+f"(sum[13][1]), "+f"(sum[13][2]),
                   "+f"(sum[13][3]), "+f"(sum[14][0]), "+f"(sum[14][1]), "+f"(sum[14][2]), "+f"(sum[14][3]),
                   "+f"(sum[15][0]), "+f"(sum[15][1]), "+f"(sum[15][2]), "+f"(sum[15][3])
                 : "l"(a), "l"(b), "r"(1), "n"(N_INNER ? 1 : 0));
}

template <bool N_INNER>
__device__ static inline void multiply_group(float (&sum)[32][4], uint64_t a, uint64_t b)
{
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %130, 0; "
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, p, 1, 1, 0, %131; }"
        : "+f"(sum[0][0]), "+f"(sum[0][1]), "+f"(sum[0][2]), "+f"(sum[0][3]), "+f"(sum[1][0]),
          "+f"(sum[1][1]), "+f"(sum[1][2]), "+f"(sum[1][3]), "+f"(sum[2][0]), "+f"(sum[2][1]),
          "+f"(sum[2][2]), "+f"(sum[2][3]), "+f"(sum[3][0]), "+f"(sum[3][1]), "+f"(sum[3][2]),
          "+f"(sum[3][3]), "+f"(sum[4][0]), "+f"(sum[4][1]), "+f"(sum[4][2]), "+f"(sum[4][3]),
          "+f"(sum[5][0]), "+f"(sum[5][1]), "+f"(sum[5][2]), "+f"(sum[5][3]), "+f"(sum[6][0]),
          "+f"(sum[6][1]), "+f"(sum[6][2]), "+f"(sum[6][3]), "+f"(sum[7][0]), "+f"(sum[7][1]),
          "+f"(sum[7][2]), "+f"(sum[7][3]), "+f"(sum[8][0]), "+f"(sum[8][1]), "+f"(sum[8][2]),
          "+f"(sum[8][3]), "+f"(sum[9][0]), "+f"(sum[9][1]), "+f"(sum[9][2]), "+f"(sum[9][3]),
          "+f"(sum[10][0]), "+f"(sum[10][1]), "+f"(sum[10][2]), "+f"(sum[10][3]), "+f"(sum[11][0]),
          "+f"(sum[11][1]), "+f"(sum[11][2]), "+f"(sum[11][3]), "+f"(sum[12][0]), "+f"(sum[12][1]),
          "+f"(sum[12][2]), "+f"(sum[12][3]), "+f"(sum[13][0]), "+f"(sum[13][1]), "+f"(sum[13][2]),
          "+f"(sum[13][3]), "+f"(sum[14][0]), "+f"(sum[14][1]), "+f"(sum[14][2]), "+f"(sum[14][3]),
          "+f"(sum[15][0]), "+f"(sum[15][1]), "+f"(sum[15][2]), "+f"(sum[15][3]), "+f"(sum[16][0]),
          "+f"(sum[16][1]), "+f"(sum[16][2]), "+f"(sum[16][3]), "+f"(sum[17][0]), "+f"(sum[17][1]),
          "+f"(sum[17][2]), "+f"(sum[17][3]), "+f"(sum[18][0]), "+f"(sum[18][1]), "+f"(sum[18][2]),
          "+f"(sum[18][3]), "+f"(sum[19][0]), "+f"(sum[19][1]), "+f"(sum[19][2]), "+f"(sum[19][3]),
          "+f"(sum[20][0]), "+f"(sum[20][1]), "+f"(sum[20][2]), "+f"(sum[20][3]), "+f"(sum[21][0]),
          "+f"(sum[21][1]), "+f"(sum[21][2]), "+f"(sum[21][3]), "+f"(sum[22][0]), "+f"(sum[22][1]),
          "+f"(sum[22][2]), "+f"(sum[22][3]), "+f"(sum[23][0]), "+f"(sum[23][1]), "+f"(sum[23][2]),
          "+f"(sum[23][3]), "+f"(sum[24][0]), "+f"(sum[24][1]), "+f"(sum[24][2]), "+f"(sum[24][3]),
          "+f"(sum[25][0]), "+f"(sum[25][1]), "+f"(sum[25][2]), "+f"(sum[25][3]), "+f"(sum[26][0]),
          "+f"(sum[26][1]), "+f"(sum[26][2]), "+f"(sum[26][3]), "+f"(sum[27][0]), "+f"(sum[27][1]),
          "+f"(sum[27][2]), "+f"(sum[27][3]), "+f"(sum[28][0]), "+f"(sum[28][1]), "+f"(sum[28][2]),
          "+f"(sum[28][3]), "+f"(sum[29][0]), "+f"(sum[29][1]), "+f"(sum[29][2]), "+f"(sum[29][3]),
          "+f"(sum[30][0]), "+f"(sum[30][1]), "+f"(sum[30][2]), "+f"(sum[30][3]), "+f"(sum[31][0]),
          "+f"(sum[31][1]), "+f"(sum[31][2]), "+f"(sum[31][3])
        : "l"(a), "l"(b), "r"(1), "n"(N_INNER ? 1 : 0));
}

#endif

#endif
