/*
 * Soft-clamped momentum expert bias updates (Arcee Trinity, 2602.17004). With the step's loads c_j and their
 * mean c:
 *
 *     u_j = tanh(bias_clamp · (c - c_j) / c), less the mean of u over the experts
 *     m_j = bias_momentum · m_j + (1 - bias_momentum) · bias_rate · u_j
 *     b_j = b_j + m_j
 */
#include <math.h>

#include "objective/selection/selection.h"

static bool is_on(const struct mt_objective_config *config)
{
    return config->bias_rule == MT_BIAS_SMEBU;
}

static size_t memory(int experts)
{
    return (size_t)experts; // m
}

static void after_step(const struct mt_objective_config *config, const struct mt_selection_step *step)
{
    int experts = step->experts;
    double clamp = config->bias_clamp;
    if (step->load == NULL || step->memory == NULL) return;
    double total = mt_selection_total(step->load, experts);
    double centre = 0.0;
    if (!(total > 0.0)) return;
    for (int j = 0; j < experts; j++)
        centre += tanh(clamp * mt_selection_shortfall(total, experts, step->load[j])) / experts;
    for (int j = 0; j < experts; j++) {
        double push = tanh(clamp * mt_selection_shortfall(total, experts, step->load[j])) - centre;
        double fresh = (1.0 - config->bias_momentum) * config->bias_rate * push;
        step->memory[j] = config->bias_momentum * step->memory[j] + fresh;
        step->bias[j] = (float)((double)step->bias[j] + step->memory[j]);
    }
}

const struct mt_selection_rule mt_selection_smebu = {.is_on = is_on,
                                                     .has_bias = true,
                                                     .check = mt_selection_check_bias,
                                                     .after_step = after_step,
                                                     .memory = memory};
