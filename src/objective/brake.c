/*
 * The brake of L_v, which has no equilibrium of its own: a layer is no longer pushed while the running mean
 * of its variance stands at brake_target times its start or above (target), or all follow the learning rate
 * (decay).
 */
#include <math.h>

#include "objective/objective.h"

void mt_brake_update(struct mt_objective *objective, bool first)
{
    if (objective->config.brake != MT_BRAKE_TARGET) return;
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        struct mt_layer_state *state = &objective->layer_state[layer];
        double variance = fabs(objective->layers[layer].report.loss[MT_TERM_V]);
        if (first) {
            state->brake_start = variance;
            state->brake_mean = variance;
            continue;
        }
        state->brake_mean = mt_running_mean(state->brake_mean, variance, objective->config.running_decay);
    }
}

double mt_brake_factor(const struct mt_objective *objective, int layer, double progress)
{
    const struct mt_objective_config *config = &objective->config;
    const struct mt_layer_state *state = &objective->layer_state[layer];
    switch (config->brake) {
    case MT_BRAKE_NONE: return 1.0;
    case MT_BRAKE_DECAY: return progress;
    case MT_BRAKE_TARGET: {
        // A start of zero is no measure: nothing would ever be pushed.
        bool measurable = isfinite(state->brake_start) && state->brake_start > 0.0;
        bool reached = state->brake_mean >= config->brake_target * state->brake_start;
        return measurable && reached ? 0.0 : 1.0;
    }
    }
    return 1.0;
}
