/*
 * L_cp, coupling across layers: less the mean over tokens of Σ_a Σ_b P_a P'_b, a of the k largest scores of
 * this layer, b of those of the MoE layer before, which is the product of what both have on their k largest.
 * The scores of a sigmoid router are divided by their sum first. The first MoE layer has no value of its own.
 */
#include "objective/objective.h"

static void place(struct mt_objective *objective, struct mt_objective_memory *memory)
{
    objective->cp_product =
        mt_carve_tensor(&memory->device, mt_tensor_1d(NULL, objective->dtype, objective->shape.tokens));
}

static bool normalises(const struct mt_objective *objective)
{
    return objective->shape.router.kind == MT_ROUTER_SIGMOID;
}

static enum mt_status forward(const struct mt_term_call *call)
{
    const struct mt_objective *objective = call->objective;
    if (call->before == NULL) return MT_OK;
    struct mt_tensor product = mt_tensor_rows(&objective->cp_product, 0, call->record->tokens);
    enum mt_status status =
        mt_joint_mass_forward(objective->device, &(struct mt_joint_mass_forward_args){
                                                     .probs = call->record->probs,
                                                     .other_probs = call->before->probs,
                                                     .expert = call->record->greedy,
                                                     .other_expert = call->before->greedy,
                                                     .mask = call->record->mask,
                                                     .product = product,
                                                     .normalise_rows = normalises(objective),
                                                 });
    if (status != MT_OK) return status;
    return mt_reduce(objective->device, &(struct mt_reduce_args){
                                            .x = product,
                                            .out = mt_tensor_1d(call->statistics, MT_F64, 1),
                                            .kind = MT_REDUCE_SUM,
                                        });
}

static void value(const struct mt_objective *objective, struct mt_term_view *views)
{
    for (int l = 1; l < objective->shape.layers; l++) {
        if (views[l].tokens <= 0.0) continue;
        views[l].loss = -views[l].statistics[0] / views[l].tokens;
        views[l].gradient[0] = -1.0 / views[l].tokens;
    }
}

/* What the value that this layer and `other` share says about this layer's scores. */
static enum mt_status add_share(const struct mt_term_call *call, const struct mt_routing *other,
                                const double *given, struct mt_routing_gradient *gradient)
{
    struct mt_device *device = call->objective->device;
    if (!mt_gradient_adds(&gradient->dprobs_empty)) { // the op only adds
        enum mt_status status = mt_fill(device, &(struct mt_fill_args){.y = gradient->dprobs, .value = 0.0f});
        if (status != MT_OK) return status;
    }
    return mt_joint_mass_backward(device, &(struct mt_joint_mass_backward_args){
                                              .probs = call->record->probs,
                                              .other_probs = other->probs,
                                              .expert = call->record->greedy,
                                              .other_expert = other->greedy,
                                              .mask = call->record->mask,
                                              .dproduct = mt_tensor_1d((void *)given, MT_F64, 1),
                                              .dprobs = gradient->dprobs,
                                              .normalise_rows = normalises(call->objective),
                                          });
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    enum mt_status status = MT_OK;
    if (call->before != NULL) status = add_share(call, call->before, call->gradient, gradient);
    if (status == MT_OK && call->after != NULL)
        status = add_share(call, call->after, call->gradient_after, gradient);
    return status;
}

const struct mt_term_kind mt_term_cp = {
    .info = {.name = "cp",
             .formula =
                 "$L_{\\text{cp}} = -\\frac{1}{N} \\sum_i \\sum_{a \\in T_i} \\sum_{b \\in T'_i} P_{ia} "
                 "P'_{ib}$, $T$ the $k$ largest scores of a token, $T'$ those of the MoE layer before.",
             .off = "L_cp is off: lambda_cp is 0",
             .path = MT_PATH_LOGITS},
    .needs = MT_NEEDS_NEIGHBOURS,
    .numbers = 1, // the sum over tokens; 0 in the first layer, as memory is at first
    .place = place,
    .forward = forward,
    .value = value,
    .backward = backward,
};
