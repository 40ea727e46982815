/*
 * cross_entropy by chunks of rows: logits of a chunk by a product, then one block per row makes lse and loss;
 * with dloss the logits turn into their gradients, in place or as bf16, and the products that use them
 * follow. Where rows are long the block that makes the loss makes the gradients, too, and keeps what it can
 * of the row in shared memory; the rest it finds in the second-level cache. Chunks come in order, so that
 * accumulated gradients always have the same bits.
 */
#include "ops/cuda/common/sums.cuh"
#include "ops/cuda/common/wide.cuh"
#include "ops/cuda/objective/column_sums.cuh"
#include "ops/cuda/products/gemm.cuh"

#define LOGITS_AT_ONCE ((int64_t)64 << 20) // elements of a chunk, where the device chooses
#define ROWS_OF_TILES  512                 // so that the products' tiles are full, and fill the device
#define MOST_PRODUCTS  4
#define ROW_THREADS    1024 // of a block that makes loss and gradients of a row
#define LEAST_LONG     8192 // logits of a row that occupies such a block
#define ROW_BATCH      2    // eights of a thread whose loads are under way together

// ------------------------------------------------------------------ kernels

/* Of some logits the largest, and Σ exp(logit - largest); what both are while there is nothing. */
struct exponentials {
    float highest; // -inf
    float sum;     // 0
};

/* FAST: in three instructions, within some 2^-22 for each unit of |x|, where results are rounded to bf16. */
template <bool FAST> __device__ static inline float exponential(float x)
{
    return FAST ? __expf(x) : expf(x);
}

/* The largest of the logits so far may grow: the sum is then brought to the new one. */
template <bool FAST>
__device__ static inline void add_logits(struct exponentials *e, const float *z, int count)
{
    float highest = e->highest;
    for (int i = 0; i < count; i++) highest = fmaxf(highest, z[i]);
    if (highest > e->highest) {
        e->sum *= exponential<FAST>(e->highest - highest);
        e->highest = highest;
    }
    float reference = isinf(highest) && highest < 0.0f ? 0.0f : highest; // -inf gives 0 then, NaN stays NaN
    for (int i = 0; i < count; i++) e->sum += exponential<FAST>(z[i] - reference);
}

/* One block per row; logits [rows,V] get the bias added. */
__global__ static void loss_kernel(struct mt_cross_entropy_args a, float *logits, double *lses)
{
    int64_t row = blockIdx.x;
    int64_t vocabulary = a.weight.dim[0];
    float *z = logits + row * vocabulary;
    struct exponentials own = {-INFINITY, 0.0f};
    if (cuda_present(a.bias) || vocabulary % 4 != 0) {
        for (int64_t v = threadIdx.x; v < vocabulary; v += CUDA_THREADS) {
            if (cuda_present(a.bias)) z[v] = (float)((double)z[v] + cuda_get1(a.bias, v));
            add_logits<false>(&own, &z[v], 1);
        }
    } else {
        const float4 *fours = reinterpret_cast<const float4 *>(z);
        for (int64_t v = threadIdx.x; v < vocabulary / 4; v += CUDA_THREADS) {
            float4 four = fours[v];
            const float values[4] = {four.x, four.y, four.z, four.w};
            add_logits<false>(&own, values, 4);
        }
    }
    double highest = block_max((double)own.highest);
    double reference = isinf(highest) && highest < 0.0 ? 0.0 : highest; // all of them -inf: lse is -inf
    double sum = block_sum(own.sum == 0.0f ? 0.0 : (double)own.sum * exp((double)own.highest - reference));
    if (threadIdx.x != 0) return;
    double lse = sum == 0.0 ? -INFINITY : reference + log(sum);
    int32_t label = cuda_int1(a.labels, row);
    lses[row] = lse;
    if (cuda_present(a.lse)) cuda_put1(a.lse, row, lse);
    cuda_put1(a.loss, row, label < 0 ? 0.0 : lse - (double)z[label]);
}

/* What a row's logits turn into their gradient with. */
struct row_gradient {
    int32_t label;
    float lse, dloss;
};

__device__ static inline float gradient_of(const struct row_gradient &g, float z, int64_t v)
{
    float probability = expf(z - g.lse);
    return g.label < 0 ? 0.0f : (probability - (v == g.label ? 1.0f : 0.0f)) * g.dloss;
}

/* gradients = (softmax - onehot) · dloss; 0 in ignored rows. They may be the logits themselves, or bf16. */
__global__ static void gradient_kernel(struct mt_cross_entropy_args a, const float *logits,
                                       const double *lses, struct mt_tensor gradients)
{
    int64_t vocabulary = a.weight.dim[0];
    int64_t each = vocabulary % CUDA_WIDE == 0 ? CUDA_WIDE : 1; // logits a thread takes at once
    int64_t v = cuda_thread() * each;
    if (v >= vocabulary) return;
    for (int64_t row = blockIdx.y; row < a.labels.dim[0]; row += gridDim.y) {
        struct row_gradient g = {cuda_int1(a.labels, row), (float)lses[row], (float)cuda_get1(a.dloss, row)};
        if (each == 1) {
            float value = gradient_of(g, logits[row * vocabulary + v], v);
            cuda_float_set(gradients.data, gradients.dtype, row * vocabulary + v, value);
            continue;
        }
        float z[CUDA_WIDE];
        wide_load(logits, MT_F32, row * vocabulary + v, z);
#pragma unroll
        for (int i = 0; i < CUDA_WIDE; i++) z[i] = gradient_of(g, z[i], v + i);
        wide_store(gradients.data, gradients.dtype, row * vocabulary + v, z);
    }
}

/* Over a block of ROW_THREADS, in every thread: of all logits. A fixed tree. All threads must call it. */
__device__ static inline double block_lse(const struct exponentials &own)
{
    __shared__ double partial[ROW_THREADS / 32];
    double highest = warp_max((double)own.highest);
    if (cuda_lane() == 0) partial[threadIdx.x / 32] = highest;
    __syncthreads();
    highest = warp_max(partial[cuda_lane()]);
    double reference = isinf(highest) && highest < 0.0 ? 0.0 : highest; // all of them -inf: lse is -inf
    double sum = warp_sum(own.sum == 0.0f ? 0.0 : (double)own.sum * exp((double)own.highest - reference));
    __syncthreads(); // every warp has read the maxima
    if (cuda_lane() == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = warp_sum(partial[cuda_lane()]);
    return sum == 0.0 ? -INFINITY : reference + log(sum);
}

/*
 * A row's loss and gradients, which are not its logits' memory: without bias, V a multiple of eight. The
 * first `held` eights stay in shared memory, their first halves before all the second ones.
 */
__global__ static void __launch_bounds__(ROW_THREADS)
    long_row_kernel(struct mt_cross_entropy_args a, const float *logits, struct mt_tensor gradients, int held)
{
    extern __shared__ float4 kept[];
    int64_t row = blockIdx.x;
    int64_t vocabulary = a.weight.dim[0];
    int eights = (int)(vocabulary / CUDA_WIDE);
    const float4 *z = reinterpret_cast<const float4 *>(logits + row * vocabulary);
    struct exponentials own = {-INFINITY, 0.0f};
    for (int first = (int)threadIdx.x; first < eights; first += ROW_BATCH * ROW_THREADS) {
        float4 four[ROW_BATCH][2];
#pragma unroll
        for (int i = 0; i < ROW_BATCH; i++) {
            int eight = first + i * ROW_THREADS;
            if (eight >= eights) break;
            four[i][0] = z[2 * eight];
            four[i][1] = z[2 * eight + 1];
        }
#pragma unroll
        for (int i = 0; i < ROW_BATCH; i++) {
            int eight = first + i * ROW_THREADS;
            if (eight >= eights) break;
            const float values[CUDA_WIDE] = {four[i][0].x, four[i][0].y, four[i][0].z, four[i][0].w,
                                             four[i][1].x, four[i][1].y, four[i][1].z, four[i][1].w};
            add_logits<true>(&own, values, CUDA_WIDE);
            if (eight >= held) continue;
            kept[eight] = four[i][0]; // for this thread itself
            kept[held + eight] = four[i][1];
        }
    }
    double lse = block_lse(own);
    struct row_gradient g = {cuda_int1(a.labels, row), (float)lse, (float)cuda_get1(a.dloss, row)};
    if (threadIdx.x == 0) {
        if (cuda_present(a.lse)) cuda_put1(a.lse, row, lse);
        cuda_put1(a.loss, row, g.label < 0 ? 0.0 : lse - (double)logits[row * vocabulary + g.label]);
    }
    for (int eight = (int)threadIdx.x; eight < eights; eight += ROW_THREADS) {
        float4 low = eight < held ? kept[eight] : z[2 * eight];
        float4 high = eight < held ? kept[held + eight] : z[2 * eight + 1];
        float value[CUDA_WIDE] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < CUDA_WIDE; i++) {
            value[i] = exponential<true>(value[i] - g.lse);
            if (eight * CUDA_WIDE + i == g.label) value[i] -= 1.0f;
            value[i] = g.label < 0 ? 0.0f : value[i] * g.dloss;
        }
        wide_store(gradients.data, gradients.dtype, row * vocabulary + (int64_t)eight * CUDA_WIDE, value);
    }
}

struct logit_term {
    struct mt_tensor gradients; // [rows,V]

    __device__ double operator()(int64_t row, int64_t column) const
    {
        return cuda_get2(gradients, row, column);
    }
};

// ------------------------------------------------------------------ products of a chunk

static int64_t chunk_rows_of(const struct mt_cross_entropy_args *a)
{
    int64_t rows = a->chunk_rows > 0 ? a->chunk_rows : LOGITS_AT_ONCE / a->weight.dim[0];
    if (a->chunk_rows <= 0 && rows > ROWS_OF_TILES) rows -= rows % ROWS_OF_TILES;
    if (rows < 1) rows = 1;
    return rows < a->hidden.dim[0] ? rows : a->hidden.dim[0];
}

static void cut_rows(struct mt_tensor *tensor, int64_t start, int64_t rows)
{
    if (mt_tensor_present(tensor)) *tensor = mt_tensor_rows(tensor, start, rows);
}

/* The arguments with only the chunk's rows. */
static struct mt_cross_entropy_args chunk_of(const struct mt_cross_entropy_args *a, int64_t start,
                                             int64_t rows)
{
    struct mt_cross_entropy_args chunk = *a;
    cut_rows(&chunk.hidden, start, rows);
    cut_rows(&chunk.hidden_xa, start, rows);
    cut_rows(&chunk.labels, start, rows);
    cut_rows(&chunk.loss, start, rows);
    cut_rows(&chunk.lse, start, rows);
    cut_rows(&chunk.dloss, start, rows);
    cut_rows(&chunk.dhidden, start, rows);
    cut_rows(&chunk.dhidden_xa, start, rows);
    return chunk;
}

static struct mt_gemm_args product(const struct mt_tensor &x, bool transpose_x, const struct mt_tensor &y,
                                   bool transpose_y, const struct mt_tensor &result, float beta)
{
    struct mt_gemm_args g = {};
    g.a = x;
    g.b = y;
    g.c = result;
    g.transpose_a = transpose_x;
    g.transpose_b = transpose_y;
    g.alpha = 1.0f;
    g.beta = beta;
    return g;
}

/* What makes the chunk's logits; returns how many. */
static int logit_products(const struct mt_cross_entropy_args *chunk, const struct mt_tensor &logits,
                          struct mt_gemm_args list[MOST_PRODUCTS])
{
    int count = 0;
    list[count++] = product(chunk->hidden, false, chunk->weight, true, logits, 0.0f);
    if (mt_tensor_present(&chunk->hidden_xa)) {
        list[count++] = product(chunk->hidden_xa, false, chunk->weight_b, true, logits, 1.0f);
    }
    return count;
}

/* What follows from their gradients. */
static int gradient_products(const struct mt_cross_entropy_args *chunk, const struct mt_tensor &gradients,
                             struct mt_gemm_args list[MOST_PRODUCTS])
{
    int count = 0;
    if (mt_tensor_present(&chunk->dhidden)) {
        list[count++] = product(gradients, false, chunk->weight, false, chunk->dhidden, 0.0f);
    }
    if (mt_tensor_present(&chunk->dhidden_xa)) {
        list[count++] = product(gradients, false, chunk->weight_b, false, chunk->dhidden_xa, 0.0f);
    }
    if (mt_tensor_present(&chunk->dweight)) {
        list[count++] = product(gradients, true, chunk->hidden, false, chunk->dweight, 1.0f);
    }
    if (mt_tensor_present(&chunk->dweight_b)) {
        list[count++] = product(gradients, true, chunk->hidden_xa, false, chunk->dweight_b, 1.0f);
    }
    return count;
}

static enum mt_status run_products(struct mt_device *device, const struct mt_gemm_args *list, int count,
                                   void *scratch)
{
    enum mt_status status = MT_OK;
    for (int i = 0; i < count && status == MT_OK; i++) status = cuda_gemm(device, &list[i], scratch);
    return status;
}

// ------------------------------------------------------------------ scratch

/* Where the parts of scratch begin, in bytes. */
struct layout {
    size_t
        gradients;   // bf16 [rows,V] where products round anyway, after the logits, f32 [rows,V]; 0: in place
    size_t lses;     // double [rows]
    size_t partials; // of dbias
    size_t products;
    size_t end;
};

static size_t products_bytes(const struct mt_device *device, const struct mt_gemm_args *list, int count)
{
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        size_t bytes = cuda_gemm_bytes(device, &list[i]);
        if (bytes > most) most = bytes;
    }
    return most;
}

static struct layout layout_of(const struct mt_device *device, const struct mt_cross_entropy_args *a)
{
    int64_t rows = chunk_rows_of(a);
    int64_t vocabulary = a->weight.dim[0];
    struct mt_cross_entropy_args chunk = chunk_of(a, 0, rows);
    bool narrow = cuda_state_of(device)->bf16 && mt_tensor_present(&a->dloss);
    struct mt_tensor logits = mt_tensor_2d(NULL, MT_F32, rows, vocabulary);
    struct mt_tensor gradients = mt_tensor_2d(NULL, narrow ? MT_BF16 : MT_F32, rows, vocabulary);
    struct mt_gemm_args list[MOST_PRODUCTS];
    size_t before = products_bytes(device, list, logit_products(&chunk, logits, list));
    size_t after = products_bytes(device, list, gradient_products(&chunk, gradients, list));
    struct layout layout = {};
    layout.lses = cuda_floats(rows * vocabulary);
    if (narrow) {
        layout.gradients = layout.lses;
        layout.lses += cuda_halves(rows * vocabulary);
    }
    layout.partials = layout.lses + cuda_doubles(rows);
    layout.products = layout.partials;
    if (mt_tensor_present(&a->dbias)) layout.products += column_sums_bytes(vocabulary);
    layout.end = layout.products + (before > after ? before : after);
    return layout;
}

size_t mt_cuda_cross_entropy_scratch(const struct mt_device *device, const struct mt_cross_entropy_args *a)
{
    return layout_of(device, a).end;
}

// ------------------------------------------------------------------ the op

/* Whether loss and gradients of a chunk are made together. */
static bool has_long_rows(const struct mt_cross_entropy_args *chunk, const struct layout *layout)
{
    int64_t vocabulary = chunk->weight.dim[0];
    return layout->gradients != 0 && !mt_tensor_present(&chunk->bias) && vocabulary % CUDA_WIDE == 0 &&
           vocabulary >= LEAST_LONG && vocabulary <= INT32_MAX;
}

static enum mt_status run_long_rows(struct mt_device *device, const struct mt_cross_entropy_args *chunk,
                                    const float *logits, const struct mt_tensor &gradients)
{
    int64_t eights = chunk->weight.dim[0] / CUDA_WIDE;
    size_t eight_bytes = CUDA_WIDE * sizeof(float);
    int64_t room =
        (int64_t)((cuda_state_of(device)->shared_bytes - 1024) / eight_bytes); // sums need some, too
    int held = (int)(eights < room ? eights : room);
    int bytes = (int)(held * eight_bytes);
    enum mt_status status = cuda_allow_shared(device, reinterpret_cast<const void *>(long_row_kernel),
                                              (size_t)bytes, "cross_entropy's shared memory");
    if (status != MT_OK) return status;
    long_row_kernel<<<(unsigned)chunk->hidden.dim[0], ROW_THREADS, bytes, cuda_stream(device)>>>(
        *chunk, logits, gradients, held);
    return cuda_launched(device, "cross_entropy");
}

/* The loss of a chunk and, with dloss, its logits' gradients. */
static enum mt_status run_rows(struct mt_device *device, const struct mt_cross_entropy_args *chunk,
                               const struct layout *layout, float *logits, const struct mt_tensor &gradients)
{
    cudaStream_t stream = cuda_stream(device);
    int64_t rows = chunk->hidden.dim[0];
    int64_t vocabulary = chunk->weight.dim[0];
    double *lses = reinterpret_cast<double *>(static_cast<char *>(device->scratch.data) + layout->lses);
    if (has_long_rows(chunk, layout)) return run_long_rows(device, chunk, logits, gradients);
    loss_kernel<<<(unsigned)rows, CUDA_THREADS, 0, stream>>>(*chunk, logits, lses);
    enum mt_status status = cuda_launched(device, "cross_entropy");
    if (status != MT_OK || !mt_tensor_present(&chunk->dloss)) return status;
    int64_t threads = vocabulary % CUDA_WIDE == 0 ? vocabulary / CUDA_WIDE : vocabulary;
    gradient_kernel<<<cuda_grid(rows, threads), CUDA_THREADS, 0, stream>>>(*chunk, logits, lses, gradients);
    return cuda_launched(device, "cross_entropy's gradient");
}

static enum mt_status run_chunk(struct mt_device *device, const struct mt_cross_entropy_args *chunk,
                                const struct layout *layout)
{
    int64_t rows = chunk->hidden.dim[0];
    int64_t vocabulary = chunk->weight.dim[0];
    char *scratch = static_cast<char *>(device->scratch.data);
    float *values = reinterpret_cast<float *>(scratch);
    void *for_products = scratch + layout->products;
    struct mt_tensor logits = mt_tensor_2d(values, MT_F32, rows, vocabulary);
    struct mt_gemm_args list[MOST_PRODUCTS];
    int count = logit_products(chunk, logits, list);
    enum mt_status status = run_products(device, list, count, for_products);
    if (status != MT_OK) return status;
    struct mt_tensor gradients = logits;
    if (layout->gradients != 0)
        gradients = mt_tensor_2d(scratch + layout->gradients, MT_BF16, rows, vocabulary);
    status = run_rows(device, chunk, layout, values, gradients);
    if (status != MT_OK || !mt_tensor_present(&chunk->dloss)) return status;
    if (mt_tensor_present(&chunk->dbias)) {
        column_sums(cuda_stream(device), logit_term{gradients}, rows, vocabulary, chunk->dbias,
                    reinterpret_cast<double *>(scratch + layout->partials));
        status = cuda_launched(device, "cross_entropy's bias");
        if (status != MT_OK) return status;
    }
    count = gradient_products(chunk, gradients, list);
    return run_products(device, list, count, for_products);
}

enum mt_status mt_cuda_cross_entropy(struct mt_device *device, const struct mt_cross_entropy_args *a)
{
    struct layout layout = layout_of(device, a);
    int64_t at_once = chunk_rows_of(a);
    for (int64_t start = 0; start < a->hidden.dim[0]; start += at_once) {
        int64_t left = a->hidden.dim[0] - start;
        struct mt_cross_entropy_args chunk = chunk_of(a, start, left < at_once ? left : at_once);
        enum mt_status status = run_chunk(device, &chunk, &layout);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}
