/*
 * Grouped linear maps: the formulas of linear.c, each product over rows sorted by expert. An expert without
 * a LoRA pair has absent views there, which count as zeros.
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

struct mt_tensor mt_expert_linear_plan_low(struct mt_planner *planner, const struct mt_pass *pass,
                                           const struct mt_expert_linear *linear, int64_t rows)
{
    if (!mt_expert_linear_has_lora(linear)) return (struct mt_tensor){0};
    return mt_plan_2d(planner, pass->type, rows, linear->rank);
}

static bool drops(const struct mt_pass *pass, const struct mt_expert_linear *linear)
{
    return pass->training && linear->dropout > 0.0f;
}

/* y = (y +, with add) the mask of drop on x. */
static enum mt_status apply_mask(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                 const struct mt_tensor *x, bool add, const struct mt_tensor *y)
{
    return mt_random_multiply(
        pass->device, &(struct mt_random_multiply_args){.x = *x,
                                                        .y = *y,
                                                        .kind = MT_RANDOM_DROPOUT,
                                                        .amount = linear->dropout,
                                                        .seed = pass->seed,
                                                        .stream = mt_pass_stream_now(pass, linear->stream),
                                                        .accumulate = add});
}

/* drop(x): x itself, or a draw in the pass's memory. */
static enum mt_status drop(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                           const struct mt_tensor *x, struct mt_tensor *dropped)
{
    *dropped = *x;
    if (!drops(pass, linear)) return MT_OK;
    *dropped = mt_pass_view(&pass->drop_work, x->dim[0], x->dim[1]);
    return apply_mask(pass, linear, x, false, dropped);
}

enum mt_status mt_expert_linear_forward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                        const struct mt_tensor *offsets, const struct mt_tensor *x,
                                        const struct mt_tensor *low, const struct mt_tensor *y)
{
    struct mt_grouped_gemm_args product = {.x = *x,
                                           .weight = linear->weight,
                                           .experts = linear->experts,
                                           .offsets = *offsets,
                                           .y = *y,
                                           .transpose_weight = true,
                                           .alpha = 1.0f};
    enum mt_status status = mt_grouped_gemm(pass->device, &product);
    if (status != MT_OK || !mt_expert_linear_has_lora(linear)) return status;
    product.weight = linear->a;
    product.y = *low;
    status = drop(pass, linear, x, &product.x);
    if (status != MT_OK) return status;
    status = mt_grouped_gemm(pass->device, &product);
    if (status != MT_OK) return status;
    product.x = *low;
    product.weight = linear->b;
    product.y = *y;
    product.alpha = linear->lora_scale;
    product.beta = 1.0f;
    return mt_grouped_gemm(pass->device, &product);
}

/* dW_e += alpha · dy_eᵀ x_e for the experts that have one. */
static enum mt_status add_products(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                   const struct mt_tensor *offsets, const struct mt_tensor *dy,
                                   const struct mt_tensor *x, float alpha, const struct mt_tensor *dweight)
{
    return mt_grouped_gemm_dw(pass->device, &(struct mt_grouped_gemm_dw_args){.dy = *dy,
                                                                              .x = *x,
                                                                              .dweight = dweight,
                                                                              .experts = linear->experts,
                                                                              .offsets = *offsets,
                                                                              .alpha = alpha,
                                                                              .beta = 1.0f});
}

/* The pairs' own gradients; leaves dl in `dlow`. */
static enum mt_status lora_backward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                    const struct mt_tensor *offsets, const struct mt_tensor *dy,
                                    const struct mt_tensor *x, const struct mt_tensor *low,
                                    const struct mt_tensor *dlow)
{
    enum mt_status status = mt_grouped_gemm(pass->device, &(struct mt_grouped_gemm_args){
                                                              .x = *dy,
                                                              .weight = linear->b,
                                                              .experts = linear->experts,
                                                              .offsets = *offsets,
                                                              .y = *dlow,
                                                              .alpha = linear->lora_scale,
                                                          });
    if (status != MT_OK || linear->da == NULL) return status;
    status = add_products(pass, linear, offsets, dy, low, linear->lora_scale, linear->db);
    if (status != MT_OK) return status;
    struct mt_tensor dropped;
    status = drop(pass, linear, x, &dropped);
    if (status != MT_OK) return status;
    return add_products(pass, linear, offsets, dlow, &dropped, 1.0f, linear->da);
}

/* dx += the mask of drop on dl A_e. */
static enum mt_status low_to_input(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                   const struct mt_tensor *offsets, const struct mt_tensor *dlow,
                                   const struct mt_tensor *dx)
{
    struct mt_grouped_gemm_args product = {.x = *dlow,
                                           .weight = linear->a,
                                           .experts = linear->experts,
                                           .offsets = *offsets,
                                           .y = *dx,
                                           .alpha = 1.0f,
                                           .beta = 1.0f};
    if (!drops(pass, linear)) return mt_grouped_gemm(pass->device, &product);
    product.y = mt_pass_view(&pass->drop_work, dx->dim[0], dx->dim[1]);
    product.beta = 0.0f;
    enum mt_status status = mt_grouped_gemm(pass->device, &product);
    if (status != MT_OK) return status;
    return apply_mask(pass, linear, &product.y, true, dx);
}

enum mt_status mt_expert_linear_backward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                         const struct mt_tensor *offsets, const struct mt_tensor *dy,
                                         const struct mt_tensor *x, const struct mt_tensor *low, bool add,
                                         const struct mt_tensor *dx)
{
    enum mt_status status = MT_OK;
    if (linear->dweight != NULL) {
        status = add_products(pass, linear, offsets, dy, x, 1.0f, linear->dweight);
        if (status != MT_OK) return status;
    }
    bool lora = mt_expert_linear_has_lora(linear);
    struct mt_tensor dlow = {0};
    if (lora && (dx != NULL || linear->da != NULL)) {
        dlow = mt_pass_view(&pass->low_work, dy->dim[0], linear->rank);
        status = lora_backward(pass, linear, offsets, dy, x, low, &dlow);
        if (status != MT_OK) return status;
    }
    if (dx == NULL) return MT_OK;
    status = mt_grouped_gemm(pass->device, &(struct mt_grouped_gemm_args){.x = *dy,
                                                                          .weight = linear->weight,
                                                                          .experts = linear->experts,
                                                                          .offsets = *offsets,
                                                                          .y = *dx,
                                                                          .alpha = 1.0f,
                                                                          .beta = add ? 1.0f : 0.0f});
    if (status != MT_OK || !lora) return status;
    return low_to_input(pass, linear, offsets, &dlow, dx);
}
