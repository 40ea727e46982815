/*
 * Products of up to four rows with bf16 weights stored [N,K], y = alpha · x Wᵀ + beta · y: a warp per four
 * columns, whose weights it reads in lines of 512 bytes, nothing but memory being in the way. Numbers are
 * multiplied and summed as floats, so that the result is as exact as an f32 product's. Experts' rows find
 * their weights on the device.
 */
#include "ops/cuda/common/tiles.cuh"
#include "ops/cuda/products/grouped.cuh"

#define MOST_ROWS   4          // of a plain product
#define COLUMNS     4          // of a warp
#define LINE        (32 * 8)   // steps a warp reads of each column at a time
#define MOST_SHARED (96 << 10) // bytes of x: two blocks still fit a multiprocessor of Hopper's
static_assert(MOST_SHARED <= CUDA_LEAST_SHARED, "fits every card");

struct few_call {
    struct mt_tensor x, y; // [R,K], [R,N]
    int64_t stride;        // between rows of a weight
    float alpha, beta;
};

/* The weights of some experts, or the one of a plain product. */
struct few_weights {
    const void *data[CUDA_EXPERTS_AT_ONCE]; // NULL: absent
    int experts;
    const int32_t *offsets; // of the first of them; NULL: all rows are the first's
};

/* Rows [first, first + ROWS) of x as floats; zeros past `end`. */
template <int ROWS>
__device__ static void load_x(float *shared, const struct few_call &call, int64_t first, int64_t end)
{
    int64_t inner = call.x.dim[1];
    for (int64_t i = threadIdx.x; i < ROWS * inner; i += CUDA_THREADS) {
        int64_t row = first + i / inner;
        int64_t at = row * call.x.stride[0] + i % inner;
        shared[i] = row < end ? cuda_float_at(call.x.data, call.x.dtype, at) : 0.0f;
    }
}

/* sums += x · w of eight steps. */
template <int ROWS>
__device__ static inline void add_eight(float (&sums)[ROWS], const float *x, int64_t inner, uint4 w)
{
    const unsigned words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        const float4 low = *reinterpret_cast<const float4 *>(x + row * inner);
        const float4 high = *reinterpret_cast<const float4 *>(x + row * inner + 4);
        const float steps[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[row] += steps[2 * i] * low_bf16(words[i]);
            sums[row] += steps[2 * i + 1] * high_bf16(words[i]);
        }
    }
}

/* Sums over the warp's lanes, and y. */
template <int ROWS>
__device__ static void finish(float (&sums)[ROWS], const struct few_call &call, int64_t first, int64_t end,
                              int64_t column)
{
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        for (int distance = 16; distance > 0; distance /= 2)
            sums[row] += __shfl_xor_sync(CUDA_EVERY, sums[row], distance);
        if (cuda_lane() != row || first + row >= end || column >= call.y.dim[1]) continue;
        int64_t at = (first + row) * call.y.stride[0] + column;
        float old = call.beta == 0.0f ? 0.0f : call.beta * cuda_float_at(call.y.data, call.y.dtype, at);
        cuda_float_set(call.y.data, call.y.dtype, at, call.alpha * sums[row] + old);
    }
}

template <int ROWS>
__global__ static void __launch_bounds__(CUDA_THREADS)
    few_kernel(const __grid_constant__ struct few_weights weights,
               const __grid_constant__ struct few_call call)
{
    extern __shared__ __align__(16) float shared_x[]; // [ROWS][K]
    int64_t tile = blockIdx.y;
    int e = 0;
    int64_t first = tile * ROWS;
    int64_t end = call.x.dim[0];
    if (weights.offsets != NULL) {
        e = find_expert(weights.offsets, weights.experts, ROWS, &tile);
        if (e < 0) return;
        first = weights.offsets[e] + tile * ROWS;
        end = weights.offsets[e + 1];
    }
    int64_t inner = weights.data[e] != NULL ? call.x.dim[1] : 0;
    int64_t column = ((int64_t)blockIdx.x * CUDA_WARPS + threadIdx.x / 32) * COLUMNS;
    load_x<ROWS>(shared_x, call, first, end);
    __syncthreads();
    const uint4 *line[COLUMNS];
    float sums[COLUMNS][ROWS] = {};
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        // Columns past the last read the last one again; nobody stores what comes of it.
        int64_t own = column + i < call.y.dim[1] ? column + i : call.y.dim[1] - 1;
        line[i] = reinterpret_cast<const uint4 *>(static_cast<const __nv_bfloat16 *>(weights.data[e]) +
                                                  own * call.stride);
    }
#pragma unroll 4
    for (int64_t k = cuda_lane() * 8; k < inner; k += LINE) {
        uint4 w[COLUMNS];
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) w[i] = __ldg(line[i] + k / 8);
#pragma unroll
        for (int i = 0; i < COLUMNS; i++) add_eight<ROWS>(sums[i], shared_x + k, call.x.dim[1], w[i]);
    }
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) finish<ROWS>(sums[i], call, first, end, column + i);
}

// ------------------------------------------------------------------ the host's side

static bool operands_fit(const struct mt_tensor *x, const struct mt_tensor *weight, const struct mt_tensor *y)
{
    return cuda_is_float_or_bf16(x) && weight->dtype == MT_BF16 && cuda_is_float_or_bf16(y) &&
           x->dim[1] > 0 && x->dim[1] % 8 == 0 && weight->stride[0] % 8 == 0 &&
           reinterpret_cast<uintptr_t>(weight->data) % 16 == 0 &&
           x->dim[1] * (int64_t)sizeof(float) <= MOST_SHARED && y->dim[1] > 0;
}

/* Rows of a tile: as many as there are, but no more than shared memory holds. */
static int tile_rows(int64_t wanted, int64_t inner)
{
    int rows = 4;
    while (rows > 1 && (rows / 2 >= wanted || rows * inner * (int64_t)sizeof(float) > MOST_SHARED)) rows /= 2;
    return rows;
}

template <int ROWS>
static enum mt_status launch(struct mt_device *device, const struct few_weights &weights,
                             const struct few_call &call, int64_t tiles)
{
    const void *kernel = reinterpret_cast<const void *>(few_kernel<ROWS>);
    size_t bytes = (size_t)(ROWS * call.x.dim[1]) * sizeof(float);
    enum mt_status status =
        cuda_allow_shared(device, kernel, MOST_SHARED, "shared memory for a product of few rows");
    if (status != MT_OK) return status;
    int64_t per_block = CUDA_WARPS * COLUMNS;
    dim3 grid((unsigned)((call.y.dim[1] + per_block - 1) / per_block), (unsigned)tiles);
    few_kernel<ROWS><<<grid, CUDA_THREADS, bytes, cuda_stream(device)>>>(weights, call);
    return cuda_launched(device, "a product of few rows");
}

static enum mt_status pick(struct mt_device *device, const struct few_weights &weights,
                           const struct few_call &call, int rows)
{
    int64_t tiles =
        weights.offsets != NULL ? call.x.dim[0] / rows + weights.experts : (call.x.dim[0] + rows - 1) / rows;
    if (rows == 1) return launch<1>(device, weights, call, tiles);
    return rows == 2 ? launch<2>(device, weights, call, tiles) : launch<4>(device, weights, call, tiles);
}

static struct few_call call_of(const struct mt_tensor *x, const struct mt_tensor *weight,
                               const struct mt_tensor *y, float alpha, float beta)
{
    struct few_call call = {};
    call.x = *x;
    call.y = *y;
    call.stride = weight->stride[0];
    call.alpha = alpha;
    call.beta = beta;
    return call;
}

static bool fits(const struct mt_device *device, const struct mt_gemm_args *g)
{
    return cuda_state_of(device)->bf16 && !g->transpose_a && g->transpose_b && g->a.dim[0] >= 1 &&
           g->a.dim[0] <= MOST_ROWS && operands_fit(&g->a, &g->b, &g->c);
}

static enum mt_status run(struct mt_device *device, const struct mt_gemm_args *g, void *)
{
    struct few_weights weights = {};
    weights.data[0] = g->b.data;
    weights.experts = 1;
    struct few_call call = call_of(&g->a, &g->b, &g->c, g->alpha, g->beta);
    return pick(device, weights, call, tile_rows(g->a.dim[0], g->a.dim[1]));
}

const struct cuda_variant<struct mt_gemm_args> cuda_gemm_few = {
    fits, NULL, run
};

static bool grouped_fits(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    const struct mt_tensor *weight = cuda_uniform(g->weight, g->experts);
    // With more rows than that some expert has more than a tile, and its weight is read again.
    return cuda_state_of(device)->bf16 && weight != NULL && g->transpose_weight && g->x.dim[0] >= 1 &&
           g->x.dim[0] <= 2 * g->experts && g->experts <= CUDA_EXPERTS_AT_ONCE &&
           operands_fit(&g->x, weight, &g->y);
}

static enum mt_status run_grouped(struct mt_device *device, const struct mt_grouped_gemm_args *g, void *)
{
    const struct mt_tensor *weight = cuda_uniform(g->weight, g->experts);
    struct few_weights weights = {};
    weights.experts = g->experts;
    weights.offsets = static_cast<const int32_t *>(g->offsets.data);
    for (int e = 0; e < g->experts; e++)
        weights.data[e] = mt_tensor_present(&g->weight[e]) ? g->weight[e].data : NULL;
    struct few_call call = call_of(&g->x, weight, &g->y, g->alpha, g->beta);
    // Up to a row for every four experts there is hardly one with two.
    int64_t wanted = 4 * g->x.dim[0] <= g->experts ? 1 : 4;
    return pick(device, weights, call, tile_rows(wanted, g->x.dim[1]));
}

const struct cuda_variant<struct mt_grouped_gemm_args> cuda_grouped_few = {
    grouped_fits, NULL, run_grouped
};
