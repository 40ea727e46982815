/* Dense evaluation, expert by expert: without offsets, all rows are the one expert's. */
#include "model/experts/all_outputs.h"

#include "metier/ops.h"

void mt_all_outputs_plan(struct mt_all_outputs *all, const struct mt_pass *pass,
                         const struct mt_layer_params *params, bool backward, struct mt_planner *work)
{
    int64_t rows = pass->tokens * params->gate.weight.count;
    int64_t width = pass->desc->width;
    all->outputs = mt_plan_2d(work, pass->type, rows, width);
    const struct mt_experts_planners planners = {.saved = work, .work = work};
    mt_experts_plan_compute(&all->experts, pass, params, pass->tokens, &planners);
    if (!backward) return;
    all->doutputs = mt_plan_2d(work, pass->type, rows, width);
    all->drows = mt_plan_2d(work, pass->type, pass->tokens, width);
}

static struct mt_tensor rows_of(const struct mt_pass *pass, const struct mt_tensor *all, int expert)
{
    return mt_tensor_rows(all, expert * pass->tokens, pass->tokens);
}

static enum mt_status one_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                  const struct mt_all_outputs *all, int expert, const struct mt_tensor *x)
{
    const struct mt_expert_projections one = mt_experts_projections(params, expert, 1);
    const struct mt_tensor y = rows_of(pass, &all->outputs, expert);
    return mt_experts_compute(pass, &one, &all->experts, NULL, x, &y);
}

enum mt_status mt_all_outputs_forward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                      const struct mt_all_outputs *all, const struct mt_tensor *x)
{
    enum mt_status status = MT_OK;
    for (int e = 0; e < params->gate.weight.count && status == MT_OK; e++)
        status = one_forward(pass, params, all, e, x);
    return status;
}

enum mt_status mt_all_outputs_backward(const struct mt_pass *pass, const struct mt_layer_params *params,
                                       const struct mt_all_outputs *all, const struct mt_tensor *x,
                                       const struct mt_tensor *dx)
{
    const struct mt_tensor *drows = dx != NULL ? &all->drows : NULL;
    for (int e = 0; e < params->gate.weight.count; e++) {
        const struct mt_expert_projections one = mt_experts_projections(params, e, 1);
        const struct mt_tensor dy = rows_of(pass, &all->doutputs, e);
        enum mt_status status = one_forward(pass, params, all, e, x); // gate and up, which backward uses up
        if (status == MT_OK) status = mt_experts_down_backward(pass, &one, &all->experts, NULL, &dy, true);
        if (status == MT_OK) status = mt_experts_inner_backward(pass, &one, &all->experts, NULL, x, drows);
        if (status == MT_OK && dx != NULL)
            status = mt_axpby(pass->device,
                              &(struct mt_axpby_args){.x = *drows, .y = *dx, .alpha = 1.0f, .beta = 1.0f});
        if (status != MT_OK) return status;
    }
    return MT_OK;
}
