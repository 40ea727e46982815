/*
 * What every kernel file of the cpu device shares. These files are compiled once per instruction-set
 * level; MT_CPU_LEVEL is the level's name and MT_CPU(x) the level's own symbol for x.
 *
 * Rules for a kernel:
 *  - Plain C loops that the compiler vectorises (`#pragma omp simd`), or GCC vector extensions; no
 *    intrinsics, so that every level and aarch64 come from the same source. The exceptions are amx/,
 *    bf16/ and sve/: no compiler finds those units by itself.
 *  - How work is cut into pieces never depends on the number of threads; partial sums are combined in
 *    piece order. Then the bits are the same for any thread count.
 *  - What a row gets does not depend on the other rows of the call: rows taken together are computed as
 *    one alone would be. Of a·b + c·d, where two places must agree, fix the rounding (vector_rounded).
 *  - A case not worth a fast path (an unusual type) is left to ref: `fits` says no.
 */
#ifndef MT_OPS_CPU_LEVEL_H
#define MT_OPS_CPU_LEVEL_H

#include "ops/device.h"
#include "ops/ref/ref.h"

#define MT_CPU_JOIN_(level, name) mt_cpu_##level##_##name
#define MT_CPU_JOIN(level, name)  MT_CPU_JOIN_(level, name)
#define MT_CPU(name)              MT_CPU_JOIN(MT_CPU_LEVEL, name)
#define MT_CPU_BELOW(name)        MT_CPU_JOIN(MT_CPU_LEVEL_BELOW, name) // of the level below, where there is one

/* The level's table; zeroed entries stay with the level below, or ref. */
const struct mt_op_impl *MT_CPU(table)(void);

// Every op has a kernel (left_to_ref.c: those that are ref's). It takes what its `fits` takes; without one,
// what is f32 throughout; the rest is left to ref. `scratch` is there where some is needed. Both are in the
// kernel's file and weak: those that are not there are NULL. The kernel itself must not be: a linker takes a
// file out of a library only for a name that is not weak.
#define MT_CPU_DECLARE(name)                                                                                 \
    void MT_CPU(name)(struct mt_device * device, const struct mt_##name##_args *args);                       \
    __attribute__((weak))                                                                                    \
    size_t MT_CPU(name##_scratch)(const struct mt_device *device, const struct mt_##name##_args *args);      \
    __attribute__((weak)) bool MT_CPU(name##_fits)(const struct mt_##name##_args *args);
MT_OP_LIST(MT_CPU_DECLARE)
#undef MT_CPU_DECLARE

/* Another op as this device has it. No op of a host device fails. */
static inline void cpu_run(struct mt_device *device, enum mt_op op, const void *args)
{
    (void)mt_op_choose(device, op, args)->run(device, args);
}

// Elements, about 20 µs of one thread's work, below which no other is woken. Less would pay on an idle
// machine (5 µs), but where other programs run, whoever waits for a thread that has no processor waits
// milliseconds.
#define CPU_WORTH_WAKING 131072

/* Threads worth waking for `elements` of element-wise work. */
static inline int cpu_threads(const struct mt_device *device, int64_t elements)
{
    return elements < CPU_WORTH_WAKING ? 1 : device->threads;
}

/* True when every row of the tensor can be used as a float array. */
static inline bool cpu_is_f32(const struct mt_tensor *tensor)
{
    return tensor->dtype == MT_F32;
}

/* The same of all that are there; the list ends with NULL. */
static inline bool cpu_list_is_f32(const struct mt_tensor *const *list)
{
    while (*list != NULL && (!mt_tensor_present(*list) || cpu_is_f32(*list))) list++;
    return *list == NULL;
}
#define cpu_all_f32(...) cpu_list_is_f32((const struct mt_tensor *const[]){__VA_ARGS__, NULL})

/* Row t of a 2-d f32 tensor. */
static inline float *cpu_row(const struct mt_tensor *tensor, int64_t t)
{
    return (float *)tensor->data + t * tensor->stride[0];
}

/* Row (t,h) of a 3-d f32 tensor. */
static inline float *cpu_head_row(const struct mt_tensor *tensor, int64_t t, int64_t h)
{
    return (float *)tensor->data + t * tensor->stride[0] + h * tensor->stride[1];
}

static inline int64_t cpu_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*
 * A vector operand (a norm's weight, a bias) as floats: itself when it is f32, else converted into
 * `scratch` (dim[0] floats).
 */
static inline const float *cpu_vector_f32(const struct mt_tensor *vector, float *scratch)
{
    if (vector->dtype == MT_F32) return vector->data;
    mt_convert_to_f32(vector->dtype, vector->data, vector->dim[0], scratch);
    return scratch;
}

#endif
