/* Keys that change nothing beside the others: those of a term that is off, or of a choice not made. */
#include <string.h>

#include "metier/objective.h"

static bool is_one_of(const char *key, const char *const *keys)
{
    for (; keys != NULL && *keys != NULL; keys++) {
        if (strcmp(*keys, key) == 0) return true;
    }
    return false;
}

const char *mt_objective_key_idle(const struct mt_objective_config *config, const char *key)
{
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_info *info = mt_term_info((enum mt_term)term);
        if (!mt_term_is_on(config, (enum mt_term)term) && is_one_of(key, info->keys)) return info->off;
    }
    bool target = config->brake == MT_BRAKE_TARGET;
    const struct {
        const char *key;
        bool idle;
        const char *why;
    } rules[] = {
        {"brake_target", !target, "brake is not target"},
        {"running_decay", config->scale != MT_SCALE_RUNNING && !target,
         "neither scale is running nor brake target"},
        {"bias_rate", config->bias_rule == MT_BIAS_NONE, "bias_rule is none"},
        {"capacity_min", config->capacity_factor == 0.0, "capacity is 0"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].idle && strcmp(rules[i].key, key) == 0) return rules[i].why;
    }
    return NULL;
}
