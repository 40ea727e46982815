/* The terms, one row each; a new one is a file and a line here. */
#include "objective/parts.h"

const struct mt_term_kind *mt_term_kind(enum mt_term term)
{
    static const struct mt_term_kind *const kinds[MT_TERM_COUNT] = {
        [MT_TERM_AUX] = &mt_term_aux,
        [MT_TERM_O] = &mt_term_ortho,
        [MT_TERM_V] = &mt_term_variance,
        [MT_TERM_Z] = &mt_term_zloss,
        [MT_TERM_ROUTER_ORTH] = &mt_term_router_orth,
        [MT_TERM_SIMBAL] = &mt_term_simbal,
    };
    return kinds[term];
}

bool mt_terms_need(const struct mt_objective_config *config, enum mt_term_needs need)
{
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const struct mt_term_kind *kind = mt_term_kind((enum mt_term)term);
        if (!(config->coefficient[term] > 0.0) || kind->needs == NULL) continue;
        if ((kind->needs(config) & (int)need) != 0) return true;
    }
    return false;
}

const char *mt_term_name(enum mt_term term)
{
    return mt_term_kind(term)->name;
}
