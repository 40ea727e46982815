/* The selection rules, from the list in metier/selection.h. */
#include "metier/selection.h"

#include "base/given.h"
#include "metier/ops.h"

#define DECLARE(name) extern const struct mt_selection_rule mt_selection_##name;
MT_SELECTION_RULES(DECLARE)
#undef DECLARE

#define LISTED(name) &mt_selection_##name,
static const struct mt_selection_rule *const rules[] = {MT_SELECTION_RULES(LISTED)};
#undef LISTED

#define RULES (sizeof rules / sizeof rules[0])

static bool is_on(const struct mt_selection_rule *rule, const struct mt_objective_config *config)
{
    return config != NULL && rule->is_on(config);
}

bool mt_selection_is_on(const struct mt_objective_config *config)
{
    for (size_t i = 0; i < RULES; i++) {
        if (is_on(rules[i], config)) return true;
    }
    return false;
}

bool mt_selection_has_bias(const struct mt_objective_config *config)
{
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->has_bias && is_on(rules[i], config)) return true;
    }
    return false;
}

/* The rule of the method that has a pool; NULL: none does. */
static const struct mt_selection_rule *confining(const struct mt_objective_config *config)
{
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->confine != NULL && is_on(rules[i], config)) return rules[i];
    }
    return NULL;
}

bool mt_selection_pools(const struct mt_objective_config *config)
{
    return confining(config) != NULL;
}

/* The rule of the method that drops slots; NULL: none does. */
static const struct mt_selection_rule *dropping(const struct mt_objective_config *config)
{
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->serve != NULL && is_on(rules[i], config)) return rules[i];
    }
    return NULL;
}

bool mt_selection_drops(const struct mt_objective_config *config)
{
    return dropping(config) != NULL;
}

enum mt_status mt_selection_check(struct mt_context *ctx, const struct mt_objective_config *config,
                                  const struct mt_router_config *router)
{
    enum mt_status given = mt_given(ctx, "mt_selection_check", "router", router);
    if (given != MT_OK) return given;
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->check == NULL || !is_on(rules[i], config)) continue;
        enum mt_status status = rules[i]->check(ctx, router);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_selection_confine(struct mt_device *device, const struct mt_router_policy *policy,
                                    const struct mt_routing *record)
{
    struct mt_context *ctx = mt_device_context(device);
    enum mt_status given = mt_given(ctx, "mt_selection_confine", "policy", policy);
    if (given == MT_OK) given = mt_given(ctx, "mt_selection_confine", "record", record);
    if (given != MT_OK) return given;
    const struct mt_selection_rule *rule = policy->training ? confining(policy->method) : NULL;
    return rule != NULL ? rule->confine(device, policy, record) : MT_OK;
}

enum mt_status mt_selection_serve(struct mt_device *device, const struct mt_router_policy *policy,
                                  const struct mt_routing *record)
{
    struct mt_context *ctx = mt_device_context(device);
    enum mt_status given = mt_given(ctx, "mt_selection_serve", "policy", policy);
    if (given == MT_OK) given = mt_given(ctx, "mt_selection_serve", "record", record);
    if (given != MT_OK) return given;
    bool acts = policy->training && policy->method != NULL;
    const struct mt_selection_rule *rule = acts ? dropping(policy->method) : NULL;
    if (rule != NULL) return rule->serve(device, policy, record);
    if (record->expert.data == record->chosen.data) return MT_OK;
    return mt_copy(device, &(struct mt_copy_args){.x = record->chosen, .y = record->expert});
}

size_t mt_selection_memory(const struct mt_objective_config *config, int experts)
{
    size_t numbers = 0;
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->memory != NULL && is_on(rules[i], config)) numbers += rules[i]->memory(experts);
    }
    return numbers;
}

/* The rule of the method that measures; NULL: none does. */
static const struct mt_selection_rule *measuring(const struct mt_objective_config *config)
{
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->measure != NULL && is_on(rules[i], config)) return rules[i];
    }
    return NULL;
}

size_t mt_selection_measures(const struct mt_objective_config *config, int experts)
{
    const struct mt_selection_rule *rule = measuring(config);
    return rule != NULL ? rule->measures(experts) : 0;
}

enum mt_status mt_selection_measure(struct mt_device *device, const struct mt_objective_config *config,
                                    const struct mt_routing *record,
                                    const struct mt_selection_numbers *numbers)
{
    const struct mt_selection_rule *rule = measuring(config);
    struct mt_context *ctx = mt_device_context(device);
    enum mt_status given = mt_given(ctx, "mt_selection_measure", "record", record);
    if (given == MT_OK) given = mt_given(ctx, "mt_selection_measure", "numbers", numbers);
    if (given != MT_OK) return given;
    return rule != NULL ? rule->measure(device, record, numbers) : MT_OK;
}

void mt_selection_move(const struct mt_objective_config *config, const struct mt_selection_step *step)
{
    if (step == NULL || step->bias == NULL) return;
    struct mt_selection_step own = *step;
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->after_step == NULL || !is_on(rules[i], config)) continue;
        rules[i]->after_step(config, &own);
        if (rules[i]->memory != NULL) own.memory += rules[i]->memory(own.experts);
    }
}

void mt_selection_after_step(const struct mt_objective_config *config, const double *load, int experts,
                             float *bias)
{
    if (mt_selection_memory(config, experts) > 0 || mt_selection_measures(config, experts) > 0) return;
    mt_selection_move(config, &(struct mt_selection_step){.load = load, .experts = experts, .bias = bias});
}
