/*
 * The experts' products of cuda-bf16 in one launch each: the device itself finds which rows are whose. Blocks
 * that find nothing to do end at once, which costs less than asking the device for the offsets.
 */
#include "ops/cuda/grouped.cuh"
#include "ops/cuda/tiles.cuh"

#define WIDE   128
#define NARROW 32 // the width of a LoRA pair's middle

/* The matrices of some experts: one type, one shape. */
struct matrices {
    void *data[CUDA_EXPERTS_AT_ONCE]; // NULL: absent
    int experts;
    const int32_t *offsets; // of the first of them
};

static struct matrices matrices_of(const struct mt_tensor *list, int first, int count,
                                   const struct mt_tensor *offsets)
{
    struct matrices m = {};
    m.experts = count;
    m.offsets = static_cast<const int32_t *>(offsets->data) + first;
    for (int i = 0; i < count; i++)
        m.data[i] = mt_tensor_present(&list[first + i]) ? list[first + i].data : NULL;
    return m;
}

const struct mt_tensor *cuda_uniform(const struct mt_tensor *list, int count)
{
    const struct mt_tensor *first = NULL;
    for (int e = 0; e < count; e++) {
        const struct mt_tensor *t = &list[e];
        if (!mt_tensor_present(t)) continue;
        if (first == NULL) first = t;
        bool fits = (t->dtype == MT_F32 || t->dtype == MT_BF16) && t->dtype == first->dtype &&
                    t->stride[0] == first->stride[0] && reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
        if (!fits) return NULL;
    }
    return first;
}

// ------------------------------------------------------------------ y = alpha · x · op(W_e) + beta · y

struct rows_call {
    struct tile_operand x;      // [R,K]
    struct tile_operand weight; // of any expert: all but the address
    float *y;
    int64_t y_stride;
    int64_t inner, columns;
    float alpha, beta;
};

template <int M, int N, int WARP_M, int WARP_N, bool TRANSPOSED>
__global__ static void __launch_bounds__(CUDA_THREADS)
    rows_kernel(const __grid_constant__ struct matrices matrices,
                const __grid_constant__ struct rows_call call)
{
    using product = tile_product<M, N, WARP_M, WARP_N, true, TRANSPOSED>;
    __shared__ typename product::memory shared;
    int64_t tile = blockIdx.y;
    for (int e = 0; e < matrices.experts; e++) {
        int64_t first = matrices.offsets[e];
        int64_t rows = matrices.offsets[e + 1] - first;
        int64_t tiles = (rows + M - 1) / M;
        if (tile >= tiles) {
            tile -= tiles;
            continue;
        }
        struct tile_operand x = tile_lines(call.x, first);
        struct tile_operand weight = call.weight;
        weight.data = matrices.data[e];
        typename product::output y = {call.y + first * call.y_stride, call.y_stride, call.alpha, call.beta};
        int64_t inner = weight.data != NULL ? call.inner : 0;
        product::run(shared, x, weight, y, tile * M, rows, (int64_t)blockIdx.x * N, call.columns, inner);
        return;
    }
}

template <int M, int N, int WARP_M, int WARP_N>
static void launch_rows(cudaStream_t stream, const struct matrices &matrices, const struct rows_call &call,
                        int64_t rows, bool transposed)
{
    // Each expert may end in a tile that is not full.
    dim3 grid((unsigned)((call.columns + N - 1) / N), (unsigned)(rows / M + matrices.experts));
    if (transposed) {
        rows_kernel<M, N, WARP_M, WARP_N, true><<<grid, CUDA_THREADS, 0, stream>>>(matrices, call);
    } else {
        rows_kernel<M, N, WARP_M, WARP_N, false><<<grid, CUDA_THREADS, 0, stream>>>(matrices, call);
    }
}

enum mt_status cuda_grouped_tiles(struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    const struct mt_tensor *weight = cuda_uniform(g->weight, g->experts);
    if (mt_tensor_count(&g->y) == 0) return MT_OK;
    struct rows_call call = {};
    call.x = tile_operand_of(&g->x);
    call.weight = tile_operand_of(weight);
    call.y = static_cast<float *>(g->y.data);
    call.y_stride = g->y.stride[0];
    call.inner = g->x.dim[1];
    call.columns = g->y.dim[1];
    call.alpha = g->alpha;
    call.beta = g->beta;
    for (int first = 0; first < g->experts; first += CUDA_EXPERTS_AT_ONCE) {
        int left = g->experts - first;
        int count = left < CUDA_EXPERTS_AT_ONCE ? left : CUDA_EXPERTS_AT_ONCE;
        struct matrices matrices = matrices_of(g->weight, first, count, &g->offsets);
        if (call.columns <= NARROW) {
            launch_rows<WIDE, NARROW, 16, NARROW>(cuda_stream(device), matrices, call, g->x.dim[0],
                                                  g->transpose_weight);
        } else {
            launch_rows<WIDE, WIDE, 32, 64>(cuda_stream(device), matrices, call, g->x.dim[0],
                                            g->transpose_weight);
        }
    }
    return cuda_launched(device, "grouped_gemm");
}

// ------------------------------------------------------------------ dW_e = alpha · dy_eᵀ x_e + beta · dW_e

struct gradient_call {
    struct tile_operand dy; // [R,out]
    struct tile_operand x;  // [R,in]
    int64_t stride;         // of dW
    int64_t out, in;
    float alpha, beta;
};

template <int M, int N, int WARP_M, int WARP_N>
__global__ static void __launch_bounds__(CUDA_THREADS)
    gradient_kernel(const __grid_constant__ struct matrices matrices,
                    const __grid_constant__ struct gradient_call call)
{
    using product = tile_product<M, N, WARP_M, WARP_N, false, false>;
    __shared__ typename product::memory shared;
    int e = (int)blockIdx.z;
    if (matrices.data[e] == NULL) return;
    int64_t first = matrices.offsets[e];
    int64_t rows = matrices.offsets[e + 1] - first;
    struct tile_operand dy = tile_lines(call.dy, first);
    struct tile_operand x = tile_lines(call.x, first);
    typename product::output dweight = {static_cast<float *>(matrices.data[e]), call.stride, call.alpha,
                                        call.beta};
    product::run(shared, dy, x, dweight, (int64_t)blockIdx.y * M, call.out, (int64_t)blockIdx.x * N, call.in,
                 rows);
}

template <int M, int N, int WARP_M, int WARP_N>
static void launch_gradient(cudaStream_t stream, const struct matrices &matrices,
                            const struct gradient_call &call)
{
    dim3 grid((unsigned)((call.in + N - 1) / N), (unsigned)((call.out + M - 1) / M),
              (unsigned)matrices.experts);
    gradient_kernel<M, N, WARP_M, WARP_N><<<grid, CUDA_THREADS, 0, stream>>>(matrices, call);
}

enum mt_status cuda_grouped_dw_tiles(struct mt_device *device, const struct mt_grouped_gemm_dw_args *g)
{
    const struct mt_tensor *dweight = cuda_uniform(g->dweight, g->experts);
    if (mt_tensor_count(dweight) == 0) return MT_OK;
    struct gradient_call call = {};
    call.dy = tile_operand_of(&g->dy);
    call.x = tile_operand_of(&g->x);
    call.stride = dweight->stride[0];
    call.out = g->dy.dim[1];
    call.in = g->x.dim[1];
    call.alpha = g->alpha;
    call.beta = g->beta;
    cudaStream_t stream = cuda_stream(device);
    for (int first = 0; first < g->experts; first += CUDA_EXPERTS_AT_ONCE) {
        int left = g->experts - first;
        int count = left < CUDA_EXPERTS_AT_ONCE ? left : CUDA_EXPERTS_AT_ONCE;
        struct matrices matrices = matrices_of(g->dweight, first, count, &g->offsets);
        if (call.in <= NARROW) {
            launch_gradient<WIDE, NARROW, 16, NARROW>(stream, matrices, call);
        } else if (call.out <= NARROW) {
            launch_gradient<NARROW, WIDE, NARROW, 16>(stream, matrices, call);
        } else {
            launch_gradient<WIDE, WIDE, 32, 64>(stream, matrices, call);
        }
    }
    return cuda_launched(device, "grouped_gemm_dw");
}
