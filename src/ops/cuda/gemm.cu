/*
 * gemm through cuBLAS, f32 accumulation, never TF32. Operands of one 16-bit type go to the tensor cores as
 * they are. Otherwise what is not f32 is converted into scratch first: a as a whole, b and c by tiles of c's
 * columns, so that a large weight never exists a second time.
 *
 * cuBLAS thinks in columns: a row-major matrix is its transpose there, and c = a·b is computed as cᵀ = bᵀ·aᵀ.
 */
#include "ops/cuda/gemm.cuh"

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
static enum mt_status configure(const struct mt_device *device, cublasHandle_t handle)
{
    const struct cuda_state *state = cuda_state_of(device);
    enum mt_status status =
        blas_status(device, cublasSetStream(handle, state->stream), "giving cuBLAS its stream");
    if (status != MT_OK) return status;
    status = blas_status(device, cublasSetWorkspace(handle, state->blas_workspace, WORKSPACE_BYTES),
                         "giving cuBLAS its workspace");
    if (status != MT_OK) return status;
    int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    return blas_status(device, cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)),
                       "setting cuBLAS's precision");
}

/* The handle, made by the first product: a device that multiplies nothing should not wait for it. */
static enum mt_status blas_handle(struct mt_device *device, cublasHandle_t *handle)
{
    struct cuda_state *state = cuda_state_of(device);
    *handle = state->blas;
    if (state->blas != NULL) return MT_OK;
    enum mt_status status = MT_OK;
    if (state->blas_workspace == NULL) {
        cudaError_t error = cudaMalloc(&state->blas_workspace, WORKSPACE_BYTES);
        status = cuda_status(device, error, "allocating cuBLAS's workspace");
        if (status != MT_OK) return status;
    }
    cublasHandle_t made = NULL;
    status = blas_status(device, cublasCreate(&made), "starting cuBLAS");
    if (status != MT_OK) return status;
    status = configure(device, made);
    if (status != MT_OK) {
        (void)cublasDestroy(made);
        return status;
    }
    state->blas = made;
    *handle = made;
    return MT_OK;
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

// ------------------------------------------------------------------ one product

/* What of the operands must be converted, and how many columns of c are made at a time. */
struct plan {
    bool convert_a, convert_b, convert_c;
    int64_t tile; // columns
};

static struct plan plan_of(const struct mt_gemm_args *g)
{
    bool narrow = g->a.dtype == g->b.dtype && (g->a.dtype == MT_BF16 || g->a.dtype == MT_F16) &&
                  (g->c.dtype == MT_F32 || g->c.dtype == g->a.dtype);
    struct plan plan = {};
    plan.tile = g->c.dim[1];
    if (narrow) return plan;
    plan.convert_a = g->a.dtype != MT_F32;
    plan.convert_b = g->b.dtype != MT_F32;
    plan.convert_c = g->c.dtype != MT_F32;
    if (!plan.convert_b && !plan.convert_c) return plan;
    int64_t inner = g->a.dim[g->transpose_a ? 0 : 1];
    int64_t fitting = TILE_ELEMENTS / (inner > 0 ? inner : 1);
    if (fitting < LEAST_TILE) fitting = LEAST_TILE;
    if (fitting < plan.tile) plan.tile = fitting;
    return plan;
}

size_t cuda_gemm_bytes(const struct mt_gemm_args *g)
{
    struct plan plan = plan_of(g);
    int64_t inner = g->a.dim[g->transpose_a ? 0 : 1];
    size_t bytes = 0;
    if (plan.convert_a) bytes += cuda_floats(mt_tensor_count(&g->a));
    // Not inner · tile, which may fall while inner rises.
    int64_t most = TILE_ELEMENTS > inner * LEAST_TILE ? TILE_ELEMENTS : inner * LEAST_TILE;
    int64_t whole = mt_tensor_count(&g->b);
    if (plan.convert_b) bytes += cuda_floats(whole < most ? whole : most);
    if (plan.convert_c) bytes += cuda_floats(g->c.dim[0] * plan.tile);
    return bytes;
}

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
    enum mt_status status = blas_handle(device, &handle);
    if (status != MT_OK) return status;
    int64_t inner = g->a.dim[g->transpose_a ? 0 : 1];
    cublasStatus_t result = cublasGemmEx_64(
        handle, g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
        g->c.dim[1], g->c.dim[0], inner, &g->alpha, g->b.data, blas_type(g->b.dtype), leading(&g->b),
        g->a.data, blas_type(g->a.dtype), leading(&g->a), &g->beta, g->c.data, blas_type(g->c.dtype),
        leading(&g->c), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    return blas_status(device, result, "multiplying matrices");
}

/* Columns [start, start + columns) of c; `pieces` is scratch for those of b and c. */
static enum mt_status multiply_tile(struct mt_device *device, const struct mt_gemm_args *g,
                                    const struct plan *plan, int64_t start, int64_t columns, char *pieces)
{
    struct mt_gemm_args tile = *g;
    struct mt_tensor c = mt_tensor_columns(&g->c, start, columns);
    tile.b =
        g->transpose_b ? mt_tensor_rows(&g->b, start, columns) : mt_tensor_columns(&g->b, start, columns);
    tile.c = c;
    if (plan->convert_b) {
        struct mt_tensor converted = mt_tensor_2d(pieces, MT_F32, tile.b.dim[0], tile.b.dim[1]);
        convert(device, &tile.b, &converted);
        pieces += cuda_floats(mt_tensor_count(&converted));
        tile.b = converted;
    }
    if (plan->convert_c) {
        tile.c = mt_tensor_2d(pieces, MT_F32, c.dim[0], c.dim[1]);
        if (g->beta != 0.0f) convert(device, &c, &tile.c);
    }
    enum mt_status status = multiply(device, &tile);
    if (status != MT_OK) return status;
    if (plan->convert_c) convert(device, &tile.c, &c);
    return cuda_launched(device, "converting operands");
}

enum mt_status cuda_gemm(struct mt_device *device, const struct mt_gemm_args *g, void *scratch)
{
    if (g->a.dtype == MT_F64 || g->b.dtype == MT_F64 || g->c.dtype == MT_F64) {
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "device cuda has no matrix products in f64");
    }
    if (mt_tensor_count(&g->c) == 0) return MT_OK;
    if (mt_tensor_count(&g->a) == 0) return cuda_scale(device, &g->c, g->beta);
    struct plan plan = plan_of(g);
    struct mt_gemm_args ready = *g;
    char *pieces = static_cast<char *>(scratch);
    if (plan.convert_a) {
        ready.a = mt_tensor_2d(pieces, MT_F32, g->a.dim[0], g->a.dim[1]);
        convert(device, &g->a, &ready.a);
        pieces += cuda_floats(mt_tensor_count(&ready.a));
    }
    for (int64_t start = 0; start < g->c.dim[1]; start += plan.tile) {
        int64_t left = g->c.dim[1] - start;
        int64_t columns = left < plan.tile ? left : plan.tile;
        enum mt_status status = multiply_tile(device, &ready, &plan, start, columns, pieces);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

// ------------------------------------------------------------------ the op

size_t mt_cuda_gemm_scratch(const struct mt_device *device, const void *args)
{
    (void)device;
    return cuda_gemm_bytes(static_cast<const struct mt_gemm_args *>(args));
}

enum mt_status mt_cuda_gemm(struct mt_device *device, const void *args)
{
    return cuda_gemm(device, static_cast<const struct mt_gemm_args *>(args), device->scratch.data);
}
