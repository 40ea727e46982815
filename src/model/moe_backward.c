/*
 * Mixture of experts, backward. dy arrives at the sum of residual, shared and routed experts:
 *   combine     d outputs_s = weight_s · dy + what L_o says; d weight_s = <dy, outputs_s>
 *   objective   adds to d weight, d probs, d logits (and d outputs, where outputs are grouped by expert)
 *   experts     d rows; gate and up are overwritten by their gradients, outputs by d outputs, then by d rows
 *   dispatch    dx = Σ_s d rows_s;  router and shared experts add to it, together where they read the same x
 */
#include "model/moe_router.h"

static bool experts_learn(const struct mt_layer_params *params)
{
    return mt_expert_linear_learns(&params->gate) || mt_expert_linear_learns(&params->up) ||
           mt_expert_linear_learns(&params->down);
}

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

/* The part of the shared experts, of which the first half may be done while rows travel, and of the router.
 */
struct shared {
    const struct mt_tensor *dy, *x, *dx;
    bool wanted;
    bool begun;  // the first half is done
    bool router; // the router's is wanted, too
};

static enum mt_status shared_begin(const struct mt_pass *pass, const struct mt_layer_params *params,
                                   const struct mt_moe *moe, struct shared *shared)
{
    if (!shared->wanted || shared->begun) return MT_OK;
    shared->begun = true;
    return mt_mlp_backward_down(pass, &params->shared, &moe->shared, shared->dy, shared->dx);
}

static bool reads_rows(const struct mt_layer_params *params)
{
    return mt_expert_linear_learns(&params->gate) || mt_expert_linear_learns(&params->up);
}

/* The experts' input on its way to them once more; it is sorted where gradients have travelled before. */
static struct mt_expert_transfer rows_again(const struct mt_moe *moe)
{
    return (struct mt_expert_transfer){
        .own = moe->rows, .space = moe->second, .sorted = moe->travel, .order = moe->order, .lane = 1};
}

/* The experts' input again, gathered and sent off to where they are. */
static enum mt_status send_rows(const struct mt_pass *pass, const struct mt_moe *moe,
                                const struct mt_tensor *x)
{
    enum mt_status status = mt_moe_gather(pass, moe, x);
    if (status != MT_OK) return status;
    const struct mt_expert_transfer there = rows_again(moe);
    return mt_expert_ranks_send_start(pass->ranks, moe->number, &there);
}

/* What was sent off has arrived. */
static enum mt_status receive_rows(const struct mt_pass *pass, const struct mt_moe *moe, struct mt_moe *seen)
{
    int64_t rows = pass->ranks->rows[moe->number];
    const struct mt_expert_transfer there = rows_again(moe);
    if (rows > 0) seen->rows = mt_tensor_rows(&moe->travel, 0, rows);
    return mt_expert_ranks_send_finish(pass->ranks, moe->number, &there);
}

/* What down read, again. */
static enum mt_status make_inner(const struct mt_pass *pass, const struct mt_moe *moe)
{
    return mt_swiglu_forward(
        pass->device, &(struct mt_swiglu_forward_args){.gate = moe->gate, .up = moe->up, .y = moe->inner});
}

/*
 * From the gradient of the outputs, in seen->drows, to gate's and up's, in their place, with `below`; and
 * down's own. What down read is made again in the pass over gate and up.
 */
static enum mt_status down_backward(const struct mt_pass *pass, const struct mt_expert_linear *linear,
                                    const struct mt_moe *seen, bool below)
{
    const struct mt_tensor *offsets = &seen->record.offsets;
    const struct mt_map_gradient down = {.linear = linear, .dy = &seen->drows, .trace = &seen->down_lora};
    bool learns = mt_expert_linear_learns(linear);
    enum mt_status status = MT_OK;
    if (!below) {
        if (learns) status = make_inner(pass, seen);
        return status == MT_OK && learns
                   ? mt_expert_linear_backward(pass, &down, 1, offsets, &seen->inner, false, NULL)
                   : status;
    }
    const struct mt_swiglu_inner block = {.gate = &seen->gate, .up = &seen->up, .inner = &seen->inner};
    status = mt_expert_linear_swiglu_backward(pass, &down, offsets, &block);
    if (status != MT_OK || !learns) return status;
    return mt_expert_linear_backward_own(pass, &down, offsets, &seen->inner);
}

/* From the gradient of the outputs, in seen->drows, to that of the experts' input, there too when wanted. */
static enum mt_status maps_backward(const struct mt_pass *pass, const struct mt_expert_maps *maps,
                                    const struct mt_moe *moe, struct mt_moe *seen, const struct mt_tensor *x,
                                    bool want_rows)
{
    const struct mt_tensor *offsets = &seen->record.offsets;
    bool reads = mt_expert_linear_learns(&maps->gate) || mt_expert_linear_learns(&maps->up);
    bool below = want_rows || reads;
    bool any = pass->ranks == NULL || pass->ranks->rows[moe->number] > 0;
    enum mt_status status = any ? down_backward(pass, &maps->down, seen, below) : MT_OK;
    if (status != MT_OK || !below) return status;
    // Ranks nobody has sent anything still send; alone, rows lie where the gradient of the outputs was, which
    // is used up, and their own gradient will be, which is made last.
    if (pass->ranks == NULL) seen->rows = seen->drows;
    if (reads) status = pass->ranks != NULL ? receive_rows(pass, moe, seen) : mt_moe_gather(pass, seen, x);
    if (status != MT_OK || !any) return status;
    const struct mt_map_gradient both[] = {
        {.linear = &maps->gate, .dy = &seen->gate, .trace = &seen->gate_lora},
        {.linear = &maps->up, .dy = &seen->up, .trace = &seen->up_lora}};
    return mt_expert_linear_backward(pass, both, 2, offsets, &seen->rows, false,
                                     want_rows ? &seen->drows : NULL);
}

/* The same for the layer, in moe->drows, wherever its experts are; the shared experts' beginning meanwhile.
 */
static enum mt_status experts_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                       const struct mt_moe *moe, struct shared *shared)
{
    const struct mt_tensor *x = shared->x;
    bool want_rows = shared->dx != NULL;
    struct mt_expert_maps maps = mt_moe_maps(pass, params);
    struct mt_moe seen = mt_moe_arrived(pass, moe);
    if (pass->ranks == NULL) return maps_backward(pass, &maps, moe, &seen, x, want_rows);
    int64_t rows = pass->ranks->rows[moe->number];
    struct mt_expert_transfer transfer = {
        .own = moe->drows, .space = moe->travel, .sorted = moe->arrived, .order = moe->order};
    enum mt_status status = mt_expert_ranks_send_start(pass->ranks, moe->number, &transfer);
    if (status == MT_OK) {
        mt_expert_ranks_progress(pass->ranks);
        status = shared_begin(pass, params, moe, shared);
    }
    if (status == MT_OK) status = mt_expert_ranks_send_finish(pass->ranks, moe->number, &transfer);
    if (status == MT_OK) status = mt_expert_ranks_offsets(pass->ranks, moe->number, &moe->own_offsets);
    if (status != MT_OK) return status;
    if (rows > 0) seen.drows = mt_tensor_rows(&moe->arrived, 0, rows);
    status = maps_backward(pass, &maps, moe, &seen, x, want_rows);
    if (status != MT_OK || !want_rows) return status;
    status = mt_expert_ranks_return_start(pass->ranks, moe->number, &transfer);
    return status == MT_OK ? mt_expert_ranks_return_finish(pass->ranks, moe->number, &transfer) : status;
}

/* Routed experts, and down to dlogits: everything that goes through the record. */
static enum mt_status routed_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                      struct mt_moe *moe, struct shared *shared)
{
    const struct mt_tensor *x = shared->x;
    const struct mt_tensor *dx = shared->dx;
    enum mt_status status = MT_OK;
    // Rows travel while the gradients that follow them are made.
    if (pass->ranks != NULL && reads_rows(params)) status = send_rows(pass, moe, x);
    if (status == MT_OK) status = combine_backward(pass, moe, shared->dy);
    if (status != MT_OK) return status;
    status = fill_zero(pass, &moe->dprobs);
    if (status != MT_OK) return status;
    status = fill_zero(pass, &moe->dlogits);
    if (status != MT_OK) return status;
    if (pass->objective != NULL) {
        status = mt_moe_router_objective(pass, params, moe);
        if (status != MT_OK) return status;
    }
    if (dx != NULL || experts_learn(params)) {
        status = experts_backward(pass, params, moe, shared);
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
static enum mt_status dense_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                     const struct mt_moe *moe, struct shared *shared)
{
    bool together = shared->router && shared->wanted && mt_moe_router_reads_x(pass);
    const struct mt_linear_gradient router = {
        .linear = &params->router, .dy = &moe->dlogits, .trace = &moe->router_lora};
    enum mt_status status = MT_OK;
    if (shared->router && !together)
        status = mt_moe_router_backward(pass, params, moe, shared->x, shared->dx);
    if (status != MT_OK || !shared->wanted) return status;
    status = shared_begin(pass, params, moe, shared);
    if (status != MT_OK) return status;
    return mt_mlp_backward_inner(pass, &params->shared, &moe->shared, together ? &router : NULL, shared->x,
                                 true, shared->dx);
}

enum mt_status mt_moe_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                               struct mt_moe *moe, const struct mt_tensor *dy, const struct mt_tensor *x,
                               const struct mt_tensor *dx)
{
    enum mt_status status = MT_OK;
    bool routed = dx != NULL || experts_learn(params) || mt_linear_learns(&params->router);
    struct shared shared = {.dy = dy, .x = x, .dx = dx};
    shared.wanted = pass->desc->shared_width > 0 && (dx != NULL || mt_mlp_learns(&params->shared));
    shared.router = dx != NULL || mt_linear_learns(&params->router);
    if (routed) status = routed_backward(pass, params, moe, &shared);
    if (status == MT_OK) status = dense_backward(pass, params, moe, &shared);
    if (status != MT_OK) return status;
    return dx != NULL ? mt_moe_jitter(pass, moe, dx) : MT_OK;
}
