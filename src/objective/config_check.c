/* Which configurations cannot be: single values first, then pairs that contradict each other. */
#include <math.h>
#include <string.h>

#include "base/given.h"
#include "objective/objective.h"

static bool is_strength(double value)
{
    return isfinite(value) && value >= 0.0;
}

static enum mt_status check_strengths(struct mt_context *ctx, const struct mt_objective_config *c)
{
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (is_strength(c->coefficient[term])) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "the coefficient of term %s is %g, expected 0 or more",
                       mt_term_name((enum mt_term)term), c->coefficient[term]);
    }
    const struct {
        const char *name;
        double value;
    } strengths[] = {
        {"eps", c->ortho_epsilon},
        {"tau_gate", c->gate},
        {"bias_rate", c->bias_rate},
        {"capacity", c->capacity_factor},
        {"jitter", c->jitter},
        {"drop_threshold", c->drop_threshold},
        {"running_decay", c->running_decay},
        {"erc_alpha", c->erc_alpha},
        {"erc_noise", c->erc_noise},
        {"bias_momentum", c->bias_momentum},
        {"bias_clamp", c->bias_clamp},
    };
    for (size_t i = 0; i < sizeof strengths / sizeof strengths[0]; i++) {
        if (is_strength(strengths[i].value)) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "%s is %g, expected 0 or more", strengths[i].name,
                       strengths[i].value);
    }
    if (c->running_decay >= 1.0) {
        return mt_fail(ctx, MT_ERR_USAGE, "running_decay is %g, expected less than 1", c->running_decay);
    }
    if (c->erc_noise > 1.0) {
        return mt_fail(ctx, MT_ERR_USAGE, "erc_noise is %g, expected 1 at the most", c->erc_noise);
    }
    if (c->bias_momentum >= 1.0) {
        return mt_fail(ctx, MT_ERR_USAGE, "bias_momentum is %g, expected less than 1", c->bias_momentum);
    }
    if (c->jitter >= 1.0) {
        return mt_fail(ctx, MT_ERR_USAGE, "jitter is %g, expected less than 1", c->jitter);
    }
    if (c->drop_threshold > 1.0) {
        return mt_fail(ctx, MT_ERR_USAGE, "drop_threshold is %g, expected 1 at the most", c->drop_threshold);
    }
    if (c->capacity_minimum < 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "capacity_min is %lld, expected 0 or more",
                       (long long)c->capacity_minimum);
    }
    return MT_OK;
}

static enum mt_status check_choices(struct mt_context *ctx, const struct mt_objective_config *c)
{
    const struct {
        const char *name;
        unsigned value;
        unsigned last;
    } choices[] = {
        {"aux", (unsigned)c->aux, MT_AUX_GLOBAL},
        {"grouping", (unsigned)c->grouping, MT_GROUPING_EXPERT_CONCAT},
        {"form", (unsigned)c->form, MT_ORTHO_COSINE},
        {"axis", (unsigned)c->axis, MT_AXIS_TOKEN},
        {"brake", (unsigned)c->brake, MT_BRAKE_DECAY},
        {"scale", (unsigned)c->scale, MT_SCALE_NONE},
        {"bias_rule", (unsigned)c->bias_rule, MT_BIAS_QUANTILE},
    };
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (choices[i].value <= choices[i].last) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "%s has no choice number %u", choices[i].name, choices[i].value);
    }
    return MT_OK;
}

enum mt_status mt_objective_config_check(struct mt_context *ctx, const struct mt_objective_config *config)
{
    enum mt_status status = mt_given(ctx, "mt_objective_config_check", "config", config);
    if (status == MT_OK) status = check_strengths(ctx, config);
    if (status != MT_OK) return status;
    status = check_choices(ctx, config);
    if (status != MT_OK) return status;
    if (config->printed_gradient && config->form != MT_ORTHO_PAIRWISE) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "gradient=paper is the paper's gradient of the pairwise form: set form=pairwise or "
                       "gradient=exact");
    }
    if (config->gate > 0.0 && config->grouping == MT_GROUPING_EXPERT_CONCAT) {
        return mt_fail(
            ctx, MT_ERR_USAGE,
            "tau_gate looks at a token's own slots, which grouping=expert-concat does not have: set "
            "tau_gate=0 or grouping=token");
    }
    if (config->brake == MT_BRAKE_TARGET && !(config->brake_target > 1.0 && isfinite(config->brake_target))) {
        return mt_fail(ctx, MT_ERR_USAGE, "brake_target is %g, expected more than 1", config->brake_target);
    }
    bool has_rate = config->bias_rule != MT_BIAS_NONE && config->bias_rule != MT_BIAS_QUANTILE;
    if (has_rate && config->bias_rate == 0.0) {
        return mt_fail(ctx, MT_ERR_USAGE, "bias_rate is 0: the bias would never move; set bias_rule=none");
    }
    if (config->pool && config->bias_rule == MT_BIAS_QUANTILE) {
        return mt_fail(ctx, MT_ERR_USAGE,
                       "bias_rule=quantile needs the first score that is not chosen, which a pool of k "
                       "experts does not have: set pool=false or choose another rule");
    }
    if (config->router_orth_groups < 0) {
        return mt_fail(ctx, MT_ERR_USAGE, "orth_groups is %d, expected 1 or more",
                       config->router_orth_groups);
    }
    return MT_OK;
}

struct mt_router_policy mt_objective_policy(const struct mt_objective_config *config, bool training,
                                            uint64_t stream)
{
    return (struct mt_router_policy){
        .training = training, .method = config, .seed = config != NULL ? config->seed : 0, .stream = stream};
}

// ------------------------------------------------------------------ keys that change nothing

static bool is_one_of(const char *key, const char *const *keys)
{
    for (; keys != NULL && *keys != NULL; keys++) {
        if (strcmp(*keys, key) == 0) return true;
    }
    return false;
}

bool mt_objective_key_is_noise(const char *key)
{
    static const char *const keys[] = {"jitter",    "drop_threshold", "capacity", "capacity_min",
                                       "erc_noise", "pool",           "seed",     NULL};
    return is_one_of(key, keys);
}

bool mt_objective_draws(const struct mt_objective_config *config, const struct mt_router_config *router)
{
    bool noisy_rows = mt_term_is_on(config, MT_TERM_ERC) && config->erc_noise > 0.0;
    return config->drop_threshold > 0.0 || config->jitter > 0.0 || noisy_rows || config->pool ||
           router->kind == MT_ROUTER_SPARSEMIXER;
}

const char *mt_objective_key_idle(const struct mt_objective_config *config, const char *key)
{
    if (config == NULL || key == NULL) return NULL;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_info *info = mt_term_info((enum mt_term)term);
        if (!mt_term_is_on(config, (enum mt_term)term) && is_one_of(key, info->keys)) return info->off;
    }
    bool varies = mt_term_is_on(config, MT_TERM_V);
    bool scaled = varies || mt_term_is_on(config, MT_TERM_O);
    bool target = varies && config->brake == MT_BRAKE_TARGET;
    const struct {
        const char *key;
        bool idle;
        const char *why;
    } rules[] = {
        {"brake_target", !target, "brake is not target"},
        {"scale", !scaled, "L_o and L_v are off: beta and gamma are 0"},
        {"running_decay", !(scaled && config->scale == MT_SCALE_RUNNING) && !target,
         "no term has scale=running or brake=target"},
        {"bias_rate", config->bias_rule == MT_BIAS_NONE, "bias_rule is none"},
        {"bias_rate", config->bias_rule == MT_BIAS_QUANTILE, "bias_rule is quantile, which has no rate"},
        {"bias_momentum", config->bias_rule != MT_BIAS_SMEBU, "bias_rule is not smebu"},
        {"bias_clamp", config->bias_rule != MT_BIAS_SMEBU, "bias_rule is not smebu"},
        {"capacity_min", config->capacity_factor == 0.0, "capacity is 0"},
        {"allow_indirect", !mt_objective_has_terms(config), "no term is on"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].idle && strcmp(rules[i].key, key) == 0) return rules[i].why;
    }
    return NULL;
}
