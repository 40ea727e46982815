/*
 * L_v, minus the variance of routing scores s: the weights of the served slots, 0 elsewhere (scores=topk), or
 * all probabilities (scores=full). Over the N unmasked tokens i and the n experts j:
 *
 *     axis=expert  -(1/n) Σ_j [ (1/N) Σ_i s_ij² - ((1/N) Σ_i s_ij)² ]
 *     axis=token   -(1/N) Σ_i [ Σ_j s_ij² - (Σ_j s_ij)² / n ] / (n-1)
 *
 * The gradient is exact: the mean moves with the scores.
 */
#include "objective/objective.h"

// A layer's numbers: sum [n], squares [n], count [n], row_squares [1].
static size_t statistics(const struct mt_objective *objective)
{
    return 3 * (size_t)objective->shape.experts + 1;
}

static enum mt_status forward(const struct mt_term_call *call)
{
    const struct mt_objective *objective = call->objective;
    const struct mt_routing *record = call->record;
    int64_t experts = objective->shape.experts;
    struct mt_tensor sum = mt_tensor_2d(call->statistics, MT_F64, 1, experts);
    struct mt_tensor squares = mt_tensor_2d(call->statistics + experts, MT_F64, 1, experts);
    struct mt_tensor count = mt_tensor_2d(call->statistics + 2 * experts, MT_F64, 1, experts);
    struct mt_tensor row_squares = mt_tensor_1d(call->statistics + 3 * experts, MT_F64, 1);
    if (objective->config.full_scores) {
        return mt_column_stats_forward(objective->device, &(struct mt_column_stats_forward_args){
                                                              .x = record->probs,
                                                              .mask = record->mask,
                                                              .sum = sum,
                                                              .squares = squares,
                                                              .row_squares = row_squares,
                                                          });
    }
    return mt_slot_stats_forward(objective->device, &(struct mt_slot_stats_forward_args){
                                                        .expert = record->expert,
                                                        .weight = record->weight,
                                                        .mask = record->mask,
                                                        .count = count,
                                                        .sum = sum,
                                                        .squares = squares,
                                                        .row_squares = row_squares,
                                                    });
}

static void value_over_tokens(int experts, struct mt_term_view *view)
{
    const double *sum = view->statistics;
    const double *squares = sum + experts;
    double tokens = view->tokens;
    for (int j = 0; j < experts; j++) {
        double mean = sum[j] / tokens;
        view->loss -= (squares[j] / tokens - mean * mean) / experts;
        view->gradient[j] = 2.0 * mean / (tokens * experts);
        view->gradient[experts + j] = -1.0 / (tokens * experts);
    }
}

static void value_over_experts(int experts, struct mt_term_view *view)
{
    if (experts < 2) return; // one score has no variance
    const double *squares = view->statistics + experts;
    double row_squares = view->statistics[3 * experts];
    double share = 1.0 / (view->tokens * (experts - 1));
    for (int j = 0; j < experts; j++) {
        view->loss -= squares[j] * share;
        view->gradient[experts + j] = -share;
    }
    view->loss += row_squares * share / experts;
    view->gradient[3 * experts] = share / experts;
}

static void value(const struct mt_objective *objective, struct mt_term_view *views)
{
    int experts = objective->shape.experts;
    for (int l = 0; l < objective->shape.layers; l++) {
        if (views[l].tokens <= 0.0) continue;
        if (objective->config.axis == MT_AXIS_EXPERT) value_over_tokens(experts, &views[l]);
        if (objective->config.axis == MT_AXIS_TOKEN) value_over_experts(experts, &views[l]);
    }
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    const struct mt_objective *objective = call->objective;
    const struct mt_routing *record = call->record;
    int64_t experts = objective->shape.experts;
    double *given = (double *)call->gradient;
    struct mt_tensor dsum = mt_tensor_2d(given, MT_F64, 1, experts);
    struct mt_tensor dsquares = mt_tensor_2d(given + experts, MT_F64, 1, experts);
    struct mt_tensor drow_squares = mt_tensor_1d(given + 3 * experts, MT_F64, 1);
    if (objective->config.full_scores) {
        return mt_column_stats_backward(objective->device, &(struct mt_column_stats_backward_args){
                                                               .x = record->probs,
                                                               .mask = record->mask,
                                                               .dsum = dsum,
                                                               .dsquares = dsquares,
                                                               .drow_squares = drow_squares,
                                                               .dx = gradient->dprobs,
                                                               .accumulate = true,
                                                           });
    }
    return mt_slot_stats_backward(objective->device, &(struct mt_slot_stats_backward_args){
                                                         .expert = record->expert,
                                                         .weight = record->weight,
                                                         .mask = record->mask,
                                                         .dsum = dsum,
                                                         .dsquares = dsquares,
                                                         .drow_squares = drow_squares,
                                                         .dweight = gradient->dweight,
                                                         .accumulate = true,
                                                     });
}

static enum mt_status check_single_slot(struct mt_context *ctx, const struct mt_objective_config *config,
                                        const struct mt_router_config *router, const char *prefix)
{
    if (config->full_scores) return MT_OK;
    return mt_fail_same_weight(ctx, config, router, MT_TERM_V, "scores=full", prefix);
}

const struct mt_term_kind mt_term_variance = {
    .info = {.name = "v",
             .formula = "$L_v = -\\frac{1}{n} \\sum_j \\operatorname{var}_i(s_{ij})$ of the routing scores; "
                        "objective.axis and "
                        "objective.scores choose others.",
             .off = "L_v is off: gamma is 0",
             .path = MT_PATH_LOGITS,
             .shown = {{"axis", NULL}, {"scores", NULL}, {"brake", "none"}, {"scale", NULL}},
             .keys = (const char *const[]){"axis", "scores", "brake", "brake_target", NULL}},
    .check_single_slot = check_single_slot,
    .scaled = true,
    .statistics = statistics,
    .forward = forward,
    .value = value,
    .backward = backward,
};
