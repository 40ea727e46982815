/* DenseMixer's gradient of the scores, expert by expert. */
#include "model/experts/dense_router.h"

#include "metier/ops.h"

void mt_dense_router_plan(struct mt_dense_router *dense, const struct mt_pass *pass,
                          const struct mt_mlp_params *params, struct mt_planner *work)
{
    dense->outputs = mt_plan_2d(work, pass->type, pass->tokens, pass->desc->width);
    mt_mlp_plan(&dense->mlp, pass, params, pass->tokens, &(struct mt_tensor){0}, work, work);
}

enum mt_status mt_dense_router_backward(const struct mt_pass *pass, const struct mt_mlp_params *params,
                                        const struct mt_dense_router *dense, const struct mt_routing *record,
                                        const struct mt_tensor *x, const struct mt_tensor *dy,
                                        const struct mt_tensor *dprobs)
{
    const struct mt_router_config *router = &pass->desc->router;
    for (int e = 0; e < params->gate.weight.count; e++) {
        const struct mt_mlp_params one = mt_experts_some(params, e, 1);
        enum mt_status status = mt_mlp_forward_inner(pass, &one, &dense->mlp, NULL, x);
        if (status == MT_OK)
            status = mt_mlp_forward_down(pass, &one, &dense->mlp, NULL, false, &dense->outputs);
        if (status != MT_OK) return status;
        status = mt_unchosen_backward(pass->device, &(struct mt_unchosen_backward_args){
                                                        .dy = *dy,
                                                        .outputs = dense->outputs,
                                                        .probs = record->probs,
                                                        .expert = record->chosen,
                                                        .dprobs = *dprobs,
                                                        .number = e,
                                                        .normalise = router->normalise,
                                                        .epsilon = router->epsilon,
                                                        .scale = router->scale == 0.0f ? 1.0f : router->scale,
                                                    });
        if (status != MT_OK) return status;
    }
    return MT_OK;
}
