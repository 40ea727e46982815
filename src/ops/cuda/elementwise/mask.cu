/* A mask of dropout_bits applied in a pass: eight elements a thread where operands allow, else one. */
#include "ops/cuda/common/wide.cuh"
#include "ops/cuda/elementwise/mask.cuh"

/* A pass over [rows,columns]. */
struct mask_call {
    struct mt_tensor x, mask, y;
    float beta;
    bool add;           // y = beta · y + x, else y = x
    const int32_t *end; // the first row that is left alone; NULL: none
};

/* The eight bits of columns `column` on, a multiple of eight. */
__device__ static inline uint32_t bits_at(const struct mt_tensor &mask, int64_t row, int64_t column)
{
    return (uint32_t)cuda_int2(mask, row, column / 32) >> (column % 32);
}

__global__ static void single_mask_kernel(const __grid_constant__ struct mask_call call)
{
    int64_t column = cuda_thread();
    if (column >= call.y.dim[1]) return;
    int64_t end = call.end != NULL ? *call.end : call.y.dim[0];
    for (int64_t row = blockIdx.y; row < end; row += gridDim.y) {
        bool kept = (bits_at(call.mask, row, column) & 1u) != 0;
        double value = kept ? cuda_get2(call.x, row, column) : 0.0;
        if (call.add && call.beta != 0.0f) value += (double)call.beta * cuda_get2(call.y, row, column);
        cuda_put2(call.y, row, column, value);
    }
}

__global__ static void wide_mask_kernel(const __grid_constant__ struct mask_call call)
{
    int64_t end = call.end != NULL ? *call.end : call.y.dim[0];
    struct wide_shape shape = {end, call.y.dim[1] / CUDA_WIDE};
    for (int64_t i = cuda_thread(); i < shape.rows * shape.eights; i += cuda_thread_count()) {
        int64_t row = i / shape.eights;
        struct wide_place place = {row, (i - row * shape.eights) * CUDA_WIDE};
        float value[CUDA_WIDE];
        float old[CUDA_WIDE];
        wide_load2(call.x, place, value);
        if (call.add && call.beta != 0.0f) wide_load2(call.y, place, old);
        uint32_t bits = bits_at(call.mask, row, place.column);
#pragma unroll
        for (int j = 0; j < CUDA_WIDE; j++) {
            value[j] = (bits >> j & 1u) != 0 ? value[j] : 0.0f;
            if (call.add && call.beta != 0.0f) value[j] = fmaf(call.beta, old[j], value[j]);
        }
        wide_store2(call.y, place, value);
    }
}

static enum mt_status launch(struct mt_device *device, const struct mask_call &call)
{
    if (mt_tensor_count(&call.y) == 0) return MT_OK;
    if (cuda_is_wide(&call.x) && cuda_is_wide(&call.y)) {
        unsigned blocks = cuda_blocks(mt_tensor_count(&call.y) / CUDA_WIDE);
        wide_mask_kernel<<<blocks, CUDA_THREADS, 0, cuda_stream(device)>>>(call);
    } else {
        single_mask_kernel<<<cuda_grid(call.y.dim[0], call.y.dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(
            call);
    }
    return cuda_launched(device, "a mask");
}

size_t cuda_masked_bytes(const struct mt_tensor *x)
{
    return ((size_t)mt_tensor_count(x) * mt_dtype_bytes(x->dtype) + 255) / 256 * 256;
}

enum mt_status cuda_mask(struct mt_device *device, const struct mt_tensor *x, const struct mt_tensor *mask,
                         void *memory, struct mt_tensor *masked)
{
    *masked = mt_tensor_2d(memory, x->dtype, x->dim[0], x->dim[1]);
    struct mask_call call = {};
    call.x = *x;
    call.mask = *mask;
    call.y = *masked;
    return launch(device, call);
}

enum mt_status cuda_add_masked(struct mt_device *device, const struct mt_tensor *x,
                               const struct mt_tensor *mask, float beta, const int32_t *end,
                               const struct mt_tensor *y)
{
    struct mask_call call = {};
    call.x = *x;
    call.mask = *mask;
    call.y = *y;
    call.beta = beta;
    call.add = true;
    call.end = end;
    return launch(device, call);
}
