/*
 * Linear maps over sorted rows. With l = drop(x) Aᵀ, s the pair's scale:
 *   forward   l of all maps of the same x (lora_low); y = x Wᵀ + s · l Bᵀ, in one sum for each
 *   backward  dl = s · dy B and dB += s · dyᵀ l (lora_dlow); dA += dlᵀ drop(x) (lora_da); dW += dyᵀ x;
 *             dx = dy W + the mask of drop on dl A, in one sum for all maps of the same x
 *
 * What drop keeps is drawn in forward, once for an x, and kept as bits. An expert without a LoRA pair has
 * absent views there, which count as zeros. A SwiGLU block's sums are made together with its swiglu.
 *
 * Where products read roundings of A and B (mt_params_round), these are multiplied as they lie: what
 * they would be multiplied by is in the middles instead, s in l, s and drop's factor in dl.
 */
#include "model/layers/expert_linear.h"

bool mt_expert_linear_has_lora(const struct mt_expert_linear *linear)
{
    return linear->a != NULL;
}

bool mt_expert_linear_learns(const struct mt_expert_linear *linear)
{
    return linear->dweight != NULL || linear->da != NULL;
}

struct mt_lora_trace mt_lora_trace_rows(const struct mt_lora_trace *trace, int64_t rows)
{
    struct mt_lora_trace first = {.drawn = trace->drawn};
    if (mt_tensor_present(&trace->low)) first.low = mt_tensor_rows(&trace->low, 0, rows);
    if (mt_tensor_present(&trace->bits)) first.bits = mt_tensor_rows(&trace->bits, 0, rows);
    return first;
}

struct mt_lora_trace mt_expert_linear_plan_lora(struct mt_planner *planner, const struct mt_pass *pass,
                                                const struct mt_expert_linear *linear, int64_t rows,
                                                struct mt_tensor *shared_bits)
{
    struct mt_lora_trace trace = {0};
    if (!mt_expert_linear_has_lora(linear)) return trace;
    trace.low = mt_plan_2d(planner, pass->type, rows, linear->rank);
    if (linear->dropout <= 0.0f) return trace;
    if (shared_bits != NULL && mt_tensor_present(shared_bits)) {
        trace.bits = *shared_bits;
        trace.drawn = true;
    } else {
        trace.bits = mt_plan_2d(planner, MT_I32, rows, (linear->weight.in + 31) / 32);
    }
    if (shared_bits != NULL) *shared_bits = trace.bits;
    return trace;
}

static bool drops(const struct mt_pass *pass, const struct mt_expert_linear *linear)
{
    return pass->training && linear->dropout > 0.0f;
}

/* Offsets as ops want them. */
static struct mt_tensor given(const struct mt_tensor *offsets)
{
    return offsets != NULL ? *offsets : (struct mt_tensor){0};
}

static float kept_scale(const struct mt_expert_linear *linear)
{
    return 1.0f / (1.0f - linear->dropout);
}

/* True when the middles have the factors in them. */
static bool is_rounded(const struct mt_expert_linear *linear)
{
    return linear->rounded_a != NULL;
}

/* A and B as products with middles read them. */
static const struct mt_tensor *a_of(const struct mt_expert_linear *linear)
{
    return is_rounded(linear) ? linear->rounded_a : linear->a;
}

static const struct mt_tensor *b_of(const struct mt_expert_linear *linear)
{
    return is_rounded(linear) ? linear->rounded_b : linear->b;
}

/* What drop's mask on dl A, and on x beside dl, multiplies by. */
static float mask_scale_of(const struct mt_expert_linear *linear)
{
    return is_rounded(linear) ? 1.0f : kept_scale(linear);
}

// ------------------------------------------------------------------ forward

/* trace.bits is drawn, if anything is dropped and nobody has. */
static enum mt_status draw_bits(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                const struct mt_lora_trace *trace)
{
    if (!drops(pass, linear) || trace->drawn) return MT_OK;
    return mt_dropout_bits(
        pass->device, &(struct mt_dropout_bits_args){.bits = trace->bits,
                                                     .columns = linear->weight.in,
                                                     .amount = linear->dropout,
                                                     .seed = pass->seed,
                                                     .stream = mt_pass_stream_now(pass, linear->stream)});
}

/* The middles of those maps that have a pair, all from one x. The pairs of a model have one scale. */
static enum mt_status make_lows(const struct mt_pass *pass, const struct mt_map_output *maps, int count,
                                const struct mt_tensor *offsets, const struct mt_tensor *x, float scale)
{
    struct mt_lora_low_args low = {.x = *x,
                                   .alpha = scale,
                                   .experts = maps[0].linear->weight.count,
                                   .offsets = given(offsets),
                                   .exact = maps[0].linear->exact};
    for (int i = 0; i < count; i++) {
        const struct mt_expert_linear *linear = maps[i].linear;
        if (!mt_expert_linear_has_lora(linear)) continue;
        if (low.maps == 0) {
            enum mt_status status = draw_bits(pass, linear, maps[i].trace);
            if (status != MT_OK) return status;
            if (drops(pass, linear)) low.mask = maps[i].trace->bits;
            low.mask_scale = kept_scale(linear);
            if (is_rounded(linear)) low.alpha *= linear->lora_scale;
        }
        low.a[low.maps] = linear->exact ? linear->a : a_of(linear);
        low.low[low.maps++] = maps[i].trace->low;
    }
    return low.maps > 0 ? mt_lora_low(pass->device, &low) : MT_OK;
}

enum mt_status mt_expert_linear_make_low(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                         const struct mt_tensor *offsets, const struct mt_tensor *x,
                                         float scale, const struct mt_lora_trace *trace)
{
    struct mt_map_output map = {.linear = linear, .trace = trace};
    return make_lows(pass, &map, 1, offsets, x, scale);
}

/* What makes map->y of x, once the middle is there; `terms`, two, is borrowed by *sum. */
static enum mt_status sum_of(const struct mt_pass *pass, const struct mt_map_output *map,
                             const struct mt_tensor *offsets, const struct mt_tensor *x, bool add,
                             struct mt_product_term *terms, struct mt_grouped_sum_args *sum)
{
    const struct mt_expert_linear *linear = map->linear;
    *sum = (struct mt_grouped_sum_args){.terms = terms,
                                        .count = 1,
                                        .experts = linear->weight.count,
                                        .offsets = given(offsets),
                                        .y = *map->y,
                                        .beta = add ? 1.0f : 0.0f};
    terms[0] = (struct mt_product_term){.x = *x, .transpose_weight = true, .alpha = 1.0f};
    if (mt_expert_linear_has_lora(linear))
        terms[sum->count++] =
            (struct mt_product_term){.x = map->trace->low,
                                     .weight = b_of(linear),
                                     .transpose_weight = true,
                                     .alpha = is_rounded(linear) ? 1.0f : linear->lora_scale};
    return mt_weight_operand(pass->device, &linear->weight, &terms[0].weight);
}

enum mt_status mt_expert_linear_forward(const struct mt_pass *pass, const struct mt_map_output *maps,
                                        int count, const struct mt_tensor *offsets, const struct mt_tensor *x,
                                        bool add)
{
    enum mt_status status = make_lows(pass, maps, count, offsets, x, 1.0f);
    for (int i = 0; i < count && status == MT_OK; i++) {
        struct mt_product_term terms[2];
        struct mt_grouped_sum_args sum;
        status = sum_of(pass, &maps[i], offsets, x, add, terms, &sum);
        if (status == MT_OK) status = mt_grouped_sum(pass->device, &sum);
    }
    return status;
}

enum mt_status mt_expert_linear_swiglu(const struct mt_pass *pass, const struct mt_map_output *gate,
                                       const struct mt_map_output *up, const struct mt_tensor *offsets,
                                       const struct mt_tensor *x, const struct mt_tensor *inner)
{
    struct mt_product_term terms[2][2];
    struct mt_grouped_swiglu_args args = {.y = *inner};
    const struct mt_map_output both[] = {*gate, *up};
    enum mt_status status = make_lows(pass, both, 2, offsets, x, 1.0f);
    if (status == MT_OK) status = sum_of(pass, gate, offsets, x, false, terms[0], &args.gate);
    if (status == MT_OK) status = sum_of(pass, up, offsets, x, false, terms[1], &args.up);
    return status == MT_OK ? mt_grouped_swiglu(pass->device, &args) : status;
}

// ------------------------------------------------------------------ backward

/* dW_e += dy_eᵀ x_e for the experts that have one. */
static enum mt_status add_weight_gradient(const struct mt_pass *pass, const struct mt_map_gradient *map,
                                          const struct mt_tensor *offsets, const struct mt_tensor *x)
{
    if (map->linear->dweight == NULL) return MT_OK;
    return mt_grouped_gemm_dw(pass->device,
                              &(struct mt_grouped_gemm_dw_args){.dy = *map->dy,
                                                                .x = *x,
                                                                .dweight = map->linear->dweight,
                                                                .experts = map->linear->weight.count,
                                                                .offsets = given(offsets),
                                                                .alpha = 1.0f,
                                                                .beta = 1.0f});
}

/* The gradient of map i's middle, between the two halves of a backward. */
static struct mt_tensor dlow_of(const struct mt_pass *pass, const struct mt_map_gradient *maps, int i)
{
    return mt_pass_view(&pass->low_work[i], maps[i].dy->dim[0], maps[i].linear->rank);
}

/* dlow and dB of those maps whose pair learns or, with `below`, leads to a gradient of x. */
static enum mt_status make_dlows(const struct mt_pass *pass, const struct mt_map_gradient *maps, int count,
                                 const struct mt_tensor *offsets, bool below)
{
    struct mt_lora_dlow_args args = {.experts = maps[0].linear->weight.count, .offsets = given(offsets)};
    for (int i = 0; i < count; i++) {
        const struct mt_expert_linear *linear = maps[i].linear;
        if (!mt_expert_linear_has_lora(linear) || (!below && linear->da == NULL)) continue;
        bool rounded = is_rounded(linear);
        float factor = rounded && drops(pass, linear) ? kept_scale(linear) : 1.0f;
        struct mt_lora_pair_gradient *pair = &args.map[args.maps++];
        *pair = (struct mt_lora_pair_gradient){.dy = *maps[i].dy,
                                               .b = linear->b,
                                               .db = linear->db,
                                               .scale = linear->lora_scale * factor,
                                               .db_scale = rounded ? 1.0f : linear->lora_scale,
                                               .dlow = dlow_of(pass, maps, i)};
        if (linear->db != NULL) pair->low = maps[i].trace->low;
    }
    return args.maps > 0 ? mt_lora_dlow(pass->device, &args) : MT_OK;
}

/* dA of those maps that have one, from dlow[i]. */
static enum mt_status add_das(const struct mt_pass *pass, const struct mt_map_gradient *maps, int count,
                              const struct mt_tensor *offsets, const struct mt_tensor *x,
                              const struct mt_tensor *dlow)
{
    struct mt_lora_da_args args = {
        .x = *x, .experts = maps[0].linear->weight.count, .offsets = given(offsets)};
    for (int i = 0; i < count; i++) {
        const struct mt_expert_linear *linear = maps[i].linear;
        if (linear->da == NULL) continue;
        if (drops(pass, linear)) args.mask = maps[i].trace->bits;
        args.mask_scale = mask_scale_of(linear);
        args.da[args.maps] = linear->da;
        args.dlow[args.maps++] = dlow[i];
    }
    return args.maps > 0 ? mt_lora_da(pass->device, &args) : MT_OK;
}

enum mt_status mt_expert_linear_low_to_a(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                         const struct mt_tensor *offsets, const struct mt_tensor *dlow,
                                         const struct mt_tensor *x, const struct mt_lora_trace *trace)
{
    struct mt_map_gradient map = {.linear = linear, .trace = trace};
    return add_das(pass, &map, 1, offsets, x, dlow);
}

struct mt_product_term mt_expert_linear_low_term(const struct mt_pass *pass,
                                                 const struct mt_expert_linear *linear,
                                                 const struct mt_tensor *dlow,
                                                 const struct mt_lora_trace *trace)
{
    struct mt_product_term term = {.x = *dlow, .weight = a_of(linear), .alpha = 1.0f};
    if (drops(pass, linear)) {
        term.mask_y = trace->bits;
        term.mask_scale = mask_scale_of(linear);
    }
    return term;
}

/* Adds to a sum the terms of dx that lead back through map i and its pair: `terms` has room for two more. */
static enum mt_status add_terms(const struct mt_pass *pass, const struct mt_map_gradient *maps, int i,
                                struct mt_product_term *terms, struct mt_grouped_sum_args *sum)
{
    const struct mt_expert_linear *linear = maps[i].linear;
    struct mt_product_term *term = &terms[sum->count++];
    *term = (struct mt_product_term){.x = *maps[i].dy, .alpha = 1.0f};
    if (mt_expert_linear_has_lora(linear)) {
        struct mt_tensor dlow = dlow_of(pass, maps, i);
        terms[sum->count++] = mt_expert_linear_low_term(pass, linear, &dlow, maps[i].trace);
    }
    return mt_weight_operand(pass->device, &linear->weight, &term->weight);
}

/* dx = (dx +, with add) what leads back through all maps and their pairs, in as few sums as there can be. */
static enum mt_status make_dx(const struct mt_pass *pass, const struct mt_map_gradient *maps, int count,
                              const struct mt_tensor *offsets, bool add, const struct mt_tensor *dx)
{
    struct mt_product_term terms[MT_MAX_TERMS];
    struct mt_grouped_sum_args sum = {.terms = terms,
                                      .experts = maps[0].linear->weight.count,
                                      .offsets = given(offsets),
                                      .y = *dx,
                                      .beta = add ? 1.0f : 0.0f};
    for (int i = 0; i < count; i++) {
        enum mt_status status = add_terms(pass, maps, i, terms, &sum);
        if (status != MT_OK) return status;
        if (i + 1 < count && sum.count + 2 <= MT_MAX_TERMS) continue;
        status = mt_grouped_sum(pass->device, &sum);
        if (status != MT_OK) return status;
        sum.count = 0;
        sum.beta = 1.0f;
    }
    return MT_OK;
}

/* The parameters' gradients that make_dlows has left over: those that read x. */
static enum mt_status add_own(const struct mt_pass *pass, const struct mt_map_gradient *maps, int count,
                              const struct mt_tensor *offsets, const struct mt_tensor *x)
{
    struct mt_tensor dlow[MT_LORA_MAPS] = {{0}};
    for (int i = 0; i < count; i++) {
        enum mt_status status = add_weight_gradient(pass, &maps[i], offsets, x);
        if (status != MT_OK) return status;
        if (maps[i].linear->da != NULL) dlow[i] = dlow_of(pass, maps, i);
    }
    return add_das(pass, maps, count, offsets, x, dlow);
}

enum mt_status mt_expert_linear_backward(const struct mt_pass *pass, const struct mt_map_gradient *maps,
                                         int count, const struct mt_tensor *offsets,
                                         const struct mt_tensor *x, bool add, const struct mt_tensor *dx)
{
    // Everything that reads x comes before dx is written: they may be the same memory.
    enum mt_status status = make_dlows(pass, maps, count, offsets, dx != NULL);
    if (status == MT_OK) status = add_own(pass, maps, count, offsets, x);
    if (status != MT_OK || dx == NULL) return status;
    return make_dx(pass, maps, count, offsets, add, dx);
}

enum mt_status mt_expert_linear_swiglu_backward(const struct mt_pass *pass,
                                                const struct mt_map_gradient *down,
                                                const struct mt_tensor *offsets,
                                                const struct mt_swiglu_inner *block)
{
    struct mt_product_term terms[2];
    enum mt_status status = make_dlows(pass, down, 1, offsets, true);
    if (status != MT_OK) return status;
    struct mt_grouped_swiglu_backward_args args = {.sum = {.terms = terms,
                                                           .experts = down->linear->weight.count,
                                                           .offsets = given(offsets),
                                                           .y = *block->inner},
                                                   .gate = *block->gate,
                                                   .up = *block->up,
                                                   .dgate = *block->gate,
                                                   .dup = *block->up};
    status = add_terms(pass, down, 0, terms, &args.sum);
    return status == MT_OK ? mt_grouped_swiglu_backward(pass->device, &args) : status;
}

enum mt_status mt_expert_linear_backward_own(const struct mt_pass *pass, const struct mt_map_gradient *map,
                                             const struct mt_tensor *offsets, const struct mt_tensor *x)
{
    return add_own(pass, map, 1, offsets, x);
}
