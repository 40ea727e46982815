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

// A layer's numbers: sum [n], squares [n], row_squares [1].
static size_t numbers_of(const struct mt_objective *objective)
{
    return 2 * (size_t)objective->shape.experts + 1;
}

/* The numbers, or their gradient, as tensors. */
struct numbers {
    struct mt_tensor sum, squares, row_squares;
};

static struct numbers numbers_at(const struct mt_objective *objective, double *place)
{
    int64_t experts = objective->shape.experts;
    return (struct numbers){.sum = mt_tensor_2d(place, MT_F64, 1, experts),
                            .squares = mt_tensor_2d(place + experts, MT_F64, 1, experts),
                            .row_squares = mt_tensor_1d(place + 2 * experts, MT_F64, 1)};
}

static void join_loads(const struct mt_objective *objective, double *place,
                       struct mt_slot_stats_forward_args *args)
{
    struct numbers numbers = numbers_at(objective, place);
    if (objective->config.full_scores) return;
    args->sum = numbers.sum;
    args->squares = numbers.squares;
    args->row_squares = numbers.row_squares;
}

static enum mt_status forward(const struct mt_term_call *call)
{
    struct numbers numbers = numbers_at(call->objective, call->statistics);
    if (!call->objective->config.full_scores) return MT_OK; // the loads brought them
    return mt_column_stats_forward(call->objective->device, &(struct mt_column_stats_forward_args){
                                                                .x = call->record->probs,
                                                                .mask = call->record->mask,
                                                                .sum = numbers.sum,
                                                                .squares = numbers.squares,
                                                                .row_squares = numbers.row_squares,
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
    double row_squares = view->statistics[2 * experts];
    double share = 1.0 / (view->tokens * (experts - 1));
    for (int j = 0; j < experts; j++) {
        view->loss -= squares[j] * share;
        view->gradient[experts + j] = -share;
    }
    view->loss += row_squares * share / experts;
    view->gradient[2 * experts] = share / experts;
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

/* The same without its care for differences: a variance of zero may come out as rounding errors. */
static int products(const struct mt_objective *objective, struct mt_stat_product *products)
{
    double experts = objective->shape.experts;
    bool over_tokens = objective->config.axis == MT_AXIS_EXPERT;
    // One score has no variance over experts.
    double share = over_tokens ? 1.0 / experts : experts > 1.0 ? 1.0 / (experts - 1.0) : 0.0;
    struct mt_stat_product sum = {.x = (int64_t)objective->offset[MT_TERM_V],
                                  .count = objective->shape.experts,
                                  .over = objective->shape.experts};
    struct mt_stat_product squares = sum;
    struct mt_stat_product row_squares = sum;
    sum.y = sum.x;
    sum.power = 2;
    sum.factor = share;
    squares.x = sum.x + sum.count;
    squares.y = -1;
    squares.power = 1;
    squares.factor = -share;
    row_squares.x = squares.x + sum.count;
    row_squares.y = -1;
    row_squares.count = 1;
    row_squares.power = 1;
    row_squares.factor = share / experts;
    products[0] = squares;
    products[1] = over_tokens ? sum : row_squares;
    return 2;
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    const struct mt_objective *objective = call->objective;
    const struct mt_routing *record = call->record;
    struct numbers given = numbers_at(objective, (double *)call->gradient);
    if (objective->config.full_scores) {
        bool adds = mt_gradient_adds(&gradient->dprobs_empty);
        return mt_column_stats_backward(objective->device, &(struct mt_column_stats_backward_args){
                                                               .x = record->probs,
                                                               .mask = record->mask,
                                                               .dsum = given.sum,
                                                               .dsquares = given.squares,
                                                               .drow_squares = given.row_squares,
                                                               .dx = gradient->dprobs,
                                                               .accumulate = adds,
                                                           });
    }
    bool adds = mt_gradient_adds(&gradient->dweight_empty);
    return mt_slot_stats_backward(objective->device, &(struct mt_slot_stats_backward_args){
                                                         .expert = record->expert,
                                                         .weight = record->weight,
                                                         .mask = record->mask,
                                                         .dsum = given.sum,
                                                         .dsquares = given.squares,
                                                         .drow_squares = given.row_squares,
                                                         .dweight = gradient->dweight,
                                                         .accumulate = adds,
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
    .numbers_of = numbers_of,
    .join_loads = join_loads,
    .forward = forward,
    .products = products,
    .value = value,
    .backward = backward,
};
