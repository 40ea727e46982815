/* Loss-free balancing: the selection bias moves against the loads of the step that just ended (2408.15664).
 */
#include "objective/selection/selection.h"

double mt_selection_total(const double *load, int experts)
{
    double total = 0.0;
    for (int j = 0; j < experts; j++) total += load[j];
    return total;
}

double mt_selection_shortfall(double total, int experts, double load)
{
    return (total - experts * load) / total;
}

void mt_bias_update(enum mt_bias_rule rule, double rate, const double *load, int experts, float *bias)
{
    if (load == NULL || bias == NULL) return;
    double total = mt_selection_total(load, experts);
    if ((rule != MT_BIAS_SIGN && rule != MT_BIAS_PROPORTIONAL) || !(total > 0.0)) return;
    for (int j = 0; j < experts; j++) {
        // In shares of the mean, so that the proportional rule's rate does not depend on the batch's size.
        double error = mt_selection_shortfall(total, experts, load[j]);
        double sign = (error > 0.0) - (error < 0.0);
        bias[j] = (float)((double)bias[j] + rate * (rule == MT_BIAS_SIGN ? sign : error));
    }
}

static bool is_on(const struct mt_objective_config *config)
{
    return config->bias_rule == MT_BIAS_SIGN || config->bias_rule == MT_BIAS_PROPORTIONAL;
}

enum mt_status mt_selection_check_bias(struct mt_context *ctx, const struct mt_router_config *router)
{
    if (router->kind != MT_ROUTER_SPARSEMIXER) return MT_OK;
    return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                   "objective.bias_rule: SparseMixer chooses without a bias; take another method");
}

static void after_step(const struct mt_objective_config *config, const struct mt_selection_step *step)
{
    mt_bias_update(config->bias_rule, config->bias_rate, step->load, step->experts, step->bias);
}

const struct mt_selection_rule mt_selection_bias = {
    .is_on = is_on, .has_bias = true, .check = mt_selection_check_bias, .after_step = after_step};
