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

struct mt_expert_kept mt_expert_linear_plan(struct mt_planner *planner, const struct mt_pass *pass,
                                            const struct mt_expert_linear *linear, int64_t rows)
{
    struct mt_expert_kept kept = {0};
    if (!mt_expert_linear_has_lora(linear)) return kept;
    kept.low = mt_plan_2d(planner, pass->type, rows, linear->rank);
    if (linear->dropout > 0.0f && mt_device_reads_masks(pass->device))
        kept.mask = mt_plan_2d(planner, MT_I32, rows, (linear->in + 31) / 32);
    return kept;
}

/* The draw of this step: amount 0 when nothing is dropped. */
static struct mt_dropout dropout_of(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                    const struct mt_expert_kept *kept)
{
    if (!pass->training) return (struct mt_dropout){0};
    return (struct mt_dropout){.amount = linear->dropout,
                               .seed = pass->seed,
                               .stream = mt_pass_stream_now(pass, linear->stream),
                               .mask = kept->mask};
}

/* Draws what forward and backward then read, where there is a place for it. */
static enum mt_status draw_mask(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                const struct mt_dropout *drop)
{
    if (drop->amount == 0.0f || !mt_tensor_present(&drop->mask)) return MT_OK;
    return mt_dropout_mask(pass->device, &(struct mt_dropout_mask_args){.mask = drop->mask,
                                                                        .width = linear->in,
                                                                        .amount = drop->amount,
                                                                        .seed = drop->seed,
                                                                        .stream = drop->stream});
}

enum mt_status mt_expert_linear_forward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                        const struct mt_tensor *offsets, const struct mt_tensor *x,
                                        const struct mt_expert_kept *kept, const struct mt_tensor *y)
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
    product.y = kept->low;
    product.drop_x = dropout_of(pass, linear, kept);
    status = draw_mask(pass, linear, &product.drop_x);
    if (status == MT_OK) status = mt_grouped_gemm(pass->device, &product);
    if (status != MT_OK) return status;
    product.drop_x = (struct mt_dropout){0};
    product.x = kept->low;
    product.weight = linear->b;
    product.y = *y;
    product.alpha = linear->lora_scale;
    product.beta = 1.0f;
    return mt_grouped_gemm(pass->device, &product);
}

/* dW_e += alpha · dy_eᵀ drop(x_e) for the experts that have one. */
static enum mt_status add_products(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                   const struct mt_tensor *offsets, const struct mt_tensor *dy,
                                   const struct mt_tensor *x, struct mt_dropout drop, float alpha,
                                   const struct mt_tensor *dweight)
{
    return mt_grouped_gemm_dw(pass->device, &(struct mt_grouped_gemm_dw_args){.dy = *dy,
                                                                              .x = *x,
                                                                              .dweight = dweight,
                                                                              .experts = linear->experts,
                                                                              .offsets = *offsets,
                                                                              .alpha = alpha,
                                                                              .beta = 1.0f,
                                                                              .drop_x = drop});
}

/* The pairs' own gradients; leaves dl in `dlow`. */
static enum mt_status lora_backward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                    const struct mt_tensor *offsets, const struct mt_tensor *dy,
                                    const struct mt_tensor *x, const struct mt_expert_kept *kept,
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
    status = add_products(pass, linear, offsets, dy, &kept->low, (struct mt_dropout){0}, linear->lora_scale,
                          linear->db);
    if (status != MT_OK) return status;
    return add_products(pass, linear, offsets, dlow, x, dropout_of(pass, linear, kept), 1.0f, linear->da);
}

/* dx += the mask of drop on dl A_e. */
static enum mt_status low_to_input(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                   const struct mt_tensor *offsets, const struct mt_expert_kept *kept,
                                   const struct mt_tensor *dlow, const struct mt_tensor *dx)
{
    return mt_grouped_gemm(pass->device,
                           &(struct mt_grouped_gemm_args){.x = *dlow,
                                                          .weight = linear->a,
                                                          .experts = linear->experts,
                                                          .offsets = *offsets,
                                                          .y = *dx,
                                                          .alpha = 1.0f,
                                                          .beta = 1.0f,
                                                          .drop_y = dropout_of(pass, linear, kept)});
}

enum mt_status mt_expert_linear_backward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                         const struct mt_tensor *offsets, const struct mt_tensor *dy,
                                         const struct mt_tensor *x, const struct mt_expert_kept *kept,
                                         bool add, const struct mt_tensor *dx)
{
    enum mt_status status = MT_OK;
    if (linear->dweight != NULL) {
        status = add_products(pass, linear, offsets, dy, x, (struct mt_dropout){0}, 1.0f, linear->dweight);
        if (status != MT_OK) return status;
    }
    bool lora = mt_expert_linear_has_lora(linear);
    struct mt_tensor dlow = {0};
    if (lora && (dx != NULL || linear->da != NULL)) {
        dlow = mt_pass_view(&pass->low_work, dy->dim[0], linear->rank);
        status = lora_backward(pass, linear, offsets, dy, x, kept, &dlow);
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
    return low_to_input(pass, linear, offsets, kept, &dlow, dx);
}
