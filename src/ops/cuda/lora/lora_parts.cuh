/*
 * Parts of LoRA's gradients that blocks of one launch leave for each other in memory (lora_dlow, lora_da). A
 * part is what a group of 128 threads holds in registers, four numbers of a thread after the other; whoever
 * adds it has the same places in hand.
 */
#ifndef MT_OPS_CUDA_LORA_PARTS_CUH
#define MT_OPS_CUDA_LORA_PARTS_CUH

#include "ops/cuda/lora/lora_hopper.cuh"

#define PARTS_AT_ONCE 16 // on their way to a thread

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/*
 * Adds to a number of a gradient to which nobody else adds in the same kernel: no order to depend on, and
 * nobody waits for the old value.
 */
__device__ static inline void add_once(float *to, float value)
{
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(value) : "memory");
}

__device__ static inline void add_once(float2 *to, float2 value)
{
    asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(value.x), "f"(value.y) : "memory");
}

/* Everything before it, of this thread and of those it has met, is there for whoever sees the word. */
__device__ static inline void set_word(unsigned *word, unsigned value)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ static inline unsigned see_word(const unsigned *word)
{
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

__device__ static inline void add_value(float (&sum)[4], const float4 &value)
{
    sum[0] += value.x;
    sum[1] += value.y;
    sum[2] += value.z;
    sum[3] += value.w;
}

/* One piece of a part: four numbers of this thread. `four` counts pieces. */
__device__ static inline void leave_four(float4 *part, int four, const float (&value)[4])
{
    __stcg(part + four * 128 + threadIdx.x % 128, make_float4(value[0], value[1], value[2], value[3]));
}

__device__ static inline void take_four(const float4 *part, int four, float (&sum)[4])
{
    add_value(sum, __ldcg(part + four * 128 + threadIdx.x % 128));
}

/* The group has left its part; `name` as in group_meet. */
__device__ static inline void part_is_left(unsigned *flag, int name)
{
    group_meet(name);
    if (threadIdx.x % 128 == 0) set_word(flag, 1);
}

/* Waits for a part that this group alone takes: its flag is 0 for the next launch. */
__device__ static inline void part_is_awaited(unsigned *flag, int name)
{
    if (threadIdx.x % 128 == 0) {
        while (see_word(flag) == 0) continue;
        *flag = 0;
    }
    group_meet(name);
}

/*
 * Waits for all blocks of the launch. One thread of each calls it, which has met those whose parts the others
 * are to see. The word's highest bit changes when everybody has come, whatever it was.
 */
__device__ static inline void meet_all(unsigned *word)
{
    unsigned blocks = gridDim.x * gridDim.y;
    bool first = blockIdx.x == 0 && blockIdx.y == 0;
    __threadfence();
    unsigned before = atomicAdd(word, first ? 0x80000000u - (blocks - 1) : 1u);
    while (((before ^ see_word(word)) & 0x80000000u) == 0) continue;
}

/* Four numbers of every share of a run, added in order: the first one's place, the next ones', `gap` apart.
 */
__device__ static inline void add_run(float (&sum)[4], const float4 *first, const float4 *next, int64_t gap,
                                      int count)
{
    float4 value[PARTS_AT_ONCE];
    add_value(sum, __ldcg(first));
    for (int left = count - 1; left > 0; left -= PARTS_AT_ONCE, next += PARTS_AT_ONCE * gap) {
#pragma unroll
        for (int i = 0; i < PARTS_AT_ONCE; i++) value[i] = i < left ? __ldcg(next + i * gap) : float4();
#pragma unroll
        for (int i = 0; i < PARTS_AT_ONCE; i++) add_value(sum, value[i]);
    }
}

#endif

#endif
