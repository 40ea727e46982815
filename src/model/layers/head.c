/*
 * The head. logits = n Wᵀ + b + l Bᵀ with n = norm(x), l = s · drop(n) Aᵀ; cross-entropy takes these parts
 * and never makes [T,V]. Its gradient of l is s times that of drop(n) Aᵀ's own.
 */
#include "model/layers/head.h"

static struct mt_norm final_norm(const struct mt_pass *pass, const struct mt_params *params)
{
    return (struct mt_norm){
        .kind = pass->desc->norm, .epsilon = pass->desc->norm_epsilon, .weight = &params->norm};
}

void mt_head_plan(struct mt_head *head, const struct mt_pass *pass, const struct mt_params *params,
                  bool backward, struct mt_regions *regions)
{
    struct mt_planner *planner = &regions->kept;
    *head = (struct mt_head){0};
    head->saved = mt_norm_plan(planner, pass, pass->desc->norm, pass->tokens);
    head->normed = mt_plan_2d(planner, pass->type, pass->tokens, pass->desc->width);
    head->lora = mt_linear_plan_lora(planner, pass, &params->head, pass->tokens, NULL);
    head->loss = mt_plan_1d(planner, pass->exact, pass->tokens);
    head->loss_sum = mt_plan_1d(planner, MT_F64, 1);
    if (pass->cached.cache != NULL) {
        head->rows = mt_plan_1d(&regions->index, MT_I32, pass->tokens);
        head->wanted = mt_plan_2d(planner, pass->type, pass->tokens, pass->desc->width);
    }
    if (!backward) return;
    if (mt_linear_has_lora(&params->head))
        head->dxa = mt_plan_2d(planner, pass->type, pass->tokens, params->head.rank);
    head->dloss = mt_plan_1d(planner, pass->exact, pass->tokens);
}

enum mt_status mt_head_normalise(const struct mt_pass *pass, const struct mt_params *params,
                                 const struct mt_head *head, const struct mt_tensor *x)
{
    struct mt_norm norm = final_norm(pass, params);
    return mt_norm_forward(pass, &norm, x, &head->saved, &head->normed);
}

/* What dxa says about A and about what was normalised. */
static enum mt_status xa_backward(const struct mt_pass *pass, const struct mt_linear *linear,
                                  const struct mt_head *head, const struct mt_tensor *dnormed)
{
    enum mt_status status = mt_axpby(
        pass->device, &(struct mt_axpby_args){.x = head->dxa, .y = head->dxa, .alpha = linear->lora_scale});
    if (status != MT_OK) return status;
    return mt_linear_xa_backward(pass, linear, &head->dxa, &head->normed, &head->lora, dnormed);
}

enum mt_status mt_head_loss(const struct mt_pass *pass, const struct mt_params *params,
                            const struct mt_head *head, const struct mt_tensor *labels, float loss_weight,
                            bool gradients, const struct mt_tensor *dnormed)
{
    const struct mt_linear *linear = &params->head;
    bool lora = mt_linear_has_lora(linear);
    struct mt_cross_entropy_args args = {
        .hidden = head->normed, .bias = linear->bias, .labels = *labels, .loss = head->loss};
    const struct mt_tensor *weight = NULL;
    enum mt_status status = mt_weight_operand(pass->device, &linear->weight, NULL, &weight);
    if (status != MT_OK) return status;
    args.weight = *weight;
    if (lora) {
        status = mt_linear_make_xa(pass, linear, &head->normed, linear->lora_scale, &head->lora);
        if (status != MT_OK) return status;
        args.hidden_xa = head->lora.xa;
        args.weight_b = *linear->b;
    }
    if (gradients) {
        status = mt_fill(pass->device, &(struct mt_fill_args){.y = head->dloss, .value = loss_weight});
        if (status != MT_OK) return status;
        args.dloss = head->dloss;
        if (dnormed != NULL) args.dhidden = *dnormed;
        if (linear->dweight != NULL) args.dweight = *linear->dweight;
        args.dbias = linear->dbias;
        if (lora) {
            args.dhidden_xa = head->dxa;
            if (linear->db != NULL) args.dweight_b = *linear->db;
        }
    }
    status = mt_op_run_in(pass->device, head->space, MT_OP_cross_entropy, &args);
    if (status != MT_OK || !gradients || !lora) return status;
    return xa_backward(pass, linear, head, dnormed);
}

enum mt_status mt_head_backward(const struct mt_pass *pass, const struct mt_params *params,
                                const struct mt_head *head, const struct mt_tensor *x,
                                const struct mt_tensor *dx)
{
    struct mt_norm norm = final_norm(pass, params);
    return mt_norm_backward(pass, &norm, dx, x, &head->saved, false, dx);
}

enum mt_status mt_head_logits(const struct mt_pass *pass, const struct mt_params *params,
                              const struct mt_head *head, const struct mt_tensor *logits)
{
    const struct mt_linear_output output = {.linear = &params->head, .trace = &head->lora, .y = logits};
    return mt_linear_forward(pass, &output, 1, NULL, &head->normed, false);
}

enum mt_status mt_head_logits_of(const struct mt_pass *pass, const struct mt_params *params,
                                 const struct mt_head *head, int64_t count, const struct mt_tensor *logits)
{
    struct mt_tensor wanted = mt_tensor_rows(&head->wanted, 0, count);
    struct mt_lora_trace lora = mt_lora_trace_rows(&head->lora, count);
    enum mt_status status =
        mt_embedding_forward(pass->device, &(struct mt_embedding_forward_args){
                                               .table = head->normed,
                                               .ids = mt_tensor_rows(&head->rows, 0, count),
                                               .y = wanted,
                                           });
    if (status != MT_OK) return status;
    const struct mt_linear_output output = {.linear = &params->head, .trace = &lora, .y = logits};
    return mt_linear_forward(pass, &output, 1, NULL, &wanted, false);
}
