/*
 * dequantize: eight neighbouring elements a thread, read as one or two words of codes and written as 16
 * bytes, for all experts of a launch; where rows do not divide into eights, element by element. Blocks of
 * experts without rows end at once: nothing crosses to the host. A product and a sum are rounded apart, as on
 * the host.
 */
#include "ops/cuda/common/wide.cuh"
#include "tensor/nf4_numbers.h"

#define AT_ONCE 64 // experts of a launch: what they need fits into a kernel's parameters
#define EIGHT   8  // elements of a thread

struct matrices {
    const uint8_t *codes[AT_ONCE]; // NULL: absent
    const void *scales[AT_ONCE];
    const float *nested_scales[AT_ONCE]; // of nf4, or NULL
    const float *nested_offset[AT_ONCE];
    __nv_bfloat16 *y[AT_ONCE];
    const float *nested_map;
    const int32_t *offsets; // of the first; NULL: all are read
    int64_t out, in;
};

__constant__ static const float nf4_values[16] = {MT_NF4_NUMBERS};

/* nf4's numbers where lanes can read different ones at a time; all threads of a block call it. */
__device__ static inline const float *shared_values(void)
{
    __shared__ float values[16];
    if (threadIdx.x < 16) values[threadIdx.x] = nf4_values[threadIdx.x];
    __syncthreads();
    return values;
}

/* E2M1 from its fields: 0, 0.5, 1, 1.5, 2, 3, 4, 6. */
__device__ static inline float e2m1_value(unsigned code)
{
    unsigned magnitude = code & 7u;
    float value = magnitude < 2 ? 0.5f * (float)magnitude : __uint_as_float((magnitude << 22) + (126u << 23));
    return code & 8u ? -value : value;
}

/* As mt_fp8_to_float. */
__device__ static inline float fp8_value(unsigned code)
{
    unsigned magnitude = code & 0x7Fu;
    float value =
        magnitude < 8 ? (float)magnitude * 0x1p-9f : __uint_as_float((magnitude << 20) + (120u << 23));
    if (magnitude == 0x7Fu) value = __uint_as_float(0x7FC00000u);
    return code & 0x80u ? -value : value;
}

/* As mt_e8m0_to_float. */
__device__ static inline float e8m0_value(unsigned code)
{
    unsigned bits = code == 0 ? 0x00400000u : code << 23;
    return __uint_as_float(code == 255 ? 0x7FC00000u : bits);
}

__device__ static inline float nf4_scale(const struct matrices &m, int e, int64_t block)
{
    if (m.nested_scales[e] == NULL) return static_cast<const float *>(m.scales[e])[block];
    unsigned code = static_cast<const uint8_t *>(m.scales[e])[block];
    float less_mean = __fmul_rn(m.nested_map[code], m.nested_scales[e][block / MT_NF4_NESTED_BLOCK]);
    return __fadd_rn(less_mean, *m.nested_offset[e]);
}

/* The number of one element. */
template <enum mt_quantised_format FORMAT>
__device__ static inline float value_at(const struct matrices &m, const float *nf4, int e, int64_t row,
                                        int64_t column)
{
    const uint8_t *codes = m.codes[e];
    const float *scales = static_cast<const float *>(m.scales[e]);
    if (FORMAT == MT_QUANTISED_NF4) {
        int64_t element = row * m.in + column;
        unsigned pair = codes[element / 2];
        return __fmul_rn(nf4[element % 2 == 0 ? pair >> 4 : pair & 15u],
                         nf4_scale(m, e, element / MT_NF4_BLOCK));
    }
    if (FORMAT == MT_QUANTISED_MXFP4) {
        int64_t blocks = (m.in + MT_MXFP4_BLOCK - 1) / MT_MXFP4_BLOCK;
        unsigned pair = codes[row * blocks * (MT_MXFP4_BLOCK / 2) + column / 2];
        unsigned scale = static_cast<const uint8_t *>(m.scales[e])[row * blocks + column / MT_MXFP4_BLOCK];
        return __fmul_rn(e2m1_value(column % 2 == 0 ? pair & 15u : pair >> 4), e8m0_value(scale));
    }
    unsigned code = codes[row * m.in + column];
    if (FORMAT == MT_QUANTISED_INT8) return __fmul_rn((float)(int8_t)code, scales[row]);
    int64_t blocks = (m.in + MT_FP8_BLOCK - 1) / MT_FP8_BLOCK;
    return __fmul_rn(fp8_value(code), scales[row / MT_FP8_BLOCK * blocks + column / MT_FP8_BLOCK]);
}

/* Elements [column, column+8) of a row of codes of four bits: one word, and one scale. */
template <enum mt_quantised_format FORMAT>
__device__ static inline void four_bits(const struct matrices &m, const float *values, int e, int64_t row,
                                        int64_t column, float (&value)[EIGHT])
{
    bool nf4 = FORMAT == MT_QUANTISED_NF4;
    int64_t blocks = (m.in + MT_MXFP4_BLOCK - 1) / MT_MXFP4_BLOCK;
    int64_t first = nf4 ? row * m.in + column : row * blocks * MT_MXFP4_BLOCK + column; // of the codes
    unsigned word = *reinterpret_cast<const unsigned *>(m.codes[e] + first / 2);
    const uint8_t *exponents = static_cast<const uint8_t *>(m.scales[e]);
    float scale = nf4 ? nf4_scale(m, e, first / MT_NF4_BLOCK) : e8m0_value(exponents[first / MT_MXFP4_BLOCK]);
#pragma unroll
    for (int i = 0; i < EIGHT; i++) {
        unsigned byte = word >> (i / 2 * 8) & 0xFFu;
        unsigned code = (i % 2 == 0) == nf4 ? byte >> 4 : byte & 15u;
        value[i] = __fmul_rn(nf4 ? values[code] : e2m1_value(code), scale);
    }
}

/* The same of eight bits: two words. */
template <enum mt_quantised_format FORMAT>
__device__ static inline void eight_bits(const struct matrices &m, int e, int64_t row, int64_t column,
                                         float (&value)[EIGHT])
{
    bool fp8 = FORMAT == MT_QUANTISED_FP8;
    uint2 both = *reinterpret_cast<const uint2 *>(m.codes[e] + row * m.in + column);
    int64_t blocks = (m.in + MT_FP8_BLOCK - 1) / MT_FP8_BLOCK;
    int64_t block = fp8 ? row / MT_FP8_BLOCK * blocks + column / MT_FP8_BLOCK : row;
    float scale = static_cast<const float *>(m.scales[e])[block];
#pragma unroll
    for (int i = 0; i < EIGHT; i++) {
        unsigned code = (i < 4 ? both.x : both.y) >> (i % 4 * 8) & 0xFFu;
        value[i] = __fmul_rn(fp8 ? fp8_value(code) : (float)(int8_t)code, scale);
    }
}

__device__ static inline bool is_unused(const struct matrices &m, int e)
{
    return m.codes[e] == NULL || (m.offsets != NULL && m.offsets[e] == m.offsets[e + 1]);
}

template <enum mt_quantised_format FORMAT>
__global__ static void __launch_bounds__(CUDA_THREADS) wide_kernel(const __grid_constant__ struct matrices m)
{
    const float *nf4 = shared_values();
    cuda_follow();
    int e = blockIdx.y;
    if (is_unused(m, e)) return;
    int64_t eights = m.in / EIGHT;
    for (int64_t i = cuda_thread(); i < m.out * eights; i += cuda_thread_count()) {
        int64_t row = i / eights;
        int64_t column = i % eights * EIGHT;
        float value[EIGHT];
        if (FORMAT == MT_QUANTISED_NF4 || FORMAT == MT_QUANTISED_MXFP4)
            four_bits<FORMAT>(m, nf4, e, row, column, value);
        else
            eight_bits<FORMAT>(m, e, row, column, value);
        wide_store(m.y[e], MT_BF16, i * EIGHT, value);
    }
}

template <enum mt_quantised_format FORMAT>
__global__ static void __launch_bounds__(CUDA_THREADS)
    single_kernel(const __grid_constant__ struct matrices m)
{
    const float *nf4 = shared_values();
    cuda_follow();
    int e = blockIdx.y;
    if (is_unused(m, e)) return;
    for (int64_t i = cuda_thread(); i < m.out * m.in; i += cuda_thread_count())
        m.y[e][i] = __float2bfloat16_rn(value_at<FORMAT>(m, nf4, e, i / m.in, i % m.in));
}

// ------------------------------------------------------------------ the host's side

/* Experts [first, first+count); what is absent stays NULL. False when some cannot be read in eights. */
static bool take_matrices(const struct mt_dequantize_args *a, int first, int count, struct matrices *m)
{
    bool wide = true;
    for (int i = 0; i < count; i++) {
        const struct mt_quantised *stored = &a->stored[first + i];
        if (stored->out == 0) continue;
        m->out = stored->out;
        m->in = stored->in;
        m->codes[i] = static_cast<const uint8_t *>(stored->codes.data);
        m->scales[i] = stored->scales.data;
        m->nested_scales[i] = static_cast<const float *>(stored->nested_scales.data);
        m->nested_offset[i] = static_cast<const float *>(stored->nested_offset.data);
        m->nested_map = static_cast<const float *>(stored->nested_map.data);
        m->y[i] = static_cast<__nv_bfloat16 *>(a->y[first + i].data);
        wide = wide && stored->in % EIGHT == 0 && reinterpret_cast<uintptr_t>(m->codes[i]) % EIGHT == 0 &&
               reinterpret_cast<uintptr_t>(m->y[i]) % 16 == 0;
    }
    return wide;
}

template <enum mt_quantised_format FORMAT>
static enum mt_status launch(struct mt_device *device, const struct matrices &m, int count, bool wide)
{
    int64_t work = wide ? m.out * m.in / EIGHT : m.out * m.in;
    dim3 grid(cuda_blocks(work), (unsigned)count);
    auto kernel = wide ? wide_kernel<FORMAT> : single_kernel<FORMAT>;
    return cuda_launch(device, "dequantize", kernel, grid, CUDA_THREADS, 0, m);
}

enum mt_status mt_cuda_dequantize(struct mt_device *device, const struct mt_dequantize_args *a)
{
    enum mt_status status = MT_OK;
    for (int first = 0; first < a->experts && status == MT_OK; first += AT_ONCE) {
        struct matrices m = {};
        int count = a->experts - first < AT_ONCE ? a->experts - first : AT_ONCE;
        bool wide = take_matrices(a, first, count, &m);
        if (m.out == 0) continue; // none is there
        if (mt_tensor_present(&a->offsets)) m.offsets = static_cast<const int32_t *>(a->offsets.data) + first;
        enum mt_quantised_format format = MT_QUANTISED_FORMATS;
        for (int i = 0; i < count; i++) {
            if (m.codes[i] != NULL) format = a->stored[first + i].format;
        }
        switch (format) {
        case MT_QUANTISED_FP8: status = launch<MT_QUANTISED_FP8>(device, m, count, wide); break;
        case MT_QUANTISED_INT8: status = launch<MT_QUANTISED_INT8>(device, m, count, wide); break;
        case MT_QUANTISED_NF4: status = launch<MT_QUANTISED_NF4>(device, m, count, wide); break;
        case MT_QUANTISED_MXFP4: status = launch<MT_QUANTISED_MXFP4>(device, m, count, wide); break;
        case MT_QUANTISED_FORMATS: break;
        }
    }
    return status;
}
