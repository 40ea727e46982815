/*
 * Sums of products of f32 rows by Hopper's own instructions, in fp16 (scaled_rows.cuh): of what is multiplied
 * 11 bits count, where bf16 has 8, at the price of one pass over rows and weights. It works as
 * grouped_hopper.cu does. Rows of all terms of a sum share a power of two, and so do the weights of a column;
 * as a tile ends its sums are multiplied by both and stored in f32. gate and up of a SwiGLU block are one
 * launch, as in grouped_hopper_swiglu.cu, and what comes of them is made of sums still in registers.
 */
#include <type_traits>

#define HALVES true
#include "ops/cuda/grouped_hopper_tile.cuh"
#include "ops/cuda/scaled_rows.cuh"
#include "ops/cuda/swiglu.cuh"

#define LEAST_STEPS  256  // of a sum's first term
#define LEAST_LARGE  512  // columns of y; two parts of rows then never take more scratch than this
#define LEAST_ROWS   1024 // fewer do not fill the device
#define LEAST_EXPERT 512  // rows of an expert on average: fewer are not worth a pass over its weights

// Terms of the sum that gate and up are to Hopper's host code; thin ones may be absent.
enum { GATE, UP, THIN_GATE, THIN_UP };

/*
 * What a tile is of; ADDED: to what y holds; KEPT: of gate and up roundings are stored, beside the next
 * tile's products.
 */
enum tile_kind { ONE_SUM, ONE_SUM_ADDED, TWO_SUMS, TWO_SUMS_KEPT };

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ------------------------------------------------------------------ the way out

/* Powers of two of a lane's columns, from `column` on; they may still be on their way. */
template <int COUNT>
__device__ __forceinline__ static void load_powers(const float *powers, int column, int end,
                                                   float2 (&power)[COUNT])
{
    const float *own = powers + column + cuda_lane() % 4 * 2;
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
        bool there = column + 8 * j < end; // columns are a multiple of eight
        power[j] = there ? *reinterpret_cast<const float2 *>(own + 8 * j) : make_float2(0.0f, 0.0f);
    }
}

/* Sums in f32's own range. */
template <int COUNT>
__device__ __forceinline__ static void apply_powers(float (*sum)[4], const float (&row)[2],
                                                    const float2 (&power)[COUNT])
{
#pragma unroll
    for (int j = 0; j < COUNT; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++)
            sum[j][e] = sum[j][e] * row[e / 2] * (e % 2 == 0 ? power[j].x : power[j].y);
    }
}

/* A lane's four neighbours in one row of two fragments, and the first one's column. All lanes call it. */
__device__ __forceinline__ static float4 four_of(const float (*sum)[4], int half)
{
    bool odd = cuda_lane() % 2 != 0;
    float give[2];
#pragma unroll
    for (int i = 0; i < 2; i++) give[i] = odd ? sum[0][2 * half + i] : sum[1][2 * half + i];
#pragma unroll
    for (int i = 0; i < 2; i++) give[i] = __shfl_xor_sync(CUDA_EVERY, give[i], 1);
    return odd ? make_float4(give[0], give[1], sum[1][2 * half], sum[1][2 * half + 1])
               : make_float4(sum[0][2 * half], sum[0][2 * half + 1], give[0], give[1]);
}

__device__ __forceinline__ static int four_column(int column)
{
    return column + cuda_lane() % 2 * 8 + cuda_lane() % 4 / 2 * 4;
}

/* COUNT fragments of one row, whose first column is `column`. ADDED: to what is there, which comes first. */
template <int COUNT, bool ADDED>
__device__ __forceinline__ static void store_row(const struct tile_output &y, const float (*sum)[4], int half,
                                                 int row, int row_end, int column, int column_end)
{
    float4 old[COUNT / 2];
    float *line = static_cast<float *>(y.data) + row * y.stride;
    if constexpr (ADDED) {
#pragma unroll
        for (int j = 0; j < COUNT; j += 2) {
            int own = four_column(column + 8 * j);
            bool there = row < row_end && own < column_end;
            old[j / 2] =
                there ? *reinterpret_cast<float4 *>(line + own) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }
#pragma unroll
    for (int j = 0; j < COUNT; j += 2) {
        int own = four_column(column + 8 * j);
        float4 four = four_of(sum + j, half);
        four = make_float4(y.alpha * four.x, y.alpha * four.y, y.alpha * four.z, y.alpha * four.w);
        if constexpr (ADDED) {
            four.x += y.beta * old[j / 2].x;
            four.y += y.beta * old[j / 2].y;
            four.z += y.beta * old[j / 2].z;
            four.w += y.beta * old[j / 2].w;
        }
        if (row < row_end && own < column_end) *reinterpret_cast<float4 *>(line + own) = four;
    }
}

/* A warp's [16, 8·COUNT] sums, whose first is (row, column) of y. */
template <int COUNT, bool ADDED>
__device__ __forceinline__ static void store_floats(const struct tile_output &y, float (*sum)[4], int row,
                                                    int row_end, int column, int column_end)
{
    if (!y.aligned) {
        store_sums<COUNT>(y, *reinterpret_cast<float(*)[COUNT][4]>(sum), row, row_end, column, column_end);
        return;
    }
    constexpr int piece = ADDED ? HALF : COUNT; // fragments whose old values registers hold
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int j = 0; j < COUNT; j += piece)
            store_row<piece, ADDED>(y, sum + j, half, row + cuda_lane() / 4 + 8 * half, row_end,
                                    column + 8 * j, column_end);
    }
}

/* silu(gate) · up, in gate's place. */
__device__ __forceinline__ static void join_sums(float alpha, float (&sum)[WIDE][4])
{
#pragma unroll
    for (int j = 0; j < HALF; j++) {
#pragma unroll
        for (int e = 0; e < 4; e++) sum[j][e] = swiglu(alpha * sum[j][e], alpha * sum[HALF + j][e]);
    }
}

/* There is nothing to store beside the next tile's products. */
struct nothing_waits {
    static constexpr int early = FEW;
};

/* A lane's rounded sums of the tile before: of two rows, eight further on the second. */
struct kept_waits {
    static constexpr int early = FEW; // stages of a tile beside which the tile before is stored
    unsigned value[WIDE][2];          // gate's, then up's
    int64_t at;                       // the first row's place in each of the matrices
    int left[2];                      // columns from this lane's first on; 0 or less: none
};

/* 32 columns of one of the rows of gate and up. All lanes call it. */
template <int STAGE>
__device__ __forceinline__ static void store_beside(const struct hopper_call &call, struct kept_waits &w)
{
    static_assert(kept_waits::early == 2 * HALF / 4, "every piece has its stage");
    constexpr int half = STAGE % 2;
    constexpr int j = STAGE / 2 * 4;
    int64_t at = w.at + half * 8 * call.scaling.kept[0].stride + 8 * j;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned(*value)[2] = w.value + i * HALF + j;
        unsigned v[4] = {value[0][half], value[1][half], value[2][half], value[3][half]};
        transpose_four(v);
        if (8 * j < w.left[half])
            *reinterpret_cast<uint4 *>(call.scaling.kept[i].data + at) = make_uint4(v[0], v[1], v[2], v[3]);
    }
}

/* Where a tile's roundings will go. */
__device__ __forceinline__ static void aim(const struct hopper_call &call, const struct place &place, int row,
                                           struct kept_waits &w)
{
    int first = cuda_lane() % 4 * 8;
    int left = tile_columns(call, place) - first;
    int own = own_row(row);
    w.left[0] = own < place.row_end ? left : 0;
    w.left[1] = own + 8 < place.row_end ? left : 0;
    w.at = own * call.scaling.kept[0].stride + place.block * HOPPER_BLOCK + first;
}

// ------------------------------------------------------------------ tiles of one group

/* 64 rows of a tile from `row` on, by one group. */
template <enum tile_kind KIND, class WAITING>
__device__ __forceinline__ static void make_tile(const struct hopper_call &call, const struct pipeline &p,
                                                 const struct operands &first, const struct place &place,
                                                 int row, unsigned *turn, WAITING &w)
{
    constexpr enum way_out way = KIND == TWO_SUMS_KEPT ? LATER : AT_ONCE;
    constexpr bool paired = KIND == TWO_SUMS || KIND == TWO_SUMS_KEPT;
    constexpr int count = paired ? HALF : WIDE; // fragments of a sum's row
    float sum[WIDE][4];
    float2 power[2][HALF];
    float factor[2];
    int column = place.block * HOPPER_BLOCK;
    int end = column + tile_columns(call, place);
    expect_output<64, 8 * WIDE>(call.y, row, place.row_end, column, end, (int)threadIdx.x % GROUP, GROUP);
    add_long<WIDE, false, false, way>(call, p, first, place, row, sum, turn, w);
    int64_t matrix = (int64_t)place.expert * call.columns;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int own = own_row(row) + 8 * half;
        factor[half] = own < place.row_end ? call.scaling.row[own] : 0.0f;
    }
    load_powers(call.scaling.column[0] + matrix, column, end, power[0]);
    load_powers(call.scaling.column[1] + matrix, paired ? column : column + 8 * HALF, end, power[1]);
    unsigned last = *turn + (unsigned)call.thin_stages;
#pragma unroll 1
    for (; *turn < last; ++*turn) add_stage<WIDE, false, HOPPER_SHORT / 16>(sum, p, first, *turn);
    group_wait<0>();
    group_pin(sum);
    release(p, *turn - 1);
    apply_powers(sum, factor, power[0]);
    apply_powers(sum + HALF, factor, power[1]);
    if constexpr (KIND == TWO_SUMS_KEPT) {
        aim(call, place, row, w);
        keep_sums<WIDE>(call.y, sum, w.value);
    }
    row += (int)(threadIdx.x % GROUP) / 32 * 16;
    if constexpr (KIND != TWO_SUMS_KEPT)
        store_floats<count, KIND == ONE_SUM_ADDED>(call.y, sum, row, place.row_end, column, end);
    if constexpr (KIND == TWO_SUMS)
        store_floats<count, false>(call.scaling.second, sum + HALF, row, place.row_end, column, end);
    if constexpr (paired) {
        join_sums(call.y.alpha, sum);
        store_floats<count, false>(call.scaling.product, sum, row, place.row_end, column, end);
    }
}

template <enum tile_kind KIND>
__device__ __forceinline__ static void make_tiles(const struct hopper_call &call, const struct pipeline &p,
                                                  int group)
{
    unsigned turn = 0;
    std::conditional_t<KIND == TWO_SUMS_KEPT, struct kept_waits, struct nothing_waits> w;
    if constexpr (KIND == TWO_SUMS_KEPT) {
        w.left[0] = 0;
        w.left[1] = 0;
    }
    const struct operands first = group_operands<false>(p, group);
    for (unsigned tiles = 0;; tiles++) {
        await(p, turn); // with the first stage comes the place
        const struct place &place = p.places[tiles % PLACES];
        int row = place.row + group * 64;
        if (place.row < 0) break;
        if (row >= place.row_end)
            pass_tile(call, p, &turn);
        else
            make_tile<KIND>(call, p, first, place, row, &turn, w);
    }
    if constexpr (KIND == TWO_SUMS_KEPT) store_besides<0, kept_waits::early>(call, w);
}

#endif

template <enum tile_kind KIND>
__global__ static void __launch_bounds__((1 + GROUPS) * GROUP, 1)
    scaled_kernel(const __grid_constant__ struct hopper_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    __shared__ struct block_state state;
    struct pipeline p = begin_block(call, memory, &state);
    if (threadIdx.x < GROUP) {
        give_registers();
        constexpr bool paired = KIND == TWO_SUMS || KIND == TWO_SUMS_KEPT;
        if (threadIdx.x == 0) bring_operands<false, paired>(call, &state.table, p);
    } else {
        take_registers();
        make_tiles<KIND>(call, p, (int)threadIdx.x / GROUP - 1);
    }
#endif
}

// ------------------------------------------------------------------ what fits

/* A long term and at most one that is short, of weights [N,K], without masks. */
static bool terms_fit(const struct mt_grouped_sum_args *a)
{
    if (a->count > 2 || a->terms[0].x.dtype != MT_F32 || a->terms[0].x.dim[1] < LEAST_STEPS) return false;
    for (int t = 0; t < a->count; t++) {
        const struct mt_product_term *term = &a->terms[t];
        if (mt_tensor_present(&term->mask_y) || !term->transpose_weight) return false;
    }
    return true;
}

static bool sizes_fit(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    int64_t rows = a->y.dim[0];
    int64_t columns = a->y.dim[1];
    return cuda_state_of(device)->hopper && cuda_state_of(device)->bf16 && a->experts <= SCALED_MATRICES &&
           rows >= LEAST_ROWS && rows >= (int64_t)LEAST_EXPERT * a->experts && rows <= INT32_MAX &&
           columns >= LEAST_LARGE && columns <= INT32_MAX && columns % 8 == 0;
}

/* The weights of a sum, as multiples of what all are multiplied by. */
static struct scaled_rows weights_of(const struct mt_grouped_sum_args *a, float alpha)
{
    struct scaled_rows weights = {};
    weights.sources = a->count;
    weights.matrices = a->experts;
    weights.rows = a->y.dim[1];
    for (int t = 0; t < a->count; t++) weights.source[t] = {a->terms[t].weight, a->terms[t].alpha / alpha};
    return weights;
}

/* The rows of a sum, and those of `more` but for its first, which are the same. */
static struct scaled_rows rows_of(const struct mt_grouped_sum_args *a, const struct mt_grouped_sum_args *more)
{
    struct scaled_rows rows = {};
    rows.matrices = 1;
    rows.rows = a->y.dim[0];
    for (int t = 0; t < a->count; t++) rows.source[rows.sources++] = {&a->terms[t].x, 1.0f};
    for (int t = 1; more != NULL && t < more->count; t++)
        rows.source[rows.sources++] = {&more->terms[t].x, 1.0f};
    return rows;
}

static size_t all_bytes(const struct scaled_rows *r)
{
    size_t bytes = cuda_scaled_factor_bytes(r);
    for (int s = 0; s < r->sources; s++) bytes += cuda_scaled_bytes(r, s);
    return bytes;
}

/* Makes them at *memory, which moves on; *factor becomes their powers. */
static enum mt_status scale(struct mt_device *device, const struct scaled_rows *r, char **memory,
                            const float **factor, struct mt_tensor *halves)
{
    float *own = reinterpret_cast<float *>(*memory);
    enum mt_status status = cuda_scale_rows(device, r, *memory + cuda_scaled_factor_bytes(r), own, halves);
    *memory += all_bytes(r);
    *factor = own;
    return status;
}

/* A term of fp16 numbers: `weight` is the first expert's, `views`, of SCALED_MATRICES, are borrowed. */
static struct mt_product_term term_of(const struct mt_tensor *x, const struct mt_tensor *weight, int experts,
                                      float alpha, struct mt_tensor *views)
{
    struct mt_product_term term = {};
    for (int e = 0; e < experts; e++) {
        views[e] = *weight;
        views[e].data = static_cast<char *>(weight->data) + e * mt_tensor_count(weight) * 2;
    }
    term.x = *x;
    term.weight = views;
    term.transpose_weight = true;
    term.alpha = alpha;
    return term;
}

// ------------------------------------------------------------------ sums

static enum mt_status launch_sum(struct mt_device *device, bool n_inner, const struct hopper_call *call)
{
    (void)n_inner; // weights are [N,K]
    if (call->y.beta != 0.0f) return launch_tiles(device, scaled_kernel<ONE_SUM_ADDED>, call);
    return launch_tiles(device, scaled_kernel<ONE_SUM>, call);
}

bool cuda_scaled_sum_fits(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    if (a->y.dtype != MT_F32 || !sizes_fit(device, a) || !terms_fit(a)) return false;
    struct scaled_rows rows = rows_of(a, NULL);
    struct scaled_rows weights = weights_of(a, a->terms[0].alpha);
    return cuda_scaled_fits(&rows) && cuda_scaled_fits(&weights);
}

size_t cuda_scaled_sum_bytes(const struct mt_grouped_sum_args *a)
{
    struct scaled_rows rows = rows_of(a, NULL);
    struct scaled_rows weights = weights_of(a, a->terms[0].alpha);
    return HOPPER_COUNTER + all_bytes(&rows) + all_bytes(&weights);
}

enum mt_status cuda_scaled_sum(struct mt_device *device, const struct mt_grouped_sum_args *a, void *scratch)
{
    struct mt_tensor views[2][SCALED_MATRICES];
    struct mt_product_term terms[2];
    struct mt_tensor x[SCALED_SOURCES];
    struct mt_tensor weight[SCALED_SOURCES];
    struct hopper_scaling scaling = {};
    float alpha = a->terms[0].alpha;
    char *memory = static_cast<char *>(scratch) + HOPPER_COUNTER;
    struct scaled_rows rows = rows_of(a, NULL);
    struct scaled_rows weights = weights_of(a, alpha);
    enum mt_status status = scale(device, &rows, &memory, &scaling.row, x);
    if (status == MT_OK) status = scale(device, &weights, &memory, &scaling.column[0], weight);
    if (status != MT_OK) return status;
    scaling.column[1] = scaling.column[0];
    for (int t = 0; t < a->count; t++) terms[t] = term_of(&x[t], &weight[t], a->experts, alpha, views[t]);
    struct mt_grouped_sum_args sum = *a;
    sum.terms = terms;
    return cuda_hopper_scaled_sum_by(device, &sum, &scaling, launch_sum, scratch);
}

// ------------------------------------------------------------------ gate and up

/* To Hopper's host code gate and up are one sum; this makes a call of two sums out of its call. */
static enum mt_status launch_pair(struct mt_device *device, bool n_inner, const struct hopper_call *call)
{
    (void)n_inner;
    struct hopper_call pair = *call;
    cuda_hopper_pair(&pair, UP, THIN_GATE, THIN_UP);
    if (pair.scaling.kept[0].data != NULL) return launch_tiles(device, scaled_kernel<TWO_SUMS_KEPT>, &pair);
    return launch_tiles(device, scaled_kernel<TWO_SUMS>, &pair);
}

/* What is kept of gate and up, if anything, can be stored beside products. */
static bool kept_fits(const struct mt_grouped_swiglu_args *a)
{
    if (!mt_tensor_present(&a->gate_kept)) return true;
    return cuda_hopper_is_matrix(&a->gate_kept) && cuda_hopper_is_matrix(&a->up_kept) &&
           a->gate_kept.stride[0] == a->up_kept.stride[0];
}

bool cuda_scaled_swiglu_fits(const struct mt_device *device, const struct mt_grouped_swiglu_args *a)
{
    if (a->gate.y.dtype != MT_F32 || a->up.y.dtype != MT_F32 || a->y.dtype != MT_F32) return false;
    if (a->gate.count != a->up.count || !sizes_fit(device, &a->gate) || !kept_fits(a)) return false;
    if (!terms_fit(&a->gate) || !terms_fit(&a->up)) return false;
    const struct mt_tensor *x = &a->gate.terms[0].x;
    const struct mt_tensor *other = &a->up.terms[0].x;
    if (x->data != other->data || x->stride[0] != other->stride[0] || x->dim[1] != other->dim[1])
        return false;
    struct scaled_rows rows = rows_of(&a->gate, &a->up);
    struct scaled_rows gate = weights_of(&a->gate, a->gate.terms[0].alpha);
    struct scaled_rows up = weights_of(&a->up, a->gate.terms[0].alpha);
    return cuda_scaled_fits(&rows) && cuda_scaled_fits(&gate) && cuda_scaled_fits(&up);
}

size_t cuda_scaled_swiglu_bytes(const struct mt_grouped_swiglu_args *a)
{
    struct scaled_rows rows = rows_of(&a->gate, &a->up);
    struct scaled_rows gate = weights_of(&a->gate, a->gate.terms[0].alpha);
    struct scaled_rows up = weights_of(&a->up, a->gate.terms[0].alpha);
    return HOPPER_COUNTER + all_bytes(&rows) + all_bytes(&gate) + all_bytes(&up);
}

enum mt_status cuda_scaled_swiglu(struct mt_device *device, const struct mt_grouped_swiglu_args *a,
                                  void *scratch)
{
    struct mt_tensor views[4][SCALED_MATRICES];
    struct mt_product_term terms[4];
    struct mt_tensor x[SCALED_SOURCES]; // rows, gate's middle, up's
    struct mt_tensor weight[2][SCALED_SOURCES];
    struct hopper_scaling scaling = {};
    float alpha = a->gate.terms[0].alpha;
    int experts = a->gate.experts;
    char *memory = static_cast<char *>(scratch) + HOPPER_COUNTER;
    struct scaled_rows rows = rows_of(&a->gate, &a->up);
    struct scaled_rows gate = weights_of(&a->gate, alpha);
    struct scaled_rows up = weights_of(&a->up, alpha);
    enum mt_status status = scale(device, &rows, &memory, &scaling.row, x);
    if (status == MT_OK) status = scale(device, &gate, &memory, &scaling.column[0], weight[0]);
    if (status == MT_OK) status = scale(device, &up, &memory, &scaling.column[1], weight[1]);
    if (status != MT_OK) return status;
    terms[GATE] = term_of(&x[0], &weight[0][0], experts, alpha, views[GATE]);
    terms[UP] = term_of(&x[0], &weight[1][0], experts, alpha, views[UP]);
    for (int i = 0; i < 2 && a->gate.count > 1; i++)
        terms[THIN_GATE + i] = term_of(&x[1 + i], &weight[i][1], experts, alpha, views[THIN_GATE + i]);
    struct mt_grouped_sum_args both = a->gate;
    both.terms = terms;
    both.count = 2 * a->gate.count;
    scaling.second = tile_output_of(&a->up.y, alpha, 0.0f);
    if (mt_tensor_present(&a->gate_kept)) {
        scaling.kept[0] = cuda_hopper_matrix(&a->gate_kept);
        scaling.kept[1] = cuda_hopper_matrix(&a->up_kept);
    }
    scaling.product = tile_output_of(&a->y, 1.0f, 0.0f);
    return cuda_hopper_scaled_sum_by(device, &both, &scaling, launch_pair, scratch);
}
