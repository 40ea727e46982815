/* The report's part on what the experts became: figures of `metier analyze` (docs/analysis.md). */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/formulas.h"
#include "report/output.h"
#include "report/report.h"
#include "report/report_figures.h"

#define DEVIATIONS   1.96 // standard errors on each side of a 95 % interval
#define LABEL_BYTES  160
#define ALL_DATA     "all data"
#define MOST_DOMAINS 256

static bool has(const struct mt_run *run)
{
    return run->analysis.root != NULL;
}

// Figures by layer, as the file names them.
static const char *const layer_figures[] = {"overlap_in", "overlap_out", "silhouette_in", "silhouette_out",
                                            "rv_expert",  "rv_token",    "abs_cos",       "maxvio"};

/* The formulas of some figures, and what their letters mean. */
static void list_formulas(char *text, size_t bytes, const char *const *figures, size_t count,
                          const char *letters)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_formula *one = mt_formula_of(figures[i]);
        int added = snprintf(text + length, bytes - length, "%s: %s; ", one->title, one->formula);
        if (added > 0 && length + (size_t)added < bytes) length += (size_t)added;
    }
    (void)snprintf(text + length, bytes - length, "%s.", letters);
}

/* "overlap of inputs ↓": the arrow points to where experts are more specialised, or loads more even. */
static void panel_of(struct mt_figure *figure, const char *name)
{
    const struct mt_formula *one = mt_formula_of(name);
    char title[MT_REPORT_NAME_BYTES];
    (void)snprintf(title, sizeof title, "%s%s", one->title,
                   one->better > 0 ? " ↑" : (one->better < 0 ? " ↓" : ""));
    mt_figure_panel(figure, title);
}

static void add_run_bars(struct mt_page *page, const struct mt_run *run, const char *name,
                         struct mt_figure *figure)
{
    struct mt_json_node overall;
    struct mt_json_node layers;
    char error_name[64];
    struct mt_json_node root = mt_json_root(&run->analysis);
    (void)snprintf(error_name, sizeof error_name, "%s_error", name);
    if (!mt_page_check(page, mt_json_get_object(&root, "overall", &overall))) return;
    if (!mt_page_check(page, mt_json_get_array(&overall, "layers", &layers))) return;
    for (size_t l = 0; l < mt_json_count(&layers); l++) {
        struct mt_json_node layer = mt_json_element(&layers, l);
        char label[MT_NUMBER_BYTES];
        double value = mt_report_number(page, &layer, name);
        double error = mt_report_number(page, &layer, error_name);
        (void)snprintf(label, sizeof label, "%.0f", mt_report_number(page, &layer, "layer"));
        mt_figure_bar(figure, run->name, label, value, error > 0 ? value - DEVIATIONS * error : (double)NAN,
                      error > 0 ? value + DEVIATIONS * error : (double)NAN);
    }
}

static void add_bars(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    enum { FIGURES = sizeof layer_figures / sizeof layer_figures[0] };
    char formula[2048];
    list_formulas(formula, sizeof formula, layer_figures, FIGURES, MT_FORMULA_LETTERS);
    struct mt_figure *figure = mt_page_figure(
        page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                       .title = "Specialisation by layer",
                                       .meaning = "Where experts have their own inputs, give their own "
                                                  "answers and are used alike. The arrow says which way is "
                                                  "better; whiskers are 95 % intervals of a sample.",
                                       .formula = formula,
                                       .series = "run",
                                       .x = "layer",
                                       .y = "value",
                                       .band = true,
                                       .panel = "figure"});
    for (int i = 0; i < FIGURES; i++) {
        panel_of(figure, layer_figures[i]);
        for (size_t r = 0; r < count; r++) {
            if (has(&runs[r])) add_run_bars(page, &runs[r], layer_figures[i], figure);
        }
    }
}

// ------------------------------------------------------------------ means

/* Of all data, or of a domain. */
static bool domain_means(struct mt_page *page, const struct mt_run *run, const char *what,
                         struct mt_json_node *means)
{
    struct mt_json_node domains;
    struct mt_json_node domain;
    if (!has(run)) return false;
    struct mt_json_node root = mt_json_root(&run->analysis);
    if (strcmp(what, ALL_DATA) == 0) {
        if (!mt_page_check(page, mt_json_get_object(&root, "overall", &domain))) return false;
    } else {
        if (!mt_page_check(page, mt_json_get_object(&root, "by_domain", &domains))) return false;
        if (!mt_json_has(&domains, what)) return false;
        if (!mt_page_check(page, mt_json_get_object(&domains, what, &domain))) return false;
    }
    return mt_page_check(page, mt_json_get_object(&domain, "mean", means));
}

static void add_means(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    const char *whats[MOST_DOMAINS] = {ALL_DATA};
    size_t known = 1;
    for (size_t r = 0; r < count; r++) {
        struct mt_json_node domains;
        struct mt_json_node domain;
        void *position = NULL;
        if (!has(&runs[r])) continue;
        struct mt_json_node root = mt_json_root(&runs[r].analysis);
        if (!mt_page_check(page, mt_json_get_object(&root, "by_domain", &domains))) return;
        while (mt_json_next(&domains, &position, &domain)) {
            size_t at = 0;
            while (at < known && strcmp(whats[at], domain.key) != 0) at++;
            if (at == known && known < MOST_DOMAINS) whats[known++] = domain.key;
        }
    }
    mt_report_means_table(
        page, runs, count,
        &(struct mt_report_means){.title = "Figures by domain",
                                  .what = "domain",
                                  .meaning = "Means over layers, of all data and of each domain.",
                                  .whats = whats,
                                  .count = known,
                                  .means_of = domain_means});
}

// ------------------------------------------------------------------ affinity

/* The name of domain d; "?" where the file has none. */
static const char *domain_name(const struct mt_json_node *root, size_t d)
{
    struct mt_json_node domains;
    const char *text = "?";
    if (!mt_json_member(root, "domains", &domains) || d >= mt_json_count(&domains)) return text;
    struct mt_json_node domain = mt_json_element(&domains, d);
    if (mt_json_kind(&domain) == MT_JSON_STRING) (void)mt_json_as_string(&domain, &text);
    return text;
}

static void add_affinity_layer(struct mt_page *page, const struct mt_json_node *root,
                               const struct mt_json_node *layer, struct mt_figure *figure)
{
    struct mt_json_node shares;
    double number = mt_report_number(page, layer, "layer");
    if (!mt_page_check(page, mt_json_get_array(layer, "share", &shares))) return;
    for (size_t d = 0; d < mt_json_count(&shares); d++) {
        struct mt_json_node row = mt_json_element(&shares, d);
        char label[LABEL_BYTES];
        (void)snprintf(label, sizeof label, "%.0f %.120s", number, domain_name(root, d));
        for (size_t j = 0; j < mt_json_count(&row); j++) {
            struct mt_json_node cell = mt_json_element(&row, j);
            char expert[MT_NUMBER_BYTES];
            (void)snprintf(expert, sizeof expert, "%zu", j);
            mt_figure_cell(figure, label, expert, mt_report_value(page, &cell));
        }
    }
}

static void add_affinity(struct mt_page *page, const struct mt_run *run, size_t count)
{
    struct mt_json_node affinity;
    char title[LABEL_BYTES];
    struct mt_json_node root = mt_json_root(&run->analysis);
    double experts = mt_report_number(page, &root, "experts");
    if (!mt_page_check(page, mt_json_get_array(&root, "affinity", &affinity))) return;
    (void)snprintf(title, sizeof title, count > 1 ? "Experts and domains: %.100s" : "Experts and domains",
                   run->name);
    struct mt_figure *figure = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_HEATMAP,
            .title = title,
            .meaning = "Which experts serve which domain: rows of a layer that differ are "
                       "experts that specialise; orange is more than the fair share.",
            .formula = "$A_{dj} = c_{dj} / \\sum_m c_{dm}$, $c_{dj}$ the slots of domain $d$ that expert "
                       "$j$ serves; the fair share is $1/n$.",
            .x = "expert",
            .y = "layer and domain",
            .value = "share",
            .centred = experts > 0,
            .centre = 1 / experts,
            .scale = "affinity",
            .from_zero = true});
    for (size_t l = 0; l < mt_json_count(&affinity); l++) {
        struct mt_json_node layer = mt_json_element(&affinity, l);
        add_affinity_layer(page, &root, &layer, figure);
    }
}

static void add_information(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *figure = mt_page_figure(
        page,
        &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                 .title = "What experts tell about domains",
                                 .meaning = "0: all domains use the experts alike; more is more specialised.",
                                 .formula = mt_formula_of("information")->formula,
                                 .series = "run",
                                 .x = "layer",
                                 .y = "information"});
    for (size_t r = 0; r < count; r++) {
        struct mt_json_node affinity;
        if (!has(&runs[r])) continue;
        struct mt_json_node root = mt_json_root(&runs[r].analysis);
        if (!mt_page_check(page, mt_json_get_array(&root, "affinity", &affinity))) return;
        for (size_t l = 0; l < mt_json_count(&affinity); l++) {
            struct mt_json_node layer = mt_json_element(&affinity, l);
            char label[MT_NUMBER_BYTES];
            (void)snprintf(label, sizeof label, "%.0f", mt_report_number(page, &layer, "layer"));
            mt_figure_bar(figure, runs[r].name, label, mt_report_number(page, &layer, "information"), 0, 0);
        }
    }
}

/* How far domains differ in the experts that serve them; nothing of one domain. */
static void add_serving(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    static const char *const figures[] = {"jaccard_90", "together_90"};
    char formula[1024];
    struct mt_figure *figure = NULL;
    list_formulas(formula, sizeof formula, figures, 2, "$D$ domains");
    for (size_t f = 0; f < 2; f++) {
        for (size_t r = 0; r < count; r++) {
            struct mt_json_node affinity;
            if (!has(&runs[r])) continue;
            struct mt_json_node root = mt_json_root(&runs[r].analysis);
            if (!mt_page_check(page, mt_json_get_array(&root, "affinity", &affinity))) return;
            for (size_t l = 0; l < mt_json_count(&affinity); l++) {
                struct mt_json_node layer = mt_json_element(&affinity, l);
                char label[MT_NUMBER_BYTES];
                if (isnan(mt_report_number(page, &layer, "jaccard_90"))) continue;
                if (figure == NULL)
                    figure = mt_page_figure(page, &(struct mt_figure_head){
                                                      .kind = MT_FIGURE_BARS,
                                                      .title = "Experts that serve 90 % of a domain",
                                                      .meaning = "Whether domains have experts of their own: "
                                                                 "at a Jaccard index of 1 all have the same.",
                                                      .formula = formula,
                                                      .series = "run",
                                                      .x = "layer",
                                                      .y = "value",
                                                      .panel = "figure"});
                mt_figure_panel(figure, mt_formula_of(figures[f])->title);
                (void)snprintf(label, sizeof label, "%.0f", mt_report_number(page, &layer, "layer"));
                mt_figure_bar(figure, runs[r].name, label, mt_report_number(page, &layer, figures[f]), 0, 0);
            }
        }
    }
}

// ------------------------------------------------------------------ PCA and drift

static void add_projection(struct mt_page *page, const struct mt_run *run, size_t count,
                           const struct mt_json_node *layer, struct mt_figure *figure)
{
    struct mt_json_node points;
    struct mt_json_node variance;
    char panel[LABEL_BYTES];
    double shown = 0;
    double number = mt_report_number(page, layer, "layer");
    if (!mt_page_check(page, mt_json_get_array(layer, "points", &points))) return;
    if (!mt_page_check(page, mt_json_get_array(layer, "variance", &variance))) return;
    for (size_t i = 0; i < mt_json_count(&variance); i++) {
        struct mt_json_node one = mt_json_element(&variance, i);
        shown += mt_report_value(page, &one);
    }
    (void)snprintf(panel, sizeof panel, "%.100s%slayer %.0f (%.0f %% of the variance)",
                   count > 1 ? run->name : "", count > 1 ? ", " : "", number,
                   100 * shown / mt_report_number(page, layer, "total_variance"));
    mt_figure_panel(figure, panel);
    for (size_t i = 0; i < mt_json_count(&points); i++) {
        struct mt_json_node point = mt_json_element(&points, i);
        double part[3] = {(double)NAN, (double)NAN, (double)NAN};
        for (size_t k = 0; k < 3 && k < mt_json_count(&point); k++) {
            struct mt_json_node cell = mt_json_element(&point, k);
            part[k] = mt_report_value(page, &cell);
        }
        bool known = part[2] >= 0 && part[2] < INT_MAX;
        mt_figure_expert(figure, known ? (int)part[2] : -1, part[0], part[1]);
    }
}

/* One run: its first, middle and last layer. Several: the middle one of each, to be held side by side. */
static void add_run_projections(struct mt_page *page, const struct mt_run *run, size_t count,
                                struct mt_figure *figure)
{
    struct mt_json_node layers;
    bool present = false;
    struct mt_json_node root = mt_json_root(&run->analysis);
    if (!mt_page_check(page, mt_json_optional_array(&root, "pca", &layers, &present)) || !present) return;
    size_t all = mt_json_count(&layers);
    for (size_t l = 0; l < all; l++) {
        struct mt_json_node layer = mt_json_element(&layers, l);
        bool end = l == 0 || l + 1 == all;
        if (l == all / 2 || (end && count == 1)) add_projection(page, run, count, &layer, figure);
    }
}

static void add_projections(struct mt_page *page, const struct mt_run *runs, size_t count, size_t analysed)
{
    bool any = false;
    for (size_t r = 0; r < count; r++) {
        struct mt_json_node root = has(&runs[r]) ? mt_json_root(&runs[r].analysis) : (struct mt_json_node){0};
        any |= has(&runs[r]) && mt_json_has(&root, "pca");
    }
    if (!any) return;
    struct mt_figure *figure = mt_page_figure(
        page,
        &(struct mt_figure_head){.kind = MT_FIGURE_SCATTER,
                                 .title = "Tokens by expert",
                                 .meaning = "Inputs of the most active experts on the plane that shows most "
                                            "of them. Colours that keep apart are experts with tokens of "
                                            "their own.",
                                 .formula = "The first two principal components of the centred inputs; a "
                                            "point is a token, coloured by its first expert.",
                                 .series = "expert",
                                 .x = "component 1",
                                 .y = "component 2",
                                 .panel = "panel"});
    for (size_t r = 0; r < count; r++) {
        if (has(&runs[r])) add_run_projections(page, &runs[r], analysed, figure);
    }
}

// ------------------------------------------------------------------ drift

static const char *const drifts[] = {"load_shift", "sets_changed", "router_change"};

enum { DRIFTS = sizeof drifts / sizeof drifts[0] };

static void add_run_drift(struct mt_page *page, const struct mt_run *run, const char *name,
                          struct mt_figure *figure)
{
    struct mt_json_node drift;
    struct mt_json_node overall;
    struct mt_json_node layers;
    struct mt_json_node root = mt_json_root(&run->analysis);
    if (!mt_json_has(&root, "drift")) return;
    if (!mt_page_check(page, mt_json_get_object(&root, "drift", &drift))) return;
    if (!mt_page_check(page, mt_json_get_object(&drift, "overall", &overall))) return;
    if (!mt_page_check(page, mt_json_get_array(&overall, "layers", &layers))) return;
    for (size_t l = 0; l < mt_json_count(&layers); l++) {
        struct mt_json_node layer = mt_json_element(&layers, l);
        char label[MT_NUMBER_BYTES];
        (void)snprintf(label, sizeof label, "%.0f", mt_report_number(page, &layer, "layer"));
        mt_figure_bar(figure, run->name, label, mt_report_number(page, &layer, name), 0, 0);
    }
}

static void add_drift(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    char formula[1024];
    bool any = false;
    for (size_t r = 0; r < count; r++) {
        struct mt_json_node root = has(&runs[r]) ? mt_json_root(&runs[r].analysis) : (struct mt_json_node){0};
        any |= has(&runs[r]) && mt_json_has(&root, "drift");
    }
    if (!any) return;
    list_formulas(formula, sizeof formula, drifts, DRIFTS, "0: as in the base model");
    struct mt_figure *figure = mt_page_figure(
        page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                       .title = "Drift from the base model",
                                       .meaning = "How far training moved the loads, the choice of experts "
                                                  "and the routers themselves.",
                                       .formula = formula,
                                       .series = "run",
                                       .x = "layer",
                                       .y = "value",
                                       .panel = "figure"});
    for (int i = 0; i < DRIFTS; i++) {
        panel_of(figure, drifts[i]);
        for (size_t r = 0; r < count; r++) {
            if (has(&runs[r])) add_run_drift(page, &runs[r], drifts[i], figure);
        }
    }
}

void mt_report_analysis(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    size_t analysed = 0;
    for (size_t r = 0; r < count; r++) analysed += has(&runs[r]) ? 1 : 0;
    mt_page_section(page, "Specialisation of experts");
    if (analysed == 0) {
        mt_page_text(page,
                     "No analysis.json: metier analyze --model DIR --data FILE --out RUN measures overlap, "
                     "silhouette, affinity and drift into the folder of a run.");
        return;
    }
    add_means(page, runs, count);
    add_bars(page, runs, count);
    add_projections(page, runs, count, analysed);
    add_information(page, runs, count);
    add_serving(page, runs, count);
    add_drift(page, runs, count);
    for (size_t r = 0; r < count; r++) {
        if (has(&runs[r])) add_affinity(page, &runs[r], analysed);
    }
}
