/*
 * gemm through cuBLAS, f32 accumulation, never TF32. Operands of one 16-bit type go to the tensor cores as
 * they are. Otherwise what is not f32 is converted into scratch first: a as a whole, b and c by tiles of c's
 * columns, so that a large weight never exists a second time. On cuda-bf16 it is the other way round: what is
 * not bf16 is rounded to it, unless the caller asks for an exact product (of which split_gemm.cu makes some).
 *
 * cuBLAS thinks in columns: a row-major matrix is its transpose there, and c = a·b is computed as cᵀ = bᵀ·aᵀ.
 */
#include "ops/cuda/products/gemm.cuh"

#include <cublas_v2.h>

#define WORKSPACE_BYTES ((size_t)32 << 20)  // what cuBLAS wants on Hopper
#define TILE_ELEMENTS   ((int64_t)16 << 20) // of a converted piece of b
#define LEAST_TILE      32                  // columns

// ------------------------------------------------------------------ the library

static enum mt_status blas_status(const struct mt_device *device, cublasStatus_t result, const char *what)
{
    if (result == CUBLAS_STATUS_SUCCESS) return MT_OK;
    enum mt_status status = result == CUBLAS_STATUS_ALLOC_FAILED ? MT_ERR_MEMORY : MT_ERR_INTERNAL;
    return mt_fail(device->ctx, status, "cuda: %s: %s", what, cublasGetStatusString(result));
}

/*
 * With a workspace of its own, one stream and no reduced-precision sums, the same inputs give the same bits
 * every time.
 */
static enum mt_status configure(const struct mt_device *device, cublasHandle_t handle, cudaStream_t stream,
                                void *workspace)
{
    enum mt_status status = blas_status(device, cublasSetStream(handle, stream), "giving cuBLAS its stream");
    if (status != MT_OK) return status;
    status = blas_status(device, cublasSetWorkspace(handle, workspace, WORKSPACE_BYTES),
                         "giving cuBLAS its workspace");
    if (status != MT_OK) return status;
    int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    return blas_status(device, cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)),
                       "setting cuBLAS's precision");
}

/* A handle on a stream, made by its first product: a device that multiplies nothing should not wait for it.
 */
static enum mt_status make_handle(const struct mt_device *device, cudaStream_t stream, void **workspace,
                                  cublasHandle_t *handle)
{
    if (*handle != NULL) return MT_OK;
    enum mt_status status = MT_OK;
    if (*workspace == NULL) {
        status = cuda_status(device, cudaMalloc(workspace, WORKSPACE_BYTES), "allocating cuBLAS's workspace");
        if (status != MT_OK) return status;
    }
    cublasHandle_t made = NULL;
    status = blas_status(device, cublasCreate(&made), "starting cuBLAS");
    if (status != MT_OK) return status;
    status = configure(device, made, stream, *workspace);
    if (status != MT_OK) {
        (void)cublasDestroy(made);
        return status;
    }
    *handle = made;
    return MT_OK;
}

/* The handle of a lane, or with -1 of the device's own stream. */
static enum mt_status blas_handle(struct mt_device *device, int lane, cublasHandle_t *handle)
{
    struct cuda_state *state = cuda_state_of(device);
    struct cuda_lane_state *place = lane >= 0 ? &state->lane[lane] : NULL;
    enum mt_status status = place != NULL
                                ? make_handle(device, place->stream, &place->blas_workspace, &place->blas)
                                : make_handle(device, state->stream, &state->blas_workspace, &state->blas);
    *handle = place != NULL ? place->blas : state->blas;
    return status;
}

// ------------------------------------------------------------------ lanes

static enum mt_status make_lanes(struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    enum mt_status status = MT_OK;
    for (int i = 0; i < CUDA_LANES && status == MT_OK; i++) {
        struct cuda_lane_state *lane = &state->lane[i];
        if (lane->stream == NULL) {
            cudaError_t error = cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking);
            status = cuda_status(device, error, "creating a stream");
        }
        if (status == MT_OK && lane->done == NULL) {
            cudaError_t error = cudaEventCreateWithFlags(&lane->done, cudaEventDisableTiming);
            status = cuda_status(device, error, "creating an event");
        }
    }
    if (status != MT_OK) return status;
    return cuda_status(device, cudaEventCreateWithFlags(&state->fork, cudaEventDisableTiming),
                       "creating an event");
}

enum mt_status cuda_lanes_begin(struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    enum mt_status status = state->fork == NULL ? make_lanes(device) : MT_OK;
    if (status != MT_OK) return status;
    cudaError_t error = cudaEventRecord(state->fork, state->stream);
    for (int i = 0; i < CUDA_LANES && error == cudaSuccess; i++) {
        error = cudaStreamWaitEvent(state->lane[i].stream, state->fork, 0);
    }
    return cuda_status(device, error, "starting the lanes");
}

enum mt_status cuda_lanes_end(struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < CUDA_LANES && error == cudaSuccess; i++) {
        error = cudaEventRecord(state->lane[i].done, state->lane[i].stream);
        if (error == cudaSuccess) error = cudaStreamWaitEvent(state->stream, state->lane[i].done, 0);
    }
    return cuda_status(device, error, "waiting for the lanes");
}

static void end_handle(cublasHandle_t handle, void *workspace)
{
    if (handle != NULL) (void)cublasDestroy(handle);
    if (workspace != NULL) (void)cudaFree(workspace);
}

void cuda_products_end(struct cuda_state *state)
{
    end_handle(state->blas, state->blas_workspace);
    end_handle(state->side.blas, state->side.blas_workspace);
    for (int i = 0; i < CUDA_LANES; i++) {
        struct cuda_lane_state *lane = &state->lane[i];
        end_handle(lane->blas, lane->blas_workspace);
        if (lane->done != NULL) (void)cudaEventDestroy(lane->done);
        if (lane->stream != NULL) (void)cudaStreamDestroy(lane->stream);
    }
    if (state->fork != NULL) (void)cudaEventDestroy(state->fork);
}

// ------------------------------------------------------------------ conversion

__global__ static void convert_kernel(struct mt_tensor from, struct mt_tensor to)
{
    struct cuda_view source = {from.data, from.dtype, from.stride[0]};
    struct cuda_view target = {to.data, to.dtype, to.stride[0]};
    int64_t column = cuda_thread();
    if (column >= to.dim[1]) return;
    for (int64_t row = blockIdx.y; row < to.dim[0]; row += gridDim.y) {
        cuda_store(target, row, column, cuda_load(source, row, column));
    }
}

static void convert(struct mt_device *device, const struct mt_tensor *from, const struct mt_tensor *to)
{
    if (mt_tensor_count(to) == 0) return;
    convert_kernel<<<cuda_grid(to->dim[0], to->dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*from, *to);
}

/* Four numbers a thread: rows of f32 whose parts are aligned to 16 bytes, contiguous bf16. */
__global__ static void round_kernel(const float *from, int64_t stride, int64_t rows, int64_t quarters,
                                    uint2 *to)
{
    for (int64_t i = cuda_thread(); i < rows * quarters; i += cuda_thread_count()) {
        int64_t row = i / quarters;
        const float4 *source = reinterpret_cast<const float4 *>(from + row * stride);
        float4 value = source[i - row * quarters];
        __nv_bfloat162 low = __floats2bfloat162_rn(value.x, value.y);
        __nv_bfloat162 high = __floats2bfloat162_rn(value.z, value.w);
        uint2 both;
        both.x = *reinterpret_cast<unsigned *>(&low);
        both.y = *reinterpret_cast<unsigned *>(&high);
        to[i] = both;
    }
}

void cuda_round(struct mt_device *device, const struct mt_tensor *from, void *to)
{
    int64_t rows = from->dim[0];
    int64_t columns = from->dim[1];
    int64_t stride = rows > 1 ? from->stride[0] : columns;
    bool wide = from->dtype == MT_F32 && columns % 4 == 0 && stride % 4 == 0 &&
                reinterpret_cast<uintptr_t>(from->data) % 16 == 0;
    if (rows == 0 || columns == 0) return;
    if (!wide) {
        struct mt_tensor target = mt_tensor_2d(to, MT_BF16, rows, columns);
        convert(device, from, &target);
        return;
    }
    int64_t quarters = columns / 4;
    round_kernel<<<cuda_blocks(rows * quarters), CUDA_THREADS, 0, cuda_stream(device)>>>(
        static_cast<const float *>(from->data), stride, rows, quarters, static_cast<uint2 *>(to));
}

__global__ static void scale_kernel(struct mt_tensor y, float beta)
{
    int64_t column = cuda_thread();
    if (column >= y.dim[1]) return;
    for (int64_t row = blockIdx.y; row < y.dim[0]; row += gridDim.y) {
        cuda_put2(y, row, column, beta == 0.0f ? 0.0 : (double)beta * cuda_get2(y, row, column));
    }
}

enum mt_status cuda_scale(struct mt_device *device, const struct mt_tensor *y, float beta)
{
    if (mt_tensor_count(y) == 0 || beta == 1.0f) return MT_OK;
    scale_kernel<<<cuda_grid(y->dim[0], y->dim[1]), CUDA_THREADS, 0, cuda_stream(device)>>>(*y, beta);
    return cuda_launched(device, "scaling");
}

// ------------------------------------------------------------------ cuBLAS's products

static cudaDataType_t blas_type(enum mt_dtype dtype)
{
    if (dtype == MT_BF16) return CUDA_R_16BF;
    return dtype == MT_F16 ? CUDA_R_16F : CUDA_R_32F;
}

/* Elements between rows, as cuBLAS checks it: a single row may have any stride in a tensor. */
static int64_t leading(const struct mt_tensor *t)
{
    int64_t least = t->dim[1] > 1 ? t->dim[1] : 1;
    return t->dim[0] > 1 && t->stride[0] > least ? t->stride[0] : least;
}

/* g's operands are of types cuBLAS takes; no dimension is 0. */
static enum mt_status multiply(struct mt_device *device, const struct mt_gemm_args *g)
{
    cublasHandle_t handle = NULL;
    enum mt_status status = blas_handle(device, -1, &handle);
    if (status != MT_OK) return status;
    int64_t inner = g->a.dim[g->transpose_a ? 0 : 1];
    cublasStatus_t result = cublasGemmEx_64(
        handle, g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
        g->c.dim[1], g->c.dim[0], inner, &g->alpha, g->b.data, blas_type(g->b.dtype), leading(&g->b),
        g->a.data, blas_type(g->a.dtype), leading(&g->a), &g->beta, g->c.data, blas_type(g->c.dtype),
        leading(&g->c), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    return blas_status(device, result, "multiplying matrices");
}

enum mt_status cuda_multiply_bf16(struct mt_device *device, int lane, const struct mt_gemm_args *g,
                                  const struct cuda_batch *batch)
{
    cublasHandle_t handle = NULL;
    enum mt_status status = blas_handle(device, lane, &handle);
    if (status != MT_OK) return status;
    int64_t inner = g->a.dim[g->transpose_a ? 0 : 1];
    cublasStatus_t result = cublasGemmStridedBatchedEx_64(
        handle, g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
        g->c.dim[1], g->c.dim[0], inner, &g->alpha, g->b.data, CUDA_R_16BF, leading(&g->b), batch->b,
        g->a.data, CUDA_R_16BF, leading(&g->a), batch->a, &g->beta, g->c.data, blas_type(g->c.dtype),
        leading(&g->c), batch->c, batch->count, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    return blas_status(device, result, "multiplying matrices");
}

// ------------------------------------------------------------------ operands as they are

/* Whether what is not bf16 is rounded to it, as a whole. */
static bool rounds(const struct mt_device *device, const struct mt_gemm_args *g)
{
    return cuda_state_of(device)->bf16 && !g->exact && g->a.dtype != MT_F16 && g->b.dtype != MT_F16 &&
           cuda_is_float_or_bf16(&g->c);
}

static bool is_direct(const struct mt_device *device, const struct mt_gemm_args *g)
{
    bool narrow = g->a.dtype == MT_BF16 || g->a.dtype == MT_F16;
    bool floats = g->a.dtype == MT_F32 && !rounds(device, g);
    return (narrow || floats) && g->a.dtype == g->b.dtype &&
           (g->c.dtype == MT_F32 || g->c.dtype == g->a.dtype);
}

static enum mt_status run_direct(struct mt_device *device, const struct mt_gemm_args *g, void *)
{
    return multiply(device, g);
}

// ------------------------------------------------------------------ a in two parts

/*
 * Whether a counts to more than 8 bits: f32 rows of a product that is kept in f32. Whoever keeps activations
 * in f32 has asked for accuracy, and the product of what rounding leaves of them costs a second one.
 */
static bool is_twofold(const struct mt_device *device, const struct mt_gemm_args *g)
{
    return rounds(device, g) && g->a.dtype == MT_F32 && !g->transpose_a && g->c.dtype == MT_F32;
}

/* The product of one of a's parts. */
static struct mt_gemm_args part_of(const struct mt_gemm_args *g, const struct mt_tensor &part, float beta)
{
    struct mt_gemm_args one = *g;
    one.a = part;
    one.beta = beta;
    return one;
}

static size_t twofold_bytes(const struct mt_device *device, const struct mt_gemm_args *g)
{
    struct mt_gemm_args one = part_of(g, mt_tensor_2d(NULL, MT_BF16, g->a.dim[0], g->a.dim[1]), g->beta);
    return cuda_two_bytes(&g->a) + cuda_gemm_bytes(device, &one);
}

static enum mt_status run_twofold(struct mt_device *device, const struct mt_gemm_args *g, void *scratch)
{
    struct cuda_two two;
    enum mt_status status = cuda_split_rows(device, &g->a, scratch, &two);
    if (status != MT_OK) return status;
    struct mt_gemm_args first = part_of(g, two.rounded, g->beta);
    struct mt_gemm_args second = part_of(g, two.rest, 1.0f);
    char *behind = static_cast<char *>(scratch) + cuda_two_bytes(&g->a);
    status = cuda_gemm(device, &first, behind);
    return status == MT_OK ? cuda_gemm(device, &second, behind) : status;
}

// ------------------------------------------------------------------ operands rounded to bf16

/* Bytes of a tensor's rounding; 0 where it is bf16. */
static size_t rounding_bytes(const struct mt_tensor *t)
{
    return t->dtype == MT_BF16 ? 0 : cuda_halves(mt_tensor_count(t));
}

/* t in bf16: itself, or its rounding at `memory`. */
static struct mt_tensor rounded(struct mt_device *device, const struct mt_tensor *t, void *memory)
{
    if (t->dtype == MT_BF16) return *t;
    cuda_round(device, t, memory);
    return mt_tensor_2d(memory, MT_BF16, t->dim[0], t->dim[1]);
}

static size_t rounded_bytes(const struct mt_device *, const struct mt_gemm_args *g)
{
    return rounding_bytes(&g->a) + rounding_bytes(&g->b);
}

static enum mt_status run_rounded(struct mt_device *device, const struct mt_gemm_args *g, void *scratch)
{
    struct mt_gemm_args ready = *g;
    ready.a = rounded(device, &g->a, scratch);
    ready.b = rounded(device, &g->b, static_cast<char *>(scratch) + rounding_bytes(&g->a));
    enum mt_status status = cuda_launched(device, "rounding operands");
    return status != MT_OK ? status : multiply(device, &ready);
}

// ------------------------------------------------------------------ operands converted to f32

static int64_t steps_of(const struct mt_gemm_args *g)
{
    return g->a.dim[g->transpose_a ? 0 : 1];
}

/* Columns of c that are made at a time. */
static int64_t tile_of(const struct mt_gemm_args *g)
{
    if (g->b.dtype == MT_F32 && g->c.dtype == MT_F32) return g->c.dim[1];
    int64_t fitting = TILE_ELEMENTS / (steps_of(g) > 0 ? steps_of(g) : 1);
    if (fitting < LEAST_TILE) fitting = LEAST_TILE;
    return fitting < g->c.dim[1] ? fitting : g->c.dim[1];
}

static size_t converted_bytes(const struct mt_device *, const struct mt_gemm_args *g)
{
    size_t bytes = 0;
    if (g->a.dtype != MT_F32) bytes += cuda_floats(mt_tensor_count(&g->a));
    // Not steps · tile, which may fall while steps rise.
    int64_t most = TILE_ELEMENTS > steps_of(g) * LEAST_TILE ? TILE_ELEMENTS : steps_of(g) * LEAST_TILE;
    int64_t whole = mt_tensor_count(&g->b);
    if (g->b.dtype != MT_F32) bytes += cuda_floats(whole < most ? whole : most);
    if (g->c.dtype != MT_F32) bytes += cuda_floats(g->c.dim[0] * tile_of(g));
    return bytes;
}

/* Columns [start, start + columns) of c; `pieces` is scratch for those of b and c. */
static enum mt_status multiply_tile(struct mt_device *device, const struct mt_gemm_args *g, int64_t start,
                                    int64_t columns, char *pieces)
{
    struct mt_gemm_args tile = *g;
    struct mt_tensor c = mt_tensor_columns(&g->c, start, columns);
    tile.b =
        g->transpose_b ? mt_tensor_rows(&g->b, start, columns) : mt_tensor_columns(&g->b, start, columns);
    tile.c = c;
    if (g->b.dtype != MT_F32) {
        struct mt_tensor converted = mt_tensor_2d(pieces, MT_F32, tile.b.dim[0], tile.b.dim[1]);
        convert(device, &tile.b, &converted);
        pieces += cuda_floats(mt_tensor_count(&converted));
        tile.b = converted;
    }
    if (g->c.dtype != MT_F32) {
        tile.c = mt_tensor_2d(pieces, MT_F32, c.dim[0], c.dim[1]);
        if (g->beta != 0.0f) convert(device, &c, &tile.c);
    }
    enum mt_status status = multiply(device, &tile);
    if (status != MT_OK) return status;
    if (g->c.dtype != MT_F32) convert(device, &tile.c, &c);
    return cuda_launched(device, "converting operands");
}

static enum mt_status run_converted(struct mt_device *device, const struct mt_gemm_args *g, void *scratch)
{
    struct mt_gemm_args ready = *g;
    char *pieces = static_cast<char *>(scratch);
    if (g->a.dtype != MT_F32) {
        ready.a = mt_tensor_2d(pieces, MT_F32, g->a.dim[0], g->a.dim[1]);
        convert(device, &g->a, &ready.a);
        pieces += cuda_floats(mt_tensor_count(&ready.a));
    }
    int64_t tile = tile_of(g);
    for (int64_t start = 0; start < g->c.dim[1]; start += tile) {
        int64_t left = g->c.dim[1] - start;
        enum mt_status status = multiply_tile(device, &ready, start, left < tile ? left : tile, pieces);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ which one

static bool is_double(const struct mt_device *, const struct mt_gemm_args *g)
{
    return g->a.dtype == MT_F64 || g->b.dtype == MT_F64 || g->c.dtype == MT_F64;
}

static enum mt_status refuse_double(struct mt_device *device, const struct mt_gemm_args *, void *)
{
    return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "device cuda has no matrix products in f64");
}

static bool is_empty(const struct mt_device *, const struct mt_gemm_args *g)
{
    return mt_tensor_count(&g->c) == 0 || mt_tensor_count(&g->a) == 0;
}

static enum mt_status run_empty(struct mt_device *device, const struct mt_gemm_args *g, void *)
{
    return cuda_scale(device, &g->c, g->beta);
}

typedef struct cuda_variant<struct mt_gemm_args> gemm_variant;
static const gemm_variant doubles = {is_double, NULL, refuse_double};
static const gemm_variant empty = {is_empty, NULL, run_empty};
static const gemm_variant direct = {is_direct, NULL, run_direct};
static const gemm_variant twofold = {is_twofold, twofold_bytes, run_twofold};
static const gemm_variant rounding = {rounds, rounded_bytes, run_rounded};
static const gemm_variant converting = {NULL, converted_bytes, run_converted};

static const gemm_variant *const variants[] = {
    &doubles, &empty, &cuda_gemm_split, &direct, &twofold, &rounding, &converting,
};

size_t cuda_gemm_bytes(const struct mt_device *device, const struct mt_gemm_args *g)
{
    return cuda_bytes(variants, device, g);
}

enum mt_status cuda_gemm(struct mt_device *device, const struct mt_gemm_args *g, void *scratch)
{
    return cuda_run(variants, device, g, scratch);
}

static const gemm_variant other = {NULL, cuda_gemm_bytes, cuda_gemm};
static const gemm_variant *const op_variants[] = {&cuda_thin_gemm, &cuda_gemm_few, &other};
CUDA_OP(gemm, op_variants)
