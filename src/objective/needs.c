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

enum mt_status mt_terms_check_alone(struct mt_context *ctx, const struct mt_objective_config *config,
                                    const char *who)
{
    static const struct {
        int need;
        const char *what;
    } beyond[] = {
        {MT_NEEDS_NEIGHBOURS, "the MoE layers before and after"},
        {MT_NEEDS_ALL_OUTPUTS, "the outputs of all experts"},
        {MT_NEEDS_INNER_GRAM, "the experts' activations"},
        {MT_NEEDS_PROXIES, "the experts' weights"},
    };
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        bool asks = mt_term_is_on(config, (enum mt_term)term) && kind->needs != NULL;
        for (size_t i = 0; asks && i < sizeof beyond / sizeof beyond[0]; i++) {
            if ((kind->needs(config) & beyond[i].need) == 0) continue;
            return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                           "term %s needs %s, which %s not have: train a model with it, or set %s=0",
                           kind->info.name, beyond[i].what, who, mt_term_key((enum mt_term)term));
        }
    }
    return MT_OK;
}

int mt_objective_needs(const struct mt_objective_config *config)
{
    return terms_needs(config) | (mt_scale_needs_router(config) ? MT_NEEDS_ROUTER_WEIGHT : 0) |
           (config->dense_router ? MT_NEEDS_DENSE_BACKWARD : 0);
}
