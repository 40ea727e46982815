/*
 * Weights of the scaled terms (L_o, L_v) so that they start at a known strength:
 *
 *     once        β · L_aux(0) / |L(0)|, from the first batch: the term starts at β · L_aux(0)
 *     running     the same with running means of both
 *     once-pow10  10^rint(log10(β / L)), the authors' code; L is that of the first layer's router rows
 *                 (L_o), or of the first layer's first batch (L_v)
 *     none        β
 *
 * A form that is free of scale (cosine, and the variance of scores) has one weight for all layers, from means
 * over layers; the others have one per layer. Weights are constants of the gradient.
 */
#include <math.h>

#include "objective/objective.h"

static bool is_on(const struct mt_objective_config *config, enum mt_term term)
{
    return mt_term_kind(term)->scaled && mt_term_is_on(config, term);
}

static bool any_scaled(const struct mt_objective_config *config)
{
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (is_on(config, (enum mt_term)term)) return true;
    }
    return false;
}

bool mt_scale_needs_aux(const struct mt_objective_config *config)
{
    return (config->scale == MT_SCALE_ONCE || config->scale == MT_SCALE_RUNNING) && any_scaled(config);
}

bool mt_scale_needs_router(const struct mt_objective_config *config)
{
    return config->scale == MT_SCALE_ONCE_POW10 && mt_term_is_on(config, MT_TERM_O);
}

double mt_running_mean(double mean, double value, double decay)
{
    return isfinite(value) ? decay * mean + (1.0 - decay) * value : mean;
}

/* L_o in forms that grow with the outputs differs by orders of magnitude between layers. */
static bool is_per_layer(const struct mt_objective_config *config, enum mt_term term)
{
    return term == MT_TERM_O && config->form != MT_ORTHO_COSINE;
}

/* β · aux / |loss|, or β itself, with a note, where that is not a number. */
static double ratio_weight(struct mt_objective *objective, enum mt_term term, double aux, double loss)
{
    double coefficient = objective->config.coefficient[term];
    double weight = coefficient * aux / fabs(loss);
    if (isfinite(weight) && weight > 0.0) return weight;
    objective->state->unscaled[term] = 1.0;
    return coefficient;
}

/* Sets the weights of a term from a value of L_aux and of the term for every layer. */
static void weigh_by_ratio(struct mt_objective *objective, enum mt_term term, bool running)
{
    int layers = objective->shape.layers;
    double aux_mean = 0.0;
    double loss_mean = 0.0;
    objective->state->unscaled[term] = 0.0;
    for (int layer = 0; layer < layers; layer++) {
        const struct mt_layer_report *report = &objective->layers[layer].report;
        struct mt_layer_state *state = &objective->layer_state[layer];
        double aux = running ? state->mean[MT_TERM_AUX] : report->loss[MT_TERM_AUX];
        double loss = running ? state->mean[term] : report->loss[term];
        if (is_per_layer(&objective->config, term)) {
            state->weight[term] = ratio_weight(objective, term, aux, loss);
        }
        aux_mean += aux / layers;
        loss_mean += loss / layers;
    }
    if (is_per_layer(&objective->config, term)) return;
    double weight = ratio_weight(objective, term, aux_mean, loss_mean);
    for (int layer = 0; layer < layers; layer++) objective->layer_state[layer].weight[term] = weight;
}

static void weigh_by_power_of_ten(struct mt_objective *objective, enum mt_term term)
{
    double target = objective->config.coefficient[term];
    double loss = term == MT_TERM_O ? objective->state->router_projection
                                    : fabs(objective->layers[0].report.loss[term]);
    double weight = pow(10.0, rint(log10(target / loss)));
    bool usable = isfinite(weight) && weight > 0.0;
    objective->state->unscaled[term] = usable ? 0.0 : 1.0;
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        objective->layer_state[layer].weight[term] = usable ? weight : target;
    }
}

static void update_means(struct mt_objective *objective, bool first)
{
    double decay = first ? 0.0 : objective->config.running_decay;
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        struct mt_layer_state *state = &objective->layer_state[layer];
        for (int term = 0; term < MT_TERM_COUNT; term++) {
            double loss = objective->layers[layer].report.loss[term];
            state->mean[term] = mt_running_mean(state->mean[term], loss, decay);
        }
    }
}

/* What the batch decides or moves; called for batches with tokens only. */
static void update(struct mt_objective *objective)
{
    const struct mt_objective_config *config = &objective->config;
    bool first = objective->state->decided == 0.0;
    if (config->scale == MT_SCALE_RUNNING) update_means(objective, first);
    for (int index = 0; index < MT_TERM_COUNT; index++) {
        enum mt_term term = (enum mt_term)index;
        if (!is_on(config, term)) continue;
        switch (config->scale) {
        case MT_SCALE_RUNNING: weigh_by_ratio(objective, term, true); break;
        case MT_SCALE_ONCE:
            if (first) weigh_by_ratio(objective, term, false);
            break;
        case MT_SCALE_ONCE_POW10:
            if (first) weigh_by_power_of_ten(objective, term);
            break;
        case MT_SCALE_NONE: break;
        }
    }
    mt_brake_update(objective, first);
    objective->state->decided = 1.0;
}

bool mt_scale_is_known(const struct mt_objective *objective)
{
    return objective->state->decided != 0.0 && objective->config.scale != MT_SCALE_RUNNING &&
           objective->config.brake != MT_BRAKE_TARGET;
}

void mt_scale_weigh(struct mt_objective *objective, bool has_tokens, double progress)
{
    const struct mt_objective_config *config = &objective->config;
    if (has_tokens) update(objective);
    bool decided = objective->state->decided != 0.0 && config->scale != MT_SCALE_NONE;
    for (int layer = 0; layer < objective->shape.layers; layer++) {
        double *weight = objective->layers[layer].report.weight;
        for (int index = 0; index < MT_TERM_COUNT; index++) {
            enum mt_term term = (enum mt_term)index;
            weight[term] = config->coefficient[term];
            if (decided && is_on(config, term)) weight[term] = objective->layer_state[layer].weight[term];
        }
        weight[MT_TERM_V] *= mt_brake_factor(objective, layer, progress);
    }
}
