/*
 * Operands of attention forward as fp16 numbers: f32 q, k and v, each with one power of two that all of its
 * numbers share, so that whatever f32 holds fits and 11 bits count. Numbers 2^29 times smaller than their
 * tensor's largest begin to lose bits. One pass looks for the largest, a second one makes the numbers.
 */
#include "ops/cuda/attention_hopper.cuh"
#include "ops/cuda/scaled_rows.cuh"
#include "ops/cuda/wide.cuh"

#define OPERANDS      3   // q, k, v
#define POWERS_BYTES  256 // of scratch, before the numbers
#define BLOCKS        1056
#define INFINITE_BITS 0x7f800000u // of an f32

struct heads_source {
    const float *data;
    int64_t row_stride, head_stride;
    int64_t rows;
    int width, eights; // of a head; the latter with the padding
    int row_eights;    // of all heads
    bool aligned;
    __half *to; // [rows,heads,8·eights]
};

struct heads_call {
    struct heads_source source[OPERANDS];
    unsigned *highest; // [OPERANDS], bits of the largest magnitudes
    float *power;      // [OPERANDS]
};

/* Eight `i` of row `row`, zeros past a head's end. */
__device__ static inline void read_eight(const struct heads_source &s, int64_t row, int i,
                                         float (&value)[CUDA_WIDE])
{
    int head = i / s.eights;
    int column = (i - head * s.eights) * CUDA_WIDE;
    int64_t at = row * s.row_stride + head * s.head_stride + column;
    if (s.aligned) {
        wide_load(s.data, MT_F32, at, value);
        return;
    }
#pragma unroll
    for (int j = 0; j < CUDA_WIDE; j++) value[j] = column + j < s.width ? s.data[at + j] : 0.0f;
}

/* The largest magnitude of each operand that is a number; magnitudes are in the order of their bits. */
__global__ static void highest_kernel(const __grid_constant__ struct heads_call call)
{
    __shared__ unsigned partial[CUDA_WARPS];
    const struct heads_source &s = call.source[blockIdx.y];
    unsigned highest = 0;
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        for (int i = (int)threadIdx.x; i < s.row_eights; i += CUDA_THREADS) {
            float value[CUDA_WIDE];
            read_eight(s, row, i, value);
#pragma unroll
            for (int j = 0; j < CUDA_WIDE; j++) {
                unsigned bits = __float_as_uint(fabsf(value[j]));
                highest = bits < INFINITE_BITS ? max(highest, bits) : highest;
            }
        }
    }
    highest = __reduce_max_sync(CUDA_EVERY, highest);
    if (cuda_lane() == 0) partial[threadIdx.x / 32] = highest;
    __syncthreads();
    if (threadIdx.x >= CUDA_WARPS) return;
    atomicMax(call.highest + blockIdx.y, partial[threadIdx.x]); // in any order the same
}

__global__ static void halves_kernel(const __grid_constant__ struct heads_call call)
{
    const struct heads_source &s = call.source[blockIdx.y];
    unsigned highest = call.highest[blockIdx.y];
    float scale = scaled_down(highest);
    for (int64_t row = blockIdx.x; row < s.rows; row += gridDim.x) {
        uint4 *to = reinterpret_cast<uint4 *>(s.to) + row * s.row_eights;
        for (int i = (int)threadIdx.x; i < s.row_eights; i += CUDA_THREADS) {
            float value[CUDA_WIDE];
            read_eight(s, row, i, value);
            to[i] = scaled_eight(value, scale);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) call.power[blockIdx.y] = scaled_power(highest);
}

// ------------------------------------------------------------------ on the host

static int64_t eights_of(const struct mt_tensor *t)
{
    return (t->dim[2] + CUDA_WIDE - 1) / CUDA_WIDE;
}

static size_t heads_bytes(const struct mt_tensor *t)
{
    return cuda_halves(t->dim[0] * t->dim[1] * eights_of(t) * CUDA_WIDE);
}

bool cuda_attention_scaled_fits(const struct mt_device *device, const struct mt_attention_forward_args *a)
{
    if (!cuda_attention_fits(device, &a->q, &a->k, &a->v, &a->q_offsets)) return false;
    const struct mt_tensor *operands[OPERANDS] = {&a->q, &a->k, &a->v};
    struct mt_attention_forward_args halves = *a;
    struct mt_tensor *made[OPERANDS] = {&halves.q, &halves.k, &halves.v};
    for (int i = 0; i < OPERANDS; i++) {
        const struct mt_tensor *t = operands[i];
        if (t->dtype != MT_F32) return false;
        *made[i] = mt_tensor_3d(NULL, MT_BF16, t->dim[0], t->dim[1], eights_of(t) * CUDA_WIDE);
    }
    return cuda_attention_hopper_fits(device, &halves);
}

size_t cuda_attention_scaled_bytes(const struct mt_attention_forward_args *a)
{
    return POWERS_BYTES + heads_bytes(&a->q) + heads_bytes(&a->k) + heads_bytes(&a->v);
}

static struct heads_source source_of(const struct mt_tensor *t, char *to)
{
    struct heads_source source = {};
    source.data = static_cast<const float *>(t->data);
    source.row_stride = t->stride[0];
    source.head_stride = t->stride[1];
    source.rows = t->dim[0];
    source.width = (int)t->dim[2];
    source.eights = (int)eights_of(t);
    source.row_eights = (int)t->dim[1] * source.eights;
    source.aligned = cuda_is_wide(t);
    source.to = reinterpret_cast<__half *>(to);
    return source;
}

enum mt_status cuda_attention_forward_scaled(struct mt_device *device,
                                             const struct mt_attention_forward_args *a, void *scratch)
{
    struct heads_call call = {};
    struct mt_attention_forward_args halves = *a;
    struct mt_tensor *made[OPERANDS] = {&halves.q, &halves.k, &halves.v};
    cudaStream_t stream = cuda_stream(device);
    char *to = static_cast<char *>(scratch) + POWERS_BYTES;
    call.highest = static_cast<unsigned *>(scratch);
    call.power = static_cast<float *>(scratch) + OPERANDS;
    for (int i = 0; i < OPERANDS; i++) {
        const struct mt_tensor from = *made[i];
        call.source[i] = source_of(&from, to);
        // Those who only move numbers of 16 bits are told that these are bf16.
        *made[i] = mt_tensor_3d(to, MT_BF16, from.dim[0], from.dim[1], eights_of(&from) * CUDA_WIDE);
        to += heads_bytes(&from);
    }
    enum mt_status status =
        cuda_status(device, cudaMemsetAsync(call.highest, 0, OPERANDS * sizeof *call.highest, stream),
                    "clearing the largest of attention's operands");
    if (status != MT_OK) return status;
    highest_kernel<<<dim3(BLOCKS, OPERANDS), CUDA_THREADS, 0, stream>>>(call);
    halves_kernel<<<dim3(BLOCKS, OPERANDS), CUDA_THREADS, 0, stream>>>(call);
    status = cuda_launched(device, "making fp16 numbers of attention's operands");
    return status == MT_OK ? cuda_attention_forward_hopper(device, &halves, call.power) : status;
}
