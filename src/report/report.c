/* The report: its parts in their order. Here: the top, cards and a table of the runs, and the settings. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/output.h"
#include "report/report_figures.h"

#define MOST_RUNS 16

/* The lowest held-out loss of a run, NaN without one. */
static double best_evaluation(const struct mt_run *run)
{
    double best = (double)NAN;
    for (size_t i = 0; i < run->log.evaluations; i++) best = fmin(best, run->log.evaluation[3 * i + 1]);
    return best;
}

// What the table and the cards show of a log; column NULL ends the list.
static const struct overview {
    const char *column;
    int value; // mean over the last tenth; -1: of_run instead
    double (*of_run)(const struct mt_run *run);
    const char *note; // of the card
} overviews[] = {
    {"L_h", MT_RUN_TASK, NULL, "mean of the last tenth"},
    {"held-out loss", -1, best_evaluation, "the lowest"},
    {"MaxVio", MT_RUN_MAX_VIOLATION, NULL, "mean over layers, last tenth"},
    {"s/step", -1, mt_run_seconds_per_step, "over the whole run"},
    {"tokens/s", MT_RUN_TOKENS_PER_SECOND, NULL, "mean of the last tenth"},
};

enum { OVERVIEWS = sizeof overviews / sizeof overviews[0] };

static double overview_of(const struct mt_run *run, const struct overview *overview)
{
    if (!run->has_log) return (double)NAN;
    return overview->of_run != NULL ? overview->of_run(run) : mt_run_late_mean(run, overview->value);
}

static void add_cards(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    char text[MT_NUMBER_BYTES];
    char note[128];
    if (count > 1) mt_page_card(page, "runs", mt_number_text(text, (double)count), "compared");
    if (runs[0].has_log)
        mt_page_card(page, "steps",
                     mt_number_text(text, mt_run_at(&runs[0], runs[0].log.steps - 1, MT_RUN_STEP)),
                     count > 1 ? runs[0].name : "");
    for (int i = 0; i < OVERVIEWS; i++) {
        double value = overview_of(&runs[0], &overviews[i]);
        if (isnan(value)) continue;
        (void)snprintf(note, sizeof note, "%s%s%.60s", overviews[i].note, count > 1 ? ", " : "",
                       count > 1 ? runs[0].name : "");
        mt_page_card(page, overviews[i].column, mt_number_text(text, value), note);
    }
}

/* The runs side by side: a row for each figure. */
static void add_runs(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    double value[MOST_RUNS];
    if (count > MOST_RUNS) return;
    struct mt_figure *table = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_TABLE,
            .title = "Runs",
            .meaning = count > 1 ? "Each run's last state, and what is different from the first (Δ)."
                                 : "The run's last state.",
            .formula = "$L_h$, MaxVio and tokens/s are means over the last tenth of the steps, MaxVio also "
                       "over layers; s/step is the time from the start divided by the steps; Δ is the run's "
                       "number minus the first run's."});
    mt_figure_column(table, MT_COLUMN_LABEL, "figure");
    mt_report_run_columns(table, runs, count);
    mt_figure_text(table, "steps");
    for (size_t r = 0; r < count; r++)
        value[r] = runs[r].has_log ? mt_run_at(&runs[r], runs[r].log.steps - 1, MT_RUN_STEP) : (double)NAN;
    mt_report_run_cells(table, value, count);
    for (int i = 0; i < OVERVIEWS; i++) {
        mt_figure_text(table, overviews[i].column);
        for (size_t r = 0; r < count; r++) value[r] = overview_of(&runs[r], &overviews[i]);
        mt_report_run_cells(table, value, count);
    }
}

static void add_overview(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    mt_report_verdict(page, runs, count);
    add_cards(page, runs, count);
    mt_page_section(page, "Overview");
    add_runs(page, runs, count);
}

// ------------------------------------------------------------------ settings, the last part: what the runs
// were told

static bool differs(const struct mt_run *runs, size_t count, const char *key)
{
    const char *first = mt_run_setting(&runs[0], key);
    for (size_t r = 1; r < count; r++) {
        const char *other = mt_run_setting(&runs[r], key);
        if ((first == NULL) != (other == NULL)) return true;
        if (first != NULL && strcmp(first, other) != 0) return true;
    }
    return false;
}

/* True when a run before this one has the key: its row is there. */
static bool seen(const struct mt_run *runs, size_t before, const char *key)
{
    for (size_t r = 0; r < before; r++) {
        if (mt_run_setting(&runs[r], key) != NULL) return true;
    }
    return false;
}

static void add_settings(struct mt_page *page, const struct mt_run *runs, size_t count, bool only_different)
{
    struct mt_figure *table = mt_page_figure(
        page, &(struct mt_figure_head){.kind = MT_FIGURE_TABLE,
                                       .title = only_different ? "Settings that differ" : "Settings",
                                       .meaning = only_different
                                                      ? "What makes the runs different."
                                                      : "Everything the runs were told, defaults included."});
    mt_figure_column(table, MT_COLUMN_LABEL, "key");
    for (size_t r = 0; r < count; r++) mt_figure_column(table, MT_COLUMN_LABEL, runs[r].name);
    for (size_t r = 0; r < count; r++) {
        for (const struct mt_run_setting *one = runs[r].settings; one != NULL; one = one->next) {
            if (seen(runs, r, one->key) || (only_different && !differs(runs, count, one->key))) continue;
            mt_figure_text(table, one->key);
            for (size_t k = 0; k < count; k++) {
                const char *value = mt_run_setting(&runs[k], one->key);
                mt_figure_text(table, value != NULL ? value : "–");
            }
        }
    }
}

static void add_settings_part(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    bool known = false;
    for (size_t r = 0; r < count; r++) known |= runs[r].settings != NULL;
    mt_page_section(page, "Settings");
    if (!known) {
        mt_page_text(page, "No config.yaml: metier train writes its settings into the folder of a run.");
        return;
    }
    if (count > 1) add_settings(page, runs, count, true);
    add_settings(page, runs, count, false);
}

enum mt_status mt_report_build(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    add_overview(page, runs, count);
    mt_report_training(page, runs, count);
    mt_report_routing(page, runs, count);
    mt_report_evaluation(page, runs, count);
    mt_report_analysis(page, runs, count);
    add_settings_part(page, runs, count);
    return mt_page_status(page);
}
