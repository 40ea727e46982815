/*
 * What the kernels of this folder share: the stream, error conversion, element access, launch shapes.
 *
 * Kernels take an op's argument struct by value: it holds device pointers, shapes and numbers, nothing else.
 * Sums are kept in double where ref's tolerance or a decision depends on them. GPUs of data centres compute
 * doubles at half the rate of floats, which element-wise work, bound by memory, does not notice; GeForce
 * cards at a 64th, which it does.
 */
#ifndef MT_OPS_CUDA_COMMON_CUH
#define MT_OPS_CUDA_COMMON_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "ops/cuda/cuda.h"

#define CUDA_THREADS 256 // of a block, unless a file says otherwise
#define CUDA_WARPS   (CUDA_THREADS / 32)
#define CUDA_EVERY   0xffffffffu // all lanes of a warp
#define CUDA_LANES   4           // streams beside the first, for products that do not fill the device alone

struct cublasContext; // cublas_v2.h is for those who multiply

/* A stream and a cuBLAS that works on it. */
struct cuda_lane_state {
    cudaStream_t stream;
    cudaEvent_t done;
    struct cublasContext *blas; // NULL before the first product
    void *blas_workspace;       // given to blas, so that it allocates nothing itself
};

#define CUDA_COUNTERS 4096 // of cuda_state
#define CUDA_MEETINGS 1024

struct cuda_state {
    cudaStream_t stream;
    bool borrowed; // the stream is somebody else's
    int gpu;
    bool bf16;      // products of f32 numbers are made of their bf16 roundings, unless `exact` is asked for
    bool recording; // launches are taken down: nothing may wait for them
    int multiprocessors;
    bool hopper;                // sm_90, and its own instructions were built in
    bool poses;                 // it passes for another card (gpu.cuh)
    void *encode_map;           // the driver's cuTensorMapEncodeTiled; NULL if not on Hopper
    size_t shared_bytes;        // shared memory a block may ask for
    struct cublasContext *blas; // NULL before the first product
    void *blas_workspace;       // given to blas, so that it allocates nothing itself
    cudaEvent_t fork;           // what the lanes wait for; NULL before their first use
    cudaEvent_t reached;        // what another device waits for (ops/streams.h); NULL likewise
    unsigned *counters;         // of tiles, each for one launch, cleared all at a time; NULL if not on Hopper
    int next_counter;
    unsigned *meetings; // words by which blocks of a launch find each other, 0 in between (lora_hopper.cuh)
    struct cuda_lane_state lane[CUDA_LANES];
    struct cuda_lane_state side; // for work beside other work (beside.cuh); NULLs before its first use
    cudaEvent_t parting;         // what that waits for
    bool beside; // it is being issued: stream and blas are the side's, `side` has the device's
    bool joined; // the next launch waits for both
};

static inline struct cuda_state *cuda_state_of(const struct mt_device *device)
{
    return static_cast<struct cuda_state *>(device->state);
}

static inline cudaStream_t cuda_stream(const struct mt_device *device)
{
    return cuda_state_of(device)->stream;
}

/* Turns a CUDA error into a status; `what` names the call. */
static inline enum mt_status cuda_status(const struct mt_device *device, cudaError_t error, const char *what)
{
    if (error == cudaSuccess) return MT_OK;
    enum mt_status status = error == cudaErrorMemoryAllocation ? MT_ERR_MEMORY : MT_ERR_INTERNAL;
    return mt_fail(device->ctx, status, "cuda: %s: %s", what, cudaGetErrorString(error));
}

/* The status of a kernel launch: bad launch parameters; what fails later is seen at the next synchronisation.
 */
static inline enum mt_status cuda_launched(const struct mt_device *device, const char *what)
{
    return cuda_status(device, cudaGetLastError(), what);
}

/*
 * Whether the kernel that is launched now may take its places while the one before it ends. Beside other work
 * its waiting blocks would take the places of those that need not wait; after a join there are two before it.
 */
static inline bool cuda_starts_early(const struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    bool early = state->hopper && !state->beside && !state->joined;
    if (!state->beside) state->joined = false;
    return early;
}

/*
 * Launches a kernel that begins with cuda_follow. Where the device can, its blocks take their places while
 * the kernel before it ends, which hides what a launch costs: most of what a small kernel of a decoding step
 * does.
 */
template <class... PARAMETERS, class... ARGUMENTS>
static inline enum mt_status cuda_launch(const struct mt_device *device, const char *what,
                                         void (*kernel)(PARAMETERS...), dim3 grid, unsigned threads,
                                         size_t shared, const ARGUMENTS &...arguments)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = cuda_stream(device);
    config.attrs = &early;
    config.numAttrs = cuda_starts_early(device) ? 1 : 0;
    cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
    if (error != cudaSuccess) (void)cudaGetLastError(); // it would be taken for the next launch's
    return cuda_status(device, error, what);
}

/* Lets the next kernel's blocks take their places, and waits until the kernel before has written everything.
 */
__device__ static inline void cuda_follow(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/*
 * Shared memory that a block has on every card of compute capability 8.0 or more: 8.6, 8.9 and 12.0 have no
 * more. A kernel that needs more is Hopper's own, or has another beside it that does not.
 */
#define CUDA_LEAST_SHARED (99 << 10)

/*
 * More than 48 KB of shared memory have to be asked for, kernel by kernel, and here alone; `what` is what
 * they are for. More than a block has fails, also where the card passes for one that has less.
 */
enum mt_status cuda_allow_shared(const struct mt_device *device, const void *kernel, size_t bytes,
                                 const char *what);

/* f32 or bf16: what the tensor cores' kernels read and write. */
static inline bool cuda_is_float_or_bf16(const struct mt_tensor *t)
{
    return t->dtype == MT_F32 || t->dtype == MT_BF16;
}

// ------------------------------------------------------------------ elements

/*
 * Elements of any float type, read and written as float. The switch is uniform over a kernel, so it costs
 * a predictable branch; kernels that are bound by more than memory take the type as a template parameter.
 */
struct cuda_view {
    void *data;
    enum mt_dtype dtype;
    int64_t row; // elements between rows
};

static inline struct cuda_view cuda_view_of(const struct mt_tensor *tensor)
{
    struct cuda_view view = {tensor->data, tensor->dtype, tensor->rank >= 2 ? tensor->stride[0] : 0};
    return view;
}

/* Element `at` of an array of any float type. */
__device__ static inline float cuda_float_at(const void *data, enum mt_dtype dtype, int64_t at)
{
    switch (dtype) {
    case MT_BF16: return __bfloat162float(static_cast<const __nv_bfloat16 *>(data)[at]);
    case MT_F16: return __half2float(static_cast<const __half *>(data)[at]);
    case MT_F64: return (float)static_cast<const double *>(data)[at];
    default: return static_cast<const float *>(data)[at];
    }
}

__device__ static inline void cuda_float_set(void *data, enum mt_dtype dtype, int64_t at, float value)
{
    switch (dtype) {
    case MT_BF16: static_cast<__nv_bfloat16 *>(data)[at] = __float2bfloat16_rn(value); break;
    case MT_F16: static_cast<__half *>(data)[at] = __float2half_rn(value); break;
    case MT_F64: static_cast<double *>(data)[at] = (double)value; break;
    default: static_cast<float *>(data)[at] = value; break;
    }
}

__device__ static inline float cuda_load(const struct cuda_view &view, int64_t row, int64_t column)
{
    return cuda_float_at(view.data, view.dtype, row * view.row + column);
}

__device__ static inline void cuda_store(const struct cuda_view &view, int64_t row, int64_t column,
                                         float value)
{
    cuda_float_set(view.data, view.dtype, row * view.row + column, value);
}

/*
 * A double on its way to 16 bits, in one rounding: a value that is inexact as a float is nudged to an odd
 * last bit, which keeps what the second rounding needs.
 */
__device__ static inline float cuda_round_to_odd(double value)
{
    float nearest = (float)value;
    if (isnan(value) || isinf(nearest) || (double)nearest == value) return nearest;
    unsigned bits = __float_as_uint(nearest);
    if ((bits & 1u) == 0) bits = fabs((double)nearest) > fabs(value) ? bits - 1 : bits + 1;
    return __uint_as_float(bits);
}

/* Element `at` of a tensor's memory as a double, whatever the type: what mt_load is on the host. */
__device__ static inline double cuda_get(const struct mt_tensor &t, int64_t at)
{
    switch (t.dtype) {
    case MT_F64: return static_cast<const double *>(t.data)[at];
    case MT_I32: return (double)static_cast<const int32_t *>(t.data)[at];
    default: return (double)cuda_float_at(t.data, t.dtype, at);
    }
}

/* Rounds once, to the type's precision: what mt_store is on the host. */
__device__ static inline void cuda_put(const struct mt_tensor &t, int64_t at, double value)
{
    switch (t.dtype) {
    case MT_F64: static_cast<double *>(t.data)[at] = value; break;
    case MT_I32: static_cast<int32_t *>(t.data)[at] = (int32_t)value; break;
    case MT_F32: static_cast<float *>(t.data)[at] = (float)value; break;
    default: cuda_float_set(t.data, t.dtype, at, cuda_round_to_odd(value)); break;
    }
}

__device__ static inline double cuda_get1(const struct mt_tensor &t, int64_t i)
{
    return cuda_get(t, i);
}

__device__ static inline double cuda_get2(const struct mt_tensor &t, int64_t i, int64_t j)
{
    return cuda_get(t, i * t.stride[0] + j);
}

__device__ static inline double cuda_get3(const struct mt_tensor &t, int64_t i, int64_t j, int64_t k)
{
    return cuda_get(t, i * t.stride[0] + j * t.stride[1] + k);
}

__device__ static inline void cuda_put1(const struct mt_tensor &t, int64_t i, double value)
{
    cuda_put(t, i, value);
}

__device__ static inline void cuda_put2(const struct mt_tensor &t, int64_t i, int64_t j, double value)
{
    cuda_put(t, i * t.stride[0] + j, value);
}

__device__ static inline void cuda_put3(const struct mt_tensor &t, int64_t i, int64_t j, int64_t k,
                                        double value)
{
    cuda_put(t, i * t.stride[0] + j * t.stride[1] + k, value);
}

/* Writes `value`, or adds it to what is there. */
__device__ static inline void cuda_give2(const struct mt_tensor &t, int64_t i, int64_t j, double value,
                                         bool accumulate)
{
    cuda_put2(t, i, j, accumulate ? cuda_get2(t, i, j) + value : value);
}

__device__ static inline int32_t cuda_int1(const struct mt_tensor &t, int64_t i)
{
    return static_cast<const int32_t *>(t.data)[i];
}

__device__ static inline int32_t cuda_int2(const struct mt_tensor &t, int64_t i, int64_t j)
{
    return static_cast<const int32_t *>(t.data)[i * t.stride[0] + j];
}

__device__ static inline int32_t *cuda_int_row(const struct mt_tensor &t, int64_t i)
{
    return static_cast<int32_t *>(t.data) + i * t.stride[0];
}

/* mt_tensor_present, on the device. */
__device__ static inline bool cuda_present(const struct mt_tensor &t)
{
    return t.rank != 0;
}

// ------------------------------------------------------------------ launch shapes

/* This thread among all of the grid, and how many there are: for loops over a list. */
__device__ static inline int64_t cuda_thread(void)
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static inline int64_t cuda_thread_count(void)
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* This warp among all of the grid: one row each. */
__device__ static inline int64_t cuda_warp(void)
{
    return (int64_t)blockIdx.x * CUDA_WARPS + threadIdx.x / 32;
}

__device__ static inline int cuda_lane(void)
{
    return (int)(threadIdx.x % 32);
}

/* Blocks of CUDA_THREADS for `count` > 0 elements; kernels loop, so that a cap is allowed. */
static inline unsigned cuda_blocks(int64_t count)
{
    int64_t blocks = (count + CUDA_THREADS - 1) / CUDA_THREADS;
    return (unsigned)(blocks < (1 << 20) ? blocks : 1 << 20);
}

/* Blocks that give each of `rows` > 0 rows a warp. */
static inline unsigned cuda_warp_blocks(int64_t rows)
{
    return (unsigned)((rows + CUDA_WARPS - 1) / CUDA_WARPS);
}

/* Columns along x, one thread each; rows along y, where kernels loop. */
static inline dim3 cuda_grid(int64_t rows, int64_t width)
{
    return dim3((unsigned)((width + CUDA_THREADS - 1) / CUDA_THREADS), (unsigned)(rows < 8192 ? rows : 8192));
}

/* Bytes of `count` numbers of 16 bits, rounded up likewise. */
static inline size_t cuda_halves(int64_t count)
{
    return ((size_t)count * 2 + 255) / 256 * 256;
}

/* Bytes of `count` doubles or floats, rounded up so that the next piece of scratch is aligned. */
static inline size_t cuda_doubles(int64_t count)
{
    return ((size_t)count * sizeof(double) + 255) / 256 * 256;
}

static inline size_t cuda_floats(int64_t count)
{
    return ((size_t)count * sizeof(float) + 255) / 256 * 256;
}

#endif
