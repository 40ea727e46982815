/*
 * Mixture of experts, backward. dy arrives at the sum of residual, shared and routed experts:
 *   combine     d outputs_s = weight_s · dy + what L_o says; d weight_s = <dy, outputs_s>
 *   objective   adds to d weight, d probs, d logits (and d outputs, where outputs are grouped by expert)
 *   experts     d rows; gate and up are overwritten by their gradients, outputs by d outputs, then by d rows
 *   dispatch    dx = Σ_s d rows_s;  router and shared experts add to it, together where they read the same x
 */
#include "model/layers/moe_router.h"

static enum mt_status fill_zero(const struct mt_pass *pass, const struct mt_tensor *y)
{
    return mt_fill(pass->device, &(struct mt_fill_args){.y = *y, .value = 0.0f});
}

static enum mt_status combine_backward(const struct mt_pass *pass, const struct mt_moe *moe,
                                       const struct mt_tensor *dy)
{
    if (mt_tensor_present(&moe->coupling) && pass->objective != NULL) {
        enum mt_status status =
            mt_objective_coupling(pass->objective, moe->number, &moe->record, &moe->coupling);
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
struct shared_work {
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
    struct shared_work *work = self;
    if (!work->wanted || work->begun) return MT_OK;
    work->begun = true;
    return mt_shared_experts_backward_down(work->pass, work->params, work->shared, work->dy, work->dx);
}

/* Routed experts, and down to dlogits: everything that goes through the record. */
static enum mt_status routed_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                      struct mt_moe *moe, struct shared_work *shared)
{
    const struct mt_tensor *x = shared->x;
    const struct mt_tensor *dx = shared->dx;
    const struct mt_meanwhile meanwhile = {.run = begin_shared, .self = shared};
    enum mt_status status = pass->placement->prepare_backward(pass, params, &moe->experts, &moe->record, x);
    if (status == MT_OK) status = combine_backward(pass, moe, shared->dy);
    if (status != MT_OK) return status;
    status = fill_zero(pass, &moe->dprobs);
    if (status != MT_OK) return status;
    status = fill_zero(pass, &moe->dlogits);
    if (status != MT_OK) return status;
    bool dense = pass->objective != NULL && mt_tensor_present(&moe->record.all_outputs);
    if (dense) {
        status = mt_all_outputs_forward(pass, params, &moe->all_outputs, x); // once more, for the terms
        if (status == MT_OK) status = fill_zero(pass, &moe->all_outputs.doutputs);
        if (status != MT_OK) return status;
    }
    if (pass->objective != NULL) {
        status = mt_moe_router_objective(pass, params, moe);
        if (status != MT_OK) return status;
    }
    if (dx != NULL || mt_experts_are_trained(params)) {
        status = pass->placement->backward(pass, params, &moe->experts, &moe->record, x, &moe->drows,
                                           dx != NULL, &meanwhile);
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
    if (dense && (dx != NULL || mt_experts_are_trained(params))) {
        status = mt_all_outputs_backward(pass, params, &moe->all_outputs, x, dx);
        if (status != MT_OK) return status;
    }
    return shared->router ? mt_moe_router_scores_backward(pass, moe) : MT_OK;
}

/* The router and what is left of the shared experts; dx is added to. */
static enum mt_status dense_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     const struct mt_moe *moe, struct shared_work *shared)
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
    bool routed = dx != NULL || mt_experts_are_trained(params) || mt_linear_is_trained(&params->router);
    struct shared_work shared = {
        .pass = pass, .params = params, .shared = &moe->shared, .dy = dy, .x = x, .dx = dx};
    shared.wanted = pass->desc->shared_width > 0 && (dx != NULL || mt_shared_experts_are_trained(params));
    shared.router = dx != NULL || mt_linear_is_trained(&params->router);
    if (routed) status = routed_backward(pass, params, moe, &shared);
    if (status == MT_OK) status = dense_backward(pass, params, moe, &shared);
    if (status != MT_OK) return status;
    return dx != NULL ? mt_moe_jitter(pass, moe, dx) : MT_OK;
}
