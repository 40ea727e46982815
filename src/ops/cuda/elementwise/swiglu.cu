/* swiglu, with a limit or without, and its backward, eight elements a thread where the operands allow. */
#include "ops/cuda/common/wide.cuh"
#include "ops/cuda/elementwise/swiglu.cuh"

// ------------------------------------------------------------------ kernels

__device__ static float one_forward(const struct mt_swiglu_forward_args &a, float gate, float up)
{
    return a.limit > 0.0f ? limited_swiglu(gate, up, a.limit, a.alpha) : swiglu(gate, up);
}

__device__ static void one_backward(const struct mt_swiglu_backward_args &a, float *dy, float *gate,
                                    float *up)
{
    if (a.limit > 0.0f) {
        limited_swiglu_gradient(dy, gate, up, a.limit, a.alpha);
    } else {
        swiglu_gradient(dy, gate, up);
    }
}

__global__ static void forward_kernel(struct mt_swiglu_forward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.y.dim[1]) return;
    struct cuda_view gate = {a.gate.data, a.gate.dtype, a.gate.stride[0]};
    struct cuda_view up = {a.up.data, a.up.dtype, a.up.stride[0]};
    struct cuda_view y = {a.y.data, a.y.dtype, a.y.stride[0]};
    for (int64_t row = blockIdx.y; row < a.y.dim[0]; row += gridDim.y) {
        cuda_store(y, row, column, one_forward(a, cuda_load(gate, row, column), cuda_load(up, row, column)));
    }
}

__global__ static void wide_forward_kernel(struct mt_swiglu_forward_args a, struct wide_shape shape)
{
    for (int64_t i = cuda_thread(); i < shape.rows * shape.eights; i += cuda_thread_count()) {
        struct wide_place place = wide_place_at(shape, i);
        float g[CUDA_WIDE];
        float u[CUDA_WIDE];
        wide_load2(a.gate, place, g);
        wide_load2(a.up, place, u);
#pragma unroll
        for (int j = 0; j < CUDA_WIDE; j++) g[j] = one_forward(a, g[j], u[j]);
        wide_store2(a.y, place, g);
    }
}

__global__ static void backward_kernel(struct mt_swiglu_backward_args a)
{
    int64_t column = cuda_thread();
    if (column >= a.dy.dim[1]) return;
    struct cuda_view dy = {a.dy.data, a.dy.dtype, a.dy.stride[0]};
    struct cuda_view gate = {a.gate.data, a.gate.dtype, a.gate.stride[0]};
    struct cuda_view up = {a.up.data, a.up.dtype, a.up.stride[0]};
    struct cuda_view dgate = {a.dgate.data, a.dgate.dtype, a.dgate.stride[0]};
    struct cuda_view dup = {a.dup.data, a.dup.dtype, a.dup.stride[0]};
    struct cuda_view y = {a.y.data, a.y.dtype, a.y.stride[0]}; // no data: not wanted
    for (int64_t row = blockIdx.y; row < a.dy.dim[0]; row += gridDim.y) {
        float d = cuda_load(dy, row, column);
        float g = cuda_load(gate, row, column);
        float u = cuda_load(up, row, column);
        one_backward(a, &d, &g, &u);
        cuda_store(dgate, row, column, g);
        cuda_store(dup, row, column, u);
        if (y.data != NULL) cuda_store(y, row, column, d);
    }
}

__global__ static void wide_backward_kernel(struct mt_swiglu_backward_args a, struct wide_shape shape)
{
    for (int64_t i = cuda_thread(); i < shape.rows * shape.eights; i += cuda_thread_count()) {
        struct wide_place place = wide_place_at(shape, i);
        float d[CUDA_WIDE];
        float g[CUDA_WIDE];
        float u[CUDA_WIDE];
        wide_load2(a.dy, place, d);
        wide_load2(a.gate, place, g);
        wide_load2(a.up, place, u);
#pragma unroll
        for (int j = 0; j < CUDA_WIDE; j++) one_backward(a, &d[j], &g[j], &u[j]);
        wide_store2(a.dgate, place, g);
        wide_store2(a.dup, place, u);
        if (cuda_present(a.y)) wide_store2(a.y, place, d);
    }
}

// ------------------------------------------------------------------ launchers

enum mt_status mt_cuda_swiglu_forward(struct mt_device *device, const struct mt_swiglu_forward_args *a)
{
    cudaStream_t stream = cuda_stream(device);
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    if (cuda_is_wide(&a->gate) && cuda_is_wide(&a->up) && cuda_is_wide(&a->y)) {
        bool flat = mt_tensor_is_contiguous(&a->gate) && mt_tensor_is_contiguous(&a->up) &&
                    mt_tensor_is_contiguous(&a->y);
        struct wide_shape shape = wide_shape_of(&a->y, flat);
        wide_forward_kernel<<<cuda_blocks(shape.rows * shape.eights), CUDA_THREADS, 0, stream>>>(*a, shape);
    } else {
        forward_kernel<<<cuda_grid(a->y.dim[0], a->y.dim[1]), CUDA_THREADS, 0, stream>>>(*a);
    }
    return cuda_launched(device, "swiglu forward");
}

enum mt_status mt_cuda_swiglu_backward(struct mt_device *device, const struct mt_swiglu_backward_args *a)
{
    cudaStream_t stream = cuda_stream(device);
    if (mt_tensor_count(&a->dy) == 0) return MT_OK;
    const struct mt_tensor *const operands[] = {&a->dy, &a->gate, &a->up, &a->dgate, &a->dup, &a->y};
    bool wide = true;
    bool flat = true;
    for (const struct mt_tensor *operand : operands) {
        wide = wide && cuda_is_wide(operand);
        flat = flat && (!mt_tensor_present(operand) || mt_tensor_is_contiguous(operand));
    }
    if (wide) {
        struct wide_shape shape = wide_shape_of(&a->dy, flat);
        wide_backward_kernel<<<cuda_blocks(shape.rows * shape.eights), CUDA_THREADS, 0, stream>>>(*a, shape);
    } else {
        backward_kernel<<<cuda_grid(a->dy.dim[0], a->dy.dim[1]), CUDA_THREADS, 0, stream>>>(*a);
    }
    return cuda_launched(device, "swiglu backward");
}
