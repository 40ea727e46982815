/* Router z-loss: (1/N) Σ_i (log Σ_j exp h_ij)², h the logits of the N unmasked tokens (ST-MoE). */
#include "objective/objective.h"

// A layer's numbers: the sum [1].
static size_t statistics(const struct mt_objective *objective)
{
    (void)objective;
    return 1;
}

static enum mt_status forward(const struct mt_term_call *call)
{
    return mt_router_zloss_forward(call->objective->device,
                                   &(struct mt_router_zloss_forward_args){
                                       .logits = call->record->logits,
                                       .mask = call->record->mask,
                                       .sum = mt_tensor_1d(call->statistics, MT_F64, 1),
                                   });
}

static void value(const struct mt_objective *objective, struct mt_term_view *views)
{
    for (int l = 0; l < objective->shape.layers; l++) {
        if (views[l].tokens <= 0.0) continue;
        views[l].loss = views[l].statistics[0] / views[l].tokens;
        views[l].gradient[0] = 1.0 / views[l].tokens;
    }
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    return mt_router_zloss_backward(call->objective->device, &(struct mt_router_zloss_backward_args){
                                                                 .logits = call->record->logits,
                                                                 .mask = call->record->mask,
                                                                 .dlogits = gradient->dlogits,
                                                                 .scale = (float)call->host_gradient[0],
                                                                 .accumulate = true,
                                                             });
}

const struct mt_term_kind mt_term_zloss = {
    .info = {.name = "z",
             .formula =
                 "$L_z = \\frac{1}{N} \\sum_i (\\ln \\sum_j \\exp z_{ij})^2$, $z$ the router's logits.",
             .off = "the router z-loss is off: zeta is 0",
             .path = MT_PATH_LOGITS},
    .statistics = statistics,
    .forward = forward,
    .value = value,
    .backward = backward,
};
