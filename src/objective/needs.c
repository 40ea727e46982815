/* What the terms of a method ask of a layer. */
#include "objective/objective.h"

size_t mt_term_numbers(const struct mt_objective *objective, enum mt_term term)
{
    const struct mt_term_kind *kind = mt_term_kind(term);
    return kind->numbers > 0 ? kind->numbers : kind->numbers_of(objective);
}

int mt_term_all_needs(const struct mt_objective_config *config, enum mt_term term)
{
    const struct mt_term_kind *kind = mt_term_kind(term);
    return kind->needs | (kind->needs_of != NULL ? kind->needs_of(config) : 0);
}

static int terms_needs(const struct mt_objective_config *config)
{
    int needs = 0;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (mt_term_is_on(config, (enum mt_term)term)) needs |= mt_term_all_needs(config, (enum mt_term)term);
    }
    return needs;
}

bool mt_terms_need(const struct mt_objective_config *config, enum mt_term_needs need)
{
    return (terms_needs(config) & (int)need) != 0;
}

enum mt_status mt_terms_check_alone(struct mt_context *ctx, const struct mt_objective_config *config,
                                    const char *who)
{
    static const struct {
        int need;
        const char *what;
    } beyond[] = {
        {MT_NEEDS_NEIGHBOURS, "the MoE layers before and after"},
        {MT_NEEDS_INNER_GRAM, "the experts' activations"},
        {MT_NEEDS_PROXIES, "the experts' weights"},
    };
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        bool on = mt_term_is_on(config, (enum mt_term)term);
        for (size_t i = 0; on && i < sizeof beyond / sizeof beyond[0]; i++) {
            if ((mt_term_all_needs(config, (enum mt_term)term) & beyond[i].need) == 0) continue;
            return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                           "term %s needs %s, which %s not have: train a model with it, or set %s=0",
                           mt_term_name((enum mt_term)term), beyond[i].what, who,
                           mt_term_key((enum mt_term)term));
        }
    }
    return MT_OK;
}

int mt_objective_needs(const struct mt_objective_config *config)
{
    if (config == NULL) return 0;
    return terms_needs(config) | (mt_scale_needs_router(config) ? MT_NEEDS_ROUTER_WEIGHT : 0) |
           (config->dense_router ? MT_NEEDS_DENSE_BACKWARD : 0);
}
