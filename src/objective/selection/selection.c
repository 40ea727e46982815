/* The selection rules, from the list in metier/selection.h. */
#include "metier/selection.h"

#include "metier/ops.h"

#define DECLARE(name) extern const struct mt_selection_rule mt_selection_##name;
MT_SELECTION_RULES(DECLARE)
#undef DECLARE

#define LISTED(name) &mt_selection_##name,
static const struct mt_selection_rule *const rules[] = {MT_SELECTION_RULES(LISTED)};
#undef LISTED

#define RULES (sizeof rules / sizeof rules[0])

bool mt_selection_is_on(const struct mt_objective_config *config)
{
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->is_on(config)) return true;
    }
    return false;
}

bool mt_selection_has_bias(const struct mt_objective_config *config)
{
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->has_bias && rules[i]->is_on(config)) return true;
    }
    return false;
}

/* The rule of the method that drops slots; NULL: none does. */
static const struct mt_selection_rule *dropping(const struct mt_objective_config *config)
{
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->serve != NULL && rules[i]->is_on(config)) return rules[i];
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
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->check == NULL || !rules[i]->is_on(config)) continue;
        enum mt_status status = rules[i]->check(ctx, router);
        if (status != MT_OK) return status;
    }
    return MT_OK;
}

enum mt_status mt_selection_serve(struct mt_device *device, const struct mt_router_policy *policy,
                                  const struct mt_routing *record)
{
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
        if (rules[i]->memory != NULL && rules[i]->is_on(config)) numbers += rules[i]->memory(experts);
    }
    return numbers;
}

/* The rule of the method that measures; NULL: none does. */
static const struct mt_selection_rule *measuring(const struct mt_objective_config *config)
{
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->measure != NULL && rules[i]->is_on(config)) return rules[i];
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
    return rule != NULL ? rule->measure(device, record, numbers) : MT_OK;
}

void mt_selection_move(const struct mt_objective_config *config, const struct mt_selection_step *step)
{
    struct mt_selection_step own = *step;
    for (size_t i = 0; i < RULES; i++) {
        if (rules[i]->after_step == NULL || !rules[i]->is_on(config)) continue;
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
