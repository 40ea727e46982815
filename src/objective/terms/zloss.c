/* Router z-loss: (1/N) Σ_i (log Σ_j exp h_ij)², h the logits of the N unmasked tokens (ST-MoE). */
#include "objective/objective.h"

static enum mt_status forward(const struct mt_term_call *call)
{
    return mt_router_zloss_forward(call->objective->device,
                                   &(struct mt_router_zloss_forward_args){
                                       .logits = call->record->logits,
                                       .mask = call->record->mask,
                                       .sum = mt_tensor_1d(call->statistics, MT_F64, 1),
                                   });
}

static int products(const struct mt_objective *objective, struct mt_stat_product *products)
{
    products[0] = (struct mt_stat_product){.x = (int64_t)objective->offset[MT_TERM_Z],
                                           .y = -1,
                                           .count = 1,
                                           .over = objective->shape.experts,
                                           .power = 1,
                                           .factor = 1.0};
    return 1;
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    bool adds = mt_gradient_adds(&gradient->dlogits_empty);
    return mt_router_zloss_backward(call->objective->device,
                                    &(struct mt_router_zloss_backward_args){
                                        .logits = call->record->logits,
                                        .mask = call->record->mask,
                                        .dlogits = gradient->dlogits,
                                        .factor = mt_tensor_1d((void *)call->gradient, MT_F64, 1),
                                        .scale = 1.0f,
                                        .accumulate = adds,
                                    });
}

const struct mt_term_kind mt_term_zloss = {
    .info = {.name = "z",
             .formula =
                 "$L_z = \\frac{1}{N} \\sum_i (\\ln \\sum_j \\exp z_{ij})^2$, $z$ the router's logits.",
             .off = "the router z-loss is off: zeta is 0",
             .path = MT_PATH_LOGITS},
    .numbers = 1, // the sum
    .forward = forward,
    .products = products,
    .backward = backward,
};
