/*
 * Linear maps over sorted rows. With l = drop(x) Aᵀ, s the pair's scale:
 *   forward   y = x Wᵀ + s · l Bᵀ, in one sum
 *   backward  dW += dyᵀ x; dl = s · dy B; dB += s · dyᵀ l; dA += dlᵀ drop(x)
 *             dx = dy W + the mask of drop on dl A, in one sum for all maps of the same x
 *
 * What drop keeps is drawn in forward and kept as bits. An expert without a LoRA pair has absent views there,
 * which count as zeros.
 */
#include "model/expert_linear.h"

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
    struct mt_lora_trace first = {0};
    if (mt_tensor_present(&trace->low)) first.low = mt_tensor_rows(&trace->low, 0, rows);
    if (mt_tensor_present(&trace->bits)) first.bits = mt_tensor_rows(&trace->bits, 0, rows);
    return first;
}

struct mt_lora_trace mt_expert_linear_plan_lora(struct mt_planner *planner, const struct mt_pass *pass,
                                                const struct mt_expert_linear *linear, int64_t rows)
{
    struct mt_lora_trace trace = {0};
    if (!mt_expert_linear_has_lora(linear)) return trace;
    trace.low = mt_plan_2d(planner, pass->type, rows, linear->rank);
    if (linear->dropout > 0.0f) trace.bits = mt_plan_2d(planner, MT_I32, rows, (linear->in + 31) / 32);
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

// ------------------------------------------------------------------ forward

enum mt_status mt_expert_linear_make_low(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                         const struct mt_tensor *offsets, const struct mt_tensor *x,
                                         float scale, const struct mt_lora_trace *trace)
{
    struct mt_product_term term = {.x = *x, .weight = linear->a, .transpose_weight = true, .alpha = scale};
    if (drops(pass, linear)) {
        term.mask_x = trace->bits;
        term.mask_scale = kept_scale(linear);
        enum mt_status status = mt_dropout_bits(
            pass->device, &(struct mt_dropout_bits_args){.bits = trace->bits,
                                                         .columns = linear->in,
                                                         .amount = linear->dropout,
                                                         .seed = pass->seed,
                                                         .stream = mt_pass_stream_now(pass, linear->stream)});
        if (status != MT_OK) return status;
    }
    return mt_grouped_sum(pass->device, &(struct mt_grouped_sum_args){.terms = &term,
                                                                      .count = 1,
                                                                      .experts = linear->experts,
                                                                      .offsets = given(offsets),
                                                                      .y = trace->low});
}

enum mt_status mt_expert_linear_forward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                        const struct mt_tensor *offsets, const struct mt_tensor *x,
                                        const struct mt_lora_trace *trace, bool add,
                                        const struct mt_tensor *y)
{
    struct mt_product_term terms[2] = {
        {.x = *x, .weight = linear->weight, .transpose_weight = true, .alpha = 1.0f}};
    struct mt_grouped_sum_args sum = {.terms = terms,
                                      .count = 1,
                                      .experts = linear->experts,
                                      .offsets = given(offsets),
                                      .y = *y,
                                      .beta = add ? 1.0f : 0.0f};
    if (mt_expert_linear_has_lora(linear)) {
        enum mt_status status = mt_expert_linear_make_low(pass, linear, offsets, x, 1.0f, trace);
        if (status != MT_OK) return status;
        terms[sum.count++] = (struct mt_product_term){
            .x = trace->low, .weight = linear->b, .transpose_weight = true, .alpha = linear->lora_scale};
    }
    return mt_grouped_sum(pass->device, &sum);
}

// ------------------------------------------------------------------ backward

/* dW_e += alpha · dy_eᵀ x_e for the experts that have one. */
static enum mt_status add_products(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                   const struct mt_tensor *offsets, const struct mt_tensor *dy,
                                   const struct mt_tensor *x, float alpha, const struct mt_tensor *dweight)
{
    return mt_grouped_gemm_dw(pass->device, &(struct mt_grouped_gemm_dw_args){.dy = *dy,
                                                                              .x = *x,
                                                                              .dweight = dweight,
                                                                              .experts = linear->experts,
                                                                              .offsets = given(offsets),
                                                                              .alpha = alpha,
                                                                              .beta = 1.0f});
}

enum mt_status mt_expert_linear_low_to_a(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                         const struct mt_tensor *offsets, const struct mt_tensor *dlow,
                                         const struct mt_tensor *x, const struct mt_lora_trace *trace)
{
    struct mt_grouped_gemm_dw_args product = {.dy = *dlow,
                                              .x = *x,
                                              .dweight = linear->da,
                                              .experts = linear->experts,
                                              .offsets = given(offsets),
                                              .alpha = 1.0f,
                                              .beta = 1.0f};
    if (drops(pass, linear)) {
        product.mask = trace->bits;
        product.mask_scale = kept_scale(linear);
    }
    return mt_grouped_gemm_dw(pass->device, &product);
}

/* dlow = s · dy B. */
static enum mt_status make_dlow(const struct mt_pass *pass, const struct mt_map_gradient *map,
                                const struct mt_tensor *offsets, const struct mt_tensor *dlow)
{
    const struct mt_expert_linear *linear = map->linear;
    struct mt_product_term term = {.x = *map->dy, .weight = linear->b, .alpha = linear->lora_scale};
    return mt_grouped_sum(
        pass->device,
        &(struct mt_grouped_sum_args){
            .terms = &term, .count = 1, .experts = linear->experts, .offsets = given(offsets), .y = *dlow});
}

/* The pair's own gradients, from what make_dlow made. */
static enum mt_status add_pair_gradients(const struct mt_pass *pass, const struct mt_map_gradient *map,
                                         const struct mt_tensor *offsets, const struct mt_tensor *x,
                                         const struct mt_tensor *dlow)
{
    const struct mt_expert_linear *linear = map->linear;
    if (linear->da == NULL) return MT_OK;
    enum mt_status status =
        add_products(pass, linear, offsets, map->dy, &map->trace->low, linear->lora_scale, linear->db);
    if (status != MT_OK) return status;
    return mt_expert_linear_low_to_a(pass, linear, offsets, dlow, x, map->trace);
}

struct mt_product_term mt_expert_linear_low_term(const struct mt_pass *pass,
                                                 const struct mt_expert_linear *linear,
                                                 const struct mt_tensor *dlow,
                                                 const struct mt_lora_trace *trace)
{
    struct mt_product_term term = {.x = *dlow, .weight = linear->a, .alpha = 1.0f};
    if (drops(pass, linear)) {
        term.mask_y = trace->bits;
        term.mask_scale = kept_scale(linear);
    }
    return term;
}

enum mt_status mt_expert_linear_backward(const struct mt_pass *pass, const struct mt_map_gradient *maps,
                                         int count, const struct mt_tensor *offsets,
                                         const struct mt_tensor *x, bool add, const struct mt_tensor *dx)
{
    // Everything that reads x comes before dx is written: they may be the same memory.
    struct mt_product_term terms[2 * MT_MAPS_TOGETHER];
    int used = 0;
    for (int i = 0; i < count; i++) {
        const struct mt_expert_linear *linear = maps[i].linear;
        const struct mt_tensor *dy = maps[i].dy;
        enum mt_status status = MT_OK;
        if (linear->dweight != NULL)
            status = add_products(pass, linear, offsets, dy, x, 1.0f, linear->dweight);
        if (status != MT_OK) return status;
        terms[used++] = (struct mt_product_term){.x = *dy, .weight = linear->weight, .alpha = 1.0f};
        if (!mt_expert_linear_has_lora(linear) || (dx == NULL && linear->da == NULL)) continue;
        struct mt_tensor dlow = mt_pass_view(&pass->low_work[i], dy->dim[0], linear->rank);
        status = make_dlow(pass, &maps[i], offsets, &dlow);
        if (status == MT_OK) status = add_pair_gradients(pass, &maps[i], offsets, x, &dlow);
        if (status != MT_OK) return status;
        terms[used++] = mt_expert_linear_low_term(pass, linear, &dlow, maps[i].trace);
    }
    if (dx == NULL) return MT_OK;
    return mt_grouped_sum(pass->device, &(struct mt_grouped_sum_args){.terms = terms,
                                                                      .count = used,
                                                                      .experts = maps[0].linear->experts,
                                                                      .offsets = given(offsets),
                                                                      .y = *dx,
                                                                      .beta = add ? 1.0f : 0.0f});
}

/* The gradient of a single map's LoRA middle. */
static struct mt_tensor single_dlow(const struct mt_pass *pass, const struct mt_map_gradient *map)
{
    return mt_pass_view(&pass->low_work[0], map->dy->dim[0], map->linear->rank);
}

enum mt_status mt_expert_linear_backward_input(const struct mt_pass *pass, const struct mt_map_gradient *map,
                                               const struct mt_tensor *offsets, const struct mt_tensor *dx)
{
    const struct mt_expert_linear *linear = map->linear;
    struct mt_product_term terms[2] = {{.x = *map->dy, .weight = linear->weight, .alpha = 1.0f}};
    struct mt_grouped_sum_args sum = {
        .terms = terms, .count = 1, .experts = linear->experts, .offsets = given(offsets), .y = *dx};
    if (mt_expert_linear_has_lora(linear)) {
        struct mt_tensor dlow = single_dlow(pass, map);
        enum mt_status status = make_dlow(pass, map, offsets, &dlow);
        if (status != MT_OK) return status;
        terms[sum.count++] = mt_expert_linear_low_term(pass, linear, &dlow, map->trace);
    }
    return mt_grouped_sum(pass->device, &sum);
}

enum mt_status mt_expert_linear_backward_own(const struct mt_pass *pass, const struct mt_map_gradient *map,
                                             const struct mt_tensor *offsets, const struct mt_tensor *x)
{
    const struct mt_expert_linear *linear = map->linear;
    if (linear->dweight != NULL) {
        enum mt_status status = add_products(pass, linear, offsets, map->dy, x, 1.0f, linear->dweight);
        if (status != MT_OK) return status;
    }
    if (!mt_expert_linear_has_lora(linear)) return MT_OK;
    struct mt_tensor dlow = single_dlow(pass, map);
    return add_pair_gradients(pass, map, offsets, x, &dlow);
}
