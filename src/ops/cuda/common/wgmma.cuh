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

#include "ops/cuda/common/mma.cuh"

#define WGMMA_LINE    64   // numbers of a line
#define WGMMA_PATTERN 1024 // bytes of eight lines

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ------------------------------------------------------------------ barriers

// Each by its address in shared memory, which takes one register, or by a pointer.

__device__ static inline void barrier_init(unsigned barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ static inline void barrier_init(uint64_t *barrier, int arrivals)
{
    barrier_init(shared_address(barrier), arrivals);
}

/* What was initialised is visible to the copy engine. */
__device__ static inline void barrier_publish(void)
{
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async;" ::: "memory");
}

__device__ static inline void barrier_arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ static inline void barrier_arrive(uint64_t *barrier)
{
    barrier_arrive(shared_address(barrier));
}

/* Arrives, and announces bytes the copy engine will bring. */
__device__ static inline void barrier_expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

__device__ static inline void barrier_expect(uint64_t *barrier, unsigned bytes)
{
    barrier_expect(shared_address(barrier), bytes);
}

/* Until the phase of this parity is over. */
__device__ static inline void barrier_wait(unsigned barrier, unsigned parity)
{
    asm volatile("{ .reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again; }" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

__device__ static inline void barrier_wait(uint64_t *barrier, unsigned parity)
{
    barrier_wait(shared_address(barrier), parity);
}

/* The box of `map` whose first element is (line, at), to shared memory. One thread calls it. */
__device__ static inline void copy_box(unsigned target, const CUtensorMap *map, int at, int line,
                                       unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(target),
                 "l"(map), "r"(at), "r"(line), "r"(barrier)
                 : "memory");
}

/* The same of one of several matrices. */
__device__ static inline void copy_box(unsigned target, const CUtensorMap *map, int at, int line, int matrix,
                                       unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(target),
                 "l"(map), "r"(at), "r"(line), "r"(matrix), "r"(barrier)
                 : "memory");
}

// ------------------------------------------------------------------ products

/*
 * Where an operand lies. Lines of steps: `across` is unused. Lines of columns: `across` bytes between blocks
 * of 64 columns, and eight steps to a pattern.
 */
__device__ static inline uint64_t operand_at(unsigned shared, unsigned across)
{
    uint64_t address = shared;
    const uint64_t permuted = (uint64_t)1 << 62; // in patterns of 128 bytes
    return (address & 0x3ffff) >> 4 | (uint64_t)(across >> 4) << 16 | (uint64_t)(WGMMA_PATTERN >> 4) << 32 |
           permuted;
}

__device__ static inline uint64_t operand_at(const void *shared, unsigned across)
{
    return operand_at(shared_address(shared), across);
}

/* Bytes further on: the address is the lowest part of an operand, in units of 16 bytes. */
__device__ static inline uint64_t operand_after(uint64_t operand, unsigned bytes)
{
    return operand + (bytes >> 4);
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

/* The same for operands in registers, which have to stay until a wait. */
template <int COUNT> __device__ static inline void group_pin(unsigned (&held)[COUNT][4])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        asm volatile("" : "+r"(held[i][0]), "+r"(held[i][1]), "+r"(held[i][2]), "+r"(held[i][3])::"memory");
    }
}

// The registers of sums have to be named one by one.
#define SUMS_TO_31                                                                                           \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                 \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SUMS_TO_63                                                                                           \
    SUMS_TO_31 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "          \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define SUMS_TO_95                                                                                           \
    SUMS_TO_63 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "          \
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SUMS_TO_127                                                                                          \
    SUMS_TO_95 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "    \
               "%111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, "  \
               "%126, %127"
#define SUM_OF(i) "+f"(sum[i][0]), "+f"(sum[i][1]), "+f"(sum[i][2]), "+f"(sum[i][3])
#define EIGHT_SUMS(i)                                                                                        \
    SUM_OF(i), SUM_OF(i + 1), SUM_OF(i + 2), SUM_OF(i + 3), SUM_OF(i + 4), SUM_OF(i + 5), SUM_OF(i + 6),     \
        SUM_OF(i + 7)

/*
 * sum = a · b, or with `add` sum += a · b: a [64,16] by lines of steps, b [16,N] by lines of steps or, with
 * N_INNER, by lines of columns.
 */
template <bool N_INNER>
__device__ static inline void multiply_group(float (&sum)[8][4], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; "
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SUMS_TO_31 "}, "
                 "%32, %33, p, 1, 1, 0, %35; }"
                 : EIGHT_SUMS(0)
                 : "l"(a), "l"(b), "r"(add), "n"(N_INNER ? 1 : 0));
}

template <bool N_INNER>
__device__ static inline void multiply_group(float (&sum)[16][4], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; "
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" SUMS_TO_63 "}, "
                 "%64, %65, p, 1, 1, 0, %67; }"
                 : EIGHT_SUMS(0), EIGHT_SUMS(8)
                 : "l"(a), "l"(b), "r"(add), "n"(N_INNER ? 1 : 0));
}

template <bool N_INNER>
__device__ static inline void multiply_group(float (&sum)[24][4], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %98, 0; "
                 "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" SUMS_TO_95 "}, "
                 "%96, %97, p, 1, 1, 0, %99; }"
                 : EIGHT_SUMS(0), EIGHT_SUMS(8), EIGHT_SUMS(16)
                 : "l"(a), "l"(b), "r"(add), "n"(N_INNER ? 1 : 0));
}

template <bool N_INNER>
__device__ static inline void multiply_group(float (&sum)[32][4], uint64_t a, uint64_t b, int add)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0; "
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" SUMS_TO_127 "}, "
                 "%128, %129, p, 1, 1, 0, %131; }"
                 : EIGHT_SUMS(0), EIGHT_SUMS(8), EIGHT_SUMS(16), EIGHT_SUMS(24)
                 : "l"(a), "l"(b), "r"(add), "n"(N_INNER ? 1 : 0));
}

/* sum += a · b: a [64,16] in registers, b [16,64] by lines of columns. */
__device__ static inline void multiply_held(float (&sum)[8][4], const unsigned (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" SUMS_TO_31 "}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : EIGHT_SUMS(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* The same with b [16,128]. */
__device__ static inline void multiply_held(float (&sum)[16][4], const unsigned (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" SUMS_TO_63
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : EIGHT_SUMS(0), EIGHT_SUMS(8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* The same with b [16,192]. */
__device__ static inline void multiply_held(float (&sum)[24][4], const unsigned (&a)[4], uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {" SUMS_TO_95
                 "}, {%96, %97, %98, %99}, %100, 1, 1, 1, 1;"
                 : EIGHT_SUMS(0), EIGHT_SUMS(8), EIGHT_SUMS(16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#endif

#endif
