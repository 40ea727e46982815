/* The terms, from the list in metier/terms.h. */
#include "objective/objective.h"

const struct mt_term_kind *mt_term_kind(enum mt_term term)
{
#define KIND(id, kind, key, meaning) &mt_term_##kind,
    static const struct mt_term_kind *const kinds[MT_TERM_COUNT] = {MT_TERMS(KIND)};
#undef KIND
    return kinds[term];
}

int mt_term_count(void)
{
    return MT_TERM_COUNT;
}

const char *mt_term_key(enum mt_term term)
{
#define KEY(id, kind, key, meaning) key,
    static const char *const keys[MT_TERM_COUNT] = {MT_TERMS(KEY)};
#undef KEY
    return keys[term];
}

const struct mt_term_info *mt_term_info(enum mt_term term)
{
    return &mt_term_kind(term)->info;
}

const char *mt_term_name(enum mt_term term)
{
    return mt_term_info(term)->name;
}

bool mt_term_is_on(const struct mt_objective_config *config, enum mt_term term)
{
    return config->coefficient[term] > 0.0;
}

bool mt_objective_has_terms(const struct mt_objective_config *config)
{
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (mt_term_is_on(config, (enum mt_term)term)) return true;
    }
    return false;
}
