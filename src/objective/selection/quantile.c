/*
 * Quantile balancing (Su, kexue.fm/archives/11619 and after; Megatron-LM, qb_dual_update). A token's
 * threshold is the first score that is not chosen. The bias of expert j becomes the one that would have put
 * as many tokens above their thresholds as balance asks for: minus the (Nk/n + 1)-th largest of score_ij -
 * threshold_i over the tokens i, the mean of the micro-batches weighted by their tokens, less the mean over
 * experts.
 */
#include "objective/selection/selection.h"

static bool is_on(const struct mt_objective_config *config)
{
    return config->bias_rule == MT_BIAS_QUANTILE;
}

static enum mt_status check(struct mt_context *ctx, const struct mt_router_config *router)
{
    if (router->group_rule == MT_GROUP_NONE) return mt_selection_check_bias(ctx, router);
    return mt_fail(
        ctx, MT_ERR_UNSUPPORTED,
        "objective.bias_rule: this router chooses groups of experts first, so no threshold decides "
        "who is chosen; choose another rule than quantile");
}

static size_t measures(int experts)
{
    return (size_t)experts + 1; // tokens · quantile [n], tokens [1]
}

static enum mt_status measure(struct mt_device *device, const struct mt_routing *record,
                              const struct mt_selection_numbers *numbers)
{
    return mt_balance_quantile(device,
                               &(struct mt_balance_quantile_args){
                                   .probs = record->probs,
                                   .bias = record->bias,
                                   .mask = record->mask,
                                   .margin = numbers->work,
                                   .sum = mt_tensor_1d(numbers->numbers, MT_F64, record->experts),
                                   .rows = mt_tensor_1d(numbers->numbers + record->experts, MT_F64, 1),
                                   .slots = record->slots,
                               });
}

static void after_step(const struct mt_objective_config *config, const struct mt_selection_step *step)
{
    (void)config;
    double tokens = step->measured[step->experts];
    double centre = 0.0;
    if (!(tokens > 0.0)) return;
    for (int j = 0; j < step->experts; j++) centre += step->measured[j] / tokens / step->experts;
    for (int j = 0; j < step->experts; j++) step->bias[j] = (float)(centre - step->measured[j] / tokens);
}

const struct mt_selection_rule mt_selection_quantile = {.is_on = is_on,
                                                        .has_bias = true,
                                                        .check = check,
                                                        .after_step = after_step,
                                                        .measures = measures,
                                                        .measure = measure};
