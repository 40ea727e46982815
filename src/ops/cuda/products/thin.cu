/*
 * Products of few rows with weights stored [N,K] (thin.cuh): y = alpha · Σ_t x_t W_tᵀ + beta · y, a gemm, a
 * grouped_sum, a head_gemm, the products of a lora_xa, or a SwiGLU block's two sums and what comes of them. A
 * block makes 16 columns of y; an instruction's left operand is 16 rows of a weight.
 */
#include "ops/cuda/elementwise/swiglu.cuh"
#include "ops/cuda/products/grouped.cuh"
#include "ops/cuda/products/thin.cuh"

#define COLUMNS     16        // of a block
#define STEPS       32        // of a weight's row that four lanes read at a time: two instructions
#define MOST_ROWS   32        // of a product, or SwiGLU block, without experts: cuBLAS is faster with more
#define FEW_ROWS    16        // up to which rows are read from the cache faster than weights from memory
#define MOST_WIDE   8192      // columns of a product of more rows than that: all rows are read for 16 of them
#define ROWS_EACH   2         // of an expert on average: with more, some experts have more than a tile
#define XA_ROWS     32        // the same of lora_xa, whose weights are small
#define MOST_STRIDE (1 << 25) // elements between rows of x, which are found by 32 bits
#define MOST_TERMS  2         // of a sum
#define MOST_SUMS   MT_LORA_LINEARS

/* One product of a sum. */
struct thin_product {
    const __nv_bfloat16 *x;      // [R,K], the first head's
    const __nv_bfloat16 *weight; // [N,K], the first expert's
    int64_t x_stride, stride;    // elements between rows
    int64_t x_gap;               // elements from a head's x to the next one's; 0: there are no heads
    int64_t gap;                 // elements from an expert's or a head's weight to the next one's
    int steps;                   // K
};

/*
 * One sum; two of a SwiGLU block, the second one's first product having the first one's x; or several apart,
 * each made by blocks of its own.
 */
struct thin_call {
    struct thin_product product[MOST_SUMS][MOST_TERMS];
    int terms;
    int apart;              // sums; 0: they are not apart
    const int32_t *offsets; // NULL: all rows are one expert's, or each head's
    int experts;            // or heads
    int64_t rows;
    int64_t y_gap;                 // elements from a head's y to the next one's
    struct mt_tensor y[MOST_SUMS]; // [R,N]: of the sums; then, of a SwiGLU block, silu(first) · second
    float alpha, beta;
};

/* Rows [first, end) of expert or head e, the first column, and which of sums that are apart. */
struct thin_place {
    int64_t first, end, column;
    int e, sum;
};

/* The block's place; false where it has none. */
template <int TILES>
__device__ static inline bool find_place(const struct thin_call &call, struct thin_place *place)
{
    int64_t tile = blockIdx.y;
    place->column = (int64_t)blockIdx.x * COLUMNS;
    place->e = call.apart > 0 ? 0 : (int)blockIdx.z;
    place->sum = call.apart > 0 ? (int)blockIdx.z : 0;
    place->first = tile * 8 * TILES;
    place->end = call.rows;
    if (call.offsets == NULL) return true;
    place->e = find_expert(call.offsets, call.experts, 8 * TILES, &tile);
    if (place->e < 0) return false;
    place->first = call.offsets[place->e] + tile * 8 * TILES;
    place->end = call.offsets[place->e + 1];
    return true;
}

/*
 * sums += the products of WEIGHTS weights with the same x: fragment w · TILES + t is of weight w and of rows
 * 8t on. Rows and columns past the last read the last one again; nobody stores what comes of it.
 * BATCH: parts of 16 bytes of an operand a lane reads ahead of the instructions that use them.
 */
template <int WEIGHTS, int TILES, int WARPS, int BATCH>
__device__ static inline void add_products(float (&sums)[WEIGHTS * TILES][4],
                                           const struct thin_product *const (&p)[WEIGHTS],
                                           const struct thin_place &place, int64_t columns)
{
    int line = cuda_lane() / 4;
    int part = cuda_lane() % 4 * 8;
    int steps = p[0]->steps;
    const __nv_bfloat16 *left[WEIGHTS][2];
    const __nv_bfloat16 *x = p[0]->x + place.e * p[0]->x_gap + place.first * p[0]->x_stride + part;
    unsigned right[TILES]; // elements from x on
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int64_t column = place.column + line + 8 * half;
        if (column >= columns) column = columns - 1;
#pragma unroll
        for (int w = 0; w < WEIGHTS; w++)
            left[w][half] = p[w]->weight + place.e * p[w]->gap + column * p[w]->stride + part;
    }
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        int64_t row = 8 * t + line;
        if (row >= place.end - place.first) row = place.end - place.first - 1;
        right[t] = (unsigned)(row * p[0]->x_stride);
    }
#pragma unroll 1
    for (int k = (int)threadIdx.x / 32 * STEPS; k < steps; k += BATCH * WARPS * STEPS) {
        const uint4 none = make_uint4(0, 0, 0, 0);
        uint4 a[BATCH][WEIGHTS][2];
        uint4 b[BATCH][TILES];
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            int at = k + i * WARPS * STEPS;
            bool there = at + part < steps;
#pragma unroll
            for (int w = 0; w < WEIGHTS; w++) {
                a[i][w][0] = thin_weight(left[w][0] + at, there);
                a[i][w][1] = thin_weight(left[w][1] + at, there);
            }
#pragma unroll
            for (int t = 0; t < TILES; t++)
                b[i][t] = there ? *reinterpret_cast<const uint4 *>(x + right[t] + at) : none;
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
#pragma unroll
            for (int w = 0; w < WEIGHTS; w++) {
                const unsigned low[4] = {a[i][w][0].x, a[i][w][1].x, a[i][w][0].y, a[i][w][1].y};
                const unsigned high[4] = {a[i][w][0].z, a[i][w][1].z, a[i][w][0].w, a[i][w][1].w};
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    multiply_add(sums[w * TILES + t], low, b[i][t].x, b[i][t].y);
                    multiply_add(sums[w * TILES + t], high, b[i][t].z, b[i][t].w);
                }
            }
        }
    }
}

/* y = alpha · sum + beta · y; what y holds then. */
__device__ static inline float store(const struct mt_tensor &y, int64_t at, float sum, float alpha,
                                     float beta)
{
    float old = beta == 0.0f ? 0.0f : beta * cuda_float_at(y.data, y.dtype, at);
    cuda_float_set(y.data, y.dtype, at, alpha * sum + old);
    return y.dtype == MT_BF16 ? __bfloat162float(__float2bfloat16_rn(alpha * sum + old)) : alpha * sum + old;
}

/*
 * Asks for the block's weights, if it is known whose they are, before the kernel before has ended: on their
 * way to the cache they do not disturb anybody, and they are read after it.
 */
template <int WEIGHTS, int THREADS> __device__ static inline void expect_weights(const struct thin_call &call)
{
    if (call.offsets != NULL || blockIdx.y != 0) return;
    int first = call.apart > 0 ? (int)blockIdx.z : 0;
    int head = call.apart > 0 ? 0 : (int)blockIdx.z;
    for (int w = first; w < first + WEIGHTS; w++) {
        const struct thin_product &p = call.product[w][0];
        int lines = (p.steps + 63) / 64; // of 128 bytes
        for (int i = (int)threadIdx.x; i < COLUMNS * lines; i += THREADS) {
            int64_t column = (int64_t)blockIdx.x * COLUMNS + i / lines;
            if (column >= call.y[w].dim[1]) return;
            const __nv_bfloat16 *line = p.weight + head * p.gap + column * p.stride + i % lines * 64;
            asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
        }
    }
}

/*
 * WEIGHTS: 1, or 2 of a SwiGLU block. Few blocks are best off with all their operands on the way at once (a
 * large BATCH), many with neighbours that read while they add up (BLOCKS of a multiprocessor).
 */
template <int WEIGHTS, int TILES, int WARPS, int BATCH, int BLOCKS>
__global__ static void __launch_bounds__(32 * WARPS, BLOCKS)
    thin_kernel(const __grid_constant__ struct thin_call call)
{
    __shared__ struct thin_sums<WEIGHTS * TILES> all;
    struct thin_place place;
    float sums[WEIGHTS * TILES][4] = {};
    expect_weights<WEIGHTS, 32 * WARPS>(call);
    cuda_follow();
    if (!find_place<TILES>(call, &place)) return;
    const struct mt_tensor &y = call.y[place.sum];
    int64_t columns = y.dim[1];
    if (place.column >= columns) return;
    if constexpr (WEIGHTS == 1) {
        for (int t = 0; t < call.terms; t++)
            add_products<1, TILES, WARPS, BATCH>(sums, {&call.product[place.sum][t]}, place, columns);
    } else {
        add_products<2, TILES, WARPS, BATCH>(sums, {&call.product[0][0], &call.product[1][0]}, place,
                                             columns);
        for (int w = 0; w < 2 && call.terms > 1; w++) {
            float thin[TILES][4] = {};
            add_products<1, TILES, WARPS, 1>(thin, {&call.product[w][1]}, place, columns);
#pragma unroll
            for (int t = 0; t < TILES; t++) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    sums[t][e] += w == 0 ? thin[t][e] : 0.0f;
                    sums[TILES + t][e] += w == 1 ? thin[t][e] : 0.0f;
                }
            }
        }
    }
    thin_share<WARPS>(all, sums);
    for (int i = (int)threadIdx.x; i < TILES * 4 * 32; i += 32 * WARPS) {
        int lane = i % 32;
        int element = i / 32 % 4;
        int tile = i / 128;
        int64_t row = place.first + 8 * tile + lane % 4 * 2 + element % 2;
        int64_t column = place.column + lane / 4 + element / 2 * 8;
        if (row >= place.end || column >= columns) continue;
        float first = store(y, place.e * call.y_gap + row * y.stride[0] + column,
                            thin_sum(all, tile, element, lane), call.alpha, call.beta);
        if constexpr (WEIGHTS == 2) {
            float second = store(call.y[1], row * call.y[1].stride[0] + column,
                                 thin_sum(all, TILES + tile, element, lane), call.alpha, call.beta);
            cuda_float_set(call.y[2].data, call.y[2].dtype, row * call.y[2].stride[0] + column,
                           swiglu(first, second));
        }
    }
}

// ------------------------------------------------------------------ the host's side

/* Blocks along x, y and z of a call whose blocks make 8 · tiles rows. */
static dim3 grid_of(const struct thin_call &call, int tiles)
{
    int64_t columns = call.y[0].dim[1];
    for (int i = 1; i < call.apart; i++) {
        if (call.y[i].dim[1] > columns) columns = call.y[i].dim[1];
    }
    int64_t across = (columns + COLUMNS - 1) / COLUMNS;
    int64_t down = (call.rows + 8 * tiles - 1) / (8 * tiles);
    unsigned sums = (unsigned)(call.apart > 0 ? call.apart : 1);
    if (call.offsets == NULL)
        return dim3((unsigned)across, (unsigned)down, call.apart > 0 ? sums : (unsigned)call.experts);
    // Each expert may end in a tile that is not full, but none is without a row.
    int64_t most = call.rows / (8 * tiles) + call.experts;
    return dim3((unsigned)across, (unsigned)(call.rows < most ? call.rows : most), sums);
}

template <int WEIGHTS, int TILES, int WARPS, int BATCH, int BLOCKS>
static enum mt_status launch(struct mt_device *device, const struct thin_call &call)
{
    return cuda_launch(device, "a product of few rows", thin_kernel<WEIGHTS, TILES, WARPS, BATCH, BLOCKS>,
                       grid_of(call, TILES), 32 * WARPS, 0, call);
}

/* Whether a multiprocessor has hardly more than two blocks. */
static bool has_few_blocks(const struct mt_device *device, const struct thin_call &call)
{
    dim3 grid = grid_of(call, 1);
    return (int64_t)grid.x * grid.y * grid.z <= 2 * cuda_state_of(device)->multiprocessors;
}

static enum mt_status run_one(struct mt_device *device, const struct thin_call &call)
{
    if (call.offsets != NULL || call.rows <= 8)
        return has_few_blocks(device, call) ? launch<1, 1, 8, 8, 2>(device, call)
                                            : launch<1, 1, 8, 2, 4>(device, call);
    if (call.rows <= 16) return launch<1, 2, 8, 4, 2>(device, call);
    return launch<1, 4, 16, 2, 1>(device, call);
}

static enum mt_status run_pair(struct mt_device *device, const struct thin_call &call)
{
    if (call.offsets != NULL || call.rows <= 8)
        return has_few_blocks(device, call) ? launch<2, 1, 8, 4, 2>(device, call)
                                            : launch<2, 1, 8, 2, 3>(device, call);
    return call.rows <= 16 ? launch<2, 2, 8, 2, 2>(device, call) : launch<2, 4, 16, 2, 1>(device, call);
}

static bool term_fits(const struct mt_product_term *term, int experts, float alpha)
{
    const struct mt_tensor *weight = cuda_uniform(term->weight, experts);
    return weight != NULL && weight->dtype == MT_BF16 && cuda_gap(term->weight, experts) > 0 &&
           (weight->dim[0] == 1 || weight->stride[0] % 8 == 0) && term->transpose_weight &&
           term->alpha == alpha && !mt_tensor_present(&term->mask_y) && thin_reads(&term->x) &&
           term->x.dim[1] <= INT32_MAX / 2 && (term->x.dim[0] == 1 || term->x.stride[0] <= MOST_STRIDE);
}

/* A sum of few rows; `each`: of an expert on average, at the most. */
static bool fits(const struct mt_device *device, const struct mt_grouped_sum_args *a, int64_t each)
{
    int64_t rows = a->y.dim[0];
    bool grouped = mt_tensor_present(&a->offsets);
    if (!cuda_state_of(device)->bf16 || !cuda_is_float_or_bf16(&a->y) || a->count > MOST_TERMS || rows < 1 ||
        a->y.dim[1] < 1)
        return false;
    if (grouped && rows > each * a->experts) return false;
    if (!grouped && (rows > MOST_ROWS || (rows > FEW_ROWS && a->y.dim[1] > MOST_WIDE))) return false;
    for (int t = 0; t < a->count; t++) {
        if (!term_fits(&a->terms[t], a->experts, a->terms[0].alpha)) return false;
    }
    return true;
}

static struct thin_product product_of(const struct mt_product_term *term, int experts)
{
    struct thin_product product = {};
    product.x = static_cast<const __nv_bfloat16 *>(term->x.data);
    product.weight = static_cast<const __nv_bfloat16 *>(term->weight[0].data);
    product.x_stride = term->x.stride[0];
    product.stride = term->weight[0].stride[0];
    product.gap = cuda_gap(term->weight, experts) / 2;
    product.steps = (int)term->x.dim[1];
    return product;
}

static struct thin_call call_of(const struct mt_grouped_sum_args *a)
{
    struct thin_call call = {};
    for (int t = 0; t < a->count; t++) call.product[0][t] = product_of(&a->terms[t], a->experts);
    call.terms = a->count;
    if (mt_tensor_present(&a->offsets)) call.offsets = static_cast<const int32_t *>(a->offsets.data);
    call.experts = a->experts;
    call.rows = a->y.dim[0];
    call.y[0] = a->y;
    call.alpha = a->terms[0].alpha;
    call.beta = a->beta;
    return call;
}

static bool sum_fits(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    return fits(device, a, ROWS_EACH);
}

static enum mt_status run_sum(struct mt_device *device, const struct mt_grouped_sum_args *a, void *)
{
    return run_one(device, call_of(a));
}

const struct cuda_variant<struct mt_grouped_sum_args> cuda_thin_sum = {
    sum_fits, NULL, run_sum
};

// ------------------------------------------------------------------ gemm

/* `term` is borrowed by what is returned. */
static struct mt_grouped_sum_args as_sum(const struct mt_gemm_args *g, struct mt_product_term *term)
{
    *term = {};
    term->x = g->a;
    term->weight = &g->b;
    term->transpose_weight = g->transpose_b;
    term->alpha = g->alpha;
    struct mt_grouped_sum_args sum = {};
    sum.terms = term;
    sum.count = 1;
    sum.experts = 1;
    sum.y = g->c;
    sum.beta = g->beta;
    return sum;
}

static bool gemm_fits(const struct mt_device *device, const struct mt_gemm_args *g)
{
    struct mt_product_term term;
    struct mt_grouped_sum_args sum = as_sum(g, &term);
    return !g->transpose_a && sum_fits(device, &sum);
}

static enum mt_status run_gemm(struct mt_device *device, const struct mt_gemm_args *g, void *)
{
    struct mt_product_term term;
    struct mt_grouped_sum_args sum = as_sum(g, &term);
    return run_sum(device, &sum, NULL);
}

const struct cuda_variant<struct mt_gemm_args> cuda_thin_gemm = {
    gemm_fits, NULL, run_gemm
};

// ------------------------------------------------------------------ grouped_swiglu

static bool swiglu_fits(const struct mt_device *device, const struct mt_grouped_swiglu_args *a)
{
    const struct mt_tensor *x = &a->gate.terms[0].x;
    const struct mt_tensor *other = &a->up.terms[0].x;
    return sum_fits(device, &a->gate) && sum_fits(device, &a->up) && a->gate.count == a->up.count &&
           a->gate.terms[0].alpha == a->up.terms[0].alpha && x->data == other->data &&
           x->stride[0] == other->stride[0] && x->dim[1] == other->dim[1] && cuda_is_float_or_bf16(&a->y);
}

static enum mt_status run_swiglu(struct mt_device *device, const struct mt_grouped_swiglu_args *a, void *)
{
    struct thin_call call = call_of(&a->gate);
    for (int t = 0; t < a->up.count; t++) call.product[1][t] = product_of(&a->up.terms[t], a->up.experts);
    call.y[1] = a->up.y;
    call.y[2] = a->y;
    return run_pair(device, call);
}

const struct cuda_variant<struct mt_grouped_swiglu_args> cuda_thin_swiglu = {
    swiglu_fits, NULL, run_swiglu
};

// ------------------------------------------------------------------ head_gemm

/* A product as of one expert, the first head's. `term` is borrowed by what is returned. */
static struct mt_grouped_sum_args as_head(const struct mt_head_gemm_args *g, struct mt_product_term *term)
{
    struct mt_gemm_args one = {};
    one.a = mt_tensor_head(&g->x, 0);
    one.c = mt_tensor_head(&g->y, 0);
    one.transpose_b = g->transpose_weight;
    one.alpha = g->alpha;
    one.beta = g->beta;
    struct mt_grouped_sum_args sum = as_sum(&one, term);
    term->weight = g->weight;
    sum.experts = (int)g->x.dim[1];
    return sum;
}

static bool heads_fit(const struct mt_device *device, const struct mt_head_gemm_args *g)
{
    struct mt_product_term term;
    if (g->x.dim[1] < 1 || g->x.dim[1] > CUDA_EXPERTS_AT_ONCE || !thin_reads(&g->x)) return false;
    struct mt_grouped_sum_args sum = as_head(g, &term);
    return sum_fits(device, &sum);
}

static enum mt_status run_heads(struct mt_device *device, const struct mt_head_gemm_args *g, void *)
{
    struct mt_product_term term;
    struct mt_grouped_sum_args sum = as_head(g, &term);
    struct thin_call call = call_of(&sum);
    call.product[0][0].x_gap = g->x.stride[1];
    call.y_gap = g->y.stride[1];
    return run_one(device, call);
}

const struct cuda_variant<struct mt_head_gemm_args> cuda_thin_heads = {
    heads_fit, NULL, run_heads
};

// ------------------------------------------------------------------ lora_xa

/* Linear layer i's product. `term` is borrowed by what is returned. */
static struct mt_grouped_sum_args as_middle(const struct mt_lora_xa_args *l, int i,
                                            struct mt_product_term *term)
{
    *term = {};
    term->x = l->x;
    term->weight = l->a[i];
    term->transpose_weight = true;
    term->alpha = l->alpha;
    struct mt_grouped_sum_args sum = {};
    sum.terms = term;
    sum.count = 1;
    sum.experts = l->experts;
    sum.offsets = l->offsets;
    sum.y = l->xa[i];
    return sum;
}

static bool middles_fit(const struct mt_device *device, const struct mt_lora_xa_args *l)
{
    if (l->exact || mt_tensor_present(&l->mask)) return false;
    for (int i = 0; i < l->linears; i++) {
        struct mt_product_term term;
        struct mt_grouped_sum_args sum = as_middle(l, i, &term);
        if (!fits(device, &sum, XA_ROWS)) return false;
    }
    return true;
}

static enum mt_status run_middles(struct mt_device *device, const struct mt_lora_xa_args *l, void *)
{
    struct mt_product_term term;
    struct mt_grouped_sum_args first = as_middle(l, 0, &term);
    struct thin_call call = call_of(&first);
    call.apart = l->linears;
    for (int i = 1; i < l->linears; i++) {
        struct mt_grouped_sum_args sum = as_middle(l, i, &term);
        call.product[i][0] = product_of(sum.terms, sum.experts);
        call.y[i] = sum.y;
    }
    return run_one(device, call);
}

const struct cuda_variant<struct mt_lora_xa_args> cuda_thin_xa = {
    middles_fit, NULL, run_middles
};
