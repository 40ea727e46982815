/* What cells are asked besides the end of training, as columns of tables. */
#include <stdio.h>
#include <string.h>

#include "compare/compare.h"

#define LINE_BYTES 300

static const struct {
    const char *name, *title, *formula;
    int better;
    double factor;
    int decimals;
} parts[MT_PROBE_PARTS] = {
    [MT_PROBE_ACCURACY] = {"accuracy", "exact %", "100 · exact answers / held-out problems", 1, 100.0, 1},
    [MT_PROBE_LOSS] = {"loss", "L_h", "mean cross-entropy of the answers' tokens", -1, 1.0, 4},
    [MT_PROBE_CHANGE] = {"change", "Δ exact", "points of 100 less than at the end, with all experts", 1,
                         100.0, 1},
};

/* How a probe is called: "pruned_4", "4 pruned". */
static enum mt_status add(struct mt_comparison *comparison, struct mt_compare_probe probe, const char *name,
                          const char *title)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < MT_PROBE_PARTS && status == MT_OK; i++) {
        char line[LINE_BYTES];
        const char *texts[2] = {NULL, NULL};
        (void)snprintf(line, sizeof line, "%.60s_%s", name, parts[i].name);
        status = mt_arena_copy_text(&comparison->arena, line, strlen(line), &texts[0]);
        (void)snprintf(line, sizeof line, "%s, %.80s", parts[i].title, title);
        if (status == MT_OK) status = mt_arena_copy_text(&comparison->arena, line, strlen(line), &texts[1]);
        probe.row[i] = (struct mt_compare_figure_row){.name = texts[0],
                                                      .title = texts[1],
                                                      .formula = parts[i].formula,
                                                      .better = parts[i].better,
                                                      .factor = parts[i].factor,
                                                      .decimals = parts[i].decimals};
    }
    comparison->probe[comparison->probes++] = probe;
    return status;
}

static enum mt_status add_numbers(struct mt_comparison *comparison, enum mt_probe_source source,
                                  const struct mt_compare_probes *numbers)
{
    bool pruned = source == MT_PROBE_PRUNED;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < numbers->count && status == MT_OK; i++) {
        long long value = (long long)numbers->value[i];
        char name[LINE_BYTES], title[LINE_BYTES];
        (void)snprintf(name, sizeof name, pruned ? "pruned_%lld" : "step_%lld", value);
        (void)snprintf(title, sizeof title, pruned ? "%lld pruned" : "step %lld", value);
        status = add(comparison, (struct mt_compare_probe){.source = source, .place = i}, name, title);
    }
    return status;
}

static enum mt_status add_asking(struct mt_comparison *comparison, size_t place)
{
    struct mt_compare_asking asking = mt_compare_asking(comparison->settings, place);
    char name[LINE_BYTES], title[LINE_BYTES];
    (void)snprintf(name, sizeof name, "%s_%s", mt_asking_key(asking.kind), asking.name);
    (void)snprintf(title, sizeof title, "%s %s", mt_asking_key(asking.kind), asking.name);
    return add(comparison, (struct mt_compare_probe){.source = MT_PROBE_ASKED, .place = place}, name, title);
}

/* Own less mix, of every score and amount, where both are asked. */
static enum mt_status add_spreads(struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_compare_pruning *pruning = &settings->pruning;
    size_t own = mt_compare_by_place(settings, MT_COMPARE_BY_OWN);
    size_t mix = mt_compare_by_place(settings, MT_COMPARE_BY_MIX);
    enum mt_status status = MT_OK;
    if (own == pruning->bys || mix == pruning->bys) return MT_OK;
    for (size_t i = 0; i < pruning->scores * pruning->keeps && status == MT_OK; i++) {
        size_t score = i / pruning->keeps;
        size_t keep = i % pruning->keeps;
        char name[LINE_BYTES], title[LINE_BYTES];
        const char *called = mt_expert_score_kind(pruning->score[score])->name;
        (void)snprintf(name, sizeof name, "pruned_%s_own-mix_%.12s", called, pruning->keep[keep]);
        (void)snprintf(title, sizeof title, "own - mix, %s %.12s", called, pruning->keep[keep]);
        status = add(comparison,
                     (struct mt_compare_probe){.source = MT_PROBE_SPREAD,
                                               .place = mt_compare_asking_kept(settings, score, own, keep),
                                               .other = mt_compare_asking_kept(settings, score, mix, keep)},
                     name, title);
    }
    return status;
}

enum mt_status mt_comparison_list_probes(struct mt_comparison *comparison)
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t askings = mt_compare_askings(settings);
    size_t most = settings->prune.count + settings->at.count + 2 * askings;
    enum mt_status status = MT_OK;
    comparison->probe = mt_arena_array(&comparison->arena, most + 1, sizeof *comparison->probe, &status);
    if (status == MT_OK) status = add_numbers(comparison, MT_PROBE_PRUNED, &settings->prune);
    if (status == MT_OK) status = add_numbers(comparison, MT_PROBE_AT, &settings->at);
    for (size_t i = 0; i < askings && status == MT_OK; i++) status = add_asking(comparison, i);
    return status == MT_OK ? add_spreads(comparison) : status;
}
