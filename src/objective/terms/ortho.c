/*
 * L_o, how far expert outputs that meet are from orthogonal: the mean (reduce=sum: the sum) over tokens of a
 * function of the k × k Gram matrix of their rows (mt_ortho_forward). The gradient in the rows is C·X with a
 * k × k matrix C per token, which combine_backward applies on its way: the fused path. grouping=expert-concat
 * has groups of its own instead of tokens (ortho_groups.c), and adds C·X itself.
 */
#include "objective/objective.h"

static bool is_concat(const struct mt_objective *objective)
{
    return objective->config.grouping == MT_GROUPING_EXPERT_CONCAT;
}

static void place(struct mt_objective *objective, struct mt_objective_memory *memory)
{
    struct mt_ortho_work *work = &objective->ortho;
    enum mt_dtype dtype = objective->dtype;
    int64_t tokens = objective->shape.tokens;
    int64_t slots = objective->shape.slots;
    work->loss = mt_carve_tensor(&memory->device, mt_tensor_1d(NULL, dtype, tokens));
    work->coupling = mt_carve_tensor(&memory->device, mt_tensor_3d(NULL, dtype, tokens, slots, slots));
    if (!is_concat(objective)) return;
    int64_t layers = objective->shape.layers;
    int64_t width = objective->shape.width;
    work->group_rows = mt_carve_tensor(&memory->device, mt_tensor_3d(NULL, MT_I32, layers, tokens, slots));
    work->group_gram = mt_carve_tensor(&memory->device, mt_tensor_3d(NULL, dtype, tokens, slots, slots));
    work->group_weight = mt_carve_tensor(&memory->device, mt_tensor_2d(NULL, dtype, tokens, slots));
    work->group_space =
        mt_carve_tensor(&memory->device, mt_tensor_2d(NULL, dtype, tokens * slots + tokens, width));
    size_t pairs = (size_t)tokens * (size_t)slots;
    work->groups = mt_carve(&memory->host, (size_t)layers * sizeof(int64_t));
    work->host_slots = mt_carve(&memory->host, pairs * sizeof(int32_t));
    work->host_rows = mt_carve(&memory->host, pairs * sizeof(int32_t));
    work->host_mask = mt_carve(&memory->host, (size_t)tokens * sizeof(int32_t));
    work->host_groups = mt_carve(&memory->host, pairs * sizeof(int32_t));
}

static int needs_of(const struct mt_objective_config *config)
{
    int rows = config->grouping == MT_GROUPING_EXPERT_CONCAT ? MT_NEEDS_ROWS : MT_NEEDS_GRAM;
    return rows | (config->exclude_first ? MT_NEEDS_ORTHO_MASK | MT_NEEDS_SEQUENCES : 0);
}

static float epsilon_of(const struct mt_objective *objective)
{
    if (objective->config.ortho_epsilon > 0.0) return (float)objective->config.ortho_epsilon;
    switch (objective->config.form) {
    case MT_ORTHO_PAIRWISE: return 1e-8f;
    case MT_ORTHO_SPAN: return 1e-6f;
    case MT_ORTHO_COSINE:
    case MT_ORTHO_SIGNED: return 1e-12f;
    }
    return 0.0f;
}

static struct mt_tensor mask_of(const struct mt_term_call *call)
{
    return call->objective->config.exclude_first ? call->record->ortho_mask : call->record->mask;
}

/* What the loss is made of: the tokens' Gram matrices with mask and gate, or the groups'. */
static enum mt_status find_gram(const struct mt_term_call *call, struct mt_tensor *gram,
                                struct mt_tensor *weight, struct mt_tensor *mask)
{
    *weight = (struct mt_tensor){0};
    *mask = (struct mt_tensor){0};
    if (is_concat(call->objective)) return mt_ortho_groups_gram(call, gram);
    *gram = call->record->gram;
    *mask = mask_of(call);
    if (call->objective->config.gate > 0.0) *weight = call->record->weight;
    return MT_OK;
}

static enum mt_status forward(const struct mt_term_call *call)
{
    const struct mt_objective *objective = call->objective;
    enum mt_status status = MT_OK;
    if (is_concat(objective)) {
        status = mt_ortho_groups_find(call);
        if (status != MT_OK) return status;
    }
    struct mt_tensor gram;
    struct mt_tensor weight;
    struct mt_tensor mask;
    status = find_gram(call, &gram, &weight, &mask);
    if (status != MT_OK) return status;
    return mt_ortho_forward(objective->device,
                            &(struct mt_ortho_forward_args){
                                .gram = gram,
                                .weight = weight,
                                .mask = mask,
                                .loss = mt_tensor_rows(&objective->ortho.loss, 0, gram.dim[0]),
                                .sum = mt_tensor_1d(call->statistics, MT_F64, 1),
                                .rows = mt_tensor_1d(call->statistics + 1, MT_F64, 1),
                                .form = objective->config.form,
                                .epsilon = epsilon_of(objective),
                                .gate = (float)objective->config.gate,
                            });
}

static int products(const struct mt_objective *objective, struct mt_stat_product *products)
{
    int64_t sum = (int64_t)objective->offset[MT_TERM_O];
    products[0] = (struct mt_stat_product){.x = sum,
                                           .y = -1,
                                           .count = 1,
                                           .over = sum + 1,
                                           .power = objective->config.ortho_sum ? 0 : 1,
                                           .factor = 1.0};
    return 1;
}

static enum mt_status find_coupling(const struct mt_term_call *call, struct mt_tensor *gram,
                                    const struct mt_tensor *coupling)
{
    const struct mt_objective *objective = call->objective;
    struct mt_tensor weight;
    struct mt_tensor mask;
    enum mt_status status = find_gram(call, gram, &weight, &mask);
    if (status != MT_OK) return status;
    return mt_ortho_backward(objective->device, &(struct mt_ortho_backward_args){
                                                    .gram = *gram,
                                                    .weight = weight,
                                                    .mask = mask,
                                                    .coupling = mt_tensor_rows(coupling, 0, gram->dim[0]),
                                                    .form = objective->config.form,
                                                    .epsilon = epsilon_of(objective),
                                                    .gate = (float)objective->config.gate,
                                                    .factor = mt_tensor_1d((void *)call->gradient, MT_F64, 1),
                                                    .scale = 1.0f,
                                                    .printed_gradient = objective->config.printed_gradient,
                                                });
}

static enum mt_status coupling_of_tokens(const struct mt_term_call *call, const struct mt_tensor *coupling)
{
    if (is_concat(call->objective)) {
        return mt_fill(call->objective->device, &(struct mt_fill_args){.y = *coupling, .value = 0.0f});
    }
    struct mt_tensor gram;
    return find_coupling(call, &gram, coupling);
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    (void)gradient; // the expert outputs are not part of it
    if (!is_concat(call->objective) || call->drows == NULL) return MT_OK;
    struct mt_tensor gram;
    const struct mt_tensor *work = &call->objective->ortho.coupling;
    enum mt_status status = find_coupling(call, &gram, work);
    if (status != MT_OK) return status;
    struct mt_tensor coupling = mt_tensor_rows(work, 0, gram.dim[0]);
    return mt_ortho_groups_backward(call, &coupling);
}

static enum mt_status norm(const struct mt_term_call *call, double *result)
{
    struct mt_tensor gram;
    const struct mt_tensor *work = &call->objective->ortho.coupling;
    enum mt_status status = find_coupling(call, &gram, work);
    if (status != MT_OK) return status;
    struct mt_tensor coupling = mt_tensor_rows(work, 0, gram.dim[0]);
    return mt_measure_coupled(call->objective, &gram, &coupling, result);
}

static enum mt_status check_single_slot(struct mt_context *ctx, const struct mt_objective_config *config,
                                        const struct mt_router_config *router, const char *prefix)
{
    (void)router;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "term o has coefficient %g, but each token has one expert: there is nothing to compare; "
                   "set %sbeta=0",
                   config->coefficient[MT_TERM_O], prefix);
}

const struct mt_term_kind mt_term_ortho = {
    .info =
        {.name = "o",
         .formula =
             "$L_o = \\frac{1}{N} \\sum_i \\sum_j \\sum_{m \\ne j} \\lVert \\operatorname{proj}_{x_{im}} "
             "x_{ij} "
             "\\rVert^2$: squared projections of a token's expert outputs onto each other, in the form that "
             "objective.form names.",
         .off = "L_o is off: beta is 0",
         .path = MT_PATH_OUTPUTS,
         .shown = {{"form", NULL},
                   {"grouping", NULL},
                   {"reduce", "mean"},
                   {"exclude_first", "false"},
                   {"gradient", "exact"},
                   {"scale", NULL}},
         .keys = (const char *const[]){"grouping", "form", "reduce", "exclude_first", "eps", "tau_gate",
                                       "gradient", NULL}},
    .check_single_slot = check_single_slot,
    .scaled = true,
    .needs_of = needs_of,
    .numbers = 2, // the sum over tokens or groups, how many there are
    .place = place,
    .forward = forward,
    .products = products,
    .coupling = coupling_of_tokens,
    .backward = backward,
    .norm = norm,
};
