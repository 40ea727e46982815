/*
 * L_sp, specialization within a layer: the mean over tokens and pairs of their experts of the cosine
 * (sp=squared: its square) of the experts' SwiGLU activations, from the Gram matrices of these.
 */
#include "objective/objective.h"

#define EPSILON 1e-12f

static void place(struct mt_objective *objective, struct mt_objective_memory *memory)
{
    int64_t tokens = objective->shape.tokens;
    int64_t slots = objective->shape.slots;
    objective->sp_loss = mt_carve_tensor(&memory->device, mt_tensor_1d(NULL, objective->dtype, tokens));
    objective->sp_coupling =
        mt_carve_tensor(&memory->device, mt_tensor_3d(NULL, objective->dtype, tokens, slots, slots));
}

static enum mt_ortho_form form_of(const struct mt_objective *objective)
{
    return objective->config.sp_squared ? MT_ORTHO_COSINE : MT_ORTHO_SIGNED;
}

static enum mt_status forward(const struct mt_term_call *call)
{
    const struct mt_objective *objective = call->objective;
    struct mt_tensor loss = mt_tensor_rows(&objective->sp_loss, 0, call->record->tokens);
    enum mt_status status = mt_ortho_forward(objective->device, &(struct mt_ortho_forward_args){
                                                                    .gram = call->record->inner_gram,
                                                                    .mask = call->record->mask,
                                                                    .loss = loss,
                                                                    .form = form_of(objective),
                                                                    .epsilon = EPSILON,
                                                                });
    if (status != MT_OK) return status;
    return mt_reduce(objective->device, &(struct mt_reduce_args){
                                            .x = loss,
                                            .out = mt_tensor_1d(call->statistics, MT_F64, 1),
                                            .kind = MT_REDUCE_SUM,
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

static enum mt_status find_coupling(const struct mt_term_call *call, const struct mt_tensor *coupling)
{
    const struct mt_objective *objective = call->objective;
    return mt_ortho_backward(objective->device, &(struct mt_ortho_backward_args){
                                                    .gram = call->record->inner_gram,
                                                    .mask = call->record->mask,
                                                    .coupling = *coupling,
                                                    .form = form_of(objective),
                                                    .epsilon = EPSILON,
                                                    .scale = (float)call->host_gradient[0],
                                                });
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    if (!mt_tensor_present(&gradient->inner_coupling)) return MT_OK; // frozen
    return find_coupling(call, &gradient->inner_coupling);
}

static enum mt_status norm(const struct mt_term_call *call, double *result)
{
    struct mt_tensor coupling = mt_tensor_rows(&call->objective->sp_coupling, 0, call->record->tokens);
    enum mt_status status = find_coupling(call, &coupling);
    if (status != MT_OK) return status;
    return mt_measure_coupled(call->objective, &call->record->inner_gram, &coupling, result);
}

static enum mt_status check_single_slot(struct mt_context *ctx, const struct mt_objective_config *config,
                                        const struct mt_router_config *router, const char *prefix)
{
    (void)router;
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "term sp has coefficient %g, but each token has one expert: there is nothing to compare. Set "
        "%slambda_sp=0",
        config->coefficient[MT_TERM_SP], prefix);
}

const struct mt_term_kind mt_term_sp = {
    .info = {.name = "sp",
             .formula = "$L_{\\text{sp}}$: mean over tokens and pairs of their experts of $\\cos(z_a, z_b)$, "
                        "$z = \\operatorname{silu}(W_g x) \\odot W_u x$ an expert's activations.",
             .off = "L_sp is off: lambda_sp is 0",
             .path = MT_PATH_INNER,
             .shown = {{"sp", NULL}},
             .keys = (const char *const[]){"sp", NULL}},
    .check_single_slot = check_single_slot,
    .needs = MT_NEEDS_INNER_GRAM,
    .numbers = 1, // the sum over tokens
    .place = place,
    .forward = forward,
    .value = value,
    .backward = backward,
    .norm = norm,
};
