/* The report's part on training: losses, terms, gradients, learning rate, speed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"

static bool any_known(const struct mt_run *runs, size_t count, int value)
{
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 0; i < runs[r].log.steps; i++) {
            if (!isnan(mt_run_at(&runs[r], i, value))) return true;
        }
    }
    return false;
}

/* One curve per run; steps at which the number is not known are left out. */
static void add_points(struct mt_figure *figure, const struct mt_run *runs, size_t count, int value)
{
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 0; i < runs[r].log.steps; i++) {
            double y = mt_run_at(&runs[r], i, value);
            if (!isnan(y)) mt_figure_point(figure, runs[r].name, mt_run_at(&runs[r], i, MT_RUN_STEP), y);
        }
    }
}

static void add_loss(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    if (!any_known(runs, count, MT_RUN_TASK)) return;
    struct mt_figure *figure = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_LINES,
                  .title = "Training loss",
                  .meaning = "How well the model predicts the answers it is trained on; lower is better.",
                  .formula = "$L_h = -\\frac{1}{T} \\sum_t \\ln p(t)$ over the step's $T$ answer tokens, in "
                             "nats.",
                  .series = "run",
                  .x = "step",
                  .y = "L_h"});
    add_points(figure, runs, count, MT_RUN_TASK);
}

// What else every log has.
static const struct panel {
    int value;
    const char *title;
} panels[] = {
    {MT_RUN_LOSS, "total loss L"},
    {MT_RUN_GRADIENT_NORM, "gradient norm"},
    {MT_RUN_LEARNING_RATE, "learning rate"},
};

enum { PANELS = sizeof panels / sizeof panels[0] };

static void add_course(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *figure = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_LINES,
                  .title = "Course of the training",
                  .meaning = "What is minimised, how hard a step pulls before clipping, and the step size.",
                  .formula = "$L = L_h + \\sum$ of the weighted terms; the Euclidean norm of the gradient of "
                             "$L$ over all trained parameters; the learning rate as optimizer.schedule has "
                             "it.",
                  .series = "run",
                  .x = "step",
                  .y = "value",
                  .panel = "figure"});
    for (int i = 0; i < PANELS; i++) {
        mt_figure_panel(figure, panels[i].title);
        add_points(figure, runs, count, panels[i].value);
    }
}

// ------------------------------------------------------------------ terms

/* "L_aux: FORMULA" of the terms that are on. */
static void list_terms(char *text, size_t bytes, const struct mt_run *runs, size_t count)
{
    size_t length = 0;
    text[0] = '\0';
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (!any_known(runs, count, MT_RUN_TERM + term)) continue;
        int added = snprintf(text + length, bytes - length, "%s: %s ", mt_term_name((enum mt_term)term),
                             mt_term_info((enum mt_term)term)->formula);
        if (added > 0 && length + (size_t)added < bytes) length += (size_t)added;
    }
}

static void add_terms(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    char text[2048];
    list_terms(text, sizeof text, runs, count);
    struct mt_figure *values = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_LINES,
                  .title = "Values of the terms",
                  .meaning = "Each term's own value, a mean over layers, and what it adds to the total loss "
                             "over all layers once it is weighted.",
                  .formula = text,
                  .series = "run",
                  .x = "step",
                  .y = "value",
                  .panel = "term"});
    struct mt_figure *gradients = mt_page_figure(
        page, &(struct mt_figure_head){
                  .kind = MT_FIGURE_LINES,
                  .title = "Gradients of the terms",
                  .meaning = "How hard each term pulls: near zero, it does nothing.",
                  .formula = "Norm of the term's weighted gradient, all layers together: in the experts' "
                             "outputs for terms on them, in the router's weight for terms on its rows, else "
                             "in the router's logits.",
                  .series = "run",
                  .x = "step",
                  .y = "norm",
                  .log_y = true,
                  .panel = "term"});
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        const char *name = mt_term_name((enum mt_term)term);
        char panel[96];
        if (!any_known(runs, count, MT_RUN_TERM + term)) continue;
        (void)snprintf(panel, sizeof panel, "L_%s", name);
        mt_figure_panel(values, panel);
        mt_figure_panel(gradients, panel);
        add_points(values, runs, count, MT_RUN_TERM + term);
        add_points(gradients, runs, count, MT_RUN_GRADIENT + term);
        (void)snprintf(panel, sizeof panel, "weighted L_%s", name);
        mt_figure_panel(values, panel);
        add_points(values, runs, count, MT_RUN_WEIGHTED + term);
    }
}

// ------------------------------------------------------------------ evaluations and time

static void add_evaluations(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    size_t points = 0;
    for (size_t r = 0; r < count; r++) points += runs[r].log.evaluations;
    if (points == 0) {
        mt_page_text(page, "No held-out loss: train with evaluation.split or evaluation.path to have one.");
        return;
    }
    struct mt_figure *figure = mt_page_figure(
        page,
        &(struct mt_figure_head){
            .kind = MT_FIGURE_LINES,
            .title = "Held-out loss",
            .meaning =
                "How well the model predicts answers it has not seen; when it rises while the training "
                "loss falls, the model learns by heart.",
            .formula = "$-\\frac{1}{T} \\sum_t \\ln p(t)$ over held-out answer tokens; perplexity is its "
                       "exponential.",
            .series = "run",
            .x = "step",
            .y = "loss"});
    for (size_t r = 0; r < count; r++) {
        const double *row = runs[r].log.evaluation;
        for (size_t i = 0; i < runs[r].log.evaluations; i++, row += 3)
            mt_figure_point(figure, runs[r].name, row[0], row[1]);
    }
}

/* The clock goes on over a resume, so the differences between records are times of steps. */
static void add_speed(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    struct mt_figure *figure = mt_page_figure(
        page,
        &(struct mt_figure_head){.kind = MT_FIGURE_LINES,
                                 .title = "Seconds per step",
                                 .meaning = "How long a step takes, evaluations and checkpoints included.",
                                 .formula = "Difference of the run's clock between logged steps, divided by "
                                            "the steps between them.",
                                 .series = "run",
                                 .x = "step",
                                 .y = "time of a step",
                                 .unit = "s"});
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 1; i < runs[r].log.steps; i++) {
            double step = mt_run_at(&runs[r], i, MT_RUN_STEP);
            double seconds =
                mt_run_at(&runs[r], i, MT_RUN_SECONDS) - mt_run_at(&runs[r], i - 1, MT_RUN_SECONDS);
            double steps = step - mt_run_at(&runs[r], i - 1, MT_RUN_STEP);
            if (seconds >= 0 && steps > 0) mt_figure_point(figure, runs[r].name, step, seconds / steps);
        }
    }
}

void mt_report_training(struct mt_page *page, const struct mt_run *runs, size_t count)
{
    bool logged = false;
    for (size_t r = 0; r < count; r++) logged |= runs[r].has_log;
    mt_page_section(page, "Training");
    if (!logged) {
        mt_page_text(page, "No training log: metier train writes metrics.jsonl into the folder of a run.");
        return;
    }
    add_loss(page, runs, count);
    add_evaluations(page, runs, count);
    add_speed(page, runs, count);
    add_course(page, runs, count);
    mt_page_section(page, "Terms of the objective");
    bool terms = false;
    for (int term = 0; term < MT_TERM_COUNT; term++) terms |= any_known(runs, count, MT_RUN_TERM + term);
    if (terms) {
        add_terms(page, runs, count);
    } else {
        mt_page_text(page, "No term was on: method=metier, paper, aux, ... switch them on.");
    }
}
