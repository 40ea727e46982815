/*
 * Mixture of experts, forward:
 *   logits = router(x); record = routing(logits); rows = x sorted by expert;
 *   outputs = down(silu(gate(rows)) · up(rows)); y = residual + shared(x) + Σ_s weight_s · outputs_s
 * The Gram matrix of a token's outputs, which L_o needs, falls out of the last step. Backward:
 * moe_backward.c.
 */
#include "model/moe.h"

#include "model/moe_router.h"

bool mt_moe_learns(const struct mt_layer_params *params)
{
    return mt_linear_learns(&params->router) || mt_expert_linear_learns(&params->gate) ||
           mt_expert_linear_learns(&params->up) || mt_expert_linear_learns(&params->down) ||
           mt_mlp_learns(&params->shared);
}

/* The record's own tensors; rows and gram lie with what the experts leave behind. */
static void plan_record(struct mt_routing *record, const struct mt_pass *pass,
                        const struct mt_layer_params *params, const struct mt_moe_planners *planners)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t tokens = pass->tokens;
    int64_t slots = desc->router.slots;
    *record = (struct mt_routing){.tokens = tokens,
                                  .experts = desc->experts,
                                  .slots = (int)slots,
                                  .segments = (int)pass->sequences,
                                  .unmasked = pass->unmasked,
                                  .mask = pass->mask,
                                  .ortho_mask = pass->ortho_mask,
                                  .segment = pass->segment,
                                  .bias = params->correction};
    record->logits = mt_plan_2d(planners->routing, pass->exact, tokens, desc->experts);
    record->probs = mt_plan_2d(planners->routing, pass->exact, tokens, desc->experts);
    record->weight = mt_plan_2d(planners->routing, pass->exact, tokens, slots);
    record->chosen = mt_plan_2d(planners->index, MT_I32, tokens, slots);
    record->greedy = record->chosen;
    record->expert = record->chosen;
    // Memory is the same in training and evaluation: room for what training may need.
    struct mt_router_policy policy = {.training = true};
    if (pass->method != NULL) policy = mt_objective_policy(pass->method, true, 0);
    if (!mt_routing_is_plain(&desc->router, &policy, mt_tensor_present(&params->correction))) {
        record->greedy = mt_plan_2d(planners->index, MT_I32, tokens, slots);
        record->expert = mt_plan_2d(planners->index, MT_I32, tokens, slots);
    }
    record->offsets = mt_plan_1d(planners->index, MT_I32, desc->experts + 1);
    record->row_of_slot = mt_plan_2d(planners->index, MT_I32, tokens, slots);
    record->slot_of_row = mt_plan_1d(planners->index, MT_I32, tokens * slots);
    bool gram = pass->method != NULL && pass->method->coefficient[MT_TERM_O] != 0.0 &&
                pass->method->grouping == MT_GROUPING_TOKEN;
    if (gram) record->gram = mt_plan_3d(planners->routing, pass->exact, tokens, slots, slots);
}

static void plan_backward(struct mt_moe *moe, const struct mt_pass *pass, struct mt_planner *work)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t tokens = pass->tokens;
    int64_t slots = desc->router.slots;
    // Grouping in expert order reads the outputs after the combine's backward: they must survive it.
    bool apart = pass->method != NULL && pass->method->coefficient[MT_TERM_O] != 0.0 &&
                 pass->method->grouping == MT_GROUPING_EXPERT_CONCAT;
    moe->drows = apart ? mt_plan_2d(work, pass->type, tokens * slots, desc->width) : moe->record.rows;
    if (mt_tensor_present(&moe->record.gram))
        moe->coupling = mt_plan_3d(work, pass->exact, tokens, slots, slots);
    moe->dweight = mt_plan_2d(work, pass->exact, tokens, slots);
    moe->dprobs = mt_plan_2d(work, pass->exact, tokens, desc->experts);
    moe->dlogits = mt_plan_2d(work, pass->exact, tokens, desc->experts);
    if (mt_tensor_present(&moe->router_input))
        moe->drouter_input = mt_plan_2d(work, pass->type, tokens, desc->width);
    if (mt_tensor_present(&moe->router_sum))
        moe->drouter_sum = mt_plan_2d(work, pass->exact, desc->experts, desc->width);
}

void mt_moe_plan(struct mt_moe *moe, const struct mt_pass *pass, const struct mt_layer_params *params,
                 bool backward, const struct mt_moe_planners *planners)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t rows = pass->tokens * desc->router.slots;
    *moe = (struct mt_moe){.layer = moe->layer, .number = moe->number};
    plan_record(&moe->record, pass, params, planners);
    moe->router_low = mt_linear_plan_low(planners->routing, pass, &params->router);
    moe->record.rows = mt_plan_2d(planners->saved, pass->type, rows, desc->width);
    moe->gate = mt_plan_2d(planners->saved, pass->type, rows, desc->expert_width);
    moe->up = mt_plan_2d(planners->saved, pass->type, rows, desc->expert_width);
    moe->gate_low = mt_expert_linear_plan_low(planners->saved, pass, &params->gate, rows);
    moe->up_low = mt_expert_linear_plan_low(planners->saved, pass, &params->up, rows);
    moe->down_low = mt_expert_linear_plan_low(planners->saved, pass, &params->down, rows);
    // One is done with before the other is made, forward as well as backward.
    int64_t wider = desc->width > desc->expert_width ? desc->width : desc->expert_width;
    struct mt_tensor turns = mt_plan_1d(planners->work, pass->type, rows * wider);
    moe->rows = mt_pass_view(&turns, rows, desc->width);
    moe->inner = mt_pass_view(&turns, rows, desc->expert_width);
    if (mt_moe_router_shakes(pass))
        moe->router_input = mt_plan_2d(planners->work, pass->type, pass->tokens, desc->width);
    if (mt_moe_router_needs_sum(pass, params))
        moe->router_sum = mt_plan_2d(planners->work, pass->exact, desc->experts, desc->width);
    if (desc->shared_width > 0)
        mt_mlp_plan(&moe->shared, pass, &params->shared, planners->shared, planners->work);
    if (backward) plan_backward(moe, pass, planners->work);
}

enum mt_status mt_moe_jitter(const struct mt_pass *pass, const struct mt_moe *moe, const struct mt_tensor *x)
{
    if (!pass->training || pass->desc->input_jitter <= 0.0f) return MT_OK;
    return mt_random_multiply(pass->device,
                              &(struct mt_random_multiply_args){
                                  .x = *x,
                                  .y = *x,
                                  .kind = MT_RANDOM_JITTER,
                                  .amount = pass->desc->input_jitter,
                                  .seed = pass->seed,
                                  .stream = mt_pass_layer_stream(pass, MT_STREAM_INPUT_JITTER, moe->layer)});
}

static enum mt_status sort_by_expert(const struct mt_pass *pass, const struct mt_routing *record)
{
    return mt_dispatch_plan(pass->device,
                            &(struct mt_dispatch_plan_args){.expert = record->expert,
                                                            .offsets = record->offsets,
                                                            .row_of_slot = record->row_of_slot,
                                                            .slot_of_row = record->slot_of_row});
}

enum mt_status mt_moe_gather(const struct mt_pass *pass, const struct mt_moe *moe, const struct mt_tensor *x)
{
    return mt_dispatch_forward(pass->device, &(struct mt_dispatch_forward_args){
                                                 .x = *x,
                                                 .slot_of_row = moe->record.slot_of_row,
                                                 .rows = moe->rows,
                                                 .slots = moe->record.slots,
                                             });
}

enum mt_status mt_moe_make_inner(const struct mt_pass *pass, const struct mt_moe *moe)
{
    return mt_swiglu_forward(
        pass->device, &(struct mt_swiglu_forward_args){.gate = moe->gate, .up = moe->up, .y = moe->inner});
}

enum mt_status mt_moe_repeat_experts(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     const struct mt_moe *moe, const struct mt_tensor *x)
{
    const struct mt_tensor *offsets = &moe->record.offsets;
    enum mt_status status = mt_moe_gather(pass, moe, x);
    if (status != MT_OK) return status;
    status = mt_expert_linear_forward(pass, &params->gate, offsets, &moe->rows, &moe->gate_low, &moe->gate);
    if (status != MT_OK) return status;
    status = mt_expert_linear_forward(pass, &params->up, offsets, &moe->rows, &moe->up_low, &moe->up);
    if (status != MT_OK) return status;
    status = mt_moe_make_inner(pass, moe);
    if (status != MT_OK) return status;
    return mt_expert_linear_forward(pass, &params->down, offsets, &moe->inner, &moe->down_low,
                                    &moe->record.rows);
}

/* y = residual + shared(x) + the weighted outputs. */
static enum mt_status combine(const struct mt_pass *pass, const struct mt_layer_params *params,
                              const struct mt_moe *moe, const struct mt_tensor *x,
                              const struct mt_tensor *residual, const struct mt_tensor *y)
{
    const struct mt_tensor *base = residual;
    enum mt_status status = MT_OK;
    if (pass->desc->shared_width > 0) {
        status = mt_copy(pass->device, &(struct mt_copy_args){.x = *residual, .y = *y});
        if (status != MT_OK) return status;
        status = mt_mlp_forward(pass, &params->shared, &moe->shared, x, true, y);
        if (status != MT_OK) return status;
        base = y;
    }
    return mt_combine_forward(pass->device, &(struct mt_combine_forward_args){
                                                .rows = moe->record.rows,
                                                .row_of_slot = moe->record.row_of_slot,
                                                .weight = moe->record.weight,
                                                .base = *base,
                                                .y = *y,
                                                .gram = moe->record.gram,
                                            });
}

enum mt_status mt_moe_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                              struct mt_moe *moe, const struct mt_tensor *x, const struct mt_tensor *residual,
                              const struct mt_tensor *y)
{
    enum mt_status status = mt_moe_jitter(pass, moe, x);
    if (status != MT_OK) return status;
    status = mt_moe_router_forward(pass, params, moe, x);
    if (status != MT_OK) return status;
    status = sort_by_expert(pass, &moe->record);
    if (status != MT_OK) return status;
    status = mt_moe_repeat_experts(pass, params, moe, x);
    if (status != MT_OK) return status;
    return combine(pass, params, moe, x, residual, y);
}
