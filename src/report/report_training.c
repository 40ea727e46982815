/* The report's part on training: losses, terms, gradients, learning rate, speed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/report.h"

// Curves that every log has.
static const struct curve {
    int value;
    bool log_y;
    const char *title, *meaning, *formula, *y;
} curves[] = {
    {MT_RUN_TASK, false, "Training loss",
     "How well the model predicts the answers it is trained on; lower is better.",
     "L_h = mean over the step's answer tokens of -ln p(token), in nats.", "L_h"},
    {MT_RUN_LOSS, false, "Total loss", "What is minimised: the training loss and the weighted terms.",
     "L = L_h + sum of weighted terms.", "L"},
    {MT_RUN_GRADIENT_NORM, true, "Gradient norm",
     "How hard the step pulls at all that is trainable, before clipping.",
     "Euclidean norm of the gradient of L over all trained parameters.", "norm"},
    {MT_RUN_LEARNING_RATE, false, "Learning rate", "The step size over time: its warm-up and decay.",
     "As scheduled by optimizer.schedule.", "learning rate"},
};

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
static void add_curve(struct mt_page *page, const struct mt_run *runs, size_t count, int value,
                      const struct mt_figure_head *head)
{
    if (!any_known(runs, count, value)) return;
    struct mt_figure *figure = mt_page_figure(page, head);
    for (size_t r = 0; r < count; r++) {
        for (size_t i = 0; i < runs[r].log.steps; i++) {
            double y = mt_run_at(&runs[r], i, value);
            if (!isnan(y)) mt_figure_point(figure, runs[r].name, mt_run_at(&runs[r], i, MT_RUN_STEP), y);
        }
    }
}

static void add_term(struct mt_page *page, const struct mt_run *runs, size_t count, enum mt_term term)
{
    char title[96];
    const char *name = mt_term_name(term);
    struct mt_figure_head head = {.kind = MT_FIGURE_LINES,
                                  .series = "run",
                                  .x = "step",
                                  .title = title,
                                  .formula = mt_term_info(term)->formula};
    (void)snprintf(title, sizeof title, "Term L_%s", name);
    head.meaning = "The term's own value, a mean over layers, before it is weighted.";
    head.y = title + strlen("Term ");
    add_curve(page, runs, count, MT_RUN_TERM + (int)term, &head);
    (void)snprintf(title, sizeof title, "Weighted L_%s", name);
    head.meaning = "What the term adds to the total loss, over all layers.";
    head.y = "weight · term";
    head.formula = "sum over layers of weight times term; the weight is coefficient times scale times brake.";
    add_curve(page, runs, count, MT_RUN_WEIGHTED + (int)term, &head);
    (void)snprintf(title, sizeof title, "Gradient of L_%s", name);
    head.meaning = "How hard the term pulls: near zero, it does nothing.";
    head.y = "norm";
    head.log_y = true;
    head.formula = mt_term_info(term)->path == MT_PATH_OUTPUTS
                       ? "norm of the weighted gradient in expert outputs, all layers together."
                       : "norm of the weighted gradient in the router's logits (terms on its rows: in its "
                         "weight), all layers together.";
    add_curve(page, runs, count, MT_RUN_GRADIENT + (int)term, &head);
}

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
            .formula = "Mean over held-out answer tokens of -ln p(token); perplexity is its exponential.",
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
                                 .y = "s"});
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
    for (size_t i = 0; i < sizeof curves / sizeof curves[0]; i++) {
        const struct curve *curve = &curves[i];
        add_curve(page, runs, count, curve->value,
                  &(struct mt_figure_head){.kind = MT_FIGURE_LINES,
                                           .title = curve->title,
                                           .meaning = curve->meaning,
                                           .formula = curve->formula,
                                           .series = "run",
                                           .x = "step",
                                           .y = curve->y,
                                           .log_y = curve->log_y});
        if (curve->value == MT_RUN_TASK) add_evaluations(page, runs, count);
    }
    add_speed(page, runs, count);
    mt_page_section(page, "Terms of the objective");
    bool terms = false;
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        terms |= any_known(runs, count, MT_RUN_TERM + term);
        add_term(page, runs, count, (enum mt_term)term);
    }
    if (!terms) mt_page_text(page, "No term was on: method=metier, paper, aux, ... switch them on.");
}
