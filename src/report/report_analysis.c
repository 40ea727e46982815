/* The report's part on what the experts became: figures of `metier analyze` (docs/analysis.md). */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/output.h"
#include "report/report.h"
#include "report/report_figures.h"

#define DEVIATIONS  1.96 // standard errors on each side of a 95 % interval
#define LABEL_BYTES 160

static bool has(const struct mt_run *run)
{
    return run->analysis.root != NULL;
}

// Bars by layer; `name` is the figure's in the file, which also has the formula.
static const struct bars {
    const char *name, *title, *meaning;
} bars[] = {
    {"overlap_in", "Overlap of inputs",
     "Share of a token's nearest neighbours that go to another expert; lower is more "
     "specialised."},
    {"overlap_out", "Overlap of outputs",
     "Share of an expert output's nearest neighbours that another expert made; lower "
     "is more specialised."},
    {"silhouette_in", "Silhouette of inputs",
     "How compact and apart the regions of the experts are; 1 is best."},
    {"silhouette_out", "Silhouette of outputs", "How compact and apart the experts' outputs are; 1 is best."},
    {"rv_expert", "Routing variance (paper)", "How much an expert tells tokens apart; more is more decided."},
    {"rv_token", "Routing variance (authors' code)",
     "How decided the router is about a token; more is more decided."},
    {"abs_cos", "|cos| between a token's expert outputs",
     "0: the experts of a token answer in orthogonal directions, "
     "what L_o asks for."},
    {"maxvio", "MaxVio over the data", "How overloaded the busiest expert is; 0 is balanced."},
};

/* The file's own formula of a figure; "" without one. */
static const char *formula_of(const struct mt_run *runs, size_t count, const char *name)
{
    for (size_t r = 0; r < count; r++) {
        struct mt_json_node formulas;
        struct mt_json_node formula;
        const char *text = "";
        if (!has(&runs[r])) continue;
        struct mt_json_node root = mt_json_root(&runs[r].analysis);
        if (!mt_json_member(&root, "formulas", &formulas) || !mt_json_member(&formulas, name, &formula))
            continue;
        if (mt_json_kind(&formula) == MT_JSON_STRING && mt_json_as_string(&formula, &text) == MT_OK)
            return text;
    }
    return "";
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

static void add_bars(struct mt_page *page, const struct mt_run *runs, size_t count, const struct bars *kind)
{
    struct mt_figure *figure =
        mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                                      .title = kind->title,
                                                      .meaning = kind->meaning,
                                                      .formula = formula_of(runs, count, kind->name),
                                                      .series = "run",
                                                      .x = "layer",
                                                      .y = kind->name,
                                                      .band = true});
    for (size_t r = 0; r < count; r++) {
        if (has(&runs[r])) add_run_bars(page, &runs[r], kind->name, figure);
    }
}

// ------------------------------------------------------------------ means

static void add_means(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *table = mt_report_means_table(page, "Figures by domain", "domain",
                                                    "Means over layers, of all data and of each domain.");
    for (size_t r = 0; r < count; r++) {
        struct mt_json_node overall;
        struct mt_json_node domains;
        struct mt_json_node domain;
        void *position = NULL;
        if (!has(&runs[r])) continue;
        struct mt_json_node root = mt_json_root(&runs[r].analysis);
        if (!mt_page_check(page, mt_json_get_object(&root, "overall", &overall))) return;
        mt_report_means_row(table, "all", runs[r].name, &overall);
        if (!mt_page_check(page, mt_json_get_object(&root, "by_domain", &domains))) return;
        while (mt_json_next(&domains, &position, &domain))
            mt_report_means_row(table, domain.key, runs[r].name, &domain);
    }
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
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_HEATMAP,
                  .title = title,
                  .meaning = "Which experts serve which domain: rows of a layer that differ are "
                             "experts that specialise; orange is more than the fair share.",
                  .formula = "share_dj = slots of domain d that expert j serves / all slots of "
                             "domain d; the fair share is 1/n.",
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
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_BARS,
                  .title = "What experts tell about domains",
                  .meaning = "0: all domains use the experts alike; more is more specialised.",
                  .formula = "sum_dj A_dj/D ln(A_dj / mean_e A_ej), A the shares, in nats; at most "
                             "ln D of D domains.",
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

// ------------------------------------------------------------------ PCA and drift

static void add_projection(struct mt_page *page, const struct mt_run *run, size_t count,
                           const struct mt_json_node *layer)
{
    struct mt_json_node points;
    struct mt_json_node variance;
    char title[LABEL_BYTES];
    char meaning[LABEL_BYTES];
    double shown = 0;
    double number = mt_report_number(page, layer, "layer");
    if (!mt_page_check(page, mt_json_get_array(layer, "points", &points))) return;
    if (!mt_page_check(page, mt_json_get_array(layer, "variance", &variance))) return;
    for (size_t i = 0; i < mt_json_count(&variance); i++) {
        struct mt_json_node one = mt_json_element(&variance, i);
        shown += mt_report_value(page, &one);
    }
    (void)snprintf(title, sizeof title, "Tokens of layer %.0f%s%.100s", number, count > 1 ? ": " : "",
                   count > 1 ? run->name : "");
    (void)snprintf(
        meaning, sizeof meaning,
        "Inputs of the most active experts on the plane that shows most of them (%.0f %% of the variance).",
        100 * shown / mt_report_number(page, layer, "total_variance"));
    struct mt_figure *figure = mt_page_figure(
        page,
        &(struct mt_figure_head){.kind = MT_FIGURE_SCATTER,
                                 .title = title,
                                 .meaning = meaning,
                                 .formula = "Principal components of the centred inputs; a point is a token, "
                                            "coloured by its first expert.",
                                 .series = "expert",
                                 .x = "component 1",
                                 .y = "component 2"});
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
static void add_projections(struct mt_page *page, const struct mt_run *run, size_t count)
{
    struct mt_json_node layers;
    bool present = false;
    struct mt_json_node root = mt_json_root(&run->analysis);
    if (!mt_page_check(page, mt_json_optional_array(&root, "pca", &layers, &present)) || !present) return;
    size_t all = mt_json_count(&layers);
    for (size_t l = 0; l < all; l++) {
        struct mt_json_node layer = mt_json_element(&layers, l);
        bool end = l == 0 || l + 1 == all;
        if (l == all / 2 || (end && count == 1)) add_projection(page, run, count, &layer);
    }
}

static const struct bars drifts[] = {
    {"load_shift", "Load that moved", "Share of the load that went to other experts than in the base model."},
    {"sets_changed", "Tokens with other experts",
     "Share of tokens whose set of experts is not the base model's."},
    {"router_change", "Change of the router",
     "How far the router's weights are from the base model's, relative to "
     "their size."},
};

static const char *const drift_formulas[] = {
    "1/2 sum_j |p_j - q_j|, p and q the shares of the load.",
    "Share of tokens whose k chosen experts are not the same set.",
    "||W - W0|| / ||W0||, Frobenius norms, LoRA included.",
};

static void add_drift(struct mt_page *page, const struct mt_run *runs, size_t count, size_t kind)
{
    struct mt_figure *figure = NULL;
    for (size_t r = 0; r < count; r++) {
        struct mt_json_node drift;
        struct mt_json_node overall;
        struct mt_json_node layers;
        if (!has(&runs[r])) continue;
        struct mt_json_node root = mt_json_root(&runs[r].analysis);
        if (!mt_json_has(&root, "drift")) continue;
        if (!mt_page_check(page, mt_json_get_object(&root, "drift", &drift))) return;
        if (!mt_page_check(page, mt_json_get_object(&drift, "overall", &overall))) return;
        if (!mt_page_check(page, mt_json_get_array(&overall, "layers", &layers))) return;
        if (figure == NULL)
            figure = mt_page_figure(page, &(struct mt_figure_head){.kind = MT_FIGURE_BARS,
                                                                   .title = drifts[kind].title,
                                                                   .meaning = drifts[kind].meaning,
                                                                   .formula = drift_formulas[kind],
                                                                   .series = "run",
                                                                   .x = "layer",
                                                                   .y = drifts[kind].name});
        for (size_t l = 0; l < mt_json_count(&layers); l++) {
            struct mt_json_node layer = mt_json_element(&layers, l);
            char label[MT_NUMBER_BYTES];
            (void)snprintf(label, sizeof label, "%.0f", mt_report_number(page, &layer, "layer"));
            mt_figure_bar(figure, runs[r].name, label, mt_report_number(page, &layer, drifts[kind].name), 0,
                          0);
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
    for (size_t i = 0; i < sizeof bars / sizeof bars[0]; i++) add_bars(page, runs, count, &bars[i]);
    add_information(page, runs, count);
    for (size_t kind = 0; kind < sizeof drifts / sizeof drifts[0]; kind++) add_drift(page, runs, count, kind);
    for (size_t r = 0; r < count; r++) {
        if (has(&runs[r])) add_projections(page, &runs[r], analysed);
    }
    for (size_t r = 0; r < count; r++) {
        if (has(&runs[r])) add_affinity(page, &runs[r], analysed);
    }
}
