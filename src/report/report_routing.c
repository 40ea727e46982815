/* The report's part on routing: balance over time and layers, loads of experts, variances. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/curves.h"
#include "report/output.h"
#include "report/report.h"

#define BINS 50 // of time in a heat map

#define VIOLATION_FORMULA                                                                                    \
    "$\\text{MaxVio} = \\frac{\\max_j c_j - \\bar{c}}{\\bar{c}}$ of a step's loads $c_j$; 0: all experts "   \
    "serve "                                                                                                 \
    "the same."

static const char *layer_text(char text[MT_NUMBER_BYTES], const struct mt_run *run, size_t layer)
{
    (void)snprintf(text, MT_NUMBER_BYTES, "%lld", (long long)run->log.layer[layer].number);
    return text;
}

/* "TITLE" of the only run, "TITLE: NAME" of one of several. */
static void title_of(char *title, size_t bytes, const char *what, const struct mt_run *run, size_t count)
{
    (void)snprintf(title, bytes, count > 1 ? "%s: %.100s" : "%s", what, run->name);
}

static size_t bins_of(const struct mt_run_metrics *log)
{
    return log->steps < BINS ? log->steps : BINS;
}

/* A layer's mean MaxVio over a stretch of steps. */
static double bin_mean(const struct mt_run_metrics *log, size_t layer, size_t bin, size_t bins)
{
    double sum = 0;
    double known = 0;
    for (size_t i = bin * log->steps / bins; i < (bin + 1) * log->steps / bins; i++) {
        double value = log->violation[i * log->layers + layer];
        if (isnan(value)) continue;
        sum += value;
        known++;
    }
    return known > 0 ? sum / known : (double)NAN;
}

static void add_violation(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *figure = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_LINES,
                  .title = "MaxVio over time",
                  .meaning = "How much the busiest expert is above the mean; lower is more even.",
                  .formula = VIOLATION_FORMULA " Mean over layers.",
                  .series = "run",
                  .x = "step",
                  .y = "MaxVio"});
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 0; i < runs[r].log.steps; i++)
            mt_figure_point(figure, runs[r].name, mt_run_at(&runs[r], i, MT_RUN_STEP),
                            mt_run_at(&runs[r], i, MT_RUN_MAX_VIOLATION));
    }
}

/* k as a line, from the first step of any run that has it to the last. */
static void add_slots(struct mt_figure *figure, const struct mt_run *runs, size_t count, size_t run)
{
    char name[MT_NUMBER_BYTES];
    double slots = mt_run_first(&runs[run], MT_RUN_SLOTS);
    double first = (double)INFINITY;
    double last = -(double)INFINITY;
    if (isnan(slots)) return;
    for (size_t r = 0; r < count; r++) {
        if (mt_run_first(&runs[r], MT_RUN_SLOTS) != slots) continue;
        if (r < run) return; // drawn already
        first = fmin(first, mt_run_at(&runs[r], 0, MT_RUN_STEP));
        last = fmax(last, mt_run_at(&runs[r], runs[r].log.steps - 1, MT_RUN_STEP));
    }
    (void)snprintf(name, sizeof name, "k = %.0f", slots);
    mt_figure_point(figure, name, first, slots);
    mt_figure_point(figure, name, last, slots);
}

/* How many experts work for a token, beside how many are paid for; how many of all have the work. */
static void add_concentration(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    static const struct {
        int value;
        const char *title;
    } panels[] = {{MT_RUN_EFFECTIVE_EXPERTS, "effective experts a token"},
                  {MT_RUN_EFFECTIVE_SCORES, "effective scores a token"},
                  {MT_RUN_EXPERTS_90, "share of experts that serve 90 %"},
                  {MT_RUN_JACCARD_90, "Jaccard of two sources' 90 %"}};
    bool known = false;
    for (size_t r = 0; r < count; r++) known |= !isnan(mt_run_late_mean(&runs[r], MT_RUN_EFFECTIVE_EXPERTS));
    if (!known) return;
    struct mt_figure *figure = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_LINES,
            .title = "Concentration over time",
            .meaning = "How many of a token's k experts do its work: at 1, one works where k are paid for.",
            .formula = "$1 / \\frac{1}{N} \\sum_i \\sum_j w_{ij}^2$, $w$ a token's weights over their sum, "
                       "at most $k$, of all layers the harmonic mean; scores: the same of all $n$ scores; "
                       "the fewest experts that serve 90 % of a "
                       "step's slots, over $n$; of two sources of the data, what they share of these: means "
                       "over layers.",
            .series = "run",
            .x = "step",
            .y = "value",
            .panel = "figure"});
    for (size_t p = 0; p < sizeof panels / sizeof panels[0]; p++) {
        bool any = false; // one source has no other to be held against
        for (size_t r = 0; r < count; r++) any |= !isnan(mt_run_late_mean(&runs[r], panels[p].value));
        if (!any) continue;
        mt_figure_panel(figure, panels[p].title);
        for (size_t r = 0; r < count; r++) {
            for (size_t i = 0; i < runs[r].log.steps; i++) {
                double y = mt_run_at(&runs[r], i, panels[p].value);
                if (!isnan(y)) mt_figure_point(figure, runs[r].name, mt_run_at(&runs[r], i, MT_RUN_STEP), y);
            }
            if (p == 0) add_slots(figure, runs, count, r);
        }
    }
}

/* Layers by stretches of steps; with few steps every step is a column. */
static void add_violation_map(struct mt_page *page, const struct mt_run *run, size_t count)
{
    const struct mt_run_metrics *log = &run->log;
    char title[160];
    size_t bins = bins_of(log);
    title_of(title, sizeof title, "MaxVio of each layer", run, count);
    struct mt_figure *figure = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_HEATMAP,
                  .title = title,
                  .meaning = "Where and when routing is uneven: bright layers have a busy expert.",
                  .formula = VIOLATION_FORMULA " A column is the mean over a stretch of steps, "
                                               "named by its last.",
                  .x = "step",
                  .y = "layer",
                  .value = "MaxVio",
                  .scale = "MaxVio",
                  .from_zero = true});
    for (size_t l = 0; l < log->layers; l++) {
        for (size_t bin = 0; bin < bins; bin++) {
            size_t end = (bin + 1) * log->steps / bins;
            char row[MT_NUMBER_BYTES];
            char column[MT_NUMBER_BYTES];
            (void)snprintf(column, sizeof column, "%.0f", mt_run_at(run, end - 1, MT_RUN_STEP));
            mt_figure_cell(figure, layer_text(row, run, l), column, bin_mean(log, l, bin, bins));
        }
    }
}

static void add_loads(struct mt_page *page, const struct mt_run *run, size_t count)
{
    const struct mt_run_metrics *log = &run->log;
    char title[160];
    title_of(title, sizeof title, "Load of experts", run, count);
    struct mt_figure *figure = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_HEATMAP,
                  .title = title,
                  .meaning = "Which experts serve how much: orange more than their fair share, "
                             "blue less.",
                  .formula = "$c_j / \\sum_m c_m$, $c_j$ the load of expert $j$ in the last tenth of the "
                             "steps; the fair share is $1/n$.",
                  .x = "expert",
                  .y = "layer",
                  .value = "share",
                  .centred = true,
                  .centre = 1.0 / (double)log->experts,
                  .scale = "load",
                  .from_zero = true});
    for (size_t l = 0; l < log->layers; l++) {
        const double *load = log->load + l * log->experts;
        double sum = 0;
        char row[MT_NUMBER_BYTES];
        char column[MT_NUMBER_BYTES];
        for (size_t j = 0; j < log->experts; j++) sum += load[j];
        for (size_t j = 0; j < log->experts; j++) {
            (void)snprintf(column, sizeof column, "%zu", j);
            mt_figure_cell(figure, layer_text(row, run, l), column, sum > 0 ? load[j] / sum : (double)NAN);
        }
    }
}

// Panels by layer.
static const struct layer_panel {
    int value;
    const char *title;
} layer_panels[] = {
    {MT_RUN_LAYER_VARIANCE_TOPK, "routing variance (paper) ↑"},
    {MT_RUN_LAYER_VARIANCE_FULL, "the same before top-k ↑"},
    {MT_RUN_LAYER_VARIANCE_TOKEN, "routing variance (authors' code) ↑"},
    {MT_RUN_LAYER_ENTROPY, "load entropy, nats ↑"},
};

enum { LAYER_PANELS = sizeof layer_panels / sizeof layer_panels[0] };

/* How decided routing is and how even, layer by layer. */
static void add_layer_panels(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *figure = NULL;
    for (int i = 0; i < LAYER_PANELS; i++) {
        for (size_t r = 0; r < count; r++) {
            for (size_t l = 0; l < runs[r].log.layers; l++) {
                char label[MT_NUMBER_BYTES];
                double value = mt_run_layer_mean(&runs[r], l, layer_panels[i].value);
                if (isnan(value)) continue;
                if (figure == NULL)
                    figure = mt_page_figure(
                        page,
                        &(struct mt_figure_head){
                            .kind = MT_FIGURE_BARS,
                            .title = "Routing by layer",
                            .meaning = "How much routing tells tokens and experts apart, and how "
                                       "evenly experts are used; higher is more decided, more even.",
                            .formula = "Means over the last tenth of the steps. Paper: $\\frac{1}{n} "
                                       "\\sum_j \\operatorname{var}_i(s_{ij})$, $s$ the weights after "
                                       "top-k; before top-k: the same of the scores $P$; authors' code: "
                                       "$\\frac{1}{N} \\sum_i \\frac{1}{n-1} \\sum_j (P_{ij} - "
                                       "\\bar{P}_i)^2$; entropy: $-\\sum_j q_j \\ln q_j$, $q$ the shares "
                                       "of the load, $\\ln n$ when even.",
                            .series = "run",
                            .x = "layer",
                            .y = "value",
                            .panel = "figure"});
                mt_figure_panel(figure, layer_panels[i].title);
                mt_figure_bar(figure, runs[r].name, layer_text(label, &runs[r], l), value, 0, 0);
            }
        }
    }
}

// ------------------------------------------------------------------ differences between runs

/* A layer's curve of MaxVio, or with layer = layers the mean's, written into arrays [steps]. */
static struct mt_curve violation_curve(const struct mt_run *run, size_t layer, double *x, double *y)
{
    const struct mt_run_metrics *log = &run->log;
    for (size_t i = 0; i < log->steps; i++) {
        x[i] = mt_run_at(run, i, MT_RUN_STEP);
        y[i] = layer == log->layers ? mt_run_at(run, i, MT_RUN_MAX_VIOLATION)
                                    : log->violation[i * log->layers + layer];
    }
    return (struct mt_curve){.count = log->steps, .x = x, .y = y};
}

static void compare_layers(struct mt_figure *figure, const struct mt_run *first, const struct mt_run *other,
                           double *numbers)
{
    size_t steps = first->log.steps;
    double *rest = numbers + 2 * steps;
    for (size_t l = 0; l <= first->log.layers; l++) {
        bool mean = l == first->log.layers;
        char label[MT_NUMBER_BYTES] = "mean over layers";
        size_t points = 0;
        struct mt_curve one = violation_curve(first, l, numbers, numbers + steps);
        struct mt_curve two =
            violation_curve(other, mean ? other->log.layers : l, rest, rest + other->log.steps);
        double rmse = mt_curves_rmse(&one, &two, &points);
        mt_figure_text(figure, other->name);
        mt_figure_text(figure, mean ? label : layer_text(label, first, l));
        mt_figure_number(figure, rmse);
        mt_figure_number(figure, (double)points);
    }
}

static void add_rmse(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *figure = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = "RMSE of MaxVio to the first run",
            .meaning = "How far the balance of a run is from the first run's over time.",
            .formula =
                "$\\sqrt{\\frac{1}{n} \\sum_i (a_i - b_i)^2}$ over the first run's steps within the other's "
                "range; between its steps the other curve is a straight line."});
    mt_figure_column(figure, MT_COLUMN_LABEL, "run");
    mt_figure_column(figure, MT_COLUMN_LABEL, "layer");
    mt_figure_column(figure, MT_COLUMN_NUMBER, "RMSE");
    mt_figure_column(figure, MT_COLUMN_NUMBER, "points");
    for (size_t r = 1; r < count; r++) {
        void *numbers = NULL;
        size_t needed = 2 * (runs[0].log.steps + runs[r].log.steps);
        if (!runs[r].has_log || runs[r].log.layers != runs[0].log.layers) continue;
        enum mt_status status = mt_allocate_array(page->ctx, needed, sizeof(double), &numbers);
        if (!mt_page_check(page, status)) {
            mt_release(page->ctx, numbers, status == MT_OK ? needed * sizeof(double) : 0);
            return;
        }
        compare_layers(figure, &runs[0], &runs[r], numbers);
        mt_release(page->ctx, numbers, needed * sizeof(double));
    }
}

void mt_report_routing(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    size_t logged = 0;
    for (size_t r = 0; r < count; r++) logged += runs[r].has_log && runs[r].log.layers > 0 ? 1 : 0;
    if (logged == 0) return;
    mt_page_section(page, "Routing during training");
    add_violation(page, runs, count);
    add_concentration(page, runs, count);
    add_layer_panels(page, runs, count);
    for (size_t r = 0; r < count; r++) {
        if (runs[r].log.experts > 0) add_loads(page, &runs[r], logged);
    }
    for (size_t r = 0; r < count; r++) {
        if (runs[r].log.layers > 0) add_violation_map(page, &runs[r], logged);
    }
    if (logged > 1 && runs[0].log.layers > 0) add_rmse(page, runs, count);
}
