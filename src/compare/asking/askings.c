/* The list of askings. */
#include "compare/asking/askings.h"

#include <inttypes.h>
#include <stdio.h>

static size_t count_kept(const struct mt_compare_settings *settings)
{
    const struct mt_compare_pruning *pruning = &settings->pruning;
    return pruning->keeps * pruning->bys * pruning->scores;
}

size_t mt_compare_askings(const struct mt_compare_settings *settings)
{
    return count_kept(settings) + settings->slots.count + (settings->silence ? 1 : 0);
}

size_t mt_compare_asking_kept(const struct mt_compare_settings *settings, size_t score, size_t by,
                              size_t keep)
{
    return (score * settings->pruning.bys + by) * settings->pruning.keeps + keep;
}

size_t mt_compare_by_place(const struct mt_compare_settings *settings, enum mt_compare_by by)
{
    size_t place = 0;
    while (place < settings->pruning.bys && settings->pruning.by[place] != by) place++;
    return place;
}

struct mt_compare_asking mt_compare_asking(const struct mt_compare_settings *settings, size_t number)
{
    const struct mt_compare_pruning *pruning = &settings->pruning;
    struct mt_compare_asking asking = {.kind = MT_ASK_SILENT};
    size_t kept = count_kept(settings);
    if (number < kept) {
        asking.kind = MT_ASK_KEPT;
        asking.keep = number % pruning->keeps;
        asking.by = pruning->by[number / pruning->keeps % pruning->bys];
        asking.score = pruning->score[number / pruning->keeps / pruning->bys];
        (void)snprintf(asking.name, sizeof asking.name, "%s_%s_%.12s",
                       mt_expert_score_kind(asking.score)->name, mt_compare_by_name(asking.by),
                       pruning->keep[asking.keep]);
    } else if (number < kept + settings->slots.count) {
        asking.kind = MT_ASK_SLOTS;
        asking.slots = settings->slots.value[number - kept];
        (void)snprintf(asking.name, sizeof asking.name, "%" PRId64, asking.slots);
    } else {
        (void)snprintf(asking.name, sizeof asking.name, "routed");
    }
    return asking;
}

const char *mt_asking_key(enum mt_asking_kind kind)
{
    static const char *const keys[MT_ASK_KINDS] = {
        [MT_ASK_KEPT] = "pruned", [MT_ASK_SLOTS] = "experts_per_token", [MT_ASK_SILENT] = "silenced"};
    return keys[kind];
}
