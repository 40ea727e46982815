/* Keys that change nothing beside the others: those of a term that is off, or of a choice not made. */
#include <string.h>

#include "metier/objective.h"

const char *mt_objective_key_idle(const struct mt_objective_config *config, const char *key)
{
    static const char no_aux[] = "L_aux is off: alpha is 0";
    static const char no_o[] = "L_o is off: beta is 0";
    static const char no_v[] = "L_v is off: gamma is 0";
    bool aux = config->coefficient[MT_TERM_AUX] > 0.0;
    bool o = config->coefficient[MT_TERM_O] > 0.0;
    bool v = config->coefficient[MT_TERM_V] > 0.0;
    bool target = config->brake == MT_BRAKE_TARGET;
    const struct {
        const char *key;
        bool idle;
        const char *why;
    } rules[] = {
        {"aux", !aux, no_aux},
        {"grouping", !o, no_o},
        {"form", !o, no_o},
        {"reduce", !o, no_o},
        {"exclude_first", !o, no_o},
        {"eps", !o, no_o},
        {"tau_gate", !o, no_o},
        {"gradient", !o, no_o},
        {"axis", !v, no_v},
        {"scores", !v, no_v},
        {"brake", !v, no_v},
        {"brake_target", !v, no_v},
        {"brake_target", !target, "brake is not target"},
        {"running_decay", config->scale != MT_SCALE_RUNNING && !target,
         "neither scale is running nor brake target"},
        {"orth_groups", !(config->coefficient[MT_TERM_ROUTER_ORTH] > 0.0),
         "router orthogonality is off: lambda_orth is 0"},
        {"bias_rate", config->bias_rule == MT_BIAS_NONE, "bias_rule is none"},
        {"capacity_min", config->capacity_factor == 0.0, "capacity is 0"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].idle && strcmp(rules[i].key, key) == 0) return rules[i].why;
    }
    return NULL;
}
