/*
 * Which sums Hopper's kernel makes, and how its call is put together: maps for the copy engine; thin weights
 * as they lie, if they are bf16 at equal distances and have no factor of their own, else rounded to bf16
 * beforehand with their factors in them; rows that are not bf16 rounded likewise. A launch takes one mask: a
 * sum with several is as many launches, each with a long term of its own.
 */
#include "ops/cuda/common/counter.cuh"
#include "ops/cuda/products/grouped_hopper.cuh"
#include "ops/cuda/products/tensor_map.cuh"

#define LEAST_LARGE 256  // columns of y, and steps of a sum's first term
#define MOST_THIN   128  // steps of a term whose weights are prepared
#define LEAST_ROWS  1024 // without offsets: fewer rows do not fill the device

// ------------------------------------------------------------------ what fits

static bool is_aligned(const struct mt_tensor *t)
{
    return t->stride[0] % 8 == 0 && reinterpret_cast<uintptr_t>(t->data) % 16 == 0;
}

/* The copy engine can read x, or a rounding of it. */
static bool x_fits(const struct mt_tensor *x)
{
    if (x->dtype == MT_BF16 && is_aligned(x)) return true;
    return cuda_is_float_or_bf16(x) && x->dim[1] % 8 == 0;
}

static bool rounds_x(const struct mt_tensor *x)
{
    return x->dtype != MT_BF16 || !is_aligned(x);
}

static bool all_present(const struct mt_tensor *list, int count)
{
    for (int e = 0; e < count; e++) {
        if (!mt_tensor_present(&list[e])) return false;
    }
    return true;
}

int64_t cuda_gap(const struct mt_tensor *list, int count)
{
    const char *first = static_cast<const char *>(list[0].data);
    if (!all_present(list, count)) return 0;
    if (count == 1) return list[0].dim[0] * list[0].stride[0] * 2;
    int64_t gap = static_cast<const char *>(list[1].data) - first;
    if (gap <= 0 || gap % 16 != 0 || gap >= (int64_t)1 << 40) return 0;
    for (int e = 1; e < count; e++) {
        if (static_cast<const char *>(list[e].data) - first != e * gap) return 0;
    }
    return gap;
}

/* A term whose weights are read as they are. */
bool cuda_hopper_is_long(const struct mt_product_term *term, int experts)
{
    const struct mt_tensor *weight = cuda_uniform(term->weight, experts);
    return weight != NULL && weight->dtype == MT_BF16 && is_aligned(weight) && term->x.dim[1] > MOST_THIN &&
           !mt_tensor_present(&term->mask_y) && all_present(term->weight, experts);
}

static bool is_thin(const struct mt_product_term *term, int experts)
{
    return cuda_uniform(term->weight, experts) != NULL && term->x.dim[1] > 0 && term->x.dim[1] <= MOST_THIN;
}

static bool is_masked(const struct mt_product_term *term)
{
    return mt_tensor_present(&term->mask_y);
}

/* What a term's weights are multiplied by, beside what all terms are. */
static float factor_of(const struct mt_grouped_sum_args *a, const struct mt_product_term *term)
{
    return term->alpha / a->terms[0].alpha * (is_masked(term) ? term->mask_scale : 1.0f);
}

/* A thin term whose weights can be read as they are. */
static bool is_ready(const struct mt_grouped_sum_args *a, const struct mt_product_term *term)
{
    const struct mt_tensor *weight = cuda_uniform(term->weight, a->experts);
    return weight->dtype == MT_BF16 && is_aligned(weight) && cuda_gap(term->weight, a->experts) > 0 &&
           factor_of(a, term) == 1.0f;
}

static bool is_prepared(const struct mt_grouped_sum_args *a, const struct mt_product_term *term)
{
    return !cuda_hopper_is_long(term, a->experts) && !is_ready(a, term);
}

static bool same_bits(const struct mt_tensor *one, const struct mt_tensor *other)
{
    return one->data == other->data && one->stride[0] == other->stride[0];
}

/* The sum's masks in the order of their first terms; NULL past the last. */
static const struct mt_tensor *nth_mask(const struct mt_grouped_sum_args *a, int n)
{
    for (int t = 0; t < a->count; t++) {
        if (!is_masked(&a->terms[t])) continue;
        bool known = false;
        for (int earlier = 0; earlier < t && !known; earlier++)
            known =
                is_masked(&a->terms[earlier]) && same_bits(&a->terms[earlier].mask_y, &a->terms[t].mask_y);
        if (known) continue;
        if (n == 0) return &a->terms[t].mask_y;
        n--;
    }
    return NULL;
}

int cuda_hopper_masks(const struct mt_grouped_sum_args *a)
{
    int masks = 0;
    while (nth_mask(a, masks) != NULL) masks++;
    return masks;
}

bool cuda_hopper_is_matrix(const struct mt_tensor *t)
{
    return t->dtype == MT_BF16 && is_aligned(t) && t->dim[1] % 8 == 0;
}

struct hopper_matrix cuda_hopper_matrix(const struct mt_tensor *t)
{
    return {static_cast<__nv_bfloat16 *>(t->data), t->stride[0]};
}

static bool sum_fits(const struct mt_device *device, const struct mt_grouped_sum_args *a)
{
    const struct mt_product_term *first = &a->terms[0];
    bool dense = !mt_tensor_present(&a->offsets);
    if (!cuda_state_of(device)->hopper || !cuda_state_of(device)->bf16 || !cuda_is_float_or_bf16(&a->y))
        return false;
    if (a->y.dim[1] < LEAST_LARGE || a->y.dim[1] > INT32_MAX || a->y.dim[0] > INT32_MAX) return false;
    if (!cuda_hopper_is_long(first, a->experts) || first->x.dim[1] < LEAST_LARGE) return false;
    if (dense && a->y.dim[0] < LEAST_ROWS) return false;
    int longs = 0;
    for (int t = 0; t < a->count; t++) {
        const struct mt_product_term *term = &a->terms[t];
        bool with_first = cuda_hopper_is_long(term, a->experts) && term->alpha == first->alpha;
        if (!with_first && !is_thin(term, a->experts)) return false;
        if (!x_fits(&term->x)) return false;
        if (term->transpose_weight != first->transpose_weight) return false;
        if (is_masked(term) && term->transpose_weight) return false; // gradients alone have masks
        longs += with_first ? 1 : 0;
    }
    return cuda_hopper_masks(a) <= longs;
}

// ------------------------------------------------------------------ scratch

/* Prepared weights: as they lie, rows padded to a multiple of eight. */
static int64_t padded(const struct mt_tensor *weight)
{
    return (weight->dim[1] + 7) / 8 * 8;
}

static size_t prepared_bytes(const struct mt_product_term *term, int experts)
{
    const struct mt_tensor *weight = cuda_uniform(term->weight, experts);
    return cuda_halves(experts * weight->dim[0] * padded(weight));
}

static size_t sum_bytes(const struct mt_device *, const struct mt_grouped_sum_args *a)
{
    size_t bytes = CUDA_COUNTER_BYTES;
    for (int t = 0; t < a->count; t++) {
        const struct mt_product_term *term = &a->terms[t];
        if (rounds_x(&term->x)) bytes += cuda_halves(mt_tensor_count(&term->x));
        if (is_prepared(a, term)) bytes += prepared_bytes(term, a->experts);
    }
    return bytes;
}

// ------------------------------------------------------------------ prepared weights

struct prepare_call {
    const void *from[HOPPER_EXPERTS]; // NULL: absent, which counts as zeros
    bool bf16;
    int64_t stride, rows, columns, padded;
    float factor;
    __nv_bfloat16 *to;
    bool whole;        // f32, four numbers at a time
    unsigned *counter; // of tiles, cleared for the kernel that comes next
};

/* Four numbers a thread. The products' kernel may start meanwhile; it waits before it reads. */
__global__ static void prepare_kernel(const __grid_constant__ struct prepare_call call)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    const void *from = call.from[blockIdx.y];
    enum mt_dtype dtype = call.bf16 ? MT_BF16 : MT_F32;
    int64_t quarters = call.padded / 4;
    uint2 *target = reinterpret_cast<uint2 *>(call.to + blockIdx.y * call.rows * call.padded);
    for (int64_t i = cuda_thread(); i < call.rows * quarters; i += cuda_thread_count()) {
        int64_t row = i / quarters;
        int64_t column = (i - row * quarters) * 4;
        float value[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        int64_t at = row * call.stride + column;
        if (from != NULL && call.whole) {
            float4 four = *reinterpret_cast<const float4 *>(static_cast<const float *>(from) + at);
            value[0] = four.x;
            value[1] = four.y;
            value[2] = four.z;
            value[3] = four.w;
        } else if (from != NULL) {
            for (int j = 0; j < 4 && column + j < call.columns; j++)
                value[j] = cuda_float_at(from, dtype, at + j);
        }
        target[i] = make_uint2(pack_bf16(call.factor * value[0], call.factor * value[1]),
                               pack_bf16(call.factor * value[2], call.factor * value[3]));
    }
    if (blockIdx.y == 0 && cuda_thread() == 0) *call.counter = 0;
}

/* The term's weights times `factor`, at `to`; *weight becomes the first of them. */
static enum mt_status prepare(struct mt_device *device, const struct mt_product_term *term, int experts,
                              float factor, unsigned *counter, void *to, struct mt_tensor *weight)
{
    const struct mt_tensor *any = cuda_uniform(term->weight, experts);
    int64_t each = any->dim[0] * padded(any);
    struct prepare_call call = {};
    call.bf16 = any->dtype == MT_BF16;
    call.stride = any->stride[0];
    call.rows = any->dim[0];
    call.columns = any->dim[1];
    call.padded = padded(any);
    call.factor = factor;
    call.counter = counter;
    call.whole = !call.bf16 && any->dim[1] % 8 == 0 && any->stride[0] % 4 == 0;
    *weight = mt_tensor_2d(to, MT_BF16, any->dim[0], padded(any));
    for (int first = 0; first < experts; first += HOPPER_EXPERTS) {
        int count = experts - first < HOPPER_EXPERTS ? experts - first : HOPPER_EXPERTS;
        call.to = static_cast<__nv_bfloat16 *>(to) + first * each;
        for (int i = 0; i < count; i++) {
            const struct mt_tensor *one = &term->weight[first + i];
            call.from[i] = mt_tensor_present(one) ? one->data : NULL;
        }
        dim3 grid((unsigned)((each / 4 + CUDA_THREADS - 1) / CUDA_THREADS), (unsigned)count);
        prepare_kernel<<<grid, CUDA_THREADS, 0, cuda_stream(device)>>>(call);
    }
    return cuda_launched(device, "preparing thin weights");
}

// ------------------------------------------------------------------ maps

/* Boxes [lines,WGMMA_LINE] of bf16 matrices of one shape, `gap` bytes apart. A `count` of 0 is one matrix
 * without a third dimension. */
static enum mt_status make_map(const struct mt_device *device, const struct mt_tensor *matrix, int count,
                               int64_t gap, int lines, CUtensorMap *map)
{
    int64_t stride = matrix->dim[0] > 1 ? matrix->stride[0] : (matrix->dim[1] + 7) / 8 * 8;
    struct map_shape shape = {};
    shape.data = matrix->data;
    shape.dimensions = count > 0 ? 3 : 2;
    shape.size[0] = (uint64_t)matrix->dim[1];
    shape.size[1] = (uint64_t)matrix->dim[0];
    shape.size[2] = (uint64_t)count;
    shape.stride[0] = (uint64_t)stride * 2;
    shape.stride[1] = (uint64_t)gap;
    shape.box[0] = WGMMA_LINE;
    shape.box[1] = (uint32_t)lines;
    shape.box[2] = 1;
    return cuda_make_map(device, &shape, map);
}

// ------------------------------------------------------------------ the call

/* A term on its way into the call: rows in bf16, and where its weights are. */
struct ready_term {
    const struct mt_product_term *term;
    struct mt_tensor x;
    struct mt_tensor prepared; // the first expert's; absent: the term's own weights are used
    int64_t gap;               // 0: weights anywhere
};

/* Where terms stand in a call. */
enum rank { RANK_MASKED, RANK_LONG, RANK_SHORT, RANKS };

static enum rank rank_of(const struct mt_product_term *term)
{
    if (is_masked(term)) return RANK_MASKED;
    return term->x.dim[1] > HOPPER_SHORT ? RANK_LONG : RANK_SHORT;
}

/* Rounds what must be rounded, in scratch, behind the counter. */
static enum mt_status make_ready(struct mt_device *device, const struct mt_grouped_sum_args *a, char *scratch,
                                 struct ready_term *ready)
{
    unsigned *counter = reinterpret_cast<unsigned *>(scratch);
    scratch += CUDA_COUNTER_BYTES;
    int count = 0;
    enum mt_status status = MT_OK;
    for (int rank = 0; rank < RANKS; rank++) {
        for (int t = 0; t < a->count && status == MT_OK; t++) {
            const struct mt_product_term *term = &a->terms[t];
            if (rank_of(term) != rank) continue;
            struct ready_term *one = &ready[count++];
            *one = {};
            one->term = term;
            one->x = term->x;
            if (rounds_x(&term->x)) {
                cuda_round(device, &term->x, scratch);
                one->x = mt_tensor_2d(scratch, MT_BF16, term->x.dim[0], term->x.dim[1]);
                scratch += cuda_halves(mt_tensor_count(&term->x));
                status = cuda_launched(device, "rounding rows");
            }
            if (!is_prepared(a, term)) {
                one->gap = cuda_gap(term->weight, a->experts);
                continue;
            }
            if (status != MT_OK) continue;
            status = prepare(device, term, a->experts, factor_of(a, term), counter, scratch, &one->prepared);
            one->gap = mt_tensor_count(&one->prepared) * 2;
            scratch += prepared_bytes(term, a->experts);
        }
    }
    return status;
}

/* Maps of term t's weights for experts [first, first + count). */
static enum mt_status add_maps(struct mt_device *device, const struct ready_term *ready, int first, int count,
                               int *maps, struct hopper_term *term, struct hopper_call *call)
{
    bool prepared = mt_tensor_present(&ready->prepared);
    term->map = *maps;
    term->apart = ready->gap == 0;
    if (!term->apart) {
        struct mt_tensor matrix = prepared ? ready->prepared : ready->term->weight[first];
        if (prepared) matrix.data = static_cast<char *>(matrix.data) + first * ready->gap;
        return make_map(device, &matrix, count, ready->gap, HOPPER_BLOCK, &call->weight[(*maps)++]);
    }
    enum mt_status status = MT_OK;
    for (int e = first; e < first + count && status == MT_OK; e++) {
        const struct mt_tensor *matrix = &ready->term->weight[e];
        status = make_map(device, matrix, 1, matrix->dim[0] * matrix->stride[0] * 2, HOPPER_BLOCK,
                          &call->weight[(*maps)++]);
    }
    return status;
}

static enum mt_status fill_terms(struct mt_device *device, const struct mt_grouped_sum_args *a,
                                 const struct ready_term *ready, struct hopper_call *call)
{
    enum mt_status status = MT_OK;
    call->terms = a->count;
    call->masked_steps = HOPPER_SHORT;
    for (int t = 0; t < a->count; t++) {
        if (is_masked(ready[t].term) && ready[t].x.dim[1] > HOPPER_SHORT) call->masked_steps = HOPPER_STEPS;
    }
    for (int t = 0; t < a->count && status == MT_OK; t++) {
        struct hopper_term *term = &call->term[t];
        enum rank rank = rank_of(ready[t].term);
        term->number = (int)(ready[t].term - a->terms);
        term->steps = HOPPER_STEPS;
        if (rank == RANK_SHORT) term->steps = HOPPER_SHORT;
        if (rank == RANK_MASKED) term->steps = call->masked_steps;
        term->stages = (int)((ready[t].x.dim[1] + term->steps - 1) / term->steps);
        if (rank == RANK_MASKED) call->masked_stages += term->stages;
        if (rank == RANK_LONG) call->long_stages += term->stages;
        if (rank == RANK_SHORT) call->thin_stages += term->stages;
        if (rank == RANK_MASKED) {
            call->mask = static_cast<const int32_t *>(ready[t].term->mask_y.data);
            call->mask_stride = ready[t].term->mask_y.stride[0];
        }
        status = make_map(device, &ready[t].x, 0, 0, HOPPER_ROWS, &term->x);
    }
    return status;
}

/* Experts of a launch: those whose maps have room. */
static int experts_at_once(const struct mt_grouped_sum_args *a, const struct ready_term *ready)
{
    int apart = 0;
    for (int t = 0; t < a->count; t++) apart += ready[t].gap == 0 ? 1 : 0;
    if (apart == 0) return HOPPER_EXPERTS;
    return (HOPPER_MAPS - (a->count - apart)) / apart;
}

/* Preparing thin weights also clears the counter. */
static bool any_prepared(const struct ready_term *ready, int count)
{
    for (int t = 0; t < count; t++) {
        if (mt_tensor_present(&ready[t].prepared)) return true;
    }
    return false;
}

/* The part of a sum that launch `launch` makes; `terms`, of MT_MAX_TERMS, is borrowed by what is returned. */
static struct mt_grouped_sum_args part_of(const struct mt_grouped_sum_args *a, int launch,
                                          struct mt_product_term *terms)
{
    const struct mt_tensor *mask = nth_mask(a, launch);
    bool last = nth_mask(a, launch + 1) == NULL;
    struct mt_grouped_sum_args part = *a;
    part.terms = terms;
    part.count = 0;
    part.beta = launch == 0 ? a->beta : 1.0f;
    int longs = 0;
    for (int t = 0; t < a->count; t++) {
        if (!cuda_hopper_is_long(&a->terms[t], a->experts)) continue;
        if (longs == launch || (last && longs > launch)) terms[part.count++] = a->terms[t];
        longs++;
    }
    for (int t = 0; t < a->count; t++) {
        const struct mt_product_term *term = &a->terms[t];
        if (cuda_hopper_is_long(term, a->experts)) continue;
        bool here = is_masked(term) ? same_bits(&term->mask_y, mask) : last;
        if (here) terms[part.count++] = *term;
    }
    return part;
}

/* One launch, or several where experts have too many maps. */
enum mt_status cuda_hopper_sum_by(struct mt_device *device, const struct mt_grouped_sum_args *a,
                                  const struct hopper_matrix *beside, hopper_launch launch, void *scratch)
{
    struct ready_term ready[MT_MAX_TERMS];
    struct hopper_call call = {};
    for (int i = 0; beside != NULL && i < HOPPER_BESIDE; i++) call.beside[i] = beside[i];
    enum mt_status status = make_ready(device, a, static_cast<char *>(scratch), ready);
    if (status == MT_OK) status = fill_terms(device, a, ready, &call);
    int64_t blocks = (a->y.dim[1] + HOPPER_BLOCK - 1) / HOPPER_BLOCK;
    call.columns = (int)a->y.dim[1];
    call.across = (int)((blocks + 3) / 4);
    call.rows = a->y.dim[0];
    call.y = tile_output_of(&a->y, a->terms[0].alpha, a->beta);
    call.counter = static_cast<unsigned *>(scratch); // cleared by what prepares weights
    int most = status == MT_OK ? experts_at_once(a, ready) : 1;
    for (int first = 0; first < a->experts && status == MT_OK; first += most) {
        int maps = 0;
        call.experts = a->experts - first < most ? a->experts - first : most;
        if (mt_tensor_present(&a->offsets))
            call.offsets = static_cast<const int32_t *>(a->offsets.data) + first;
        for (int t = 0; t < a->count && status == MT_OK; t++)
            status = add_maps(device, &ready[t], first, call.experts, &maps, &call.term[t], &call);
        call.follows = first == 0 && any_prepared(ready, a->count);
        if (status == MT_OK && !call.follows) status = cuda_take_counter(device, scratch, &call.counter);
        if (status == MT_OK) status = launch(device, !a->terms[0].transpose_weight, &call);
    }
    return status;
}

static enum mt_status run_sum(struct mt_device *device, const struct mt_grouped_sum_args *a, void *scratch)
{
    struct mt_product_term terms[MT_MAX_TERMS];
    if (mt_tensor_count(&a->y) == 0) return MT_OK;
    enum mt_status status = MT_OK;
    for (int launch = 0; status == MT_OK && (launch == 0 || nth_mask(a, launch) != NULL); launch++) {
        struct mt_grouped_sum_args part = part_of(a, launch, terms);
        status = cuda_hopper_sum_by(device, &part, NULL, cuda_hopper_launch, scratch);
    }
    return status;
}

const struct cuda_variant<struct mt_grouped_sum_args> cuda_hopper_sum = {
    sum_fits, sum_bytes, run_sum
};

// ------------------------------------------------------------------ grouped_gemm

/* `term` is borrowed by what is returned. */
static struct mt_grouped_sum_args as_sum(const struct mt_grouped_gemm_args *g, struct mt_product_term *term)
{
    *term = {};
    term->x = g->x;
    term->weight = g->weight;
    term->transpose_weight = g->transpose_weight;
    term->alpha = g->alpha;
    struct mt_grouped_sum_args sum = {};
    sum.terms = term;
    sum.count = 1;
    sum.experts = g->experts;
    sum.offsets = g->offsets;
    sum.y = g->y;
    sum.beta = g->beta;
    return sum;
}

static bool product_fits(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    struct mt_product_term term;
    struct mt_grouped_sum_args sum = as_sum(g, &term);
    return sum_fits(device, &sum);
}

static size_t product_bytes(const struct mt_device *device, const struct mt_grouped_gemm_args *g)
{
    struct mt_product_term term;
    struct mt_grouped_sum_args sum = as_sum(g, &term);
    return sum_bytes(device, &sum);
}

static enum mt_status run_product(struct mt_device *device, const struct mt_grouped_gemm_args *g,
                                  void *scratch)
{
    struct mt_product_term term;
    struct mt_grouped_sum_args sum = as_sum(g, &term);
    return run_sum(device, &sum, scratch);
}

const struct cuda_variant<struct mt_grouped_gemm_args> cuda_hopper_gemm = {
    product_fits, product_bytes, run_product
};
