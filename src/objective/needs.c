/* What the terms of a method ask of a layer. */
#include "objective/objective.h"

static int terms_needs(const struct mt_objective_config *config)
{
    int needs = 0;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        if (mt_term_is_on(config, (enum mt_term)term) && kind->needs != NULL) needs |= kind->needs(config);
    }
    return needs;
}

bool mt_terms_need(const struct mt_objective_config *config, enum mt_term_needs need)
{
    return (terms_needs(config) & (int)need) != 0;
}

int mt_objective_needs(const struct mt_objective_config *config)
{
    return terms_needs(config) | (mt_scale_needs_router(config) ? MT_NEEDS_ROUTER_WEIGHT : 0) |
           (config->dense_router ? MT_NEEDS_DENSE_BACKWARD : 0);
}
