/*
 * Mixture of experts, forward:
 *   logits = router(x); record = routing(logits); rows = x sorted by expert;
 *   outputs = down(silu(gate(rows)) · up(rows)); y = shared(x) + residual + Σ_s weight_s · outputs_s
 * The Gram matrix of a token's outputs, which L_o needs, falls out of that sum.
 *
 * Backward: dy arrives at the sum of residual, shared and routed experts:
 *   combine     d outputs_s = weight_s · dy + what L_o says; d weight_s = <dy, outputs_s>
 *   objective   adds to d weight, d probs, d logits (and d outputs, where outputs are grouped by expert)
 *   experts     d rows; gate and up are overwritten by their gradients, outputs by d outputs, then by d rows
 *   dispatch    dx = Σ_s d rows_s;  router and shared experts add to it, together where they read the same x
 */
#include "model/layers/moe.h"

#include "model/layers/moe_router.h"
#include "ops/beside.h"

bool mt_moe_is_trained(const struct mt_layer_params *params)
{
    return mt_linear_is_trained(&params->router) || mt_mlp_is_trained(&params->experts) ||
           mt_shared_experts_are_trained(params);
}

/* The record's own tensors; rows and gram lie with what the experts leave behind. */
static void plan_record(struct mt_routing *record, const struct mt_pass *pass,
                        const struct mt_layer_params *params, int number,
                        const struct mt_moe_planners *planners)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t tokens = pass->tokens;
    int64_t slots = desc->router.slots;
    *record = (struct mt_routing){.tokens = tokens,
                                  .experts = desc->experts,
                                  .slots = (int)slots,
                                  .segments = (int)pass->sequences,
                                  .unmasked = pass->moe.unmasked,
                                  .mask = pass->moe.mask,
                                  .ortho_mask = pass->moe.ortho_mask,
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
    if (pass->moe.method != NULL) policy = mt_objective_policy(pass->moe.method, true, 0);
    policy.given = mt_tensor_present(&pass->moe.given);
    if (!mt_routing_is_plain(&desc->router, &policy, mt_tensor_present(&params->correction))) {
        record->greedy = mt_plan_2d(planners->index, MT_I32, tokens, slots);
        record->expert = mt_plan_2d(planners->index, MT_I32, tokens, slots);
    }
    if (policy.given) {
        record->given = mt_tensor_at(&pass->moe.given, number);
        record->agreed = mt_plan_2d(planners->routing, pass->exact, tokens, 2);
    }
    if (pass->moe.method != NULL && mt_selection_pools(pass->moe.method)) {
        record->pool = mt_plan_2d(planners->index, MT_I32, pass->sequences, desc->experts);
        record->pool_sums = mt_plan_1d(planners->routing, MT_F64, pass->sequences * (desc->experts + 1));
    }
    record->offsets = mt_plan_1d(planners->index, MT_I32, desc->experts + 1);
    record->row_of_slot = mt_plan_2d(planners->index, MT_I32, tokens, slots);
    record->slot_of_row = mt_plan_1d(planners->index, MT_I32, tokens * slots);
    if (pass->moe.grams || mt_pass_needs(pass, MT_NEEDS_GRAM))
        record->gram = mt_plan_3d(planners->routing, pass->exact, tokens, slots, slots);
    if (mt_pass_needs(pass, MT_NEEDS_INNER_GRAM))
        record->inner_gram = mt_plan_3d(planners->routing, pass->exact, tokens, slots, slots);
    if (mt_pass_needs(pass, MT_NEEDS_PROXIES))
        record->proxy_squares = mt_plan_2d(planners->routing, pass->exact, desc->experts, desc->experts);
}

static void plan_backward(struct mt_moe *moe, const struct mt_pass *pass, struct mt_planner *work)
{
    const struct mt_model_desc *desc = pass->desc;
    int64_t tokens = pass->tokens;
    int64_t slots = desc->router.slots;
    // Terms on the outputs themselves read them after the combine's backward: they must survive it.
    moe->drows = mt_pass_needs(pass, MT_NEEDS_ROWS)
                     ? mt_plan_2d(work, pass->type, tokens * slots, desc->width)
                     : moe->record.rows;
    if (mt_tensor_present(&moe->record.gram))
        moe->coupling = mt_plan_3d(work, pass->exact, tokens, slots, slots);
    if (mt_tensor_present(&moe->record.inner_gram)) {
        moe->experts.inner_coupling = mt_plan_3d(work, pass->exact, tokens, slots, slots);
        moe->experts.row_of_slot = moe->record.row_of_slot;
    }
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
    *moe = (struct mt_moe){.layer = moe->layer, .number = moe->number, .experts.number = moe->number};
    plan_record(&moe->record, pass, params, moe->number, planners);
    moe->record.rows =
        mt_plan_2d(planners->saved, pass->type, pass->tokens * desc->router.slots, desc->width);
    pass->moe.placement->plan(&moe->experts, pass, &params->experts,
                              &(struct mt_experts_planners){.index = planners->index,
                                                            .saved = planners->saved,
                                                            .work = planners->work});
    if (mt_moe_router_has_jitter(pass))
        moe->router_input = mt_plan_2d(planners->work, pass->type, pass->tokens, desc->width);
    if (mt_moe_router_needs_sum(pass, params))
        moe->router_sum = mt_plan_2d(planners->work, pass->exact, desc->experts, desc->width);
    if (mt_pass_needs(pass, MT_NEEDS_PROXIES))
        mt_proxies_plan(&moe->proxies, pass, &params->experts, moe->layer, backward, planners->work);
    // The shared experts read what the router reads, unless that has jitter: one draw, the router's.
    moe->router_lora = mt_linear_plan_lora(planners->shared, pass, &params->router, pass->tokens, NULL);
    if (desc->shared_width > 0) {
        struct mt_tensor drawn = {0};
        if (!mt_moe_router_has_jitter(pass)) drawn = moe->router_lora.bits;
        mt_shared_experts_plan(&moe->shared, pass, params, backward, &drawn, planners->shared,
                               planners->work);
    }
    if (backward && mt_pass_needs(pass, MT_NEEDS_DENSE_BACKWARD))
        mt_dense_router_plan(&moe->dense_router, pass, &params->experts, planners->work);
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

/* The shared experts, in two parts, y = shared(x): done while rows are on their way, or afterwards. */
struct shared_work {
    const struct mt_pass *pass;
    const struct mt_layer_params *params;
    const struct mt_shared_experts *shared;
    const struct mt_tensor *x, *y;
    int left; // parts
};

static enum mt_status next_part(void *self)
{
    struct shared_work *work = self;
    if (work->left == 0) return MT_OK;
    work->left--;
    if (work->left == 1)
        return mt_shared_experts_forward_inner(work->pass, work->params, work->shared, work->x);
    return mt_shared_experts_forward_down(work->pass, work->params, work->shared, work->y);
}

/*
 * Both parts at once where routing and routed experts need not wait for them. Copies of both would lie in
 * one place, and ranks have their own order.
 */
static enum mt_status all_parts_beside(struct shared_work *work)
{
    const struct mt_pass *pass = work->pass;
    const struct mt_mlp_params *shared = &work->params->shared;
    bool copied = mt_weight_is_copied(&shared->gate.weight) || mt_weight_is_copied(&shared->up.weight) ||
                  mt_weight_is_copied(&shared->down.weight) ||
                  mt_weight_is_copied(&work->params->shared_gate.weight);
    if (work->left == 0 || copied || !mt_pass_is_short(pass) || pass->moe.ranks != NULL) return MT_OK;
    enum mt_status status = mt_device_beside_begin(pass->device);
    while (status == MT_OK && work->left > 0) status = next_part(work);
    enum mt_status ended = mt_device_beside_end(pass->device);
    return status == MT_OK ? ended : status;
}

enum mt_status mt_moe_repeat_experts(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     const struct mt_moe *moe, const struct mt_tensor *x)
{
    struct shared_work none = {0};
    const struct mt_meanwhile meanwhile = {.run = next_part, .self = &none};
    return pass->moe.placement->forward(pass, &params->experts, &moe->experts, &moe->record, x, &meanwhile);
}

/* What terms look at beside routing and outputs; the experts' activations are still there. */
static enum mt_status show_more(const struct mt_pass *pass, const struct mt_moe *moe)
{
    const struct mt_routing *record = &moe->record;
    enum mt_status status = MT_OK;
    if (mt_tensor_present(&record->inner_gram))
        status = mt_combine_forward(pass->device, &(struct mt_combine_forward_args){
                                                      .rows = moe->experts.mlp.inner,
                                                      .row_of_slot = record->row_of_slot,
                                                      .weight = record->weight, // without y
                                                      .gram = record->inner_gram,
                                                  });
    if (status == MT_OK && mt_tensor_present(&record->proxy_squares))
        status = mt_proxies_forward(pass, &moe->proxies, record);
    return status;
}

static enum mt_status fill_zero(const struct mt_pass *pass, const struct mt_tensor *y)
{
    return mt_fill(pass->device, &(struct mt_fill_args){.y = *y, .value = 0.0f});
}

enum mt_status mt_moe_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                              struct mt_moe *moe, const struct mt_tensor *x, const struct mt_tensor *residual,
                              const struct mt_tensor *y)
{
    const struct mt_routing *record = &moe->record;
    struct shared_work shared = {.pass = pass,
                                 .params = params,
                                 .shared = &moe->shared,
                                 .x = x,
                                 .y = y,
                                 .left = pass->desc->shared_width > 0 ? 2 : 0};
    const struct mt_meanwhile meanwhile = {.run = next_part, .self = &shared};
    enum mt_status status = mt_moe_jitter(pass, moe, x);
    if (status == MT_OK) status = all_parts_beside(&shared);
    if (status == MT_OK) status = mt_moe_router_forward(pass, params, moe, x);
    if (status == MT_OK)
        status = mt_dispatch_plan(pass->device,
                                  &(struct mt_dispatch_plan_args){.expert = record->expert,
                                                                  .offsets = record->offsets,
                                                                  .row_of_slot = record->row_of_slot,
                                                                  .slot_of_row = record->slot_of_row});
    if (status == MT_OK && pass->moe.placement->routed != NULL)
        status = pass->moe.placement->routed(pass, &moe->experts, record);
    if (status == MT_OK)
        status = pass->moe.placement->forward(pass, &params->experts, &moe->experts, record, x, &meanwhile);
    if (status == MT_OK && pass->moe.objective != NULL) status = show_more(pass, moe);
    while (status == MT_OK && shared.left > 0) status = next_part(&shared);
    enum mt_status joined = mt_device_join(pass->device);
    if (status == MT_OK) status = joined;
    if (status == MT_OK && pass->moe.silent) status = fill_zero(pass, &record->weight);
    if (status != MT_OK) return status;
    // y = residual + the weighted outputs, and with shared experts what y has of them already.
    return mt_combine_forward(pass->device, &(struct mt_combine_forward_args){
                                                .rows = record->rows,
                                                .row_of_slot = record->row_of_slot,
                                                .weight = record->weight,
                                                .base = *residual,
                                                .y = *y,
                                                .gram = record->gram,
                                                .accumulate = pass->desc->shared_width > 0,
                                            });
}

// ------------------------------------------------------------------ backward

static enum mt_status combine_backward(const struct mt_pass *pass, const struct mt_moe *moe,
                                       const struct mt_tensor *dy)
{
    if (mt_tensor_present(&moe->coupling) && pass->moe.objective != NULL) {
        enum mt_status status =
            mt_objective_coupling(pass->moe.objective, moe->number, &moe->record, &moe->coupling);
        if (status != MT_OK) return status;
    }
    return mt_combine_backward(pass->device, &(struct mt_combine_backward_args){
                                                 .dy = *dy,
                                                 .rows = moe->record.rows,
                                                 .row_of_slot = moe->record.row_of_slot,
                                                 .weight = moe->record.weight,
                                                 .coupling = moe->coupling,
                                                 .drows = moe->drows,
                                                 .dweight = moe->dweight,
                                             });
}

/* The shared experts' part, the first half of which may be done while rows are on their way; the router's. */
struct shared_backward {
    const struct mt_pass *pass;
    const struct mt_layer_params *params;
    const struct mt_shared_experts *shared;
    const struct mt_tensor *dy, *x, *dx;
    bool wanted;
    bool begun;  // the first half is done
    bool router; // the router's is wanted, too
};

static enum mt_status begin_shared(void *self)
{
    struct shared_backward *work = self;
    if (!work->wanted || work->begun) return MT_OK;
    work->begun = true;
    return mt_shared_experts_backward_down(work->pass, work->params, work->shared, work->dy, work->dx);
}

/* Routed experts, and down to dlogits: everything that goes through the record. */
static enum mt_status routed_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                      struct mt_moe *moe, struct shared_backward *shared)
{
    const struct mt_tensor *x = shared->x;
    const struct mt_tensor *dx = shared->dx;
    const struct mt_meanwhile meanwhile = {.run = begin_shared, .self = shared};
    enum mt_status status = MT_OK;
    if (pass->moe.placement->prepare_backward != NULL)
        status =
            pass->moe.placement->prepare_backward(pass, &params->experts, &moe->experts, &moe->record, x);
    if (status == MT_OK) status = combine_backward(pass, moe, shared->dy);
    if (status == MT_OK) status = fill_zero(pass, &moe->dprobs);
    if (status == MT_OK) status = fill_zero(pass, &moe->dlogits);
    if (status != MT_OK) return status;
    if (pass->moe.objective != NULL && mt_tensor_present(&moe->dense_router.outputs)) {
        status = mt_dense_router_backward(pass, &params->experts, &moe->dense_router, &moe->record, x,
                                          shared->dy, &moe->dprobs);
        if (status != MT_OK) return status;
    }
    if (mt_tensor_present(&moe->experts.inner_coupling)) {
        status = fill_zero(pass, &moe->experts.inner_coupling);
        if (status != MT_OK) return status;
    }
    if (pass->moe.objective != NULL) {
        status = mt_moe_terms_backward(pass, params, moe);
        if (status != MT_OK) return status;
    }
    if (dx != NULL || mt_mlp_is_trained(&params->experts)) {
        status = pass->moe.placement->backward(pass, &params->experts, &moe->experts, &moe->record, x,
                                               &moe->drows, dx != NULL, &meanwhile);
        if (status != MT_OK) return status;
    }
    if (dx != NULL) {
        status = mt_dispatch_backward(pass->device, &(struct mt_dispatch_backward_args){
                                                        .drows = moe->drows,
                                                        .row_of_slot = moe->record.row_of_slot,
                                                        .dx = *dx,
                                                    });
        if (status != MT_OK) return status;
    }
    return shared->router ? mt_moe_router_scores_backward(pass, moe) : MT_OK;
}

/* The router and what is left of the shared experts; dx is added to. */
static enum mt_status router_and_shared_backward(const struct mt_pass *pass,
                                                 const struct mt_layer_params *params,
                                                 const struct mt_moe *moe, struct shared_backward *shared)
{
    bool together = shared->router && shared->wanted && mt_moe_router_reads_x(pass);
    const struct mt_linear_gradient router = {
        .linear = &params->router, .dy = &moe->dlogits, .trace = &moe->router_lora};
    enum mt_status status = MT_OK;
    if (shared->router && !together)
        status = mt_moe_router_backward(pass, params, moe, shared->x, shared->dx);
    if (status != MT_OK || !shared->wanted) return status;
    status = begin_shared(shared);
    if (status != MT_OK) return status;
    return mt_shared_experts_backward_inner(pass, params, &moe->shared, together ? &router : NULL, shared->x,
                                            shared->dx);
}

enum mt_status mt_moe_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                               struct mt_moe *moe, const struct mt_tensor *dy, const struct mt_tensor *x,
                               const struct mt_tensor *dx)
{
    enum mt_status status = MT_OK;
    bool routed = dx != NULL || mt_mlp_is_trained(&params->experts) || mt_linear_is_trained(&params->router);
    struct shared_backward shared = {
        .pass = pass, .params = params, .shared = &moe->shared, .dy = dy, .x = x, .dx = dx};
    shared.wanted = pass->desc->shared_width > 0 && (dx != NULL || mt_shared_experts_are_trained(params));
    shared.router = dx != NULL || mt_linear_is_trained(&params->router);
    if (routed) status = routed_backward(pass, params, moe, &shared);
    if (status == MT_OK) status = router_and_shared_backward(pass, params, moe, &shared);
    if (status != MT_OK) return status;
    return dx != NULL ? mt_moe_jitter(pass, moe, dx) : MT_OK;
}
