/*
 * head_gemm: where there are few rows, one launch of this file's kernel for weights [K,N] (thin.cuh), or of
 * thin.cu's for weights [N,K]; else cuBLAS's batched product on cuda-bf16, or a product per head.
 *
 * The kernel's block makes 64 columns. An instruction's left operand is 16 columns of a weight: a lane reads
 * eight neighbouring columns of four steps, and four instructions take two of the columns each.
 */
#include "ops/cuda/products/grouped.cuh"
#include "ops/cuda/products/thin.cuh"

#define COLUMNS   64 // of a block
#define STEPS     16 // of an instruction
#define MOST_ROWS 32

/* Fragment 4t + j: columns 8l + 2j and the next, l a lane's number / 4, of rows 8t on. */
template <int TILES>
__device__ static inline void add_product(float (&sums)[4 * TILES][4], const __nv_bfloat16 *x,
                                          int64_t x_stride, int64_t rows, const __nv_bfloat16 *weight,
                                          int64_t stride, int64_t columns, int steps)
{
    int line = cuda_lane() / 4;
    int part = cuda_lane() % 4 * 4;
    for (int k = (int)threadIdx.x / 32 * STEPS; k < steps; k += CUDA_WARPS * STEPS) {
        bool there = k + part < steps; // then all four steps are
        uint4 w[4];
        uint2 right[TILES];
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = thin_weight(weight + (k + part + i) * stride + 8 * line, there && 8 * line < columns);
#pragma unroll
        for (int t = 0; t < TILES; t++) {
            int64_t row = 8 * t + line < rows ? 8 * t + line : rows - 1; // the last one again: not stored
            right[t] =
                there ? *reinterpret_cast<const uint2 *>(x + row * x_stride + k + part) : make_uint2(0, 0);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            unsigned word[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                word[i] = j == 0 ? w[i].x : j == 1 ? w[i].y : j == 2 ? w[i].z : w[i].w;
            // Two steps of the first column, then of the second one; then the other two steps.
            const unsigned left[4] = {
                __byte_perm(word[0], word[1], 0x5410), __byte_perm(word[0], word[1], 0x7632),
                __byte_perm(word[2], word[3], 0x5410), __byte_perm(word[2], word[3], 0x7632)};
#pragma unroll
            for (int t = 0; t < TILES; t++) multiply_add(sums[4 * t + j], left, right[t].x, right[t].y);
        }
    }
}

/* gap: elements from a head's weight to the next one's; stride: between a weight's rows. */
template <int TILES>
__global__ static void __launch_bounds__(CUDA_THREADS)
    heads_kernel(struct mt_tensor x, const __nv_bfloat16 *weight, int64_t gap, int64_t stride,
                 struct mt_tensor y, float alpha, float beta)
{
    __shared__ struct thin_sums<4 * TILES> all;
    cuda_follow();
    float sums[4 * TILES][4] = {};
    int64_t head = blockIdx.z;
    int64_t first = (int64_t)blockIdx.y * 8 * TILES;
    int64_t start = (int64_t)blockIdx.x * COLUMNS;
    add_product<TILES>(
        sums, static_cast<const __nv_bfloat16 *>(x.data) + first * x.stride[0] + head * x.stride[1],
        x.stride[0], x.dim[0] - first, weight + head * gap + start, stride, y.dim[2] - start, (int)x.dim[2]);
    thin_share<CUDA_WARPS>(all, sums);
    for (int i = (int)threadIdx.x; i < 4 * TILES * 4 * 32; i += CUDA_THREADS) {
        int lane = i % 32;
        int element = i / 32 % 4;
        int fragment = i / 128;
        int64_t row = first + fragment / 4 * 8 + lane % 4 * 2 + element % 2;
        int64_t column = start + lane / 4 * 8 + fragment % 4 * 2 + element / 2;
        if (row >= y.dim[0] || column >= y.dim[2]) continue;
        int64_t at = row * y.stride[0] + head * y.stride[1] + column;
        float old = beta == 0.0f ? 0.0f : beta * cuda_float_at(y.data, y.dtype, at);
        cuda_float_set(y.data, y.dtype, at, alpha * thin_sum(all, fragment, element, lane) + old);
    }
}

// ------------------------------------------------------------------ the host's side

/* Bytes from each head's weight to the next one's; 0 where they are not bf16, or not evenly apart. */
static int64_t gap_of(const struct mt_head_gemm_args *g)
{
    int64_t heads = g->x.dim[1];
    if (heads < 1 || heads > CUDA_EXPERTS_AT_ONCE) return 0;
    const struct mt_tensor *weight = cuda_uniform(g->weight, (int)heads);
    return weight != NULL && weight->dtype == MT_BF16 ? cuda_gap(g->weight, (int)heads) : 0;
}

static bool is_empty(const struct mt_device *, const struct mt_head_gemm_args *g)
{
    return mt_tensor_count(&g->y) == 0;
}

static enum mt_status run_nothing(struct mt_device *, const struct mt_head_gemm_args *, void *)
{
    return MT_OK;
}

static bool has_few_rows(const struct mt_device *device, const struct mt_head_gemm_args *g)
{
    return cuda_state_of(device)->bf16 && !g->transpose_weight && g->x.dim[0] <= MOST_ROWS && gap_of(g) > 0 &&
           thin_reads(&g->x) && g->x.dim[2] <= INT32_MAX / 2 && cuda_is_float_or_bf16(&g->y) &&
           g->y.dim[2] % 8 == 0 && g->weight[0].stride[0] % 8 == 0;
}

template <int TILES> static enum mt_status launch(struct mt_device *device, const struct mt_head_gemm_args *g)
{
    dim3 grid((unsigned)((g->y.dim[2] + COLUMNS - 1) / COLUMNS),
              (unsigned)((g->x.dim[0] + 8 * TILES - 1) / (8 * TILES)), (unsigned)g->x.dim[1]);
    const __nv_bfloat16 *weight = static_cast<const __nv_bfloat16 *>(g->weight[0].data);
    return cuda_launch(device, "a product of few rows per head", heads_kernel<TILES>, grid, CUDA_THREADS, 0,
                       g->x, weight, gap_of(g) / 2, g->weight[0].stride[0], g->y, g->alpha, g->beta);
}

static enum mt_status run_few_rows(struct mt_device *device, const struct mt_head_gemm_args *g, void *)
{
    return g->x.dim[0] <= 8 ? launch<1>(device, g) : launch<2>(device, g);
}

static struct mt_gemm_args product_of(const struct mt_head_gemm_args *g, int64_t head)
{
    struct mt_gemm_args one = {};
    one.a = mt_tensor_head(&g->x, head);
    one.b = g->weight[head];
    one.c = mt_tensor_head(&g->y, head);
    one.transpose_b = g->transpose_weight;
    one.alpha = g->alpha;
    one.beta = g->beta;
    return one;
}

static bool is_even(const struct mt_device *device, const struct mt_head_gemm_args *g)
{
    return cuda_state_of(device)->bf16 && g->x.dtype == MT_BF16 && cuda_is_float_or_bf16(&g->y) &&
           g->x.dim[2] > 0 && gap_of(g) > 0;
}

static enum mt_status run_batched(struct mt_device *device, const struct mt_head_gemm_args *g, void *)
{
    struct mt_gemm_args first = product_of(g, 0);
    const struct cuda_batch batch = {g->x.dim[1], g->x.stride[1], gap_of(g) / 2, g->y.stride[1]};
    return cuda_multiply_bf16(device, -1, &first, &batch);
}

static size_t each_bytes(const struct mt_device *device, const struct mt_head_gemm_args *g)
{
    size_t most = 0;
    for (int64_t h = 0; h < g->x.dim[1]; h++) {
        struct mt_gemm_args one = product_of(g, h);
        size_t bytes = cuda_gemm_bytes(device, &one);
        if (bytes > most) most = bytes;
    }
    return most;
}

static enum mt_status run_each(struct mt_device *device, const struct mt_head_gemm_args *g, void *scratch)
{
    enum mt_status status = MT_OK;
    for (int64_t h = 0; h < g->x.dim[1] && status == MT_OK; h++) {
        struct mt_gemm_args one = product_of(g, h);
        status = cuda_gemm(device, &one, scratch);
    }
    return status;
}

typedef struct cuda_variant<struct mt_head_gemm_args> heads_variant;
static const heads_variant empty = {is_empty, NULL, run_nothing};
static const heads_variant few_rows = {has_few_rows, NULL, run_few_rows};
static const heads_variant batched = {is_even, NULL, run_batched};
static const heads_variant each = {NULL, each_bytes, run_each};

static const heads_variant *const variants[] = {&empty, &few_rows, &cuda_thin_heads, &batched, &each};
CUDA_OP(head_gemm, variants)
