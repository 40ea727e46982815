/*
 * All experts are here. Rows, outputs, their gradients and the rows' gradients lie in one tensor, one after
 * the other: each is made when the one before is used up.
 */
#include "metier/ops.h"
#include "model/experts/compute.h"

static int64_t most_rows(const struct mt_pass *pass)
{
    return pass->tokens * pass->desc->router.slots;
}

static void plan(struct mt_experts *experts, const struct mt_pass *pass, const struct mt_mlp_params *params,
                 const struct mt_experts_planners *planners)
{
    mt_mlp_plan(&experts->mlp, pass, params, most_rows(pass), &(struct mt_tensor){0}, planners->saved,
                planners->work);
    if (mt_pass_needs(pass, MT_NEEDS_INNER_GRAM))
        experts->dinner = mt_plan_2d(planners->work, pass->type, most_rows(pass), pass->desc->expert_width);
}

static enum mt_status forward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                              const struct mt_experts *experts, const struct mt_routing *record,
                              const struct mt_tensor *x, const struct mt_meanwhile *meanwhile)
{
    (void)meanwhile;
    enum mt_status status = mt_experts_gather(pass, record, x, &record->rows);
    if (status == MT_OK)
        status = mt_mlp_forward_inner(pass, params, &experts->mlp, &record->offsets, &record->rows);
    if (status != MT_OK) return status;
    return mt_mlp_forward_down(pass, params, &experts->mlp, &record->offsets, false, &record->rows);
}

/*
 * Back through down where a term couples a token's activations: what it says about them is made first, what
 * comes through down is added, and gate's and up's gradients are made of the sum.
 */
static enum mt_status coupled_backward(const struct mt_pass *pass, const struct mt_experts *experts,
                                       const struct mt_linear_gradient *down, const struct mt_tensor *offsets)
{
    struct mt_tensor unused = mt_tensor_2d(experts->inner_coupling.data, experts->inner_coupling.dtype,
                                           experts->row_of_slot.dim[0], experts->row_of_slot.dim[1]);
    enum mt_status status = mt_mlp_make_inner(pass, &experts->mlp);
    if (status == MT_OK) // rows of dropped slots, which belong to no token, are nobody's
        status = mt_combine_backward(pass->device, &(struct mt_combine_backward_args){
                                                       .rows = experts->mlp.inner,
                                                       .row_of_slot = experts->row_of_slot,
                                                       .weight = unused, // without dy
                                                       .coupling = experts->inner_coupling,
                                                       .drows = experts->dinner,
                                                   });
    if (status == MT_OK)
        status = mt_linear_backward(pass, down, 1, offsets, &experts->mlp.inner, true, &experts->dinner);
    if (status != MT_OK) return status;
    return mt_swiglu_backward(pass->device,
                              &(struct mt_swiglu_backward_args){.dy = experts->dinner,
                                                                .gate = experts->mlp.gate,
                                                                .up = experts->mlp.up,
                                                                .dgate = experts->mlp.gate,
                                                                .dup = experts->mlp.up,
                                                                .limit = pass->desc->swiglu_limit,
                                                                .alpha = pass->desc->swiglu_alpha});
}

static enum mt_status backward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                               const struct mt_experts *experts, const struct mt_routing *record,
                               const struct mt_tensor *x, const struct mt_tensor *drows, bool want_rows,
                               const struct mt_meanwhile *meanwhile)
{
    (void)meanwhile;
    const struct mt_linear_gradient down = {
        .linear = &params->down, .dy = drows, .trace = &experts->mlp.down_lora};
    const struct mt_tensor *offsets = &record->offsets;
    bool reads = mt_mlp_reads_input(params);
    bool below = want_rows || reads;
    enum mt_status status =
        below && mt_tensor_present(&experts->dinner)
            ? coupled_backward(pass, experts, &down, offsets)
            : mt_mlp_backward_down(pass, params, &experts->mlp, offsets, drows, want_rows);
    if (status == MT_OK && reads) status = mt_experts_gather(pass, record, x, drows);
    if (status != MT_OK || !below) return status;
    return mt_mlp_backward_inner(pass, params, &experts->mlp, offsets, NULL, drows, false,
                                 want_rows ? drows : NULL);
}

const struct mt_placement mt_experts_local = {
    .most_rows = most_rows,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
