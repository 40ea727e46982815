/*
 * The experts' products of cuda-bf16 in one launch each: the device itself finds which rows are whose. Blocks
 * that find nothing to do end at once, which costs less than asking the device for the offsets.
 */
#include "ops/cuda/common/tiles.cuh"
#include "ops/cuda/products/grouped.cuh"

#define WIDE   128
#define NARROW 32 // the width of a LoRA pair's middle
#define SHORT  64 // steps up to which a tile is mostly reading and writing y

/* The matrices of some experts: one type, one shape. */
struct matrices {
    void *data[CUDA_EXPERTS_AT_ONCE]; // NULL: absent
    int experts;
    const int32_t *offsets; // of the first of them; NULL: a single expert has all rows
    int64_t rows;
};

static struct matrices matrices_of(const struct mt_tensor *list, int first, int count,
                                   const struct mt_tensor *offsets, int64_t rows)
{
    struct matrices m = {};
    m.experts = count;
    m.rows = rows;
    if (mt_tensor_present(offsets)) m.offsets = static_cast<const int32_t *>(offsets->data) + first;
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
        bool fits = cuda_is_float_or_bf16(t) && t->dtype == first->dtype &&
                    t->stride[0] == first->stride[0] && reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
        if (!fits) return NULL;
    }
    return first;
}

// ------------------------------------------------------------------ weights rounded beforehand

/* Each present matrix, [rows,columns] of f32 with columns a multiple of four, to contiguous bf16. */
__global__ static void round_matrices_kernel(const __grid_constant__ struct matrices matrices, int64_t stride,
                                             int64_t rows, int64_t columns, __nv_bfloat16 *to)
{
    const float *from = static_cast<const float *>(matrices.data[blockIdx.y]);
    uint2 *target = reinterpret_cast<uint2 *>(to + blockIdx.y * rows * columns);
    int64_t quarters = columns / 4;
    if (from == NULL) return;
    for (int64_t i = cuda_thread(); i < rows * quarters; i += cuda_thread_count()) {
        int64_t row = i / quarters;
        float4 value = reinterpret_cast<const float4 *>(from + row * stride)[i - row * quarters];
        target[i] = make_uint2(pack_bf16(value.x, value.y), pack_bf16(value.z, value.w));
    }
}

/* Whether a product's weights are better rounded once than by every block that reads them: many steps. */
static bool rounds_weights(const struct mt_grouped_gemm_args *g, const struct mt_tensor *weight)
{
    return weight->dtype == MT_F32 && g->x.dim[1] > SHORT && weight->dim[1] % 8 == 0 &&
           weight->stride[0] % 4 == 0;
}

size_t cuda_grouped_tiles_bytes(const struct mt_device *, const struct mt_grouped_gemm_args *g)
{
    const struct mt_tensor *weight = cuda_uniform(g->weight, g->experts);
    if (weight == NULL || !rounds_weights(g, weight)) return 0;
    return cuda_halves(g->experts * mt_tensor_count(weight));
}

/* Rounds the weights of `matrices`, which then point to their roundings at `to`. */
static enum mt_status round_weights(struct mt_device *device, const struct mt_tensor *weight,
                                    struct matrices *matrices, __nv_bfloat16 *to)
{
    int64_t count = mt_tensor_count(weight);
    if (count == 0) return MT_OK;
    dim3 grid((unsigned)((count / 4 + CUDA_THREADS - 1) / CUDA_THREADS), (unsigned)matrices->experts);
    round_matrices_kernel<<<grid, CUDA_THREADS, 0, cuda_stream(device)>>>(*matrices, weight->stride[0],
                                                                          weight->dim[0], weight->dim[1], to);
    for (int i = 0; i < matrices->experts; i++) {
        if (matrices->data[i] != NULL) matrices->data[i] = to + i * count;
    }
    return cuda_launched(device, "rounding the experts' weights");
}

/* Whether this GPU has room for a tile's stages: the largest tile has smaller stages for those that do not.
 */
template <class PRODUCT> static bool has_room(const struct mt_device *device)
{
    return PRODUCT::BYTES <= cuda_state_of(device)->shared_bytes;
}
static_assert(tile_product<WIDE, WIDE, 32, 64, 32, 4, true, true>::BYTES <= CUDA_LEAST_SHARED &&
                  tile_product<WIDE, WIDE, 32, 64, 32, 4, true, false>::BYTES <= CUDA_LEAST_SHARED &&
                  tile_product<WIDE, WIDE, 32, 64, 32, 4, false, false, MASK_B>::BYTES <= CUDA_LEAST_SHARED,
              "fits every card");

// ------------------------------------------------------------------ y = alpha · x · op(W_e) + beta · y

struct rows_call {
    struct tile_operand x;      // [R,K]
    struct tile_operand weight; // of any expert: all but the address
    struct tile_mask mask;      // of x
    struct tile_output y;
    int64_t inner, columns;
};

template <class PRODUCT, int M, int N>
__global__ static void __launch_bounds__(CUDA_THREADS, PRODUCT::RESIDENT)
    rows_kernel(const __grid_constant__ struct matrices matrices,
                const __grid_constant__ struct rows_call call)
{
    extern __shared__ __align__(16) __nv_bfloat16 shared[];
    int64_t tile = blockIdx.y;
    bool sorted = matrices.offsets != NULL;
    int e = sorted ? find_expert(matrices.offsets, matrices.experts, M, &tile) : 0;
    if (e < 0) return;
    int64_t first = sorted ? matrices.offsets[e] : 0;
    typename PRODUCT::task task = {};
    task.a = tile_lines(call.x, first);
    task.mask = tile_mask_rows(call.mask, first);
    task.b = call.weight;
    task.b.data = matrices.data[e];
    task.m = tile * M;
    task.m_end = sorted ? matrices.offsets[e + 1] - first : matrices.rows;
    task.n = (int64_t)blockIdx.x * N;
    task.n_end = call.columns;
    task.k_end = task.b.data != NULL ? call.inner : 0;
    PRODUCT::run(shared, task, tile_output_at(call.y, first));
}

template <int M, int N, int WARP_M, int WARP_N, int STEPS, int STAGES, bool TRANSPOSED,
          enum tile_masked MASKED = MASK_NONE>
static enum mt_status launch_rows(struct mt_device *device, const struct matrices &matrices,
                                  const struct rows_call &call, int64_t rows)
{
    using product = tile_product<M, N, WARP_M, WARP_N, STEPS, STAGES, true, TRANSPOSED, MASKED>;
    static_assert(M * N == WIDE * WIDE || product::BYTES <= CUDA_LEAST_SHARED, "fits every card");
    const void *kernel = reinterpret_cast<const void *>(rows_kernel<product, M, N>);
    enum mt_status status =
        cuda_allow_shared(device, kernel, product::BYTES, "shared memory for the experts' products");
    if (status != MT_OK) return status;
    // Each expert may end in a tile that is not full.
    dim3 grid((unsigned)((call.columns + N - 1) / N), (unsigned)(rows / M + matrices.experts));
    rows_kernel<product, M, N><<<grid, CUDA_THREADS, product::BYTES, cuda_stream(device)>>>(matrices, call);
    return cuda_launched(device, "grouped_gemm");
}

template <bool TRANSPOSED>
static enum mt_status pick_rows(struct mt_device *device, const struct matrices &matrices,
                                const struct rows_call &call, int64_t rows)
{
    if (TRANSPOSED && call.mask.data != NULL)
        return launch_rows<WIDE, NARROW, 16, NARROW, 64, 3, true, MASK_A>(device, matrices, call, rows);
    if (rows <= (int64_t)CUDA_FEW_ROWS * matrices.experts && call.columns > NARROW)
        return launch_rows<16, WIDE, 16, 16, 64, 4, TRANSPOSED>(device, matrices, call, rows);
    if (call.columns <= NARROW)
        return launch_rows<WIDE, NARROW, 16, NARROW, 64, 3, TRANSPOSED>(device, matrices, call, rows);
    if (call.inner <= SHORT)
        return launch_rows<WIDE, 64, 32, 32, 32, 2, TRANSPOSED>(device, matrices, call, rows);
    if (has_room<tile_product<WIDE, WIDE, 32, 64, 64, 3, true, TRANSPOSED>>(device))
        return launch_rows<WIDE, WIDE, 32, 64, 64, 3, TRANSPOSED>(device, matrices, call, rows);
    return launch_rows<WIDE, WIDE, 32, 64, 32, 4, TRANSPOSED>(device, matrices, call, rows);
}

bool cuda_grouped_tiles_fits(const struct mt_grouped_gemm_args *g, const struct mt_tensor *mask)
{
    return g->y.dim[1] <= NARROW && (g->transpose_weight || !mt_tensor_present(mask));
}

enum mt_status cuda_grouped_tiles(struct mt_device *device, const struct mt_grouped_gemm_args *g,
                                  const struct mt_tensor *mask, void *scratch)
{
    const struct mt_tensor *weight = cuda_uniform(g->weight, g->experts);
    if (mt_tensor_count(&g->y) == 0) return MT_OK;
    struct rows_call call = {};
    call.x = tile_operand_of(&g->x);
    call.weight = tile_operand_of(weight);
    call.mask = tile_mask_of(mask);
    call.y = tile_output_of(&g->y, g->alpha, g->beta);
    call.inner = g->x.dim[1];
    call.columns = g->y.dim[1];
    bool rounds = rounds_weights(g, weight);
    if (rounds) {
        call.weight.bf16 = true;
        call.weight.aligned = true;
        call.weight.stride = weight->dim[1];
    }
    __nv_bfloat16 *rounded = static_cast<__nv_bfloat16 *>(scratch);
    enum mt_status status = MT_OK;
    for (int first = 0; first < g->experts && status == MT_OK; first += CUDA_EXPERTS_AT_ONCE) {
        int left = g->experts - first;
        int count = left < CUDA_EXPERTS_AT_ONCE ? left : CUDA_EXPERTS_AT_ONCE;
        struct matrices matrices = matrices_of(g->weight, first, count, &g->offsets, g->x.dim[0]);
        if (rounds) {
            status = round_weights(device, weight, &matrices, rounded + first * mt_tensor_count(weight));
            if (status != MT_OK) return status;
        }
        status = g->transpose_weight ? pick_rows<true>(device, matrices, call, g->x.dim[0])
                                     : pick_rows<false>(device, matrices, call, g->x.dim[0]);
    }
    return status;
}

// ------------------------------------------------------------------ dW_e = alpha · dy_eᵀ x_e + beta · dW_e

struct gradient_call {
    struct tile_operand dy;     // [R,out]
    struct tile_operand x;      // [R,in]
    struct tile_mask mask;      // of x
    struct tile_output dweight; // of any expert: all but the address
    int64_t out, in;
    // Without offsets the rows are shared out: each block adds up `chunk` of them, into a matrix of its own.
    int64_t chunk;
    float *partial; // [chunks,out,in]
};

template <class PRODUCT, int M, int N>
__global__ static void __launch_bounds__(CUDA_THREADS, PRODUCT::RESIDENT)
    gradient_kernel(const __grid_constant__ struct matrices matrices,
                    const __grid_constant__ struct gradient_call call)
{
    extern __shared__ __align__(16) __nv_bfloat16 shared[];
    int e = (int)blockIdx.z;
    bool sorted = matrices.offsets != NULL;
    if (sorted && matrices.data[e] == NULL) return;
    int64_t first = sorted ? matrices.offsets[e] : e * call.chunk;
    int64_t left = matrices.rows - first;
    typename PRODUCT::task task = {};
    task.a = tile_lines(call.dy, first);
    task.b = tile_lines(call.x, first);
    task.mask = tile_mask_rows(call.mask, first);
    task.m = (int64_t)blockIdx.y * M;
    task.m_end = call.out;
    task.n = (int64_t)blockIdx.x * N;
    task.n_end = call.in;
    task.k_end = sorted ? matrices.offsets[e + 1] - first : left < call.chunk ? left : call.chunk;
    struct tile_output dweight = call.dweight;
    dweight.data = sorted ? matrices.data[e] : call.partial + e * call.out * call.in;
    PRODUCT::run(shared, task, dweight);
}

template <int M, int N, int WARP_M, int WARP_N, int STEPS, int STAGES, enum tile_masked MASKED>
static enum mt_status launch_tiles(struct mt_device *device, const struct matrices &matrices,
                                   const struct gradient_call &call)
{
    using product = tile_product<M, N, WARP_M, WARP_N, STEPS, STAGES, false, false, MASKED>;
    static_assert(M * N == WIDE * WIDE || product::BYTES <= CUDA_LEAST_SHARED, "fits every card");
    const void *kernel = reinterpret_cast<const void *>(gradient_kernel<product, M, N>);
    enum mt_status status =
        cuda_allow_shared(device, kernel, product::BYTES, "shared memory for the experts' products");
    if (status != MT_OK) return status;
    dim3 grid((unsigned)((call.in + N - 1) / N), (unsigned)((call.out + M - 1) / M),
              (unsigned)matrices.experts);
    gradient_kernel<product, M, N>
        <<<grid, CUDA_THREADS, product::BYTES, cuda_stream(device)>>>(matrices, call);
    return cuda_launched(device, "grouped_gemm_dw");
}

template <int M, int N, int WARP_M, int WARP_N, int STEPS = 64, int STAGES = 3>
static enum mt_status launch_gradient(struct mt_device *device, const struct matrices &matrices,
                                      const struct gradient_call &call)
{
    return call.mask.data != NULL
               ? launch_tiles<M, N, WARP_M, WARP_N, STEPS, STAGES, MASK_B>(device, matrices, call)
               : launch_tiles<M, N, WARP_M, WARP_N, STEPS, STAGES, MASK_NONE>(device, matrices, call);
}

static enum mt_status pick_gradient(struct mt_device *device, const struct matrices &matrices,
                                    const struct gradient_call &call)
{
    if (call.in <= NARROW) return launch_gradient<WIDE, NARROW, 16, NARROW>(device, matrices, call);
    if (call.out <= NARROW) return launch_gradient<NARROW, WIDE, NARROW, 16>(device, matrices, call);
    if (has_room<tile_product<WIDE, WIDE, 32, 64, 64, 3, false, false, MASK_B>>(device))
        return launch_gradient<WIDE, WIDE, 32, 64>(device, matrices, call);
    return launch_gradient<WIDE, WIDE, 32, 64, 32, 4>(device, matrices, call);
}

// ------------------------------------------------------------------ a single expert's gradient, rows shared
// out

/* dweight = beta · dweight + the chunks' matrices, in their order. */
__global__ static void add_chunks_kernel(const float *partial, int chunks, int64_t rows, int64_t columns,
                                         float beta, float *dweight, int64_t stride)
{
    int64_t count = rows * columns;
    for (int64_t i = cuda_thread(); i < count; i += cuda_thread_count()) {
        float sum = 0.0f;
        for (int chunk = 0; chunk < chunks; chunk++) sum += partial[chunk * count + i];
        float *target = dweight + i / columns * stride + i % columns;
        *target = beta == 0.0f ? sum : beta * *target + sum;
    }
}

/* Rows of a chunk: whole steps, about three blocks for every multiprocessor in all. */
static int64_t chunk_of(const struct mt_device *device, const struct mt_grouped_gemm_dw_args *g)
{
    int64_t wide = g->x.dim[1] > g->dy.dim[1] ? g->x.dim[1] : g->dy.dim[1];
    int64_t tiles = (wide + WIDE - 1) / WIDE;
    int64_t chunks = (3 * cuda_state_of(device)->multiprocessors + tiles - 1) / tiles;
    int64_t rows = (g->x.dim[0] + chunks - 1) / chunks;
    return rows < 4 * SHORT ? 4 * SHORT : (rows + SHORT - 1) / SHORT * SHORT;
}

static int64_t chunks_of(const struct mt_device *device, const struct mt_grouped_gemm_dw_args *g)
{
    int64_t chunk = chunk_of(device, g);
    return g->x.dim[0] > 0 ? (g->x.dim[0] + chunk - 1) / chunk : 1;
}

bool cuda_thin_gradient(const struct mt_grouped_gemm_dw_args *g)
{
    return g->x.dim[1] <= NARROW || g->dy.dim[1] <= NARROW;
}

size_t cuda_grouped_dw_tiles_bytes(const struct mt_device *device, const struct mt_grouped_gemm_dw_args *g)
{
    if (mt_tensor_present(&g->offsets)) return 0;
    return cuda_floats(chunks_of(device, g) * g->dy.dim[1] * g->x.dim[1]);
}

static enum mt_status single_gradient(struct mt_device *device, const struct mt_grouped_gemm_dw_args *g,
                                      struct gradient_call call, void *scratch)
{
    struct matrices matrices = {};
    const struct mt_tensor *dweight = &g->dweight[0];
    struct mt_tensor own = mt_tensor_2d(scratch, MT_F32, call.out, call.in);
    int chunks = (int)chunks_of(device, g);
    matrices.experts = chunks;
    matrices.rows = g->x.dim[0];
    call.chunk = chunk_of(device, g);
    call.partial = static_cast<float *>(scratch);
    call.dweight = tile_output_of(&own, call.dweight.alpha, 0.0f);
    enum mt_status status = pick_gradient(device, matrices, call);
    if (status != MT_OK) return status;
    add_chunks_kernel<<<cuda_blocks(mt_tensor_count(dweight)), CUDA_THREADS, 0, cuda_stream(device)>>>(
        call.partial, chunks, call.out, call.in, g->beta, static_cast<float *>(dweight->data),
        dweight->stride[0]);
    return cuda_launched(device, "grouped_gemm_dw");
}

enum mt_status cuda_grouped_dw_tiles(struct mt_device *device, const struct mt_grouped_gemm_dw_args *g,
                                     const struct mt_tensor *mask, void *scratch)
{
    const struct mt_tensor *dweight = cuda_uniform(g->dweight, g->experts);
    if (mt_tensor_count(dweight) == 0) return MT_OK;
    struct gradient_call call = {};
    call.dy = tile_operand_of(&g->dy);
    call.x = tile_operand_of(&g->x);
    call.mask = tile_mask_of(mask);
    call.dweight = tile_output_of(dweight, g->alpha, g->beta);
    call.out = g->dy.dim[1];
    call.in = g->x.dim[1];
    if (!mt_tensor_present(&g->offsets)) return single_gradient(device, g, call, scratch);
    enum mt_status status = MT_OK;
    for (int first = 0; first < g->experts && status == MT_OK; first += CUDA_EXPERTS_AT_ONCE) {
        int left = g->experts - first;
        int count = left < CUDA_EXPERTS_AT_ONCE ? left : CUDA_EXPERTS_AT_ONCE;
        struct matrices matrices = matrices_of(g->dweight, first, count, &g->offsets, g->x.dim[0]);
        status = pick_gradient(device, matrices, call);
    }
    return status;
}
