/* Sentences about few experts. */
#include "compare/page/few_experts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/output.h"

static const char *const chosen_for[MT_COMPARE_BYS] = {
    [MT_COMPARE_BY_OWN] = "for the domain that is asked",
    [MT_COMPARE_BY_MIX] = "for all domains together",
    [MT_COMPARE_BY_OTHER] = "for another domain",
};

/* How many experts an asking leaves, of a cell or base of the model that has it. */
static bool look(const struct mt_cell_result *result, size_t place, double *kept, double *all)
{
    if (!result->known || result->asked == NULL || isnan(result->asked[place].experts)) return false;
    *kept = result->asked[place].experts;
    *all = (double)result->experts;
    return result->experts > 0;
}

static bool experts_of(const struct mt_comparison *comparison, size_t model, size_t place, double *kept,
                       double *all)
{
    for (size_t i = 0; i < mt_comparison_jobs(comparison); i++) {
        const struct mt_cell *cell = mt_comparison_job(comparison, i);
        if (cell->model == model && look(&cell->result, place, kept, all)) return true;
    }
    return false;
}

bool mt_few_experts(const struct mt_comparison *comparison, size_t model, struct mt_few_experts *few)
{
    const struct mt_compare_settings *settings = comparison->settings;
    const struct mt_compare_pruning *pruning = &settings->pruning;
    size_t own = mt_compare_by_place(settings, MT_COMPARE_BY_OWN);
    size_t by = own < pruning->bys ? own : 0;
    bool found = false;
    *few = (struct mt_few_experts){.kept = (double)NAN};
    for (size_t keep = 0; keep < pruning->keeps; keep++) {
        size_t place = mt_compare_asking_kept(settings, 0, by, keep);
        double kept = 0.0;
        if (!experts_of(comparison, model, place, &kept, &few->all) || (found && kept >= few->kept)) continue;
        found = true;
        few->kept = kept;
        few->column = mt_compare_probe_column(comparison, settings->prune.count + settings->at.count + place,
                                              MT_PROBE_ACCURACY);
    }
    if (!found) return false;
    few->score = mt_expert_score_kind(pruning->score[0])->name;
    few->by = chosen_for[pruning->by[by]];
    few->by_name = mt_compare_by_name(pruning->by[by]);
    return true;
}

/* Of the methods that are no points of a grid the best but the reference; settings.methods: there is none. */
static size_t best_other(const struct mt_compare_settings *settings, const struct mt_compare_summary *summary,
                         size_t reference)
{
    size_t best = settings->methods;
    for (size_t m = 0; m < settings->methods; m++) {
        if (m == reference || settings->method[m].in_grid || isnan(summary[m].paired.mean)) continue;
        if (best == settings->methods || summary[m].moments.mean > summary[best].moments.mean) best = m;
    }
    return best;
}

enum mt_few_verdict mt_few_methods(const struct mt_comparison *comparison, size_t model,
                                   char headline[MT_FEW_TEXT_BYTES], char text[MT_FEW_TEXT_BYTES])
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary few[MT_COMPARE_MOST_METHODS], all[MT_COMPARE_MOST_METHODS];
    struct mt_few_experts asked;
    size_t reference = mt_compare_reference(settings);
    if (!mt_few_experts(comparison, model, &asked)) return MT_FEW_NOTHING;
    mt_compare_summarize(comparison, model, asked.column, MT_ALL_DOMAINS, few);
    mt_compare_summarize(comparison, model, MT_COMPARE_ACCURACY, MT_ALL_DOMAINS, all);
    size_t best = best_other(settings, few, reference);
    if (best == settings->methods) return MT_FEW_NOTHING;
    const char *name = settings->method[best].name;
    const char *other = settings->reference;
    const struct mt_paired *paired = &few[best].paired;
    bool several = settings->models > 1;
    bool beyond = few[best].holm < MT_COMPARE_SIGNIFICANT;
    bool ahead = paired->mean > 0.0;
    char number[MT_NUMBER_BYTES], sure[96];
    if (isnan(few[best].holm))
        (void)snprintf(sure, sizeof sure, "With %s this may be chance",
                       settings->seeds == 1 ? "one seed" : "so few pairs");
    else
        (void)snprintf(sure, sizeof sure, "This is %s chance (p = %s)", beyond ? "beyond" : "not beyond",
                       mt_fixed_text(number, few[best].holm, 3, false));
    int used = snprintf(text, MT_FEW_TEXT_BYTES, "%.90s%s", several ? settings->model[model].name : "",
                        several ? ": with" : "With");
    (void)snprintf(
        text + used, MT_FEW_TEXT_BYTES - (size_t)used,
        " %.0f of %.0f experts a layer, chosen by %s %s, %.80s answers %.1f %% exactly and %.80s "
        "%.1f %%, a difference of %s points. %s. With all experts they answer %.1f %% and %.1f %%.",
        asked.kept, asked.all, asked.score, asked.by, name, 100.0 * few[best].moments.mean, other,
        100.0 * few[reference].moments.mean, mt_fixed_text(number, 100.0 * paired->mean, 1, true), sure,
        100.0 * all[best].moments.mean, 100.0 * all[reference].moments.mean);
    if (!beyond)
        (void)snprintf(headline, MT_FEW_TEXT_BYTES, "No method is shown to do better with few experts.");
    else
        (void)snprintf(headline, MT_FEW_TEXT_BYTES, "%.80s does better than %.80s with few experts.",
                       ahead ? name : "No method", other);
    return !beyond ? MT_FEW_CHANCE : ahead ? MT_FEW_AHEAD : MT_FEW_BEHIND;
}

enum mt_few_verdict mt_few_models(const struct mt_comparison *comparison, char headline[MT_FEW_TEXT_BYTES],
                                  char text[MT_FEW_TEXT_BYTES])
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t used = 0;
    size_t shown = 0;
    text[0] = '\0';
    for (size_t i = 0; settings->models > 1 && i < settings->models && used < MT_FEW_TEXT_BYTES; i++) {
        struct mt_few_experts asked;
        if (!mt_few_experts(comparison, i, &asked)) continue;
        double few = mt_compare_base(comparison, i, asked.column, MT_ALL_DOMAINS).mean;
        double all = mt_compare_base(comparison, i, MT_COMPARE_ACCURACY, MT_ALL_DOMAINS).mean;
        if (isnan(few) || isnan(all)) continue;
        used += (size_t)snprintf(
            text + used, MT_FEW_TEXT_BYTES - used,
            "%s%.90s answers %.1f %% exactly with %.0f of %.0f experts and %.1f %% with all",
            shown > 0 ? "; " : "", settings->model[i].name, 100.0 * few, asked.kept, asked.all, 100.0 * all);
        shown++;
    }
    if (shown < 2 || used >= MT_FEW_TEXT_BYTES) return MT_FEW_NOTHING;
    (void)snprintf(text + used, MT_FEW_TEXT_BYTES - used,
                   ". Each is one model: others trained the same way may differ.");
    (void)snprintf(headline, MT_FEW_TEXT_BYTES, "Before training.");
    return MT_FEW_BEFORE;
}
