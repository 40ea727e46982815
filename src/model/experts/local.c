/*
 * All experts are here. Rows, outputs, their gradients and the rows' gradients lie in one tensor, one after
 * the other: each is made when the one before is used up.
 */
#include "model/experts/compute.h"

static struct mt_expert_projections all_of(const struct mt_layer_params *params)
{
    return mt_experts_projections(params, 0, params->gate.weight.count);
}

static int64_t most_rows(const struct mt_pass *pass)
{
    return pass->tokens * pass->desc->router.slots;
}

static void plan(struct mt_experts *experts, const struct mt_pass *pass, const struct mt_layer_params *params,
                 const struct mt_experts_planners *planners)
{
    mt_experts_plan_compute(experts, pass, params, most_rows(pass), planners);
    if (pass->method != NULL && (mt_objective_needs(pass->method) & MT_NEEDS_INNER_GRAM) != 0)
        experts->dinner = mt_plan_2d(planners->work, pass->type, most_rows(pass), pass->desc->expert_width);
}

static enum mt_status forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                              const struct mt_experts *experts, const struct mt_routing *record,
                              const struct mt_tensor *x, const struct mt_meanwhile *meanwhile)
{
    (void)meanwhile;
    const struct mt_expert_projections all = all_of(params);
    enum mt_status status = mt_experts_gather(pass, record, x, &record->rows);
    if (status != MT_OK) return status;
    return mt_experts_compute(pass, &all, experts, &record->offsets, &record->rows, &record->rows);
}

static enum mt_status backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                               const struct mt_experts *experts, const struct mt_routing *record,
                               const struct mt_tensor *x, const struct mt_tensor *drows, bool want_rows,
                               const struct mt_meanwhile *meanwhile)
{
    (void)meanwhile;
    const struct mt_expert_projections all = all_of(params);
    bool reads = mt_expert_linear_is_trained(&all.gate) || mt_expert_linear_is_trained(&all.up);
    bool below = want_rows || reads;
    enum mt_status status = mt_experts_down_backward(pass, &all, experts, &record->offsets, drows, below);
    if (status != MT_OK || !below) return status;
    if (reads) status = mt_experts_gather(pass, record, x, drows);
    if (status != MT_OK) return status;
    return mt_experts_inner_backward(pass, &all, experts, &record->offsets, drows, want_rows ? drows : NULL);
}

const struct mt_placement mt_experts_local = {
    .most_rows = most_rows,
    .plan = plan,
    .forward = forward,
    .backward = backward,
};
