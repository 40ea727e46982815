/* Cells asked with few experts: the best by a score, fewer a token, none of the routed ones. */
#include <math.h>
#include <stdio.h>

#include "compare/page/few_experts.h"
#include "compare/page/parts.h"

#define INTERVAL "mean ± half of the 95 % interval, by Student's t over seeds; no interval of one seed"

/* The column of an asking; of a spread (own less mix) the places of its score and amount say which. */
static size_t asked_column(const struct mt_compare_view *view, size_t place)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    return mt_compare_probe_column(view->comparison, settings->prune.count + settings->at.count + place,
                                   MT_PROBE_ACCURACY);
}

static size_t spread_column(const struct mt_compare_view *view, size_t score, size_t keep)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    size_t first = mt_compare_askings(settings) - settings->cache.count; // caches are no columns
    return asked_column(view, first + score * settings->pruning.keeps + keep);
}

static bool has_spread(const struct mt_compare_settings *settings)
{
    size_t bys = settings->pruning.bys;
    return mt_compare_by_place(settings, MT_COMPARE_BY_OWN) < bys &&
           mt_compare_by_place(settings, MT_COMPARE_BY_MIX) < bys;
}

// ------------------------------------------------------------------ numbers that are no columns

/* The cells of a method, then the base: [models' seeds and domains]. NULL past the last. */
static const struct mt_cell_result *result_of(const struct mt_compare_view *view, size_t method, size_t i)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    bool base = method == view->methods;
    size_t count = base ? settings->trained : settings->trained * settings->seeds;
    if (i >= count) return NULL;
    size_t domain = i % settings->trained;
    return base ? &mt_comparison_start(view->comparison, view->model, domain)->result
                : &mt_comparison_cell(view->comparison, view->model, method, domain, i / settings->trained)
                       ->result;
}

static const char *name_of(const struct mt_compare_view *view, size_t method)
{
    return method == view->methods ? MT_COMPARE_BASE : view->comparison->settings->method[method].name;
}

/* Mean over a method's cells of a number of an asking, at `offset` in struct mt_cell_asked. `trained`: of
 * those trained on one domain, or MT_ALL_DOMAINS. */
static double mean_of(const struct mt_compare_view *view, size_t method, size_t trained, size_t place,
                      size_t offset)
{
    size_t domains = view->comparison->settings->trained;
    double sum = 0.0;
    size_t count = 0;
    const struct mt_cell_result *result = NULL;
    for (size_t i = 0; (result = result_of(view, method, i)) != NULL; i++) {
        if (!result->known || result->asked == NULL) continue;
        if (trained != MT_ALL_DOMAINS && i % domains != trained) continue;
        double value = *(const double *)(const void *)((const char *)&result->asked[place] + offset);
        sum += isnan(value) ? 0.0 : value;
        count += isnan(value) ? 0 : 1;
    }
    return count > 0 ? sum / (double)count : (double)NAN;
}

/* How many experts an asking leaves: the same in all cells of a model. */
static double experts_of(const struct mt_compare_view *view, size_t place)
{
    double found = (double)NAN;
    for (size_t m = 0; m <= view->methods && isnan(found); m++)
        found = mean_of(view, m, MT_ALL_DOMAINS, place, offsetof(struct mt_cell_asked, experts));
    return found;
}

/* Experts of a layer. */
static double all_experts(const struct mt_compare_view *view)
{
    const struct mt_cell_result *result = NULL;
    for (size_t m = 0; m <= view->methods; m++) {
        for (size_t i = 0; (result = result_of(view, m, i)) != NULL; i++) {
            if (result->known && result->experts > 0) return (double)result->experts;
        }
    }
    return (double)NAN;
}

// ------------------------------------------------------------------ the picture

/* One point of every line: a column at so many experts. */
static void add_points(const struct mt_compare_view *view, struct mt_figure *lines, size_t column, double x)
{
    const struct mt_comparison *comparison = view->comparison;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    double factor = mt_compare_column_row(comparison, column)->factor;
    double base = factor * mt_compare_base(comparison, view->model, column, MT_ALL_DOMAINS).mean;
    if (isnan(x)) return;
    if (!isnan(base)) mt_figure_range(lines, MT_COMPARE_BASE, x, base, base, base);
    mt_compare_summarize(comparison, view->model, column, MT_ALL_DOMAINS, summary);
    for (size_t m = 0; m < view->methods; m++) {
        double mean = factor * summary[m].moments.mean;
        double half = factor * mt_half_width(&summary[m].moments);
        mt_figure_range(lines, comparison->settings->method[m].name, x, mean, mean - half, mean + half);
    }
}

/* A panel: a score and whose data, from few experts to all. */
static void add_panel(const struct mt_compare_view *view, struct mt_figure *lines, size_t score, size_t by)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    double all = all_experts(view);
    for (double last = 0.0; last < all;) {
        double next = all;
        size_t column = MT_COMPARE_ACCURACY; // of all experts
        for (size_t keep = 0; keep < settings->pruning.keeps; keep++) {
            size_t place = mt_compare_asking_kept(settings, score, by, keep);
            double experts = experts_of(view, place);
            if (!(experts > last && experts < next)) continue;
            next = experts;
            column = asked_column(view, place);
        }
        add_points(view, lines, column, next);
        last = next;
    }
}

static struct mt_figure *begin_picture(const struct mt_compare_view *view, const char *title)
{
    static const char *const ways[MT_COMPARE_BYS] = {
        [MT_COMPARE_BY_OWN] = " own: chosen on training data of the domain that is asked.",
        [MT_COMPARE_BY_MIX] = " mix: chosen on equal shares of all domains.",
        [MT_COMPARE_BY_OTHER] = " other: chosen on data of the next domain in the list."};
    const struct mt_compare_pruning *pruning = &view->comparison->settings->pruning;
    char meaning[512];
    int used = snprintf(meaning, sizeof meaning,
                        "Across: how many experts of every layer stay, the best ones. Up: held-out problems "
                        "answered exactly, in %%. A line that stays high: few experts are enough.");
    for (size_t by = 0; by < pruning->bys; by++)
        used += snprintf(meaning + used, sizeof meaning - (size_t)used, "%s", ways[pruning->by[by]]);
    return mt_page_figure(view->page, &(struct mt_figure_head){.kind = MT_FIGURE_LINES,
                                                               .title = title,
                                                               .meaning = meaning,
                                                               .formula = INTERVAL,
                                                               .series = "method",
                                                               .x = "experts of a layer",
                                                               .y = "exact %",
                                                               .band = true,
                                                               .panel = "score and data"});
}

/* A panel for each way to choose by a score. */
static void add_panels(const struct mt_compare_view *view, struct mt_figure *lines, size_t score)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    const struct mt_compare_pruning *pruning = &settings->pruning;
    char panel[MT_COMPARE_TITLE_BYTES], way[64];
    for (size_t by = 0; by < pruning->bys; by++) {
        (void)snprintf(way, sizeof way, "%s, %s", mt_expert_score_kind(pruning->score[score])->name,
                       mt_compare_by_name(pruning->by[by]));
        mt_figure_panel(lines, mt_view_title(panel, view, way));
        add_panel(view, lines, score, by);
    }
}

/* The first picture of the page has the first score. */
static void add_other_scores(const struct mt_compare_view *view)
{
    const struct mt_compare_pruning *pruning = &view->comparison->settings->pruning;
    char title[MT_COMPARE_TITLE_BYTES];
    if (pruning->scores < 2) return;
    struct mt_figure *lines =
        begin_picture(view, mt_view_title(title, view, "Whole answers by experts kept, other scores"));
    for (size_t score = 1; score < pruning->scores; score++) add_panels(view, lines, score);
}

static void add_sentence(struct mt_page *page, enum mt_few_verdict verdict, const char *headline,
                         const char *text)
{
    static const enum mt_tone tones[] = {[MT_FEW_AHEAD] = MT_TONE_GOOD,
                                         [MT_FEW_BEHIND] = MT_TONE_BAD,
                                         [MT_FEW_CHANCE] = MT_TONE_OPEN,
                                         [MT_FEW_BEFORE] = MT_TONE_PLAIN};
    if (verdict != MT_FEW_NOTHING) mt_page_finding(page, tones[verdict], headline, "%s", text);
}

void mt_page_compare_few(const struct mt_comparison *comparison, struct mt_page *page)
{
    const struct mt_compare_settings *settings = comparison->settings;
    char headline[MT_FEW_TEXT_BYTES], text[MT_FEW_TEXT_BYTES];
    struct mt_few_experts few;
    struct mt_figure *lines = NULL;
    for (size_t i = 0; i < settings->models; i++) {
        struct mt_compare_view view = mt_compare_view_of(comparison, page, i);
        if (!mt_few_experts(comparison, i, &few)) continue;
        if (lines == NULL) lines = begin_picture(&view, "Whole answers by experts kept");
        add_panels(&view, lines, 0);
    }
    for (size_t i = 0; i < settings->models && lines != NULL; i++)
        add_sentence(page, mt_few_methods(comparison, i, headline, text), headline, text);
    if (lines != NULL) add_sentence(page, mt_few_models(comparison, headline, text), headline, text);
}

// ------------------------------------------------------------------ tables of one score

/* Columns of a score: of every way to choose and amount, then own less mix. */
static size_t list_columns(const struct mt_compare_view *view, size_t score, size_t *columns,
                           char (*titles)[MT_COMPARE_TITLE_BYTES])
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    const struct mt_compare_pruning *pruning = &settings->pruning;
    size_t count = 0;
    for (size_t i = 0; i < pruning->bys * pruning->keeps; i++) {
        size_t by = i / pruning->keeps;
        size_t keep = i % pruning->keeps;
        columns[count] = asked_column(view, mt_compare_asking_kept(settings, score, by, keep));
        (void)snprintf(titles[count++], MT_COMPARE_TITLE_BYTES, "%s %s", mt_compare_by_name(pruning->by[by]),
                       pruning->keep[keep]);
    }
    for (size_t keep = 0; keep < pruning->keeps && has_spread(settings); keep++) {
        columns[count] = spread_column(view, score, keep);
        (void)snprintf(titles[count++], MT_COMPARE_TITLE_BYTES, "own − mix %s", pruning->keep[keep]);
    }
    return count;
}

enum { MOST_COLUMNS = (MT_COMPARE_BYS + 1) * MT_COMPARE_MOST_PROBES };

static void add_score(const struct mt_compare_view *view, size_t score, bool differences)
{
    const struct mt_comparison *comparison = view->comparison;
    const char *name = mt_expert_score_kind(comparison->settings->pruning.score[score])->name;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    size_t columns[MOST_COLUMNS];
    char titles[MOST_COLUMNS][MT_COMPARE_TITLE_BYTES];
    char title[MT_COMPARE_TITLE_BYTES], what[MT_COMPARE_TITLE_BYTES], meaning[512];
    size_t count = list_columns(view, score, columns, titles);
    (void)snprintf(
        what, sizeof what,
        differences ? "Differences with few experts, by %s" : "Whole answers with few experts, by %s", name);
    (void)snprintf(meaning, sizeof meaning,
                   differences
                       ? "Points above or below %.80s with the same experts' number and data: mean ± "
                         "standard error of paired differences."
                       : "Exact answers in %% with that many experts of every layer, the best by %.80s on "
                         "the domain's own data, the mix, or another domain's; own − mix, in points, is "
                         "what choosing for the domain is worth.",
                   differences ? comparison->settings->reference : name);
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                 .title = mt_view_title(title, view, what),
                                 .meaning = meaning,
                                 .formula = differences ? "bold: p < 0.05, corrected by Holm" : INTERVAL});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (size_t i = 0; i < count; i++) mt_figure_measure_column(table, titles[i], 1, differences);
    size_t first = mt_view_base_row(view, table);
    for (size_t i = 0; i < count && first > 0; i++) {
        if (differences)
            mt_view_base_difference(view, table, columns[i], MT_ALL_DOMAINS);
        else
            mt_view_base_measure(view, table, columns[i], MT_ALL_DOMAINS);
    }
    for (size_t m = 0; m < view->methods; m++) {
        if (differences && m == view->reference) continue;
        mt_figure_text(table, comparison->settings->method[m].name);
        for (size_t i = 0; i < count; i++) {
            mt_compare_summarize(comparison, view->model, columns[i], MT_ALL_DOMAINS, summary);
            if (differences)
                mt_figure_measure(table, 100.0 * summary[m].paired.mean, 100.0 * summary[m].paired.error,
                                  summary[m].holm < MT_COMPARE_SIGNIFICANT);
            else
                mt_figure_measure(table, 100.0 * summary[m].moments.mean,
                                  100.0 * mt_half_width(&summary[m].moments), false);
        }
    }
    for (size_t i = 0; i < count && !differences; i++) mt_figure_rank(table, (int)i + 1, 1, first);
}

/* Which experts they are: how many serve all domains together, and how alike domains choose. */
static void add_kept(const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    const struct mt_compare_pruning *pruning = &settings->pruning;
    char title[MT_COMPARE_TITLE_BYTES];
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = mt_view_title(title, view, "Which experts are kept"),
            .meaning =
                "Experts of a layer that stay for a domain, that stay for any of the domains a cell was "
                "trained on, how alike two domains choose (Jaccard, 1: the same experts), and the share "
                "of a domain's slots that its experts serve when all are there.",
            .formula = "means over layers, cells and domains; of one domain there is no Jaccard"});
    mt_figure_column(table, MT_COLUMN_LABEL, "score");
    mt_figure_column(table, MT_COLUMN_LABEL, "data");
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    mt_figure_column(table, MT_COLUMN_NUMBER, "kept");
    mt_figure_measure_column(table, "union", 1, false);
    mt_figure_measure_column(table, "Jaccard", 2, false);
    mt_figure_measure_column(table, "slots served %", 1, false);
    static const size_t offsets[] = {offsetof(struct mt_cell_asked, together),
                                     offsetof(struct mt_cell_asked, jaccard),
                                     offsetof(struct mt_cell_asked, mean.served)};
    for (size_t place = 0; place < pruning->scores * pruning->bys * pruning->keeps; place++) {
        struct mt_compare_asking asking = mt_compare_asking(settings, place);
        if (place > 0) mt_figure_rule(table);
        for (size_t i = 0; i <= view->methods; i++) {
            size_t m = i == 0 ? view->methods : i - 1; // the base first
            if (m == view->methods && !mt_compare_has_base(view->comparison, view->model)) continue;
            mt_figure_text(table, mt_expert_score_kind(asking.score)->name);
            mt_figure_text(table, mt_compare_by_name(asking.by));
            mt_figure_text(table, name_of(view, m));
            mt_figure_number(table, experts_of(view, place));
            for (int k = 0; k < 3; k++)
                mt_figure_measure(
                    table, (k == 2 ? 100.0 : 1.0) * mean_of(view, m, MT_ALL_DOMAINS, place, offsets[k]),
                    (double)NAN, false);
        }
    }
}

/* By domain, where cells are trained on several: a mean may be one domain's doing. */
static void add_domains(const struct mt_compare_view *view, size_t trained)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    char title[MT_COMPARE_TITLE_BYTES], what[MT_COMPARE_TITLE_BYTES];
    size_t parts = 0;
    size_t mixes = 0;
    for (size_t d = 0; d < settings->trained; d++) mixes += settings->domain[d].mix ? 1 : 0;
    (void)snprintf(what, sizeof what,
                   mixes > 1 ? "Few experts of %.60s, by domain" : "Few experts, by domain",
                   settings->domain[trained].name);
    const size_t *own = mt_compare_parts(settings, trained, &parts);
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = mt_view_title(title, view, what),
            .meaning = "Exact answers in % of each domain with few experts: a mean over domains may "
                       "be one domain's doing. Means over seeds."});
    mt_figure_column(table, MT_COLUMN_LABEL, "asked");
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (size_t i = 0; i < parts; i++)
        mt_figure_measure_column(table, settings->domain[own[i]].name, 1, false);
    for (size_t place = 0; place < mt_compare_askings(settings) - settings->cache.count; place++) {
        struct mt_compare_asking asking = mt_compare_asking(settings, place);
        char asked[MT_COMPARE_TITLE_BYTES];
        (void)snprintf(asked, sizeof asked, "%s %s", mt_asking_key(asking.kind), asking.name);
        if (place > 0) mt_figure_rule(table);
        for (size_t i = 0; i <= view->methods; i++) {
            size_t m = i == 0 ? view->methods : i - 1;
            if (m == view->methods && !mt_compare_has_base(view->comparison, view->model)) continue;
            mt_figure_text(table, asked);
            mt_figure_text(table, name_of(view, m));
            for (size_t d = 0; d < parts; d++)
                mt_figure_measure(table,
                                  100.0 * mean_of(view, m, trained, place,
                                                  offsetof(struct mt_cell_asked, domain) +
                                                      own[d] * sizeof(struct mt_cell_answer) +
                                                      offsetof(struct mt_cell_answer, accuracy)),
                                  (double)NAN, false);
        }
    }
}

// ------------------------------------------------------------------ fewer a token, and none

static void add_slots(const struct mt_compare_view *view)
{
    const struct mt_comparison *comparison = view->comparison;
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    char title[MT_COMPARE_TITLE_BYTES];
    size_t count = settings->slots.count + (settings->silence ? 1 : 0);
    size_t place = mt_compare_askings(settings) - settings->cache.count - count;
    if (count == 0) return;
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = mt_view_title(title, view, "Whole answers with fewer experts a token"),
            .meaning =
                "Exact answers in % when routers choose so few experts a token, and when routed experts "
                "add nothing (shared experts stay); then what that costs, in points, against the cell "
                "as it was trained.",
            .formula = INTERVAL});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (size_t i = 0; i < 2 * count; i++) {
        struct mt_compare_asking asking = mt_compare_asking(settings, place + i % count);
        bool silent = asking.kind == MT_ASK_SILENT;
        (void)snprintf(title, sizeof title, "%s%s%s", i < count ? "" : "Δ ",
                       silent ? "silenced" : "k = ", silent ? "" : asking.name);
        mt_figure_measure_column(table, title, 1, i >= count);
    }
    size_t first = mt_view_base_row(view, table);
    for (size_t i = 0; i < 2 * count && first > 0; i++)
        mt_view_base_measure(view, table,
                             asked_column(view, place + i % count) + (i < count ? 0 : MT_PROBE_CHANGE),
                             MT_ALL_DOMAINS);
    for (size_t m = 0; m < view->methods; m++) {
        mt_figure_text(table, settings->method[m].name);
        for (size_t i = 0; i < 2 * count; i++) {
            size_t column = asked_column(view, place + i % count) + (i < count ? 0 : MT_PROBE_CHANGE);
            mt_compare_summarize(comparison, view->model, column, MT_ALL_DOMAINS, summary);
            mt_figure_measure(table, 100.0 * summary[m].moments.mean,
                              100.0 * mt_half_width(&summary[m].moments), false);
        }
    }
    for (size_t i = 0; i < 2 * count; i++) mt_figure_rank(table, (int)i + 1, 1, first);
}

// ------------------------------------------------------------------ a fast memory

static void add_caches(const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    char title[MT_COMPARE_TITLE_BYTES];
    size_t first = mt_compare_askings(settings) - settings->cache.count;
    if (settings->cache.count == 0) return;
    struct mt_figure *table = mt_page_figure(
        view->page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = mt_view_title(title, view, "Cache misses per token"),
            .meaning =
                "Experts of a layer that a token needs and a fast memory with room for that many lacks, of "
                "the choices on held-out problems as they come. LRU drops the least recently used, LFU "
                "the least often used, Belady knows what comes and has the fewest.",
            .formula = "misses / tokens, first uses included; means over layers, domains and seeds"});
    mt_figure_column(table, MT_COLUMN_LABEL, "method");
    for (size_t i = 0; i < settings->cache.count * MT_CACHE_POLICIES; i++) {
        (void)snprintf(title, sizeof title, "%lld %s",
                       (long long)settings->cache.value[i / MT_CACHE_POLICIES],
                       mt_cache_policy_name((enum mt_cache_policy)(i % MT_CACHE_POLICIES)));
        mt_figure_measure_column(table, title, 3, false);
    }
    size_t base = mt_compare_has_base(view->comparison, view->model) ? 1 : 0;
    for (size_t i = base > 0 ? 0 : 1; i <= view->methods; i++) {
        size_t m = i == 0 ? view->methods : i - 1; // the base first
        mt_figure_text(table, name_of(view, m));
        for (size_t k = 0; k < settings->cache.count * MT_CACHE_POLICIES; k++)
            mt_figure_measure(
                table,
                mean_of(view, m, MT_ALL_DOMAINS, first + k / MT_CACHE_POLICIES,
                        offsetof(struct mt_cell_asked, mean.misses) + k % MT_CACHE_POLICIES * sizeof(double)),
                (double)NAN, false);
    }
    for (size_t k = 0; k < settings->cache.count * MT_CACHE_POLICIES; k++)
        mt_figure_rank(table, (int)k + 1, -1, base);
}

void mt_page_compare_fewer(const struct mt_compare_view *view)
{
    const struct mt_compare_settings *settings = view->comparison->settings;
    const struct mt_compare_pruning *pruning = &settings->pruning;
    if (pruning->keeps > 0) add_other_scores(view);
    for (size_t i = 0; i < pruning->scores; i++) {
        add_score(view, i, false);
        if (view->methods > 1 && settings->seeds > 1) add_score(view, i, true);
    }
    if (pruning->keeps > 0) add_kept(view);
    add_slots(view);
    add_caches(view);
    if (mt_compare_askings(settings) == settings->cache.count) return;
    for (size_t d = 0; d < settings->trained; d++) {
        if (settings->domain[d].mix) add_domains(view, d);
    }
}
