/*
 * An exact product of a bf16 matrix and a small f32 weight on the tensor cores, as the router's LoRA pair
 * needs it. An f32 number is the sum of three bf16 numbers, so the weight becomes three, one below the other:
 * their products are exact term by term, and sums are f32. Converting the large operand to f32 instead takes
 * a pass over three times its bytes, and a product without tensor cores.
 */
#include "ops/cuda/products/gemm.cuh"

#define PARTS 3

/* The parts of b [N,K], each [N,K] itself: part 0 is b rounded, the others what that leaves. */
__global__ static void split_kernel(struct mt_tensor b, __nv_bfloat16 *parts)
{
    int64_t count = b.dim[0] * b.dim[1];
    for (int64_t i = cuda_thread(); i < count; i += cuda_thread_count()) {
        int64_t row = i / b.dim[1];
        float rest = static_cast<const float *>(b.data)[row * b.stride[0] + i - row * b.dim[1]];
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            __nv_bfloat16 rounded = __float2bfloat16_rn(rest);
            parts[part * count + i] = rounded;
            float value = __bfloat162float(rounded);
            rest = isfinite(value) ? rest - value : 0.0f; // exact
        }
    }
}

/* c = alpha · the sum of its parts, smallest first, + beta · c; a row of `sums` has the parts' N columns. */
__global__ static void join_kernel(const float *sums, struct mt_tensor c, float alpha, float beta)
{
    int64_t columns = c.dim[1];
    for (int64_t i = cuda_thread(); i < c.dim[0] * columns; i += cuda_thread_count()) {
        int64_t row = i / columns;
        int64_t column = i - row * columns;
        const float *part = sums + row * PARTS * columns + column;
        float sum = 0.0f;
#pragma unroll
        for (int p = PARTS - 1; p >= 0; p--) sum += part[p * columns];
        float *place = static_cast<float *>(c.data) + row * c.stride[0] + column;
        *place = beta == 0.0f ? alpha * sum : fmaf(alpha, sum, beta * *place);
    }
}

static bool fits(const struct mt_device *device, const struct mt_gemm_args *g)
{
    bool types = g->a.dtype == MT_BF16 && g->b.dtype == MT_F32 && g->c.dtype == MT_F32;
    bool small = PARTS * g->c.dim[1] <= g->a.dim[1]; // sums take less than a converted to f32
    return cuda_state_of(device)->bf16 && g->exact && types && !g->transpose_a && g->transpose_b && small;
}

static size_t parts_bytes(const struct mt_device *, const struct mt_gemm_args *g)
{
    return cuda_halves(PARTS * mt_tensor_count(&g->b)) + cuda_floats(PARTS * mt_tensor_count(&g->c));
}

static enum mt_status run(struct mt_device *device, const struct mt_gemm_args *g, void *scratch)
{
    __nv_bfloat16 *parts = static_cast<__nv_bfloat16 *>(scratch);
    char *behind = static_cast<char *>(scratch) + cuda_halves(PARTS * mt_tensor_count(&g->b));
    cudaStream_t stream = cuda_stream(device);
    int64_t rows = g->c.dim[0];
    int64_t columns = g->c.dim[1];
    split_kernel<<<cuda_blocks(mt_tensor_count(&g->b)), CUDA_THREADS, 0, stream>>>(g->b, parts);
    enum mt_status status = cuda_launched(device, "splitting a weight");
    if (status != MT_OK) return status;
    struct mt_gemm_args product = *g;
    product.b = mt_tensor_2d(parts, MT_BF16, PARTS * columns, g->b.dim[1]);
    product.c = mt_tensor_2d(behind, MT_F32, rows, PARTS * columns);
    product.alpha = 1.0f;
    product.beta = 0.0f;
    const struct cuda_batch one = {1, 0, 0, 0};
    status = cuda_multiply_bf16(device, -1, &product, &one);
    if (status != MT_OK) return status;
    join_kernel<<<cuda_blocks(rows * columns), CUDA_THREADS, 0, stream>>>(
        static_cast<const float *>(product.c.data), g->c, g->alpha, g->beta);
    return cuda_launched(device, "joining the parts of a product");
}

const struct cuda_variant<struct mt_gemm_args> cuda_gemm_split = {
    fits, parts_bytes, run
};

// ------------------------------------------------------------------ rows in two parts

__global__ static void two_kernel(struct mt_tensor x, struct cuda_two two)
{
    int64_t column = cuda_thread();
    if (column >= x.dim[1]) return;
    for (int64_t row = blockIdx.y; row < x.dim[0]; row += gridDim.y) {
        float value = static_cast<const float *>(x.data)[row * x.stride[0] + column];
        int64_t at = row * x.dim[1] + column;
        __nv_bfloat16 rounded = __float2bfloat16_rn(value);
        float near = __bfloat162float(rounded);
        static_cast<__nv_bfloat16 *>(two.rounded.data)[at] = rounded;
        static_cast<__nv_bfloat16 *>(two.rest.data)[at] =
            __float2bfloat16_rn(isfinite(near) ? value - near : 0.0f);
    }
}

size_t cuda_two_bytes(const struct mt_tensor *x)
{
    return 2 * cuda_halves(mt_tensor_count(x));
}

enum mt_status cuda_split_rows(struct mt_device *device, const struct mt_tensor *x, void *memory,
                               struct cuda_two *two)
{
    char *behind = static_cast<char *>(memory) + cuda_halves(mt_tensor_count(x));
    two->rounded = mt_tensor_2d(memory, MT_BF16, x->dim[0], x->dim[1]);
    two->rest = mt_tensor_2d(behind, MT_BF16, x->dim[0], x->dim[1]);
    if (mt_tensor_count(x) == 0) return MT_OK;
    two_kernel<<<cuda_grid(x->dim[0], x->dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*x, *two);
    return cuda_launched(device, "splitting rows");
}
