/* The terms, from the list in metier/terms.h. */
#include "objective/objective.h"

const struct mt_term_kind *mt_term_kind(enum mt_term term)
{
#define KIND(id, kind, key, meaning) &mt_term_##kind,
    static const struct mt_term_kind *const kinds[MT_TERM_COUNT] = {MT_TERMS(KIND)};
#undef KIND
    return (unsigned)term < MT_TERM_COUNT ? kinds[term] : NULL;
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
    return (unsigned)term < MT_TERM_COUNT ? keys[term] : NULL;
}

const struct mt_term_info *mt_term_info(enum mt_term term)
{
    const struct mt_term_kind *kind = mt_term_kind(term);
    return kind != NULL ? &kind->info : NULL;
}

const char *mt_term_name(enum mt_term term)
{
    const struct mt_term_info *info = mt_term_info(term);
    return info != NULL ? info->name : "unknown term";
}

bool mt_term_is_on(const struct mt_objective_config *config, enum mt_term term)
{
    return config != NULL && (unsigned)term < MT_TERM_COUNT && config->coefficient[term] > 0.0;
}

bool mt_objective_has_terms(const struct mt_objective_config *config)
{
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (mt_term_is_on(config, (enum mt_term)term)) return true;
    }
    return false;
}
